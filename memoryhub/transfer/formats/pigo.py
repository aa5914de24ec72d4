"""pigo's ``memories.jsonl``, import and export: one memory per line, in three layers and six categories."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from memoryhub.core.pagination import iterate_rows
from memoryhub.core.vocabulary import CATEGORIES, MemoryType
from memoryhub.memories import serializers
from memoryhub.models import Memory
from memoryhub.transfer.export import ExportSelection, to_line
from memoryhub.transfer.foreign_json import JsonLinesFormat
from memoryhub.transfer.records import Item
from memoryhub.transfer.values import FieldReader, load_field_rules

_KNOWN_FIELDS = frozenset(
    "id category abstract overview content vector active_count created_at updated_at".split()
)
_FIELDS = load_field_rules("pigo")
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
        yield _read_memory(fields)

    def write(self, selection: ExportSelection) -> Iterator[bytes]:
        for memory in iterate_rows(selection.memories()):
            yield to_line(_to_line(memory))


def _read_memory(fields: FieldReader) -> Item:
    fields.note_unsupported("vector", why="recomputed")
    fields.note_unknown(_KNOWN_FIELDS)
    return fields.memory(
        _FIELDS["memory"],
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


def _to_line(memory: Memory) -> dict[str, Any]:
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
