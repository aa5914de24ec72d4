"""Mira's SQLite file: ``memory_facts`` and the ``projects`` that they belong to, in every schema version.

Older versions have no scope, sessions or branch. Versions that no longer have ``memory_facts`` contain no
memories.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from memoryhub.core.vocabulary import MemoryType, Scope
from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.transfer.foreign_history import make_evidence
from memoryhub.transfer.foreign_sqlite import ROW_NUMBER, ForeignDatabase, SqliteFormat
from memoryhub.transfer.records import Item, ReadOptions
from memoryhub.transfer.values import FieldReader, ReadNotes, printable_name

_TYPES = ("preference", "decision", "context", "general")
_SCOPES = ("personal", "project", "team")


class Mira(SqliteFormat):
    name = "mira"
    label = "Mira (SQLite)"
    hint = "Mira's database, ~/.mira/mira.db."

    counted = ("memory_facts",)

    def items(self, database: ForeignDatabase, notes: ReadNotes, options: ReadOptions) -> Iterator[Item]:
        rows = self.rows(database, "memory_facts")
        for row, project in database.join(rows, "project_id", "projects", "id", ("path", "name")):
            fields = FieldReader(row, notes)
            yield _read_memory(fields, FieldReader(project or {}, notes))
            yield from _read_sessions(fields)


def _read_memory(fields: FieldReader, project: FieldReader) -> Item:
    branch = fields.text("branch")
    fields.note_unsupported("user_id", why="personal memories belong to the person who imports them")
    fields.note_unsupported("team_id", why="team memories belong to the whole team")
    fields.note_unsupported("suspicious", why="the hub inspects memories itself")
    draft = {
        "content": fields.text("content"),
        "key": fields.text("key"),
        "type": _memory_type(fields),
        "category": fields.text("category", "general"),
        "confidence": fields.share("confidence", 0.5),
        "scope": _scope(fields),
        "project": project.text("name") or PurePath(project.text("path")).name,
        "session_id": fields.text("first_session_id"),
        "tags": [f"branch:{branch}"] if branch else [],
        "ttl_days": 0,  # Mira has no expiry
        "created_at": fields.past_moment("created_at"),
    }
    fields.problems += project.problems
    past = ImportedHistory(updated_at=fields.past_moment("updated_at"))
    place = f"memory_facts row {fields.get(ROW_NUMBER)}"
    return fields.record(place, MemoryDraft, draft, source_id=_source_id(fields), past=past)


def _source_id(fields: FieldReader) -> str:
    return f"mira-{fields.get(ROW_NUMBER)}"  # the primary key


def _memory_type(fields: FieldReader) -> str:
    kind = fields.text("fact_type", MemoryType.GENERAL.value)
    if kind in _TYPES:
        return kind
    fields.notes.add(f"type {printable_name(kind)} (stored as general)")
    return MemoryType.GENERAL.value


def _scope(fields: FieldReader) -> str:
    scope = fields.text("scope", Scope.PROJECT.value)
    if scope not in _SCOPES:
        fields.refuse("scope", "is no known scope; make it personal, project or team")
    return scope


def _read_sessions(fields: FieldReader) -> Iterator[Item]:
    """Yield the first and the last session as evidence. Mira only counts those between them."""
    ends = {"first_session_id": "created_at", "last_session_id": "updated_at"}
    moments = {fields.text(name): fields.past_moment(at) for name, at in ends.items() if fields.get(name)}
    for session_id, at in moments.items():
        yield make_evidence(fields, "memory_facts", _source_id(fields), session_id, at)
    fields.notes.add("sessions between the first and the last", max(fields.count("session_count") - 2, 0))
