"""OpenMemory's export: a zip archive of ``memories.json`` and ``memories.jsonl.gz``, or the latter alone.

``memories.json`` says more of each memory (when it was archived or deleted); what only the other file has is
read from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memoryhub.drafts import MemoryDraft
from memoryhub.interchange.archives import member, member_names
from memoryhub.interchange.files import UnreadableFile
from memoryhub.interchange.json_lines import first_objects, line_count, objects, parse
from memoryhub.interchange.json_stream import members
from memoryhub.interchange.jsonl import Lines
from memoryhub.interchange.problems import Problem
from memoryhub.interchange.records import Bad, Item, Options, Past
from memoryhub.interchange.values import Fields, Notes, named
from memoryhub.vocabulary import MemoryType

_TABLES, _LINES = "memories.json", "memories.jsonl.gz"
_STATES = ("active", "paused", "archived", "deleted")
_ASIDE = ("paused", "archived")  # neither shown nor gone over there: tagged here
# What says nothing beyond the memories themselves.
_KNOWN_KEYS = frozenset(("memories", "apps", "categories", "memory_categories", "export_meta"))
_KNOWN = frozenset(
    ("id", "user_id", "app_id", "app", "content", "metadata", "state", "vector", "category_ids", "categories")
) | {"created_at", "updated_at", "archived_at", "deleted_at"}
_LINE_SIGNS = frozenset(("content", "state", "categories"))


class OpenMemory:
    name = "openmemory"
    label = "OpenMemory (export zip)"
    extensions: tuple[str, ...] = (".zip", ".gz", ".jsonl")
    hint = "memories_export_USER.zip, which OpenMemory's dashboard made under Export."

    def recognises(self, path: Path) -> bool:
        if names := member_names(path):
            return _TABLES in names or _LINES in names
        found = first_objects(path)
        return bool(found) and all(set(one) >= _LINE_SIGNS for one in found)

    def count(self, path: Path) -> int | None:
        return None if member_names(path) else line_count(path)

    def read(self, path: Path, options: Options) -> Iterator[Item]:
        reader = _Reader(options.now or datetime.now(UTC))
        names = member_names(path)
        if not names:
            for found in objects(path):
                yield found if isinstance(found, Bad) else reader.memory(found[1], f"line {found[0]}")
        elif _TABLES not in names and _LINES not in names:
            raise UnreadableFile(
                f"{path.name}: holds neither {_TABLES} nor {_LINES}; is it OpenMemory's export?"
            )
        else:
            yield from _archive(path, names, reader)
        yield from reader.notes.items()


def _archive(path: Path, names: dict[str, str], reader: _Reader) -> Iterator[Item]:
    if _TABLES in names:
        # What memories refer to may stand behind them.
        with member(path, names[_TABLES]) as stream:
            for key, value in members(stream, _TABLES):
                reader.learn(key, value)
        with member(path, names[_TABLES]) as stream:
            rows = (value for key, value in members(stream, _TABLES) if key == "memories")
            for number, row in enumerate(rows, start=1):
                yield reader.row(row, f"{_TABLES} memory {number}")
    if _LINES in names:
        with member(path, names[_LINES]) as stream:
            for line in Lines(stream):
                found = parse(line)
                if isinstance(found, Bad):
                    yield Bad(f"{_LINES} {found.place}", found.problems)
                elif found and str(found[1].get("id")) not in reader.seen:
                    yield reader.memory(found[1], f"{_LINES} line {found[0]}")


@dataclass
class _Reader:
    now: datetime
    notes: Notes = field(default_factory=Notes)
    apps: dict[str, str] = field(default_factory=dict)
    categories: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def learn(self, key: str, value: Any) -> None:
        """What memories refer to, and what has no place here."""
        if key in ("apps", "categories") and isinstance(value, dict):
            known = self.apps if key == "apps" else self.categories
            known[str(value.get("id"))] = str(value.get("name") or "").strip()
            self.notes.add(f"descriptions of {key}", int(bool(value.get("description"))))
        elif key not in _KNOWN_KEYS and value:
            self.notes.add(f"{named(key)} (of {_TABLES})")

    def row(self, row: Any, place: str) -> Item:
        """A memory of ``memories.json``, which names its app and its categories by number."""
        if not isinstance(row, dict):
            return Bad(place, [Problem("", "is not a JSON object")])
        self.seen.add(str(row.get("id")))
        ids = row.get("category_ids")
        named = [self.categories.get(str(one), "") for one in ids] if isinstance(ids, list) else []
        app = self.apps.get(str(row.get("app_id")), "")
        return self.memory({**row, "app": app, "categories": [name for name in named if name]}, place)

    def memory(self, values: dict[str, Any], place: str) -> Item:
        fields = Fields(values, self.notes)
        fields.leave_metadata(fields.mapping("metadata"))
        fields.leave("vector", why="made anew here")
        for name in sorted(set(values) - _KNOWN):
            self.notes.add(f"field {named(name)}")
        categories, app, state = fields.words("categories"), fields.text("app"), self._state(fields)
        draft = {
            "content": fields.text("content"),
            "type": MemoryType.FACT.value,
            "category": categories[0] if categories else "general",
            "tags": [*categories[1:], *([app] if app else []), *([state] if state in _ASIDE else [])],
            "ttl_days": 0,  # OpenMemory forgets nothing by itself
            "created_at": fields.past_moment("created_at"),
        }
        updated = fields.past_moment("updated_at", "created_at")
        deleted = fields.past_moment("deleted_at") or updated or self.now
        past = Past(updated_at=updated, deleted_at=deleted if state == "deleted" else None)
        return fields.record(place, MemoryDraft, draft, source_id=fields.text("id"), past=past)

    def _state(self, fields: Fields) -> str:
        state = fields.text("state", "active")
        if state in _ASIDE:
            self.notes.add(f"state {state} (stored with the tag {state})")
        elif state not in _STATES:
            self.notes.add(f"state {named(state)} (stored as active)")
        return state
