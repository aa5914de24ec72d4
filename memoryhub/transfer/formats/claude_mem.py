"""claude-mem's SQLite file: observations, session summaries, directives, and memories of early versions.

Some columns were renamed (``sdk_session_id`` became ``memory_session_id``); both names are supported.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from memoryhub.core.text import make_title
from memoryhub.core.vocabulary import TYPES, MemoryType
from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.transfer import foreign_history
from memoryhub.transfer.foreign_history import SUMMARY_COLUMNS, append_statements, summary_text
from memoryhub.transfer.foreign_sqlite import (
    ROW_NUMBER,
    ForeignDatabase,
    RowValues,
    chunked,
    matches_schema,
    open_database,
)
from memoryhub.transfer.records import Item, ReadOptions
from memoryhub.transfer.values import FieldReader, ReadNotes, printable_name

_SESSION_ID_COLUMNS = ("memory_session_id", "sdk_session_id")
_USER_SESSION_ID_COLUMNS = ("content_session_id", "claude_session_id")
_OBSERVATION_COLUMNS = (
    *("id", "project", "merged_into_project", "text", "type", "title", "subtitle", "facts", "narrative"),
    *("concepts", "files_read", "files_modified", "discovery_tokens", "created_at", "created_at_epoch"),
    *(*_SESSION_ID_COLUMNS, "agent_type", "agent_id", "generated_by_model", "metadata"),
)
_SUMMARY_COLUMNS = (*SUMMARY_COLUMNS, *_SESSION_ID_COLUMNS, "merged_into_project")
_OLD_MEMORY_COLUMNS = (
    *("id", "session_id", "text", "title", "subtitle", "facts", "concepts", "files_touched", "keywords"),
    *("created_at", "created_at_epoch", "project", "archive_basename"),
)
_OVERVIEW_COLUMNS = ("id", "session_id", "content", "created_at", "created_at_epoch", "project")
_DIRECTIVE_COLUMNS = (
    *("id", "scope", "project", "content", "status", "created_at", "created_at_epoch", "updated_at_epoch"),
)
_SDK_SESSION_COLUMNS = (
    *(*_USER_SESSION_ID_COLUMNS, "project", "platform_source", "user_prompt", "custom_title", "status"),
    *("started_at", "started_at_epoch", "completed_at", "completed_at_epoch"),
)
_PROMPT_COLUMNS = ("prompt_number", "prompt_text", "created_at", "created_at_epoch")
# Includes columns that mean nothing outside of the file: row numbers, hashes, versions.
_COLUMNS_READ = {
    "sdk_sessions": (*_SDK_SESSION_COLUMNS, *_SESSION_ID_COLUMNS, "id", "worker_port", "prompt_counter"),
    "memories": (*_OLD_MEMORY_COLUMNS, "document_id", "origin"),
    "overviews": (*_OVERVIEW_COLUMNS, "origin"),
    "observations": (*_OBSERVATION_COLUMNS, "content_hash", "prompt_number"),
    "session_summaries": (*_SUMMARY_COLUMNS, "prompt_number"),
    "directives": (*_DIRECTIVE_COLUMNS, "source"),
    "user_prompts": (*_PROMPT_COLUMNS, *_USER_SESSION_ID_COLUMNS, "id"),
    "schema_versions": ("id", "version", "applied_at"),
}
_SIGNS = (
    ("observations.memory_session_id", "observations.type"),
    ("observations.sdk_session_id", "observations.type"),
    ("memories.text", "memories.session_id", "overviews.content"),
)


class ClaudeMem:
    name = "claude-mem"
    label = "claude-mem (SQLite)"
    extensions: tuple[str, ...] = (".db", ".sqlite", ".sqlite3")
    hint = "claude-mem.db in ~/.claude-mem, or in the folder that CLAUDE_MEM_DATA_DIR names."

    def recognises(self, path: Path) -> bool:
        return matches_schema(path, _SIGNS)

    def count(self, path: Path) -> int | None:
        with open_database(path) as database:
            return database.count(*_COLUMNS_READ.keys() - {"schema_versions"})

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        notes = ReadNotes()
        with open_database(path) as database:
            database.expect(_SIGNS, self.label)
            for row in database.rows("sdk_sessions", _SDK_SESSION_COLUMNS):
                yield _read_session(FieldReader(row, notes), database.has("user_prompts"))
            for row in database.rows("memories", _OLD_MEMORY_COLUMNS):
                yield _read_old_memory(FieldReader(row, notes))
            for row in database.rows("overviews", _OVERVIEW_COLUMNS):
                yield _read_overview(FieldReader(row, notes))
            for row in _join_user_sessions(database, "observations", _OBSERVATION_COLUMNS):
                yield _read_observation(FieldReader(row, notes))
            for row in _join_user_sessions(database, "session_summaries", _SUMMARY_COLUMNS):
                yield _read_summary(FieldReader(row, notes))
            for row in database.rows("directives", _DIRECTIVE_COLUMNS):
                yield _read_directive(FieldReader(row, notes))
            yield from _read_prompts(database, notes)
            notes.add_unread(database.unread(_COLUMNS_READ))
        yield from notes.items()


def _read_session(fields: FieldReader, has_prompts: bool) -> Item:
    fields.note_unsupported("custom_title")
    if not has_prompts:
        fields.note_unsupported("user_prompt")
    session_id = fields.text(_USER_SESSION_ID_COLUMNS[0]) or fields.text(_USER_SESSION_ID_COLUMNS[1])
    agent = fields.text("platform_source", "claude")
    return foreign_history.make_session(fields, "sdk_sessions", session_id, agent=agent)


def _read_prompts(database: ForeignDatabase, notes: ReadNotes) -> Iterator[Item]:
    for column in _USER_SESSION_ID_COLUMNS:
        if not database.has("user_prompts", column):
            continue
        rows = database.rows("user_prompts", (column, *_PROMPT_COLUMNS))
        for row, session in database.join(rows, column, "sdk_sessions", column, ("project",)):
            fields, about = FieldReader(row, notes), FieldReader(session or {}, notes)
            yield foreign_history.make_prompt(
                fields, "user_prompts", fields.text(column), about.text("project")
            )


def _join_user_sessions(
    database: ForeignDatabase, table: str, columns: tuple[str, ...]
) -> Iterator[RowValues]:
    """Yield rows with the session id of the user; claude-mem's internal ids mean nothing elsewhere."""
    for chunk in chunked(database.rows(table, columns)):
        session_ids = dict.fromkeys(_agent_session_id(row) for row in chunk)
        known: dict[Any, Any] = {}
        for ours, theirs in product(_SESSION_ID_COLUMNS, _USER_SESSION_ID_COLUMNS):
            found = database.matching_rows("sdk_sessions", ours, session_ids, (ours, theirs))
            known |= {session[ours]: session[theirs] for session in found}
        for row in chunk:
            session = _agent_session_id(row)
            yield row | {"session_id": known.get(session) or session}


def _agent_session_id(row: RowValues) -> Any:
    return row.get("memory_session_id") or row.get("sdk_session_id")


def _common_values(fields: FieldReader) -> dict[str, Any]:
    """Return the values common to all kinds of rows. claude-mem has no expiry."""
    return {
        "title": fields.text("title"),
        "subtitle": fields.text("subtitle"),
        "project": fields.text("project"),
        "session_id": fields.text("session_id"),
        "discovery_tokens": fields.count("discovery_tokens") or None,
        "ttl_days": 0,
        "created_at": fields.past_moment("created_at_epoch", "created_at"),
    }


def _merged_project(fields: FieldReader, draft: dict[str, Any]) -> dict[str, Any]:
    """Assign rows of a merged worktree to the project it was merged into; a tag keeps the origin."""
    if into := fields.text("merged_into_project"):
        draft["tags"] = [*draft.get("tags", []), *([draft["project"]] if draft["project"] else [])]
        draft["project"] = into
    return draft


def _read_observation(fields: FieldReader) -> Item:
    fields.note_unsupported("agent_type", "agent_id", "generated_by_model")
    fields.note_unsupported_metadata(fields.mapping("metadata"))
    kind = fields.text("type", MemoryType.CHANGE.value)
    known = kind if kind in TYPES else MemoryType.CHANGE.value
    if known != kind:
        fields.notes.add(f"type {printable_name(kind)} (stored as change, with the type as a tag)")
    text = fields.text("narrative") or fields.text("text")
    content = append_statements(text, fields.words("facts"))
    draft = {
        **_common_values(fields),
        "content": content or fields.text("subtitle") or fields.text("title"),
        "type": known,
        "tags": [] if known == kind else [kind],
        "concepts": fields.words("concepts"),
        "files_read": fields.words("files_read"),
        "files_modified": fields.words("files_modified"),
    }
    return _make_record(fields, "observations", _merged_project(fields, draft))


def _read_summary(fields: FieldReader) -> Item:
    draft = {
        **_common_values(fields),
        "content": summary_text(fields),
        "title": make_title(fields.text("request")),
        "type": MemoryType.SESSION_SUMMARY.value,
        "files_read": fields.words("files_read"),
        "files_modified": fields.words("files_edited"),
    }
    return _make_record(fields, "session_summaries", _merged_project(fields, draft))


def _read_old_memory(fields: FieldReader) -> Item:
    """Read a memory of an early version: a compressed part of a transcript."""
    fields.note_unsupported("archive_basename")
    draft = {
        **_common_values(fields),
        "content": append_statements(fields.text("text"), fields.words("facts")),
        "tags": fields.words("keywords"),
        "concepts": fields.words("concepts"),
        "files_read": fields.words("files_touched"),
    }
    return _make_record(fields, "memories", draft)


def _read_overview(fields: FieldReader) -> Item:
    draft = {
        **_common_values(fields),
        "content": fields.text("content"),
        "type": MemoryType.SESSION_SUMMARY.value,
    }
    return _make_record(fields, "overviews", draft)


def _read_directive(fields: FieldReader) -> Item:
    """Read a user's rule for one project or (scope global) for all; an inactive rule goes to the trash."""
    updated = fields.past_moment("updated_at_epoch", "created_at_epoch", "created_at")
    everywhere = fields.text("scope", "global") == "global"
    draft = {
        **_common_values(fields),
        "content": fields.text("content"),
        "type": MemoryType.PREFERENCE.value,
        "category": "preferences",
        "scope": "team" if everywhere else "project",
        "tags": ["directive"],
    }
    active = fields.text("status", "active") == "active"
    past = ImportedHistory(updated_at=updated, deleted_at=None if active else updated)
    return _make_record(fields, "directives", draft, past)


def _make_record(
    fields: FieldReader, table: str, draft: dict[str, Any], past: ImportedHistory | None = None
) -> Item:
    return fields.record(
        f"{table} row {fields.get(ROW_NUMBER)}",
        MemoryDraft,
        draft,
        source_id=f"{table}/{fields.text('id')}",
        past=past or ImportedHistory(),
    )
