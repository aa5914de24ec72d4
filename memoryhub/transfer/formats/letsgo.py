"""LetsGo's SQLite file: ``memories``, ``facts`` and ``memory_journal``, in every schema version.

Older versions lack columns (content_hash, expires_at, title and later ones) and index only the content; the
oldest store lists in columns ending in ``_json``. Missing columns get their defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from memoryhub.access.policy import LEVELS, Sensitivity
from memoryhub.core.vocabulary import TYPES, MemoryType
from memoryhub.transfer.foreign_sqlite import ForeignDatabase, RowValues, SqliteFormat, row_fields
from memoryhub.transfer.records import Item, ReadOptions
from memoryhub.transfer.values import (
    FieldReader,
    ReadNotes,
    append_statements,
    days_between,
    load_field_rules,
)

_FIELDS = load_field_rules("letsgo")
_ACCESS_COLUMNS = ("sensitivity", "project")
# LetsGo's journal details about new memories; other texts are not imported.
_DETAIL = re.compile(r"\b(category|type|sensitivity)=(\S{1,100})")


class LetsGo(SqliteFormat):
    name = "letsgo"
    label = "LetsGo (SQLite)"
    hint = "The file that LETSGO_MEMORY_DB names, ~/.letsgo/memory.db unless it was set."

    counted = ("memories", "facts", "memory_journal", "sessions", "session_summaries", "user_prompts")

    def items(self, database: ForeignDatabase, notes: ReadNotes, options: ReadOptions) -> Iterator[Item]:
        now = options.now or datetime.now(UTC)
        for fields in self.fields(database, "sessions", notes):
            yield fields.session(fields.text("session_id"), agent=self.name)
        for fields in self.fields(database, "memories", notes):
            yield _read_memory(fields, now)
        for fields in self.fields(database, "session_summaries", notes):
            yield _read_summary(fields)
        rows = self.rows(database, "facts")
        for row, memory in database.join(rows, "source_entry_id", "memories", "id", _ACCESS_COLUMNS):
            yield _read_fact(row_fields("facts", row, notes), memory)
        rows = self.rows(database, "memory_journal")
        for row, memory in database.join(rows, "memory_id", "memories", "id", _ACCESS_COLUMNS):
            yield _read_journal_row(row_fields("memory_journal", row, notes), memory, options.project)
        yield from self.prompts(database, notes, "sessions", "session_id")


def _read_memory(fields: FieldReader, now: datetime) -> Item:
    created = fields.past_moment("created_at", "created_at_epoch")
    expires = fields.moment("expires_at")
    fields.note_unsupported_metadata(fields.mapping("metadata_json"))
    return fields.memory(
        _FIELDS["memories"],
        source_id=fields.text("id"),
        content=append_statements(fields.text("content"), fields.words("facts_json")),
        type=fields.listed_type(TYPES, MemoryType.CHANGE),
        sensitivity=_sensitivity(fields),
        ttl_days=days_between(created, expires, now),
        created_at=created,
        expires_at=expires,
    )


def _sensitivity(fields: FieldReader) -> str:
    """Read the level as LetsGo does: empty is public, case is ignored, an unknown level is refused."""
    level = fields.text("sensitivity", "public").lower()
    if level not in LEVELS:
        fields.refuse("sensitivity", "is not a known level; make it public, private or secret")
    return level


def _read_summary(fields: FieldReader) -> Item:
    return fields.memory(
        _FIELDS["session_summaries"],
        content=fields.summary_text(),
        type=MemoryType.SESSION_SUMMARY,
    )


def _access_values(memory: RowValues | None, without: Sensitivity) -> dict[str, str]:
    """Return the access values of a row that belongs to a memory: those of the memory.

    ``without`` is the level if the memory does not exist.
    """
    about = FieldReader(memory or {"sensitivity": without.value}, ReadNotes())
    level = about.text("sensitivity", Sensitivity.PUBLIC.value).lower()
    known = level if level in LEVELS else Sensitivity.SECRET.value
    return {"project": about.text("project"), "sensitivity": known}


def _read_fact(fields: FieldReader, memory: RowValues | None) -> Item:
    """Read a fact. LetsGo keeps the facts of deleted memories; they are imported without a memory."""
    source = fields.text("source_entry_id")
    if source and memory is None:
        fields.notes.add("links of facts to memories that are gone")
    return fields.fact(
        _FIELDS["facts"],
        source_id=fields.text("id"),
        memory_id=source if memory else None,
        **_access_values(memory, Sensitivity.PUBLIC),
    )


def _read_journal_row(fields: FieldReader, memory: RowValues | None, project: str) -> Item:
    """Read a journal row with the access values of its memory; rows of deleted memories are secret."""
    access = _access_values(memory, Sensitivity.SECRET)
    return fields.journal_row(
        actor="letsgo",
        memory_id=fields.text("memory_id"),
        project=access["project"] or project,
        sensitivity=access["sensitivity"],
        detail=dict(_DETAIL.findall(fields.text("detail"))),
    )
