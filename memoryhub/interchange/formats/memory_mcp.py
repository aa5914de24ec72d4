"""Memory MCP's SQLite file: ``memories``, ``entities`` and ``provenance``, of every version of its schema.

Entities are linked by ``memory_entities`` in the program's own files, and by a column ``memory_id`` of
``entities`` in the schema that its documentation shows; both are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from memoryhub.drafts import MemoryDraft
from memoryhub.interchange.foreign_sqlite import ROW, ForeignDatabase, Row, looks_like, opened
from memoryhub.interchange.records import Item, Options, Past
from memoryhub.interchange.values import Fields, Notes, days_between
from memoryhub.vocabulary import MemoryType

_MEMORY = (
    *("id", "content", "summary", "type", "importance", "created_at", "last_accessed", "access_count"),
    *("expires_at", "metadata", "is_deleted"),
)
_TYPES = ("fact", "entity", "relationship", "self")
_MOST_IMPORTANT = 10.0
_CHUNK = 500  # memories whose entities are looked up at once
_Entities = dict[Any, list[dict[str, str]]]


class MemoryMcp:
    name = "memory-mcp"
    label = "Memory MCP (SQLite)"
    extensions: tuple[str, ...] = (".db", ".sqlite", ".sqlite3")
    hint = "The database of the Memory MCP server, memory.db; MEMORY_DB_PATH names it where it was set."

    def recognises(self, path: Path) -> bool:
        return looks_like(
            path,
            ("memories.content", "memories.is_deleted"),
            ("memories.content", "memories.access_count", "provenance"),
        )

    def count(self, path: Path) -> int | None:
        with opened(path) as database:
            return database.count("memories")

    def read(self, path: Path, options: Options) -> Iterator[Item]:
        now, notes = options.now or datetime.now(UTC), Notes()
        with opened(path) as database:
            rows = database.rows("memories", _MEMORY)
            while chunk := list(islice(rows, _CHUNK)):
                named = _entities(database, chunk)
                for row in chunk:
                    yield _memory(Fields(row, notes), row, named.get(row.get("id"), []), now)
            _report(database, notes)
        yield from notes.items()


def _memory(fields: Fields, row: Row, entities: list[dict[str, str]], now: datetime) -> Item:
    created = fields.past_moment("created_at")
    expires = fields.moment("expires_at")
    metadata = fields.mapping("metadata")
    tags = Fields(metadata, fields.notes)
    fields.leave_metadata(metadata, frozenset({"tags"}))
    draft = {
        "content": fields.text("content"),
        "abstract": fields.text("summary"),
        "type": _type(fields),
        "importance": fields.share("importance", 0.5, _MOST_IMPORTANT),
        "tags": tags.words("tags"),
        "entities": entities,
        "ttl_days": days_between(created, expires, now),
        "created_at": created,
    }
    fields.problems += tags.problems
    accessed = fields.past_moment("last_accessed")
    accesses = fields.count("access_count")
    past = Past(
        accessed_count=accesses,
        last_accessed_at=accessed if accesses else None,  # a memory never read names its own birth
        expires_at=expires,
        deleted_at=(accessed or created or now) if fields.count("is_deleted") else None,
    )
    return fields.record(
        f"memories row {row[ROW]}", MemoryDraft, draft, source_id=fields.text("id"), past=past
    )


def _type(fields: Fields) -> str:
    kind = fields.text("type", MemoryType.FACT.value)
    if kind in _TYPES:
        return kind
    fields.notes.add(f"type {kind[:40]} (stored as fact)")
    return MemoryType.FACT.value


def _entities(database: ForeignDatabase, chunk: list[Row]) -> _Entities:
    """The entities that these memories name, by the memory's id."""
    ids = [row["id"] for row in chunk if row.get("id") is not None]
    found: _Entities = defaultdict(list)
    for link in database.of("entities", "memory_id", ids, ("memory_id", "entity", "entity_type")):
        found[link["memory_id"]].append(_entity(link["entity"], link["entity_type"]))
    links = database.of("memory_entities", "memory_id", ids, ("memory_id", "entity_id"))
    wanted = dict.fromkeys(link["entity_id"] for link in links)
    rows = database.of("entities", "id", wanted, ("id", "name", "type"))
    named = {row["id"]: _entity(row["name"], row["type"]) for row in rows}
    for link in links:
        if entity := named.get(link["entity_id"]):
            found[link["memory_id"]].append(entity)
    return found


def _entity(name: Any, kind: Any) -> dict[str, str]:
    return {"entity": str(name), "entity_type": str(kind or "concept")[:50]}


def _report(database: ForeignDatabase, notes: Notes) -> None:
    """What stays behind: who did what to a memory over there, vectors of a model not used here, a queue."""
    for row in database.rows("provenance", ("operation",)):
        notes.add(f"provenance: {str(row.get('operation') or 'without operation')[:40]}")
    for row in database.rows("entities", ("id", "memory_id", "metadata")):
        fields = Fields(row, notes)
        notes.add("metadata of entities", int(bool(fields.mapping("metadata"))))
    notes.add("embeddings (made anew here)", database.filled("memories", "embedding"))
    notes.add("rows of cloud_sync_queue", database.count("cloud_sync_queue"))
