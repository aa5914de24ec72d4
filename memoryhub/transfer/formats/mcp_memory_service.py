"""mcp-memory-service: its SQLite file (``sqlite_vec.db``) and its JSON export."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoryhub.core.vocabulary import MemoryType
from memoryhub.transfer.foreign_json import JsonSample, SqliteOrJsonFormat, read_items
from memoryhub.transfer.foreign_sqlite import ForeignDatabase
from memoryhub.transfer.records import Item, ReadOptions
from memoryhub.transfer.values import FieldReader, ReadNotes, foreign_id, load_field_rules, make_replacement

_FIELDS = load_field_rules("mcp-memory-service")
_TYPES = {"learning": MemoryType.DISCOVERY, "observation": MemoryType.GENERAL}
_KNOWN_FIELDS = frozenset(
    "content content_hash tags memory_type metadata created_at updated_at created_at_iso updated_at_iso store"
    " export_source embedding".split()
)
_KNOWN_METADATA = frozenset(("superseded_by", "importance_score", "access_count", "last_accessed_at"))
_PROJECT_TAG = "proj:"
_NO_TAG = "untagged"  # the program adds it to memories without tags
_DEFAULT_STORE = "default"


class McpMemoryService(SqliteOrJsonFormat):
    name = "mcp-memory-service"
    label = "mcp-memory-service"
    hint = "sqlite_vec.db in the folder mcp-memory of the user's data, or the JSON file of its export."

    counted = ("memories",)

    def is_known(self, sample: JsonSample) -> bool:
        rows = sample.get("memories", [])
        hashed = all(isinstance(row, dict) and "content_hash" in row for row in rows)
        return "export_metadata" in sample and hashed

    def items(self, database: ForeignDatabase, notes: ReadNotes, options: ReadOptions) -> Iterator[Item]:
        replaced: list[Item] = []
        for fields in self.fields(database, "memories", notes):
            yield from _read_memory(fields, replaced)
        yield from replaced

    def json_items(
        self, members: Iterator[tuple[str, Any]], notes: ReadNotes, options: ReadOptions
    ) -> Iterator[Item]:
        replaced: list[Item] = []

        def read(_: str, fields: FieldReader) -> Iterator[Item]:
            fields.note_unknown(_KNOWN_FIELDS)
            fields.note_unsupported("embedding", why="recomputed")
            return _read_memory(fields, replaced)

        yield from read_items(members, {"memories": "memory"}, notes, read, {"export_metadata"})
        yield from replaced


def _memory_id(content_hash: str) -> str:
    return foreign_id(McpMemoryService.name, content_hash)


def _read_memory(fields: FieldReader, replaced: list[Item]) -> Iterator[Item]:
    """Yield the memory. ``replaced`` collects the replacements, which may refer to later memories."""
    metadata = fields.inner("metadata")
    fields.note_unsupported_metadata(metadata.values, _KNOWN_METADATA)
    kind, tags = _type_and_tags(fields)
    memory_id = _memory_id(fields.text("content_hash"))
    computed = {
        "type": kind,
        "tags": tags,
        "project": next((tag[len(_PROJECT_TAG) :] for tag in tags if tag.startswith(_PROJECT_TAG)), ""),
        "importance": metadata.share("importance_score", 0.5),
        "accessed_count": metadata.count("access_count"),
        "last_accessed_at": fields.past_moment("last_accessed") or metadata.past_moment("last_accessed_at"),
    }
    yield fields.memory(_FIELDS["memories"], uid=memory_id, **computed)
    if by := fields.text("superseded_by") or metadata.text("superseded_by"):
        replaced.append(make_replacement(f"{fields.place}, superseded_by", memory_id, _memory_id(by)))


def _type_and_tags(fields: FieldReader) -> tuple[str, list[str]]:
    """Return the type and the tags, which include an unknown type and a store other than the default."""
    kind, unknown = fields.memory_type("memory_type", _TYPES)
    tags = [*(tag for tag in fields.words("tags") if tag != _NO_TAG), *unknown]
    if (store := fields.text("store", _DEFAULT_STORE)) != _DEFAULT_STORE:
        tags.append(f"store:{store}")
    return kind, tags
