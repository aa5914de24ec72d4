"""Read JSON lines and JSON files of other programs.

JSON files are streamed, because their lists may not fit into memory. Blank lines are allowed.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

from memoryhub.transfer.files import (
    MAX_LINE_BYTES,
    InvalidLine,
    LineReader,
    RawLine,
    line_bytes,
    open_member,
    open_source,
)
from memoryhub.transfer.foreign_sqlite import SqliteFormat, is_sqlite
from memoryhub.transfer.records import (
    DamagedFile,
    Format,
    InvalidItem,
    Item,
    Problem,
    ReadOptions,
    UnreadableFile,
    describe_invalid_json,
)
from memoryhub.transfer.values import FieldReader, ReadNotes, printable_name

_SAMPLE_LINES = 5
_HEAD_BYTES = 256 * 1024
_MAX_COUNTED_BYTES = 512 * 1024 * 1024
_CHUNK = 256 * 1024
MAX_ITEM_CHARS = 16 * 1024 * 1024
_UNCERTAIN_CHARS = 3
_BLANKS = re.compile(r"[ \t\r\n]*")
_SAMPLE_ITEMS = 200  # of a JSON file, to recognise it


class JsonLinesFormat(Format):
    """Base of the formats with one JSON object per line."""

    def is_known(self, value: dict[str, Any]) -> bool:
        """Return whether an object has the shape of this format."""
        raise NotImplementedError

    def items(self, fields: FieldReader) -> Iterator[Item]:
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
                yield from self.items(FieldReader(found[1], notes, f"line {found[0]}"))
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
    except (ValueError, RecursionError):
        return InvalidItem(place, [Problem("", describe_invalid_json(text))])
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


JsonSample = dict[str, list[Any]]


def sample_json(path: Path, member: str = "") -> JsonSample:
    """Return the first items of a JSON file, or of a member of an archive, by key; empty if unreadable."""
    found: JsonSample = {}
    try:
        with open_json(path, member) as stream:
            for key, value in islice(read_json(stream, path.name), _SAMPLE_ITEMS):
                items = found.setdefault(key, [])
                if len(items) < _SAMPLE_LINES:
                    items.append(value)
    except (UnreadableFile, OSError):
        pass  # what was read so far may be enough; the import reports the error
    return found


@contextmanager
def open_json(path: Path, member: str = "") -> Iterator[IO[bytes]]:
    """Open a file, or a member of an archive. Raise :class:`UnreadableFile`."""
    if member:
        with open_member(path, member) as stream:
            yield stream
    else:
        with open_source(str(path)) as source:
            yield source.stream


class JsonFormat(Format):
    """Base of the formats that are one JSON object or list."""

    extensions: tuple[str, ...] = (".json",)

    def is_known(self, sample: JsonSample) -> bool:
        """Return whether the first items have the shape of this format."""
        raise NotImplementedError

    def json_items(
        self, members: Iterator[tuple[str, Any]], notes: ReadNotes, options: ReadOptions
    ) -> Iterator[Item]:
        """Yield the items of the members, as :func:`read_json` returns them."""
        raise NotImplementedError

    def recognises(self, path: Path) -> bool:
        return self.is_known(sample_json(path))

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        notes = ReadNotes()
        with open_json(path) as stream:
            yield from self.json_items(read_json(stream, path.name), notes, options)
        yield from notes.items()


class SqliteOrJsonFormat(SqliteFormat, JsonFormat):
    """Base of the formats that are an SQLite file, or a JSON export of it."""

    extensions: tuple[str, ...] = (*SqliteFormat.extensions, ".json")

    def recognises(self, path: Path) -> bool:
        return SqliteFormat.recognises(self, path) or JsonFormat.recognises(self, path)

    def count(self, path: Path) -> int | None:
        return SqliteFormat.count(self, path) if is_sqlite(path) else None

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        base: type[Any] = SqliteFormat if is_sqlite(path) else JsonFormat
        yield from base.read(self, path, options)


def read_items(
    members: Iterator[tuple[str, Any]],
    labels: Mapping[str, str],
    notes: ReadNotes,
    read: Callable[[str, FieldReader], Iterable[Item]],
    ignored: Collection[str] = (),
) -> Iterator[Item]:
    """Call ``read`` with the label and the object of each item, and yield its items; note other members."""
    numbers: Counter[str] = Counter()
    for key, value in members:
        if key not in labels:
            if key not in ignored and value not in (None, "", {}, []):
                notes.add(printable_name(key))
            continue
        numbers[key] += 1
        place = f"{labels[key]} {numbers[key]}"
        if isinstance(value, dict):
            yield from read(labels[key], FieldReader(value, notes, place))
        else:
            yield InvalidItem(place, [Problem("", "is not a JSON object")])


def read_members(stream: IO[bytes], name: str) -> Iterator[tuple[str, Any]]:
    """Yield the members of an object, and each item of a list with its key. Raise :class:`UnreadableFile`."""
    yield from _read_object(_TextBuffer(stream, name))


def read_json(stream: IO[bytes], name: str) -> Iterator[tuple[str, Any]]:
    """Yield the members of an object, or the items of a list with the key ""."""
    text = _TextBuffer(stream, name)
    if text.next() != "[":
        yield from _read_object(text)
        return
    for item in _read_list_items(text):
        yield "", item
    text.end()


def _read_object(text: _TextBuffer) -> Iterator[tuple[str, Any]]:
    text.take("{")
    if text.next() == "}":
        text.take("}")
        text.end()
        return
    while True:
        key = text.value()
        if not isinstance(key, str):
            raise text.error()
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


# Why a character is none of those that are expected.
_MISSING = {
    "{": "it does not begin with an object or a list",
    ":": "a colon is missing",
    ",}": "a comma or a closing bracket is missing",
    ",]": "a comma or a closing bracket is missing",
}


class _TextBuffer:
    """Unconsumed text of a UTF-8 stream."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream, self._name = stream, name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder()
        self._text, self._at, self._ended = "", 0, False
        self._line, self._column = 1, 1  # of the start of the buffer

    def next(self) -> str:
        """Return the next non-blank character without consuming it."""
        if not self._skip_blanks():
            raise self.error("ends too early")
        return self._text[self._at]

    def end(self) -> None:
        """Raise unless only blanks follow."""
        if self._skip_blanks():
            raise self.error("continues after its end")

    def _skip_blanks(self) -> bool:
        """Skip blanks; return whether anything follows."""
        while True:
            if blanks := _BLANKS.match(self._text, self._at):
                self._at = blanks.end()
            if self._at < len(self._text):
                return True
            if not self._read_more(_CHUNK):
                return False

    def take(self, expected: str) -> str:
        """Consume one of the expected characters."""
        found = self.next()
        if found not in expected:
            raise self.error(reason=_MISSING[expected])
        self._at += 1
        return found

    def value(self) -> Any:
        self.next()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except RecursionError:
                raise self.error("is nested too deeply") from None
            except ValueError as error:
                if not self._grow():
                    _, _, reason = describe_invalid_json(self._text[self._at :]).partition(": ")
                    at = getattr(error, "pos", self._at)
                    raise self.error(reason=reason.replace("the line", "the file"), at=at) from None
                continue
            # A number at the end of the buffer may be incomplete: "1.5e+7" is not complete at "1.5e+".
            if len(self._text) - end < _UNCERTAIN_CHARS and self._grow():
                continue
            self._at = end
            return value

    def _grow(self) -> bool:
        """Double the buffer, so that parsing a long item again stays linear overall."""
        remaining = len(self._text) - self._at
        if remaining > MAX_ITEM_CHARS:
            raise self.error(f"contains an item of more than {MAX_ITEM_CHARS // 1024**2} million characters")
        return self._read_more(max(_CHUNK, remaining))

    def _read_more(self, size: int) -> bool:
        if self._ended:
            return False
        raw = self._stream.read(size)
        self._ended = not raw
        try:
            decoded = self._decoder.decode(raw, final=self._ended)
        except UnicodeDecodeError as error:
            self._text += error.object[: error.start].decode()
            raise self.error("is not UTF-8", "save the file as UTF-8", len(self._text)) from None
        if self._ended:
            return False
        self._line, self._column = self._place(self._at)
        self._text, self._at = self._text[self._at :] + decoded, 0
        return True

    def _place(self, at: int) -> tuple[int, int]:
        """Return the line and the column of a position in the buffer."""
        lines, column = self._text.count("\n", 0, at), at - self._text.rfind("\n", 0, at)
        return self._line + lines, column if lines else self._column + at

    def error(self, why: str = "is not JSON", reason: str = "", at: int | None = None) -> UnreadableFile:
        line, column = self._place(self._at if at is None else at)
        reason = f": {reason}" if reason else ""
        return DamagedFile(f"{self._name}: {why} at line {line}, column {column}{reason}; export it again")
