"""Read JSON lines of other programs; blank lines are allowed."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memoryhub.transfer.files import open_source
from memoryhub.transfer.jsonl import MAX_LINE_BYTES, LineReader, RawLine
from memoryhub.transfer.records import InvalidItem, Problem, UnreadableFile

_BOM = b"\xef\xbb\xbf"
_SAMPLE_LINES = 5
_HEAD_BYTES = 256 * 1024
_MAX_COUNTED_BYTES = 512 * 1024 * 1024


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
    if line.raw is None:
        return InvalidItem(place, [Problem("", f"is longer than {MAX_LINE_BYTES // 1024**2} MiB")])
    text = line.raw.removeprefix(_BOM) if line.number == 1 else line.raw
    if not text.strip():
        return None
    try:
        value = json.loads(text)
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
