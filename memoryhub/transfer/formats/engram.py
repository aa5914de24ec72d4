"""Engram (Gentleman-Programming): its SQLite file ``engram.db`` and the JSON of ``engram export``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoryhub.core.vocabulary import MemoryType, Scope
from memoryhub.transfer.foreign_json import JsonSample, SqliteOrJsonFormat, read_items
from memoryhub.transfer.foreign_sqlite import ForeignDatabase
from memoryhub.transfer.records import Item, ReadOptions
from memoryhub.transfer.values import FieldReader, ReadNotes, foreign_id, load_field_rules, make_replacement

_FIELDS = load_field_rules("engram")
_TYPES = {"learning": MemoryType.DISCOVERY, "manual": MemoryType.GENERAL, "preference": MemoryType.PREFERENCE}
_SCOPES = {"project": Scope.PROJECT, "personal": Scope.PERSONAL, "global": Scope.TEAM}
_KNOWN_FIELDS = frozenset(
    "id sync_id session_id type title content tool_name project scope topic_key revision_count"
    " duplicate_count last_seen_at created_at updated_at deleted_at pinned".split()
)
_LABELS = {"sessions": "session", "observations": "observation", "prompts": "prompt"}
_TABLES = {"session": "sessions", "observation": "observations", "prompt": "user_prompts"}


class Engram(SqliteOrJsonFormat):
    name = "engram"
    label = "Engram"
    hint = "engram.db in ~/.engram, or the JSON file of: engram export FILE."

    counted = tuple(_TABLES.values())

    def is_known(self, sample: JsonSample) -> bool:
        rows = [row for key in ("sessions", "observations") for row in sample.get(key, [])]
        expected = all(
            isinstance(row, dict) and ("started_at" in row or {"session_id", "scope"} <= row.keys())
            for row in rows
        )
        return {"version", "exported_at", "sessions"} <= sample.keys() and expected

    def items(self, database: ForeignDatabase, notes: ReadNotes, options: ReadOptions) -> Iterator[Item]:
        projects: dict[str, str] = {}
        for kind, table in _TABLES.items():
            for fields in self.fields(database, table, notes):
                yield from _read(kind, fields, projects)
        for fields in self.fields(database, "memory_relations", notes):
            yield from _read_relation(fields)

    def json_items(
        self, members: Iterator[tuple[str, Any]], notes: ReadNotes, options: ReadOptions
    ) -> Iterator[Item]:
        projects: dict[str, str] = {}

        def read(kind: str, fields: FieldReader) -> Iterator[Item]:
            if kind == "observation":
                fields.note_unknown(_KNOWN_FIELDS)
            return _read(kind, fields, projects)

        return read_items(members, _LABELS, notes, read, {"version", "exported_at"})


def _read(kind: str, fields: FieldReader, projects: dict[str, str]) -> Iterator[Item]:
    """Read a row. ``projects`` collects the project of each session, which comes before its prompts."""
    if kind == "session":
        projects[fields.text("id")] = fields.text("project")
        yield from _read_session(fields)
    elif kind == "prompt":
        session = fields.text("session_id")
        project = projects.get(session, fields.text("project"))
        yield fields.prompt(fields.text("content"), session, project, fields.text("created_at"))
    else:
        yield _read_observation(fields)


def _read_session(fields: FieldReader) -> Iterator[Item]:
    session = fields.text("id")
    yield fields.session(session, agent="engram", cwd=fields.text("directory"))
    if fields.text("summary"):
        uid = foreign_id(Engram.name, f"summary/{session}")
        kind = MemoryType.SESSION_SUMMARY
        yield fields.memory(_FIELDS["summary"], part=", summary", uid=uid, session_id=session, type=kind)


def _memory_id(fields: FieldReader) -> str:
    """Return the id. Exports of early versions have row numbers only."""
    sync_id = fields.text("sync_id")
    return foreign_id(Engram.name, sync_id or f"{fields.text('session_id')}/{fields.text('id')}")


def _read_observation(fields: FieldReader) -> Item:
    fields.note_unsupported("tool_name")
    kind, tags = fields.memory_type("type", _TYPES)
    scope = _SCOPES.get(fields.text("scope", "project"))
    if scope is None:
        # Any guess could show the memory to more people than its author wanted.
        fields.refuse("scope", "is unknown; use project, personal or global")
    for name in ("revision_count", "duplicate_count"):
        if fields.count(name) > 1:
            fields.notes.add(name)
    return fields.memory(
        _FIELDS["observation"],
        uid=_memory_id(fields),
        type=kind,
        tags=tags,
        scope=scope or Scope.PROJECT,
        pinned=fields.count("pinned") > 0,
    )


def _read_relation(fields: FieldReader) -> Iterator[Item]:
    """Yield a judged replacement, and count other relations."""
    relation = fields.text("relation")
    ended = fields.text("deleted_at") or fields.text("judgment_status") != "judged"
    if relation != "supersedes" or ended:
        fields.notes.add("relations other than a judged supersedes")
        return
    old, new = (foreign_id(Engram.name, fields.text(name)) for name in ("target_id", "source_id"))
    yield make_replacement(fields.place, old, new)
