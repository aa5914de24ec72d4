"""Read the rows of an SQLite file page by page, also past damaged pages, where SQLite itself stops.

Only tables are read, because indexes can be rebuilt from their rows. The format of the file:
https://www.sqlite.org/fileformat2.html
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

_MAGIC = b"SQLite format 3\x00"
_INTERIOR, _LEAF = 5, 13  # the kinds of pages of a table
_DEFAULT_SIZE = 4096
SCHEMA_ROOT = 1
Value = None | int | float | str | bytes


class Damaged(Exception):
    """A page or a record is not what SQLite writes."""


class Row(NamedTuple):
    rowid: int
    values: list[Value]
    is_exact: bool
    """False if a text contains bytes that are not UTF-8; they are replaced."""


class PageReader:
    """Reads a file that no other process writes to, and whose write-ahead log is empty."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        size = int.from_bytes(self._bytes[16:18], "big")
        self._size = 65_536 if size == 1 else size
        reserved = self._bytes[20]
        self.user_version = int.from_bytes(self._bytes[60:64], "big")
        if self._bytes[:16] != _MAGIC:  # the first page is damaged: assume what SQLite uses by default
            self._size, reserved, self.user_version = _DEFAULT_SIZE, 0, 0
        if self._size < 512 or self._size & (self._size - 1):
            raise Damaged("its header is damaged")
        self._usable = self._size - reserved
        self._pages = len(self._bytes) // self._size
        self._visited: set[int] = set(self._free_pages())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bytes.close()

    def read_table(self, root: int, damage: list[str]) -> Iterator[Row]:
        """Yield the readable rows of a table. Append what cannot be read to ``damage``."""
        waiting = [root]
        while waiting:
            number = waiting.pop()
            try:
                kind, cells = self._visit(number)
            except (Damaged, struct.error, IndexError):
                damage.append(f"page {number}")
                continue
            if kind == _INTERIOR:
                waiting += reversed(cells)
                continue
            for offset in cells:
                try:
                    yield self._read_row(number, offset)
                except (Damaged, struct.error, IndexError):
                    damage.append(f"a row on page {number}")

    def orphans(self) -> Iterator[list[Row]]:
        """Yield the rows of each whole page of a table to which no readable page leads.

        Call this after all tables were read.
        """
        for number in range(1, self._pages + 1):
            if number in self._visited:
                continue
            try:
                kind, cells = self._visit(number)
                rows = [self._read_row(number, offset) for offset in cells] if kind == _LEAF else []
            except (Damaged, struct.error, IndexError):
                continue
            if rows:
                yield rows

    def _visit(self, number: int) -> tuple[int, list[int]]:
        """Return the kind of a page, and its children or the offsets of its rows."""
        if number in self._visited or not 1 <= number <= self._pages:
            raise Damaged
        self._visited.add(number)
        start = (number - 1) * self._size
        header = start + (100 if number == SCHEMA_ROOT else 0)
        kind, _, count, _, _ = struct.unpack_from(">BHHHB", self._bytes, header)
        if kind not in (_INTERIOR, _LEAF):
            raise Damaged
        array = header + (12 if kind == _INTERIOR else 8)
        offsets = struct.unpack_from(f">{count}H", self._bytes, array)
        if any(not array + 2 * count - start <= offset < self._usable for offset in offsets):
            raise Damaged
        if kind == _LEAF:
            return kind, list(offsets)
        children = [struct.unpack_from(">I", self._bytes, start + offset)[0] for offset in offsets]
        return kind, [*children, struct.unpack_from(">I", self._bytes, header + 8)[0]]

    def _read_row(self, number: int, offset: int) -> Row:
        start = (number - 1) * self._size
        length, at = _varint(self._bytes, start + offset)
        rowid, at = _varint(self._bytes, at)
        if length > len(self._bytes):
            raise Damaged
        local = self._local_length(length)
        if at + local > start + self._usable:
            raise Damaged
        content = self._bytes[at : at + local]
        if local < length:
            [following] = struct.unpack_from(">I", self._bytes, at + local)
            content += self._read_overflow(following, length - local)
        values, is_exact = _decode(content)
        return Row(rowid - (1 << 64) if rowid >> 63 else rowid, values, is_exact)

    def _local_length(self, length: int) -> int:
        """Return how many bytes of a record are on its page; the rest is on overflow pages."""
        if length <= self._usable - 35:
            return length
        least = (self._usable - 12) * 32 // 255 - 23
        wanted = least + (length - least) % (self._usable - 4)
        return wanted if wanted <= self._usable - 35 else least

    def _read_overflow(self, number: int, length: int) -> bytes:
        parts = []
        while length > 0:
            if not 1 < number <= self._pages:
                raise Damaged
            self._visited.add(number)
            start = (number - 1) * self._size
            part = self._bytes[start + 4 : start + min(self._usable, 4 + length)]
            [number] = struct.unpack_from(">I", self._bytes, start)
            parts.append(part)
            length -= len(part)
        if number:  # the last page of a record leads nowhere
            raise Damaged
        return b"".join(parts)

    def _free_pages(self) -> Iterator[int]:
        """Yield the unused pages, which may contain deleted rows."""
        if self._bytes[:16] != _MAGIC:
            return
        [trunk] = struct.unpack_from(">I", self._bytes, 32)
        seen: set[int] = set()
        while 1 < trunk <= self._pages and trunk not in seen:
            seen.add(trunk)
            following, count = struct.unpack_from(">II", self._bytes, (trunk - 1) * self._size)
            if count > self._usable // 4:
                return
            yield from struct.unpack_from(f">{count}I", self._bytes, (trunk - 1) * self._size + 8)
            yield trunk
            trunk = following


def _varint(content: bytes | mmap.mmap, at: int) -> tuple[int, int]:
    """Return a number of one to nine bytes, and the position after it."""
    value = 0
    for position in range(at, at + 8):
        byte = content[position]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, position + 1
    return value << 8 | content[at + 8], at + 9


_SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)  # of the values of each type, in bytes


def _decode(content: bytes) -> tuple[list[Value], bool]:
    """Return the values of a record, and whether all texts are UTF-8."""
    end, at = _varint(content, 0)
    if end > len(content):
        raise Damaged
    types = []
    while at < end:
        kind, at = _varint(content, at)
        types.append(kind)
    values: list[Value] = []
    is_exact, position = True, end
    for kind in types:
        if kind in (10, 11):
            raise Damaged
        size = (kind - 12) // 2 if kind >= 12 else _SIZES[kind]
        raw = content[position : position + size]
        if len(raw) < size:
            raise Damaged
        position += size
        if kind >= 13 and kind % 2:
            text = raw.decode("utf-8", "replace")
            is_exact = is_exact and text.encode() == raw
            values.append(text)
        else:
            values.append(_plain_value(kind, raw))
    return values, is_exact


def _plain_value(kind: int, raw: bytes) -> Value:
    if kind == 0:
        return None
    if kind == 7:
        return float(struct.unpack(">d", raw)[0])
    if kind in (8, 9):
        return kind - 8
    return raw if kind >= 12 else int.from_bytes(raw, "big", signed=True)
