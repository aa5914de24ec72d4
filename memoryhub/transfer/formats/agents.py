"""The stores of agents with a memory of their own: LetsGo, Mira and pigo."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from memoryhub.access.policy import LEVELS, Sensitivity
from memoryhub.core.pagination import iterate_rows
from memoryhub.core.vocabulary import CATEGORIES, SCOPES, TYPES, MemoryType, Scope
from memoryhub.memories import serializers
from memoryhub.models import Memory
from memoryhub.transfer.export import ExportSelection, to_line
from memoryhub.transfer.foreign_json import JsonLinesFormat
from memoryhub.transfer.foreign_sqlite import (
    EntitiesByMemory,
    ForeignDatabase,
    RowValues,
    SqliteFormat,
    chunked,
    make_entity,
    read_prompts,
    row_fields,
)
from memoryhub.transfer.records import Item, ReadOptions
from memoryhub.transfer.values import (
    FieldReader,
    ReadNotes,
    append_statements,
    days_between,
    load_field_rules,
    make_evidence,
    make_journal_row,
    make_session,
    summary_text,
)

_LETSGO = load_field_rules("letsgo")
_ACCESS_COLUMNS = ("sensitivity", "project")
# LetsGo's journal details about new memories; other texts are not imported.
_DETAIL = re.compile(r"\b(category|type|sensitivity)=(\S{1,100})")


class LetsGo(SqliteFormat):
    """LetsGo's SQLite file in every schema version.

    Older versions lack columns (content_hash, expires_at, title and later ones) and index only the content;
    the oldest store lists in columns ending in ``_json``. Missing columns get their defaults.
    """

    name = "letsgo"
    label = "LetsGo (SQLite)"
    hint = "The file that LETSGO_MEMORY_DB names, ~/.letsgo/memory.db unless it was set."

    counted = ("memories", "facts", "memory_journal", "sessions", "session_summaries", "user_prompts")

    def items(self, database: ForeignDatabase, notes: ReadNotes, options: ReadOptions) -> Iterator[Item]:
        now = options.now or datetime.now(UTC)
        for fields in self.fields(database, "sessions", notes):
            yield make_session(fields, fields.text("session_id"), agent=self.name)
        for fields in self.fields(database, "memories", notes):
            yield _read_letsgo(fields, now)
        for fields in self.fields(database, "session_summaries", notes):
            yield _read_letsgo_summary(fields)
        rows = self.rows(database, "facts")
        for row, memory in database.join(rows, "source_entry_id", "memories", "id", _ACCESS_COLUMNS):
            yield _read_letsgo_fact(row_fields("facts", row, notes), memory)
        rows = self.rows(database, "memory_journal")
        for row, memory in database.join(rows, "memory_id", "memories", "id", _ACCESS_COLUMNS):
            yield _read_journal_row(row_fields("memory_journal", row, notes), memory, options.project)
        rows = self.rows(database, "user_prompts")
        yield from read_prompts(database, rows, notes, "sessions", "session_id")


def _read_letsgo(fields: FieldReader, now: datetime) -> Item:
    created = fields.past_moment("created_at", "created_at_epoch")
    expires = fields.moment("expires_at")
    fields.note_unsupported_metadata(fields.mapping("metadata_json"))
    return fields.memory(
        _LETSGO["memories"],
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


def _read_letsgo_summary(fields: FieldReader) -> Item:
    return fields.memory(
        _LETSGO["session_summaries"],
        content=summary_text(fields),
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


def _read_letsgo_fact(fields: FieldReader, memory: RowValues | None) -> Item:
    """Read a fact. LetsGo keeps the facts of deleted memories; they are imported without a memory."""
    source = fields.text("source_entry_id")
    if source and memory is None:
        fields.notes.add("links of facts to memories that are gone")
    return fields.fact(
        _LETSGO["facts"],
        source_id=fields.text("id"),
        memory_id=source if memory else None,
        **_access_values(memory, Sensitivity.PUBLIC),
    )


def _read_journal_row(fields: FieldReader, memory: RowValues | None, project: str) -> Item:
    """Read a journal row with the access values of its memory; rows of deleted memories are secret."""
    access = _access_values(memory, Sensitivity.SECRET)
    return make_journal_row(
        fields,
        actor="letsgo",
        memory_id=fields.text("memory_id"),
        project=access["project"] or project,
        sensitivity=access["sensitivity"],
        detail=dict(_DETAIL.findall(fields.text("detail"))),
    )


_MIRA = load_field_rules("mira")
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
            entities = _read_mira_entities(database, chunk)
            for row in chunk:
                fields = row_fields("memory_facts", row, notes)
                yield _read_mira(fields, entities[row.get("id")])
                yield from _read_mira_sessions(fields)


def _with_project(database: ForeignDatabase, rows: Iterator[RowValues]) -> Iterator[RowValues]:
    """Yield rows with the name of their project, or the last part of its path."""
    for row, project in database.join(rows, "project_id", "projects", "id", ("name", "path")):
        found = project or {}
        name = found.get("name") or PurePath(str(found.get("path") or "")).name
        yield row | {"project": name}


def _read_mira(fields: FieldReader, entities: list[dict[str, str]]) -> Item:
    fields.note_unsupported("user_id", "branch", "team_id")
    fields.note_unsupported("suspicious", why="the hub checks each text itself")
    kind, tags = fields.memory_type("fact_type", {})
    if fields.text("stale_since"):
        tags.append("stale")
        fields.notes.add("stale memories (stored with the tag stale)")
    changed = fields.past_moment("updated_at", "created_at")
    return fields.memory(
        _MIRA["memory_facts"],
        source_id=fields.text("id"),
        type=kind,
        scope=_mira_scope(fields),
        tags=tags,
        entities=entities,
        updated_at=changed,
        deleted_at=changed if fields.text("status") == "archived" else None,
    )


def _mira_scope(fields: FieldReader) -> str:
    scope = fields.text("scope", Scope.PROJECT.value)
    if scope in SCOPES:
        return scope
    # Any guess could show the memory to more people than its author wanted.
    fields.refuse("scope", "is unknown; use personal, project or team")
    return Scope.PROJECT.value


def _read_mira_sessions(fields: FieldReader) -> Iterator[Item]:
    """Yield the sessions that stored the memory: the first and the last by name, the others are counted."""
    memory_id = fields.text("id")
    named = dict.fromkeys((fields.text("first_session_id"), fields.text("last_session_id")))
    sessions = [session for session in named if session]
    missing = min(fields.count("session_count"), _MAX_SESSIONS) - len(sessions)
    sessions += [f"mira-{memory_id}-{number}" for number in range(missing if sessions else 0)]
    at = fields.past_moment("updated_at", "created_at")
    for session in sessions:
        yield make_evidence(f"{fields.place}, session", memory_id, session, at)


def _read_mira_entities(database: ForeignDatabase, chunk: list[RowValues]) -> EntitiesByMemory:
    found: EntitiesByMemory = defaultdict(list)
    links = database.linked_rows(
        chunk, "memory_entity_links", ("fact_id", "entity_id"), "memory_entities", _ENTITY_COLUMNS
    )
    for memory_id, entity in links:
        name = entity["display_name"] or entity["canonical_name"]
        found[memory_id].append(make_entity(name, entity["entity_type"]))
    return found


_PIGO_FIELDS = frozenset(
    "id category abstract overview content vector active_count created_at updated_at".split()
)
_PIGO = load_field_rules("pigo")
# pigo only shows memories of its six categories; memories of other categories get one by type.
_CATEGORY_OF = {
    MemoryType.SELF: "profile",
    MemoryType.PREFERENCE: "preferences",
    MemoryType.FACT: "entities",
    MemoryType.ENTITY: "entities",
    MemoryType.RELATIONSHIP: "entities",
    MemoryType.GENERAL: "entities",
    MemoryType.BUGFIX: "cases",
    MemoryType.DISCOVERY: "cases",
}
_DEFAULT_CATEGORY = "events"
# The pigo toolset stores these types too.
TYPE_BY_CATEGORY = {
    "profile": MemoryType.SELF,
    "preferences": MemoryType.PREFERENCE,
    "entities": MemoryType.ENTITY,
    "events": MemoryType.CONTEXT,
    "cases": MemoryType.DISCOVERY,
    "patterns": MemoryType.GENERAL,
}


class Pigo(JsonLinesFormat):
    """pigo's ``memories.jsonl``: one memory per line, in three layers and six categories."""

    name = "pigo"
    label = "pigo (memories.jsonl)"
    extensions = (".jsonl",)
    hint = "~/.pigo/memory/memories.jsonl"
    extension = ".jsonl"
    content_type = "application/x-ndjson"
    lossy = (
        "Contains the three layers, the category, dates and the number of accesses; not the title, type,"
        " tags, aliases, replacements, pins, files, entities, importance, project, level and expiry of a"
        " memory, and no facts."
    )

    def is_known(self, value: dict[str, Any]) -> bool:
        return {"abstract", "content", "category", "active_count"} <= set(value)

    def items(self, fields: FieldReader) -> Iterator[Item]:
        yield _read_pigo(fields)

    def write(self, selection: ExportSelection) -> Iterator[bytes]:
        for memory in iterate_rows(selection.memories()):
            yield to_line(_to_pigo(memory))


def _read_pigo(fields: FieldReader) -> Item:
    fields.note_unsupported("vector", why="recomputed")
    fields.note_unknown(_PIGO_FIELDS)
    return fields.memory(
        _PIGO["memory"],
        source_id=fields.text("id"),
        type=TYPE_BY_CATEGORY.get(fields.text("category"), MemoryType.GENERAL),
        created_at=_read_timestamp(fields, "created_at"),
        updated_at=_read_timestamp(fields, "updated_at"),
    )


def _read_timestamp(fields: FieldReader, name: str) -> datetime | None:
    """Read a timestamp; Go writes an unset one as year 1."""
    if str(fields.get(name)).startswith("0001-"):
        return None
    return fields.past_moment(name)


def _to_pigo(memory: Memory) -> dict[str, Any]:
    """Return a line in pigo's field order, without vector: pigo only compares vectors of its own model."""
    category = _CATEGORY_OF.get(MemoryType(memory.type), _DEFAULT_CATEGORY)
    return {
        "id": f"mem_{memory.uid}",
        "category": memory.category if memory.category in CATEGORIES else category,
        "abstract": memory.abstract,
        "overview": memory.overview,
        "content": memory.content,
        "vector": None,
        "active_count": memory.accessed_count,
        "created_at": serializers.moment(memory.created_at),
        "updated_at": serializers.moment(memory.updated_at),
    }
