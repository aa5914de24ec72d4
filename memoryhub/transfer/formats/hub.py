"""The hub's own JSON lines: memories as anyone may write them, or a whole store with its history."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from memoryhub.transfer.files import reading
from memoryhub.transfer.jsonl import BadLine, Line, Lines, text_of
from memoryhub.transfer.records import (
    NO_PAST,
    Bad,
    History,
    Item,
    Options,
    Problem,
    Record,
    UnreadableFile,
    problems_of,
)
from memoryhub.transfer.schema import (
    HISTORY,
    VERSION,
    FactLine,
    Header,
    MemoryLine,
    past_of_fact,
    past_of_memory,
)

if TYPE_CHECKING:
    from memoryhub.transfer.export import Selection

# The hub writes the kind first; a line of other hands is asked by its own words.
_KIND = re.compile(rb'\{"kind":"([a-z]{1,20})"')
_SHAPES: dict[str, type[BaseModel]] = {
    "memory": MemoryLine,
    "fact": FactLine,
    "memoryhub": Header,
    **HISTORY,
}
_HEAD = 64 * 1024


class Hub:
    """One object a line. Without a ``kind`` it is a memory in the shape of ``POST /api/v1/memories``."""

    name = "memoryhub"
    label = "memoryhub (JSON lines)"
    extensions = (".jsonl", ".jsonl.gz")
    extension = ".jsonl"
    content_type = "application/x-ndjson"
    hint = "What export_memories and this page write, or one memory a line in the shape of the API."
    lossy = ""

    def recognises(self, path: Path) -> bool:
        try:
            with reading(str(path)) as source:
                head = source.stream.read(_HEAD)
        except UnreadableFile:
            return False
        first = head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0]
        if first.startswith(b'{"kind":"'):
            return True
        try:
            shape = json.loads(first)
        except (ValueError, RecursionError):
            # A first line longer than what was looked at.
            return first.startswith(b"{") and b'"content"' in first and len(head) == _HEAD
        return isinstance(shape, dict) and (
            isinstance(shape.get("content"), str) or shape.get("kind") in _SHAPES
        )

    def count(self, path: Path) -> int | None:
        return None

    def read(self, path: Path, options: Options) -> Iterator[Item]:
        with reading(str(path)) as source:
            yield from self.items(Lines(source.stream))

    def items(self, lines: Lines) -> Iterator[Item]:
        """At most one item a line."""
        for line in lines:
            item = _item(line)
            if item is not None:
                yield item

    def write(self, selection: Selection) -> Iterator[bytes]:
        return selection.lines()


def _item(line: Line) -> Item | None:
    place = f"line {line.number}"
    try:
        text = text_of(line)
        if not text:
            return None
        return _built(place, text)
    except BadLine as bad:
        return Bad(place, bad.problems)
    except ValidationError as error:
        return Bad(place, problems_of(error))


def _built(place: str, text: bytes) -> Item | None:
    named = _KIND.match(text)
    kind = named[1].decode() if named else ""
    if not kind:
        try:
            return _record(place, MemoryLine.model_validate_json(text))
        except ValidationError:
            kind = _kind_inside(text)
            if kind in ("", "memory"):
                raise
    if kind not in _SHAPES:
        raise BadLine([Problem("kind", "is not known here; a newer memoryhub may have written this file")])
    return _record(place, _SHAPES[kind].model_validate_json(text))


def _kind_inside(text: bytes) -> str:
    try:
        shape: Any = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    kind = shape.get("kind") if isinstance(shape, dict) else ""
    return kind if isinstance(kind, str) else ""


def _record(place: str, shape: BaseModel) -> Item | None:
    if isinstance(shape, MemoryLine):
        return Record(place, shape, shape.id, past_of_memory(shape) or NO_PAST)
    if isinstance(shape, FactLine):
        return Record(place, shape, shape.id, past_of_fact(shape))
    if isinstance(shape, Header):
        if shape.version > VERSION:
            raise UnreadableFile("this file was written by a newer memoryhub; update this one first")
        return None
    return History(place, shape)
