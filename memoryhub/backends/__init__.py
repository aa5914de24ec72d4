"""The SQL of both databases: full-text and vector indexes, triggers, bulk statements, lookups.

This module has the names of tables and columns that both dialects share.
"""

from __future__ import annotations

from typing import NamedTuple

MEMORY_TABLE = "memoryhub_memory"
AS_TEXT = "as_text"  # the only name in a document that contains another one as a text
JOURNAL_TABLE = "memoryhub_journalentry"
ABSENCE_TABLE = "memoryhub_absencespan"
TEXT_TABLE, TRIGRAM_TABLE = "memoryhub_text", "memoryhub_trigram"
INDEXES = (TEXT_TABLE, TRIGRAM_TABLE)
REINDEX_TABLE = "memoryhub_reindexing"  # the progress of rebuilt indexes
TEXT_COLUMNS = ("title", "alias_text", "subtitle", "abstract", "overview", "content")
EMBEDDED_COLUMNS = tuple(column for column in TEXT_COLUMNS if column != "alias_text")
# Characters in the trigram index. Writing 100 000 different trigrams would block other writers for 0.2 s.
TRIGRAM_CHARACTERS = {"overview": 2_000, "content": 10_000}


class Trigger(NamedTuple):
    """A trigger for each row. ``event``: such as ``AFTER UPDATE OF title``; ``condition`` may be empty."""

    event: str
    table: str
    statements: str
    condition: str = ""


def managed_tables() -> list[str]:
    """Return the tables that the migrations create."""
    from django.apps import apps  # late: the queries of the package run without Django

    models = apps.get_app_config("memoryhub").get_models(include_auto_created=True)
    return [model._meta.db_table for model in models if model._meta.managed]
