"""Memory MCP's SQLite file: ``memories``, ``entities`` and ``provenance``, in every schema version.

Real files link entities by ``memory_entities``; the documented schema uses a column ``memory_id`` of
``entities``. Both are supported.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from memoryhub.access.policy import Sensitivity
from memoryhub.core.vocabulary import MemoryType
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
from memoryhub.transfer.values import (
    FieldReader,
    ReadNotes,
    days_between,
    load_field_rules,
    make_revision,
    short_id,
)

_FIELDS = load_field_rules("memory-mcp")
_TYPES = ("fact", "entity", "relationship", "self")
_MAX_IMPORTANCE = 10.0


class MemoryMcp(SqliteFormat):
    name = "memory-mcp"
    label = "Memory MCP (SQLite)"
    hint = "The database of the Memory MCP server, memory.db; MEMORY_DB_PATH names it where it was set."

    counted = ("memories", "provenance")

    def items(self, database: ForeignDatabase, notes: ReadNotes, options: ReadOptions) -> Iterator[Item]:
        now = options.now or datetime.now(UTC)
        for chunk in chunked(self.rows(database, "memories")):
            named = _read_entities(database, chunk)
            for row in chunk:
                yield _read_memory(row_fields("memories", row, notes), named[row.get("id")], now)
        numbers: Counter[str] = Counter()
        rows = self.rows(database, "provenance")
        for row, memory in database.join(rows, "memory_id", "memories", "id", ()):
            yield from _read_provenance(
                row_fields("provenance", row, notes), memory is not None, numbers, options
            )
        for row in database.rows("entities", ("metadata",)):
            notes.add("metadata of entities", int(bool(FieldReader(row, notes).mapping("metadata"))))


def _read_memory(fields: FieldReader, entities: list[dict[str, str]], now: datetime) -> Item:
    created = fields.past_moment("created_at")
    expires = fields.moment("expires_at")
    metadata = fields.inner("metadata")
    fields.note_unsupported_metadata(metadata.values, frozenset({"tags"}))
    accessed = fields.past_moment("last_accessed")
    accesses = fields.count("access_count")
    return fields.memory(
        _FIELDS["memories"],
        source_id=short_id(fields.text("id")),
        type=fields.listed_type(_TYPES, MemoryType.FACT),
        tags=metadata.words("tags"),
        entities=entities,
        ttl_days=days_between(created, expires, now),
        created_at=created,
        accessed_count=accesses,
        last_accessed_at=accessed if accesses else None,  # without accesses this is the creation time
        expires_at=expires,
        deleted_at=(accessed or created or now) if fields.count("is_deleted") else None,
    )


def _read_entities(database: ForeignDatabase, chunk: list[RowValues]) -> EntitiesByMemory:
    """Return the entities of these memories, by memory id."""
    ids = [row["id"] for row in chunk if row.get("id") is not None]
    found: EntitiesByMemory = defaultdict(list)
    for link in database.matching_rows("entities", "memory_id", ids, ("memory_id", "entity", "entity_type")):
        found[link["memory_id"]].append(make_entity(link["entity"], link["entity_type"]))
    links = database.linked_rows(
        chunk, "memory_entities", ("memory_id", "entity_id"), "entities", ("name", "type")
    )
    for memory_id, entity in links:
        found[memory_id].append(make_entity(entity["name"], entity["type"]))
    return found


def _read_provenance(
    fields: FieldReader, has_memory: bool, numbers: Counter[str], options: ReadOptions
) -> Iterator[Item]:
    """Yield a provenance row as a journal row, and the earlier version that an update contains.

    ``numbers`` counts the versions of each memory.
    """
    fields.note_unsupported("context", "user_id", "metadata", why="of provenance")
    memory_id, source = short_id(fields.text("memory_id")), fields.text("source")
    actor = f"memory-mcp:{source}" if source else "memory-mcp"
    level = Sensitivity.PUBLIC if has_memory else Sensitivity.SECRET
    yield fields.journal_row(
        actor=actor,
        memory_id=memory_id,
        project=options.project,
        sensitivity=level.value,
    )
    if before := _replaced_values(fields) if has_memory else {}:
        numbers[memory_id] += 1
        at = fields.past_moment("timestamp")
        place = f"{fields.place}, earlier version"
        yield make_revision(place, memory_id, numbers[memory_id], at, actor, level.value, before)


def _replaced_values(fields: FieldReader) -> dict[str, Any]:
    changes = fields.mapping("changes")
    replaced = {name: change["from"] for name, change in changes.items() if _is_change(change)}
    fields.notes.add("changes of provenance without the value before", len(changes) - len(replaced))
    before: dict[str, Any] = {}
    for name, ours in (("content", "content"), ("summary", "abstract")):
        if isinstance(replaced.get(name), str):
            before[ours] = replaced[name]
    importance = FieldReader(replaced, fields.notes).share("importance", -1.0, _MAX_IMPORTANCE)
    return before if importance < 0 else before | {"importance": importance}


def _is_change(change: Any) -> bool:
    return isinstance(change, dict) and change.get("from") is not None
