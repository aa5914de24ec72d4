"""mem0: the JSON of ``get_all`` and of its platform's export, and the SQLite file ``history.db``.

The vector store is in the format of its provider. ``history.db`` contains each change of each memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from memoryhub.core.database import batched
from memoryhub.core.vocabulary import MemoryType
from memoryhub.transfer.foreign_json import JsonSample, SqliteOrJsonFormat, read_items
from memoryhub.transfer.foreign_sqlite import ForeignDatabase
from memoryhub.transfer.records import Item, ReadOptions
from memoryhub.transfer.values import (
    ROW_NUMBER,
    FieldReader,
    ReadNotes,
    foreign_id,
    load_field_rules,
    make_revision,
)

_FIELDS = load_field_rules("mem0")
_KNOWN_FIELDS = frozenset(
    "id memory hash metadata created_at updated_at user_id agent_id app_id run_id actor_id role categories"
    " expiration_date score".split()
)
_KNOWN_METADATA = frozenset(("project", "category", "tags"))
_LISTS = {"results": "memory", "memories": "memory", "": "memory"}
_COLUMNS = "memory_id old_memory new_memory event created_at updated_at is_deleted actor_id role".split()
_CHUNK_MEMORIES = 200


class Mem0(SqliteOrJsonFormat):
    name = "mem0"
    label = "mem0"
    hint = "The JSON of Memory.get_all() or of the platform's export; or history.db in ~/.mem0."

    counted = ("history",)

    def is_known(self, sample: JsonSample) -> bool:
        rows = [row for key in _LISTS for row in sample.get(key, [])]
        return bool(rows) and all(isinstance(row, dict) and {"id", "memory"} <= row.keys() for row in rows)

    def json_items(
        self, members: Iterator[tuple[str, Any]], notes: ReadNotes, options: ReadOptions
    ) -> Iterator[Item]:
        return read_items(members, _LISTS, notes, lambda _, fields: [_read_memory(fields)])

    def items(self, database: ForeignDatabase, notes: ReadNotes, options: ReadOptions) -> Iterator[Item]:
        """Yield the last state of each memory, and then the texts that its changes replaced as versions."""
        numbers: dict[str, list[int]] = {}  # of the rows of each memory
        for row in database.rows("history", ("memory_id",)):
            numbers.setdefault(str(row["memory_id"]), []).append(row[ROW_NUMBER])
        for build in (_read_history, _read_versions):
            for chunk in batched(numbers, _CHUNK_MEMORIES):
                for memory_id, changes in _load_changes(database, chunk, notes).items():
                    yield from build(memory_id, changes, numbers[memory_id])


def _load_changes(
    database: ForeignDatabase, memory_ids: Sequence[str], notes: ReadNotes
) -> dict[str, list[FieldReader]]:
    """Return the changes of these memories in order, as they occurred."""
    columns = [name for name in _COLUMNS if database.has("history", name)]
    found: dict[str, list[FieldReader]] = {}
    for row in database.matching_rows("history", "memory_id", memory_ids, columns):
        found.setdefault(str(row["memory_id"]), []).append(FieldReader(row, notes))
    return found


def _uid(memory_id: str) -> str:
    return foreign_id(Mem0.name, memory_id)


def _read_memory(fields: FieldReader) -> Item:
    fields.note_unknown(_KNOWN_FIELDS)
    metadata = fields.inner("metadata")
    fields.note_unsupported_metadata(metadata.values, _KNOWN_METADATA)
    categories = fields.words("categories")
    category = metadata.text("category") or (categories[0] if categories else "")
    identities = [
        f"{name}:{word}"[:100] for name in ("user", "agent", "app") if (word := fields.text(f"{name}_id"))
    ]
    computed = {
        "type": MemoryType.FACT,
        "category": category[:100] or "general",
        "project": metadata.text("project"),
        "tags": [*categories[1:], *metadata.words("tags"), *identities],
    }
    return fields.memory(_FIELDS["memory"], uid=_uid(fields.text("id")), **computed)


def _read_history(memory_id: str, changes: list[FieldReader], numbers: list[int]) -> Iterator[Item]:
    """Yield the memory in its last state, in the trash if it was deleted."""
    first, last = changes[0], changes[-1]
    deleted = last.text("event") == "DELETE" or last.count("is_deleted") > 0
    changed = last.past_moment("updated_at", "created_at")
    last.note_unsupported("actor_id")
    yield last.memory(
        {},
        part=f"history row {numbers[-1]}",
        uid=_uid(memory_id),
        content=last.text("old_memory") if deleted else last.text("new_memory"),
        type=MemoryType.FACT,
        ttl_days=0,
        created_at=first.past_moment("created_at", "updated_at"),
        updated_at=changed,
        deleted_at=changed if deleted else None,
    )


def _read_versions(memory_id: str, changes: list[FieldReader], numbers: list[int]) -> Iterator[Item]:
    version = 0
    for fields, number in zip(changes, numbers, strict=False):
        if fields.text("event") == "UPDATE" and (before := fields.text("old_memory")):
            version += 1
            at = fields.past_moment("updated_at", "created_at")
            place = f"history row {number}, earlier version"
            yield make_revision(place, _uid(memory_id), version, at, "mem0", "public", {"content": before})
