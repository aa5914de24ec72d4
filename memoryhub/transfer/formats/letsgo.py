"""LetsGo's SQLite file: ``memories``, ``facts`` and ``memory_journal``, in every schema version.

Older versions lack columns (content_hash, expires_at, title and later ones) and index only the content; the
oldest store lists in columns ending in ``_json``. Missing columns get their defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from memoryhub.access.policy import LEVELS, Sensitivity
from memoryhub.core.vocabulary import TYPES, MemoryType
from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.schemas import FactDraft, MemoryDraft
from memoryhub.transfer import foreign_history
from memoryhub.transfer.foreign_history import SUMMARY_COLUMNS, append_statements, summary_text
from memoryhub.transfer.foreign_sqlite import (
    ROW_NUMBER,
    ForeignDatabase,
    RowValues,
    matches_schema,
    open_database,
)
from memoryhub.transfer.records import Item, ReadOptions
from memoryhub.transfer.values import FieldReader, ReadNotes, days_between, printable_name

_MEMORY_COLUMNS = (
    *("id", "content", "category", "importance", "trust", "sensitivity", "title", "subtitle", "type"),
    *("tags", "tags_json", "concepts", "concepts_json", "files_read", "files_read_json", "files_modified"),
    *("files_modified_json", "facts_json", "metadata_json", "session_id", "project", "accessed_count"),
    *("discovery_tokens", "created_at", "created_at_epoch", "updated_at", "expires_at"),
)
_FACT_COLUMNS = (
    *("id", "subject", "predicate", "object", "confidence", "source_entry_id", "created_at", "updated_at"),
)
_SUMMARY_COLUMNS = (*SUMMARY_COLUMNS, "session_id")
_ACCESS_COLUMNS = ("sensitivity", "project")
_JOURNAL_COLUMNS = ("memory_id", "operation", "timestamp", "detail")
_SESSION_COLUMNS = (
    *("session_id", "project", "status", "started_at", "started_at_epoch"),
    *("completed_at", "completed_at_epoch"),
)
_PROMPT_COLUMNS = ("session_id", "prompt_number", "prompt_text", "created_at", "created_at_epoch")
_SESSION_TABLES = ("sessions", "session_summaries", "user_prompts")
# LetsGo's journal details about new memories; other texts are not imported.
_DETAIL = re.compile(r"\b(category|type|sensitivity)=(\S{1,100})")
# Includes columns that mean nothing outside of the file: row numbers, hashes, versions.
_COLUMNS_READ = {
    "memories": (*_MEMORY_COLUMNS, "content_hash"),
    "facts": _FACT_COLUMNS,
    "memory_journal": (*_JOURNAL_COLUMNS, "seq"),
    "session_summaries": _SUMMARY_COLUMNS,
    "sessions": (*_SESSION_COLUMNS, "id", "prompt_count"),
    "user_prompts": (*_PROMPT_COLUMNS, "id"),
    "schema_meta": ("key", "value"),
    "schema_version": ("version",),
}
_SIGNS = (
    ("memories.content", "memories.sensitivity"),
    ("memories.content", "memories.tags_json"),
    ("memories.content", "memories.category", "memory_journal"),
    ("memories.content", "memories.category", "memories.importance", "memories.tags"),
)


class LetsGo:
    name = "letsgo"
    label = "LetsGo (SQLite)"
    extensions: tuple[str, ...] = (".db", ".sqlite", ".sqlite3")
    hint = "The file that LETSGO_MEMORY_DB names, ~/.letsgo/memory.db unless it was set."

    def recognises(self, path: Path) -> bool:
        return matches_schema(path, _SIGNS)

    def count(self, path: Path) -> int | None:
        with open_database(path) as database:
            return database.count("memories", "facts", "memory_journal", *_SESSION_TABLES)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        now, notes = options.now or datetime.now(UTC), ReadNotes()
        with open_database(path) as database:
            database.expect(_SIGNS, self.label)
            for row in database.rows("sessions", _SESSION_COLUMNS):
                fields = FieldReader(row, notes)
                yield foreign_history.make_session(
                    fields, "sessions", fields.text("session_id"), agent=self.name
                )
            for row in database.rows("memories", _MEMORY_COLUMNS):
                yield _read_memory(FieldReader(row, notes), row[ROW_NUMBER], now)
            for row in database.rows("session_summaries", _SUMMARY_COLUMNS):
                yield _read_summary(FieldReader(row, notes), row[ROW_NUMBER])
            rows = database.rows("facts", _FACT_COLUMNS)
            for row, memory in database.join(rows, "source_entry_id", "memories", "id", _ACCESS_COLUMNS):
                yield _read_fact(FieldReader(row, notes), memory)
            yield from _read_journal(database, notes, options)
            yield from _read_prompts(database, notes)
            notes.add_unread(database.unread(_COLUMNS_READ))
        yield from notes.items()


def _read_memory(fields: FieldReader, number: int, now: datetime) -> Item:
    created = fields.past_moment("created_at", "created_at_epoch")
    expires = fields.moment("expires_at")
    fields.note_unsupported_metadata(fields.mapping("metadata_json"))
    draft = {
        "content": append_statements(fields.text("content"), fields.words("facts_json")),
        "title": fields.text("title"),
        "subtitle": fields.text("subtitle"),
        "category": fields.text("category", "general"),
        "type": _memory_type(fields),
        "importance": fields.share("importance", 0.5),
        "trust": fields.share("trust", 0.5),
        "sensitivity": _sensitivity(fields),
        "tags": fields.words("tags", "tags_json"),
        "concepts": fields.words("concepts", "concepts_json"),
        "files_read": fields.words("files_read", "files_read_json"),
        "files_modified": fields.words("files_modified", "files_modified_json"),
        "session_id": fields.text("session_id"),
        "project": fields.text("project"),
        "discovery_tokens": fields.count("discovery_tokens") or None,
        "ttl_days": days_between(created, expires, now),
        "created_at": created,
    }
    past = ImportedHistory(
        updated_at=fields.past_moment("updated_at"),
        accessed_count=fields.count("accessed_count"),
        expires_at=expires,
    )
    return fields.record(f"memories row {number}", MemoryDraft, draft, source_id=fields.text("id"), past=past)


def _memory_type(fields: FieldReader) -> str:
    kind = fields.text("type", MemoryType.CHANGE.value)
    if kind in TYPES:
        return kind
    fields.notes.add(f"type {printable_name(kind)} (stored as change)")
    return MemoryType.CHANGE.value


def _sensitivity(fields: FieldReader) -> str:
    """Read the level as LetsGo does: empty is public, case is ignored, an unknown level is refused."""
    level = fields.text("sensitivity", "public").lower()
    if level not in LEVELS:
        fields.refuse("sensitivity", "is no known level; make it public, private or secret")
    return level


def _read_summary(fields: FieldReader, number: int) -> Item:
    created = fields.past_moment("created_at", "created_at_epoch")
    draft = {
        "content": summary_text(fields),
        "title": fields.text("request")[:500],
        "type": MemoryType.SESSION_SUMMARY.value,
        "files_read": fields.words("files_read_json", "files_read"),
        "files_modified": fields.words("files_edited_json", "files_edited"),
        "session_id": fields.text("session_id"),
        "project": fields.text("project"),
        "discovery_tokens": fields.count("discovery_tokens") or None,
        "ttl_days": 0,
        "created_at": created,
    }
    return fields.record(f"session_summaries row {number}", MemoryDraft, draft)


def _access_values(memory: RowValues | None, without: Sensitivity) -> dict[str, str]:
    """Return the access values of a row that belongs to a memory: those of the memory.

    Without the memory, ``without`` is the level.
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
    draft = {
        "subject": fields.text("subject"),
        "predicate": fields.text("predicate"),
        "object": fields.text("object"),
        "confidence": fields.share("confidence", 1.0),
        "memory_id": source if memory else None,
        **_access_values(memory, Sensitivity.PUBLIC),
    }
    past = ImportedHistory(
        updated_at=fields.past_moment("updated_at"), valid_from=fields.past_moment("created_at")
    )
    place = f"facts row {fields.get(ROW_NUMBER)}"
    return fields.record(place, FactDraft, draft, source_id=fields.text("id"), past=past)


def _read_journal(database: ForeignDatabase, notes: ReadNotes, options: ReadOptions) -> Iterator[Item]:
    """Yield journal rows with the access values of their memory; rows of deleted memories are secret."""
    rows = database.rows("memory_journal", _JOURNAL_COLUMNS)
    for row, memory in database.join(rows, "memory_id", "memories", "id", _ACCESS_COLUMNS):
        fields, access = FieldReader(row, notes), _access_values(memory, Sensitivity.SECRET)
        yield foreign_history.make_journal_row(
            fields,
            "memory_journal",
            actor="letsgo",
            memory_id=fields.text("memory_id"),
            project=access["project"] or options.project,
            sensitivity=access["sensitivity"],
            detail=dict(_DETAIL.findall(fields.text("detail"))),
        )


def _read_prompts(database: ForeignDatabase, notes: ReadNotes) -> Iterator[Item]:
    rows = database.rows("user_prompts", _PROMPT_COLUMNS)
    for row, session in database.join(rows, "session_id", "sessions", "session_id", ("project",)):
        fields, about = FieldReader(row, notes), FieldReader(session or {}, notes)
        yield foreign_history.make_prompt(
            fields, "user_prompts", fields.text("session_id"), about.text("project")
        )
