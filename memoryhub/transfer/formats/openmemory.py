"""OpenMemory's export: a zip archive of ``memories.json`` and ``memories.jsonl.gz``, or the latter alone.

``memories.json`` has more details (when a memory was archived or deleted); memories that only the other file
contains are read from there. The JSON object is streamed, because its lists may not fit into memory.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from memoryhub.core.vocabulary import MemoryType
from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.transfer.files import member_names, open_member
from memoryhub.transfer.foreign_jsonl import count_lines, first_objects, parse_line, read_objects
from memoryhub.transfer.jsonl import LineReader
from memoryhub.transfer.records import InvalidItem, Item, Problem, ReadOptions, UnreadableFile
from memoryhub.transfer.values import FieldReader, ReadNotes, printable_name

_CHUNK = 256 * 1024
MAX_ITEM_BYTES = 16 * 1024 * 1024  # characters
_UNCERTAIN_CHARS = 3
_BLANKS = re.compile(r"[ \t\r\n]*")


def read_members(stream: IO[bytes], name: str) -> Iterator[tuple[str, Any]]:
    """Yield members by key: each item of a list, or the value itself. Raise :class:`UnreadableFile`."""
    text = _TextBuffer(stream, name)
    text.take("{")
    if text.next() == "}":
        text.take("}")
        text.end()
        return
    while True:
        key = text.value()
        if not isinstance(key, str):
            raise text.broken()
        text.take(":")
        if text.next() == "[":
            for item in _read_list_items(text):
                yield key, item
        else:
            yield key, text.value()
        if text.take(",}") == "}":
            text.end()
            return


def _read_list_items(text: _TextBuffer) -> Iterator[Any]:
    text.take("[")
    if text.next() == "]":
        text.take("]")
        return
    while True:
        yield text.value()
        if text.take(",]") == "]":
            return


class _TextBuffer:
    """Unconsumed text of a UTF-8 stream."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream, self._name = stream, name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder()
        self._text, self._at, self._ended = "", 0, False

    def next(self) -> str:
        """Return the next non-blank character without consuming it."""
        if not self._skip_blanks():
            raise self.broken("ends too early")
        return self._text[self._at]

    def end(self) -> None:
        """Raise unless only blanks follow."""
        if self._skip_blanks():
            raise self.broken("goes on behind its end")

    def _skip_blanks(self) -> bool:
        """Skip blanks; return whether anything follows."""
        while True:
            if blanks := _BLANKS.match(self._text, self._at):
                self._at = blanks.end()
            if self._at < len(self._text):
                return True
            if not self._more(_CHUNK):
                return False

    def take(self, expected: str) -> str:
        """Consume one of the expected characters."""
        found = self.next()
        if found not in expected:
            raise self.broken()
        self._at += 1
        return found

    def value(self) -> Any:
        self.next()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except RecursionError:
                raise self.broken("is nested too deeply") from None
            except ValueError:
                if not self._grow():
                    raise self.broken() from None
                continue
            # A number at the end of the buffer may be incomplete: "1.5e+7" is not complete at "1.5e+".
            if len(self._text) - end < _UNCERTAIN_CHARS and self._grow():
                continue
            self._at = end
            return value

    def _grow(self) -> bool:
        """Double the buffer, so that parsing a long item again stays linear overall."""
        remaining = len(self._text) - self._at
        if remaining > MAX_ITEM_BYTES:
            raise self.broken(f"holds an item of more than {MAX_ITEM_BYTES // 1024**2} million characters")
        return self._more(max(_CHUNK, remaining))

    def _more(self, size: int) -> bool:
        if self._ended:
            return False
        raw = self._stream.read(size)
        self._ended = not raw
        try:
            decoded = self._decoder.decode(raw, final=self._ended)
        except UnicodeDecodeError:
            raise self.broken("is not UTF-8") from None
        if self._ended:
            return False
        self._text, self._at = self._text[self._at :] + decoded, 0
        return True

    def broken(self, why: str = "is not JSON") -> UnreadableFile:
        return UnreadableFile(f"{self._name}: {why}; export it again")


_TABLES_FILE, _LINES_FILE = "memories.json", "memories.jsonl.gz"
_STATES = ("active", "paused", "archived", "deleted")
_INACTIVE_STATES = ("paused", "archived")  # not shown in OpenMemory, but not deleted: tagged here
# Keys without information beyond the memories themselves.
_KNOWN_KEYS = frozenset(("memories", "apps", "categories", "memory_categories", "export_meta"))
_KNOWN_FIELDS = frozenset(
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
                f"{path.name}: holds neither {_TABLES_FILE} nor {_LINES_FILE}; is it OpenMemory's export?"
            )
        else:
            yield from _archive(path, names, reader)
        yield from reader.notes.items()


def _archive(path: Path, names: dict[str, str], reader: _MemoryReader) -> Iterator[Item]:
    if _TABLES_FILE in names:
        # Referenced tables may follow the memories.
        with open_member(path, names[_TABLES_FILE]) as stream:
            for key, value in read_members(stream, _TABLES_FILE):
                reader.add_reference(key, value)
        with open_member(path, names[_TABLES_FILE]) as stream:
            rows = (value for key, value in read_members(stream, _TABLES_FILE) if key == "memories")
            for number, read_row in enumerate(rows, start=1):
                yield reader.read_row(read_row, f"{_TABLES_FILE} memory {number}")
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
        """Collect referenced rows and count unsupported ones."""
        if key in ("apps", "categories") and isinstance(value, dict):
            known = self.apps if key == "apps" else self.categories
            known[str(value.get("id"))] = str(value.get("name") or "").strip()
            self.notes.add(f"descriptions of {key}", int(bool(value.get("description"))))
        elif key not in _KNOWN_KEYS and value:
            self.notes.add(f"{printable_name(key)} (of {_TABLES_FILE})")

    def read_row(self, read_row: Any, place: str) -> Item:
        """Read a memory of ``memories.json``, which references its app and categories by id."""
        if not isinstance(read_row, dict):
            return InvalidItem(place, [Problem("", "is not a JSON object")])
        self.seen.add(str(read_row.get("id")))
        ids = read_row.get("category_ids")
        named = [self.categories.get(str(one), "") for one in ids] if isinstance(ids, list) else []
        app = self.apps.get(str(read_row.get("app_id")), "")
        return self.read_memory(
            {**read_row, "app": app, "categories": [name for name in named if name]}, place
        )

    def read_memory(self, values: dict[str, Any], place: str) -> Item:
        fields = FieldReader(values, self.notes)
        fields.note_unsupported_metadata(fields.mapping("metadata"))
        fields.note_unsupported("vector", why="made anew here")
        fields.note_unknown(_KNOWN_FIELDS)
        categories, app, state = fields.words("categories"), fields.text("app"), self._state(fields)
        draft = {
            "content": fields.text("content"),
            "type": MemoryType.FACT.value,
            "category": categories[0] if categories else "general",
            "tags": [
                *categories[1:],
                *([app] if app else []),
                *([state] if state in _INACTIVE_STATES else []),
            ],
            "ttl_days": 0,  # OpenMemory has no expiry
            "created_at": fields.past_moment("created_at"),
        }
        updated = fields.past_moment("updated_at", "created_at")
        deleted = fields.past_moment("deleted_at") or updated or self.now
        past = ImportedHistory(updated_at=updated, deleted_at=deleted if state == "deleted" else None)
        return fields.record(place, MemoryDraft, draft, source_id=fields.text("id"), past=past)

    def _state(self, fields: FieldReader) -> str:
        state = fields.text("state", "active")
        if state in _INACTIVE_STATES:
            self.notes.add(f"state {state} (stored with the tag {state})")
        elif state not in _STATES:
            self.notes.add(f"state {printable_name(state)} (stored as active)")
        return state
