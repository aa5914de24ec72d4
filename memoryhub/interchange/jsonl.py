"""Memories as JSON lines, one object a line in the shape of ``POST /memories``: the hub's own format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from pydantic import ValidationError

from memoryhub import shapes
from memoryhub.drafts import MemoryDraft
from memoryhub.interchange.problems import Problem, problems_of
from memoryhub.models import Memory
from memoryhub.retrieval.details import Lists

# A memory of the longest texts, with every character written as an escape, fits well into this.
MAX_LINE_BYTES = 16 * 1024 * 1024
_CHUNK = 1024 * 1024
_BOM = b"\xef\xbb\xbf"

# What the store sets itself: exported for information, not taken over by an import.
READ_ONLY = frozenset(
    {"id", "content_hash", "accessed_count", "updated_at", "last_accessed_at", "expires_at", "deleted_at"}
)


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
        self._hash = hashlib.sha256()
        self.number = self.offset = 0

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
            yield Line(self.number + 1, whole if len(whole) <= MAX_LINE_BYTES else None)
            self._hash, self.offset, self.number = ahead, self.offset + length, self.number + 1

    def skip(self, number: int, offset: int, digest: str) -> bool:
        """Go to where an earlier reading had come; False when what lies before is not what it was."""
        left = offset
        while left and (chunk := self._stream.read(min(left, _CHUNK))):
            self._hash.update(chunk)
            left -= len(chunk)
        self.number, self.offset = number, offset
        return not left and self.digest == digest


def parse(line: Line) -> MemoryDraft | None:
    """The memory that a line holds, ``None`` for a blank line; :class:`BadLine`."""
    if line.raw is None:
        raise BadLine([Problem("", f"is longer than {MAX_LINE_BYTES // 1024**2} MiB")])
    raw = line.raw.removeprefix(_BOM) if line.number == 1 else line.raw
    text = raw.strip()
    if not text:
        return None
    try:
        return MemoryDraft.model_validate_json(text)
    except ValidationError as error:
        raise BadLine(problems_of(error)) from None


def dump(row: Memory, lists: Lists | None = None) -> bytes:
    """A memory as a line that an import takes back; ``lists`` as in :func:`memoryhub.shapes.memory`."""
    shape: dict[str, Any] = {**shapes.memory(row, lists), "ttl_days": row.ttl_days}
    return json.dumps(shape, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
