"""OpenMemory's export: a zip archive of ``memories.json`` and ``memories.jsonl.gz``, or the latter alone.

``memories.json`` has more details (when a memory was archived or deleted); memories that only the other file
contains are read from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memoryhub.core.vocabulary import MemoryType
from memoryhub.transfer.files import LineReader, member_names, open_member
from memoryhub.transfer.foreign_json import count_lines, first_objects, parse_line, read_members, read_objects
from memoryhub.transfer.records import Format, InvalidItem, Item, Problem, ReadOptions, UnreadableFile
from memoryhub.transfer.values import FieldReader, ReadNotes, load_field_rules, printable_name

_FIELDS = load_field_rules("openmemory")
_TABLES_FILE, _LINES_FILE = "memories.json", "memories.jsonl.gz"
_STATES = ("active", "paused", "archived", "deleted")
_INACTIVE_STATES = ("paused", "archived")  # not shown in OpenMemory, but not deleted: tagged here
# Keys without information beyond the memories themselves.
_KNOWN_KEYS = frozenset(("memories", "apps", "categories", "memory_categories", "export_meta"))
_KNOWN_FIELDS = frozenset(
    ("id", "user_id", "app_id", "app", "content", "metadata", "state", "vector", "category_ids", "categories")
) | {"created_at", "updated_at", "archived_at", "deleted_at"}
_LINE_SIGNS = frozenset(("content", "state", "categories"))


class OpenMemory(Format):
    name = "openmemory"
    label = "OpenMemory (export zip)"
    extensions = (".zip", ".gz", ".jsonl")
    hint = "memories_export_USER.zip, which OpenMemory's dashboard made under Export."

    def recognises(self, path: Path) -> bool:
        if names := member_names(path):
            return _TABLES_FILE in names or _LINES_FILE in names
        found = first_objects(path)
        return bool(found) and all(set(one) >= _LINE_SIGNS for one in found)

    def count(self, path: Path) -> int | None:
        return None if member_names(path) else count_lines(path)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        reader = _MemoryReader(options.now or datetime.now(UTC))
        names = member_names(path)
        if not names:
            for found in read_objects(path):
                yield (
                    found
                    if isinstance(found, InvalidItem)
                    else reader.read_memory(found[1], f"line {found[0]}")
                )
        elif _TABLES_FILE not in names and _LINES_FILE not in names:
            raise UnreadableFile(
                f"{path.name}: contains neither {_TABLES_FILE} nor {_LINES_FILE}; is it OpenMemory's export?"
            )
        else:
            yield from _read_archive(path, names, reader)
        yield from reader.notes.items()


def _read_archive(path: Path, names: dict[str, str], reader: _MemoryReader) -> Iterator[Item]:
    if _TABLES_FILE in names:
        # Referenced tables may follow the memories.
        with open_member(path, names[_TABLES_FILE]) as stream:
            for key, value in read_members(stream, _TABLES_FILE):
                reader.add_reference(key, value)
        with open_member(path, names[_TABLES_FILE]) as stream:
            rows = (value for key, value in read_members(stream, _TABLES_FILE) if key == "memories")
            for number, row in enumerate(rows, start=1):
                yield reader.read_row(row, f"{_TABLES_FILE} memory {number}")
    if _LINES_FILE in names:
        with open_member(path, names[_LINES_FILE]) as stream:
            for line in LineReader(stream):
                found = parse_line(line)
                if isinstance(found, InvalidItem):
                    yield InvalidItem(f"{_LINES_FILE} {found.place}", found.problems)
                elif found and str(found[1].get("id")) not in reader.seen:
                    yield reader.read_memory(found[1], f"{_LINES_FILE} line {found[0]}")


@dataclass
class _MemoryReader:
    now: datetime
    notes: ReadNotes = field(default_factory=ReadNotes)
    apps: dict[str, str] = field(default_factory=dict)
    categories: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def add_reference(self, key: str, value: Any) -> None:
        """Collect the names of referenced apps and categories; note unsupported tables."""
        if key in ("apps", "categories") and isinstance(value, dict):
            known = self.apps if key == "apps" else self.categories
            known[str(value.get("id"))] = str(value.get("name") or "").strip()
            self.notes.add(f"descriptions of {key}", int(bool(value.get("description"))))
        elif key not in _KNOWN_KEYS and value:
            self.notes.add(f"{printable_name(key)} (of {_TABLES_FILE})")

    def read_row(self, row: Any, place: str) -> Item:
        """Read a memory of ``memories.json``, which references its app and categories by id."""
        if not isinstance(row, dict):
            return InvalidItem(place, [Problem("", "is not a JSON object")])
        self.seen.add(str(row.get("id")))
        ids = row.get("category_ids")
        named = [self.categories.get(str(one), "") for one in ids] if isinstance(ids, list) else []
        app = self.apps.get(str(row.get("app_id")), "")
        return self.read_memory({**row, "app": app, "categories": [name for name in named if name]}, place)

    def read_memory(self, values: dict[str, Any], place: str) -> Item:
        fields = FieldReader(values, self.notes, place)
        fields.note_unsupported_metadata(fields.mapping("metadata"))
        fields.note_unsupported("vector", why="recomputed")
        fields.note_unknown(_KNOWN_FIELDS)
        categories, app, state = fields.words("categories"), fields.text("app"), self._state(fields)
        tags = [*categories[1:], *([app] if app else []), *([state] if state in _INACTIVE_STATES else [])]
        updated = fields.past_moment("updated_at", "created_at")
        deleted = fields.past_moment("deleted_at") or updated or self.now
        return fields.memory(
            _FIELDS["memory"],
            source_id=fields.text("id"),
            type=MemoryType.FACT,
            category=categories[0] if categories else "general",
            tags=tags,
            updated_at=updated,
            deleted_at=deleted if state == "deleted" else None,
        )

    def _state(self, fields: FieldReader) -> str:
        state = fields.text("state", "active")
        if state in _INACTIVE_STATES:
            self.notes.add(f"state {state} (stored with the tag {state})")
        elif state not in _STATES:
            self.notes.add(f"state {printable_name(state)} (stored as active)")
        return state
