"""Mira's SQLite file: ``memory_facts`` with their projects, entities and sessions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import PurePath

from memoryhub.core.vocabulary import SCOPES, Scope
from memoryhub.transfer.foreign_sqlite import (
    EntitiesByMemory,
    ForeignDatabase,
    RowValues,
    SqliteFormat,
    chunked,
    make_entity,
    row_fields,
)
from memoryhub.transfer.records import Item, ReadOptions
from memoryhub.transfer.values import FieldReader, ReadNotes, load_field_rules, make_evidence

_FIELDS = load_field_rules("mira")
_MAX_SESSIONS = 100  # a limit for damaged counts; each session is a row
_ENTITY_COLUMNS = ("canonical_name", "entity_type", "display_name")


class Mira(SqliteFormat):
    name = "mira"
    label = "Mira (SQLite)"
    hint = "mira.db in ~/.mira."

    counted = ("memory_facts",)

    def items(self, database: ForeignDatabase, notes: ReadNotes, options: ReadOptions) -> Iterator[Item]:
        rows = self.rows(database, "memory_facts")
        for chunk in chunked(_with_project(database, rows)):
            entities = _read_entities(database, chunk)
            for row in chunk:
                fields = row_fields("memory_facts", row, notes)
                yield _read_memory(fields, entities[row.get("id")])
                yield from _read_sessions(fields)


def _with_project(database: ForeignDatabase, rows: Iterator[RowValues]) -> Iterator[RowValues]:
    """Yield rows with the name of their project, or the last part of its path."""
    for row, project in database.join(rows, "project_id", "projects", "id", ("name", "path")):
        found = project or {}
        name = found.get("name") or PurePath(str(found.get("path") or "")).name
        yield row | {"project": name}


def _read_memory(fields: FieldReader, entities: list[dict[str, str]]) -> Item:
    fields.note_unsupported("user_id", "branch", "team_id")
    fields.note_unsupported("suspicious", why="the hub checks each text itself")
    kind, tags = fields.memory_type("fact_type", {})
    if fields.text("stale_since"):
        tags.append("stale")
        fields.notes.add("stale memories (stored with the tag stale)")
    changed = fields.past_moment("updated_at", "created_at")
    return fields.memory(
        _FIELDS["memory_facts"],
        source_id=fields.text("id"),
        type=kind,
        scope=_scope(fields),
        tags=tags,
        entities=entities,
        updated_at=changed,
        deleted_at=changed if fields.text("status") == "archived" else None,
    )


def _scope(fields: FieldReader) -> str:
    scope = fields.text("scope", Scope.PROJECT.value)
    if scope in SCOPES:
        return scope
    # Any guess could show the memory to more people than its author wanted.
    fields.refuse("scope", "is unknown; use personal, project or team")
    return Scope.PROJECT.value


def _read_sessions(fields: FieldReader) -> Iterator[Item]:
    """Yield the sessions that stored the memory: the first and the last by name, the others are counted."""
    memory_id = fields.text("id")
    named = dict.fromkeys((fields.text("first_session_id"), fields.text("last_session_id")))
    sessions = [session for session in named if session]
    missing = min(fields.count("session_count"), _MAX_SESSIONS) - len(sessions)
    sessions += [f"mira-{memory_id}-{number}" for number in range(missing if sessions else 0)]
    at = fields.past_moment("updated_at", "created_at")
    for session in sessions:
        yield make_evidence(f"{fields.place}, session", memory_id, session, at)


def _read_entities(database: ForeignDatabase, chunk: list[RowValues]) -> EntitiesByMemory:
    found: EntitiesByMemory = defaultdict(list)
    links = database.linked_rows(
        chunk, "memory_entity_links", ("fact_id", "entity_id"), "memory_entities", _ENTITY_COLUMNS
    )
    for memory_id, entity in links:
        name = entity["display_name"] or entity["canonical_name"]
        found[memory_id].append(make_entity(name, entity["entity_type"]))
    return found
