"""JSON lines, read one at a time and written; a memory is one object in the shape of ``POST /memories``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from memoryhub.interchange import telling
from memoryhub.interchange.problems import Problem
from memoryhub.models import Memory
from memoryhub.retrieval.details import Lists

# A memory of the longest texts, with every character written as an escape, fits well into this.
MAX_LINE_BYTES = 16 * 1024 * 1024
_CHUNK = 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class BadLine(Exception):
    """A line that holds no memory."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(map(str, problems)))


@dataclass(frozen=True)
class Line:
    """``raw`` is ``None`` for a line that is too long to be a memory."""

    number: int
    raw: bytes | None


class Lines:
    """The lines of a stream, read one at a time.

    ``number``, ``offset`` and ``digest`` say how far the reading has come, *before* the line that is in hand:
    what lies before that need not be read again.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._hash = self._ahead = hashlib.sha256()
        self.number = self.offset = self._length = 0

    @property
    def digest(self) -> str:
        """SHA-256 of everything up to ``offset``."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Line]:
        while raw := self._stream.readline(MAX_LINE_BYTES + 1):
            ahead = self._hash.copy()
            ahead.update(raw)
            length, whole = len(raw), raw
            while len(whole) > MAX_LINE_BYTES and not raw.endswith(b"\n"):
                raw = self._stream.readline(_CHUNK)
                if not raw:
                    break
                ahead.update(raw)
                length += len(raw)
            self._ahead, self._length = ahead, length
            yield Line(self.number + 1, whole if len(whole) <= MAX_LINE_BYTES else None)
            self.let_go()

    def let_go(self) -> None:
        """The line in hand is done with: the reading has come behind it."""
        if self._length:
            self._hash, self.offset, self.number = self._ahead, self.offset + self._length, self.number + 1
            self._length = 0

    def skip(self, number: int, offset: int, digest: str) -> bool:
        """Go to where an earlier reading had come; False when what lies before is not what it was."""
        left = offset
        while left and (chunk := self._stream.read(min(left, _CHUNK))):
            self._hash.update(chunk)
            left -= len(chunk)
        self.number, self.offset = number, offset
        return not left and self.digest == digest


def text_of(line: Line) -> bytes:
    """The bare bytes of a line, empty for a blank one; :class:`BadLine`."""
    if line.raw is None:
        raise BadLine([Problem("", f"is longer than {MAX_LINE_BYTES // 1024**2} MiB")])
    return (line.raw.removeprefix(_BOM) if line.number == 1 else line.raw).strip()


def line(shape: dict[str, Any]) -> bytes:
    """A shape as a line of its own."""
    return json.dumps(shape, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def dump(row: Memory, lists: Lists | None = None, *, whole: bool = False) -> bytes:
    """A memory as a line that an import takes back; ``lists`` as in :func:`memoryhub.shapes.memory`."""
    return line(telling.memory(row, lists, whole=whole))
