"""System checks: what is wrong with an installation, in words that an operator can act on."""

from __future__ import annotations

import sqlite3
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register

MIN_SQLITE = (3, 34, 0)  # the first with the trigram tokenizer


@register(Tags.database)
def sqlite_is_able(**kwargs: Any) -> list[CheckMessage]:
    """SQLite must be new enough and built with FTS5."""
    if sqlite3.sqlite_version_info < MIN_SQLITE:
        wanted = ".".join(map(str, MIN_SQLITE))
        return [
            Error(
                f"SQLite {sqlite3.sqlite_version} is too old",
                hint=f"Use a Python whose sqlite3 module has SQLite {wanted} or newer.",
                id="memoryhub.E001",
            )
        ]
    with sqlite3.connect(":memory:") as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text, tokenize='trigram')")
        except sqlite3.OperationalError as error:
            return [
                Error(f"SQLite lacks FTS5: {error}", hint="Use a Python built with FTS5.", id="memoryhub.E002")
            ]
    return []


@register()
def variables_are_known(**kwargs: Any) -> list[CheckMessage]:
    """A misspelt variable would otherwise be ignored without a word."""
    return [Warning(text, hint="Correct or unset it.", id="memoryhub.W001") for text in settings.MEMORYHUB_LOADED.warnings]
