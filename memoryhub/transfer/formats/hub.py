"""The hub's own JSON lines: single memories, or a whole store with its history."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from memoryhub.memories.schemas import Labels
from memoryhub.transfer.export import ExportSelection
from memoryhub.transfer.files import InvalidLine, LineReader, RawLine, line_bytes, open_source
from memoryhub.transfer.foreign_json import open_json, read_json
from memoryhub.transfer.records import (
    NO_HISTORY,
    Format,
    HistoryItem,
    InvalidItem,
    Item,
    Problem,
    ReadOptions,
    Record,
    UnreadableFile,
    validation_problems,
)
from memoryhub.transfer.schema import (
    HISTORY_LINES,
    VERSION,
    FactLine,
    Header,
    MemoryLine,
    memory_history,
    to_history,
)

# The hub writes the kind first. Other lines must be parsed to find it.
_KIND = re.compile(rb'\{"kind":"([a-z]{1,20})"')
_LINE_SCHEMAS: dict[str, type[BaseModel]] = {
    "memory": MemoryLine,
    "fact": FactLine,
    "memoryhub": Header,
    **HISTORY_LINES,
}
_HEAD_BYTES = 64 * 1024
_LABELS = TypeAdapter(Labels)


class HubFormat(Format):
    """One object per line. A line without ``kind`` is a memory in the shape of ``POST /api/v1/memories``."""

    name = "memoryhub"
    label = "memoryhub (JSON lines)"
    extensions = (".jsonl", ".jsonl.gz")
    extension = ".jsonl"
    content_type = "application/x-ndjson"
    hint = "A file of export_memories or of this page, or one memory per line as in the API."
    lossy = ""

    def recognises(self, path: Path) -> bool:
        try:
            with open_source(str(path)) as source:
                head = source.stream.read(_HEAD_BYTES)
        except UnreadableFile:
            return False
        first = head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0]
        if first.startswith(b'{"kind":"'):
            return True
        try:
            shape = json.loads(first)
        except (ValueError, RecursionError):
            # The first line is longer than the sample.
            return first.startswith(b"{") and b'"content"' in first and len(head) == _HEAD_BYTES
        return isinstance(shape, dict) and (
            isinstance(shape.get("content"), str) or shape.get("kind") in _LINE_SCHEMAS
        )

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        with open_source(str(path)) as source:
            yield from self.items(LineReader(source.stream))

    def items(self, lines: LineReader) -> Iterator[Item]:
        """Yield at most one item per line, and one at the end of an incomplete export."""
        for line in lines:
            item = _parse_item(line)
            if isinstance(item, Header):
                item = _check_completeness(item, line.number, lines)
            if item is not None:
                yield item
        if lines.header:
            yield InvalidItem("end of the file", [_incomplete("its end is missing")])

    def write(self, selection: ExportSelection) -> Iterator[bytes]:
        return selection.lines()

    def refuse_document(self, path: Path) -> None:
        """Raise :class:`UnreadableFile` for one JSON document, of which each line would be an error."""
        with open_source(str(path)) as source:
            first = source.stream.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0]
        if first.strip() not in (b"{", b"["):
            return
        with open_json(path) as stream:
            for _ in read_json(stream, str(path)):
                pass  # a damaged file of a known program is not recognised
        fix = "choose the format of that program, or write one memory on each line"
        raise UnreadableFile(f"{path}: is JSON of an unknown program; {fix}")


def _check_completeness(header: Header, number: int, lines: LineReader) -> InvalidItem | None:
    """Return an error if lines of an export are missing before this header or end."""
    begin, problem = lines.header, None
    if header.lines is None:
        problem = _incomplete("its end is missing") if begin else None
        lines.next_header = number if header.has_end else 0
    else:
        found = number - begin - 1
        if begin and found < header.lines:
            problem = _incomplete(f"{found:,} of {header.lines:,} lines before this one are there")
        lines.next_header = 0
    return InvalidItem(f"line {number}", [problem]) if problem else None


def _incomplete(what: str) -> Problem:
    return Problem("", f"the file is incomplete: {what}; export it again, or import the rest of it too")


def _parse_item(line: RawLine) -> Item | Header | None:
    place = f"line {line.number}"
    try:
        text = line_bytes(line)
        if not text:
            return None
        return _make_item(place, text)
    except InvalidLine as bad:
        return InvalidItem(place, bad.problems)
    except ValidationError as error:
        return InvalidItem(place, validation_problems(error))


def _make_item(place: str, text: bytes) -> Item | Header | None:
    named = _KIND.match(text)
    kind = named[1].decode() if named else ""
    if not kind:
        try:
            return _make_record(place, MemoryLine.model_validate_json(text))
        except ValidationError:
            kind = _find_kind(text)
            if kind in ("", "memory"):
                raise
    if kind not in _LINE_SCHEMAS:
        raise InvalidLine(
            [Problem("kind", "is not known here; a newer memoryhub may have written this file")]
        )
    return _make_record(place, _LINE_SCHEMAS[kind].model_validate_json(text))


def _find_kind(text: bytes) -> str:
    try:
        shape: Any = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    kind = shape.get("kind") if isinstance(shape, dict) else ""
    return kind if isinstance(kind, str) else ""


def _move_source_to_tags(line: MemoryLine) -> None:
    """Convert ``source``, which other programs write, to the tag ``source:NAME`` if that is a valid tag."""
    extra = line.model_extra or {}
    source = extra.get("source")
    if not isinstance(source, str) or not source.strip():
        return
    try:
        line.tags = _LABELS.validate_python([*line.tags, f"source:{source.strip()}"])
    except ValidationError:
        return
    del extra["source"]


def _make_record(place: str, shape: BaseModel) -> Item | Header:
    if isinstance(shape, MemoryLine):
        _move_source_to_tags(shape)
        return Record(place, shape, shape.id, memory_history(shape) or NO_HISTORY)
    if isinstance(shape, FactLine):
        return Record(place, shape, shape.id, to_history(shape))
    if isinstance(shape, Header):
        if shape.version > VERSION:
            raise UnreadableFile("this file was written by a newer memoryhub; update this one first")
        return shape
    return HistoryItem(place, shape)
