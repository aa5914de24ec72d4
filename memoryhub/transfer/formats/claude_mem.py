"""claude-mem's SQLite file: observations, session summaries, directives, and memories of early versions.

Some columns were renamed (``sdk_session_id`` became ``memory_session_id``); both names are supported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from memoryhub.core.text import make_title
from memoryhub.core.vocabulary import MemoryType
from memoryhub.transfer.foreign_sqlite import ForeignDatabase, RowValues, SqliteFormat, chunked, row_fields
from memoryhub.transfer.records import Item, ReadOptions
from memoryhub.transfer.values import FieldReader, ReadNotes, append_statements, load_field_rules

_FIELDS = load_field_rules("claude-mem")
_SESSION_ID_COLUMNS = ("memory_session_id", "sdk_session_id")
_USER_SESSION_ID_COLUMNS = ("content_session_id", "claude_session_id")


class ClaudeMem(SqliteFormat):
    name = "claude-mem"
    label = "claude-mem (SQLite)"
    hint = "claude-mem.db in ~/.claude-mem, or in the folder that CLAUDE_MEM_DATA_DIR names."

    counted = (
        *("sdk_sessions", "memories", "overviews", "observations", "session_summaries", "directives"),
        "user_prompts",
    )

    def items(self, database: ForeignDatabase, notes: ReadNotes, options: ReadOptions) -> Iterator[Item]:
        for fields in self.fields(database, "sdk_sessions", notes):
            yield _read_session(fields, database.has("user_prompts"))
        for fields in self.fields(database, "memories", notes):
            yield _read_old_memory(fields)
        for fields in self.fields(database, "overviews", notes):
            yield _make_record(fields, "overviews", type=MemoryType.SESSION_SUMMARY)
        for row in _join_user_sessions(database, self.rows(database, "observations")):
            yield _read_observation(row_fields("observations", row, notes))
        for row in _join_user_sessions(database, self.rows(database, "session_summaries")):
            yield _read_summary(row_fields("session_summaries", row, notes))
        for fields in self.fields(database, "directives", notes):
            yield _read_directive(fields)
        for column in _USER_SESSION_ID_COLUMNS:
            if database.has("user_prompts", column):
                yield from self.prompts(database, notes, "sdk_sessions", column)


def _read_session(fields: FieldReader, has_prompts: bool) -> Item:
    fields.note_unsupported("custom_title")
    if not has_prompts:
        fields.note_unsupported("user_prompt")
    session_id = fields.text(_USER_SESSION_ID_COLUMNS[0]) or fields.text(_USER_SESSION_ID_COLUMNS[1])
    agent = fields.text("platform_source", "claude")
    return fields.session(session_id, agent=agent)


def _join_user_sessions(database: ForeignDatabase, rows: Iterator[RowValues]) -> Iterator[RowValues]:
    """Yield rows with the session id of the user; claude-mem's own ids have no meaning elsewhere."""
    for chunk in chunked(rows):
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


def _merged_project(fields: FieldReader, tags: Sequence[str] = ()) -> dict[str, Any]:
    """Assign rows of a merged worktree to the project it was merged into, with the origin as a tag."""
    origin, into = fields.text("project"), fields.text("merged_into_project")
    if not into:
        return {"tags": list(tags)}
    return {"project": into, "tags": [*tags, *([origin] if origin else [])]}


def _read_observation(fields: FieldReader) -> Item:
    fields.note_unsupported("agent_type", "agent_id", "generated_by_model")
    fields.note_unsupported_metadata(fields.mapping("metadata"))
    kind, tags = fields.memory_type("type", {}, MemoryType.CHANGE)
    text = fields.text("narrative") or fields.text("text")
    content = append_statements(text, fields.words("facts"))
    content = content or fields.text("subtitle") or fields.text("title")
    return _make_record(fields, "observations", content=content, type=kind, **_merged_project(fields, tags))


def _read_summary(fields: FieldReader) -> Item:
    return _make_record(
        fields,
        "session_summaries",
        content=fields.summary_text(),
        title=make_title(fields.text("request")),
        type=MemoryType.SESSION_SUMMARY,
        **_merged_project(fields),
    )


def _read_old_memory(fields: FieldReader) -> Item:
    """Read a memory of an early version: a compressed part of a transcript."""
    fields.note_unsupported("archive_basename")
    content = append_statements(fields.text("text"), fields.words("facts"))
    return _make_record(fields, "memories", content=content)


def _read_directive(fields: FieldReader) -> Item:
    """Read a user's rule for one project or (scope global) for all; an inactive rule goes to the trash."""
    updated = fields.past_moment("updated_at_epoch", "created_at_epoch", "created_at")
    everywhere = fields.text("scope", "global") == "global"
    active = fields.text("status", "active") == "active"
    return _make_record(
        fields,
        "directives",
        type=MemoryType.PREFERENCE,
        category="preferences",
        scope="team" if everywhere else "project",
        tags=["directive"],
        updated_at=updated,
        deleted_at=None if active else updated,
    )


def _make_record(fields: FieldReader, table: str, **computed: Any) -> Item:
    source_id = f"{table}/{fields.text('id')}"
    return fields.memory({**_FIELDS["common"], **_FIELDS[table]}, source_id=source_id, **computed)
