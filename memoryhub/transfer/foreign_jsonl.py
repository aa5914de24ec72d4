"""Read JSON lines of other programs; blank lines are allowed."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memoryhub.transfer.files import open_source
from memoryhub.transfer.jsonl import MAX_LINE_BYTES, InvalidLine, LineReader, RawLine, line_bytes
from memoryhub.transfer.records import InvalidItem, Item, Problem, ReadOptions, UnreadableFile
from memoryhub.transfer.values import FieldReader, ReadNotes

_SAMPLE_LINES = 5
_HEAD_BYTES = 256 * 1024
_MAX_COUNTED_BYTES = 512 * 1024 * 1024


class JsonLinesFormat:
    """Base of the formats with one JSON object per line."""

    def is_known(self, value: dict[str, Any]) -> bool:
        """Return whether an object has the shape of this format."""
        raise NotImplementedError

    def items(self, fields: FieldReader, place: str) -> Iterator[Item]:
        """Yield the items of a line."""
        raise NotImplementedError

    def recognises(self, path: Path) -> bool:
        found = first_objects(path)
        return bool(found) and all(map(self.is_known, found))

    def count(self, path: Path) -> int | None:
        return count_lines(path)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        notes = ReadNotes()
        for found in read_objects(path):
            if isinstance(found, InvalidItem):
                yield found
            else:
                yield from self.items(FieldReader(found[1], notes), f"line {found[0]}")
        yield from notes.items()


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]] | InvalidItem]:
    """Yield the number and object of each line, without blank lines. Raise :class:`UnreadableFile`."""
    with open_source(str(path)) as source:
        for line in LineReader(source.stream):
            found = parse_line(line)
            if found is not None:
                yield found


def parse_line(line: RawLine) -> tuple[int, dict[str, Any]] | InvalidItem | None:
    """Return the line number and its object, or ``None`` for a blank line."""
    place = f"line {line.number}"
    try:
        text = line_bytes(line)
        if not text:
            return None
        value = json.loads(text)
    except InvalidLine as bad:
        return InvalidItem(place, bad.problems)
    except UnicodeDecodeError:
        return InvalidItem(place, [Problem("", "is not UTF-8")])
    except (ValueError, RecursionError):
        return InvalidItem(place, [Problem("", "is not JSON")])
    if not isinstance(value, dict):
        return InvalidItem(place, [Problem("", "is not a JSON object")])
    return line.number, value


def first_objects(path: Path) -> list[dict[str, Any]]:
    """Return the objects of the first lines, for format detection; empty if the file is unreadable."""
    found: list[dict[str, Any]] = []
    try:
        with open_source(str(path)) as source:
            head = source.stream.read(_HEAD_BYTES)
            if b"\n" not in head.lstrip():  # a longer first line is rare; read it in full
                head += source.stream.read(MAX_LINE_BYTES - len(head))
    except (UnreadableFile, OSError):
        return []
    for line in LineReader(io.BytesIO(head)):
        item = parse_line(line)
        if isinstance(item, InvalidItem) or len(found) == _SAMPLE_LINES:
            break
        if item is not None:
            found.append(item[1])
    return found


def count_lines(path: Path) -> int | None:
    """Count the lines of an uncompressed file; ``None`` if that would take long."""
    try:
        if path.stat().st_size > _MAX_COUNTED_BYTES:
            return None
        with open(path, "rb") as file:
            if file.read(2) == b"\x1f\x8b":
                return None
            file.seek(0)
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b"")) or 1
    except OSError:
        return None
