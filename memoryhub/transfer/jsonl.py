"""The hub's own JSON lines: serialize rows, read and write lines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any

from memoryhub import serializers
from memoryhub.memories.rows import ListValues
from memoryhub.models import Event, Evidence, Fact, JournalEntry, Memory, Revision, Session
from memoryhub.transfer.records import Problem
from memoryhub.transfer.schema import VERSION

_SESSION_FIELDS = ("session_id", "project", "agent", "cwd", "end_reason", "segment", "state")
_EVENT_FIELDS = (
    *("event", "tool_name", "sensitivity", "files", "keywords", "segment", "boundary", "memorability"),
    *("memorability_parts", "skip_reason", "handlers", "mark", "preview"),
)
_JOURNAL_FIELDS = ("actor", "operation", "object_type", "object_id", "project", "sensitivity", "owner")
_HISTORY_FIELDS = ("author", "owner", "trash_reason", "flags", "scale", "consolidated_accesses")


def header(at: datetime, levels: list[str], everything: bool) -> dict[str, Any]:
    """``whole``: nothing of a known level stayed behind, so that an import restores the store."""
    return {
        "kind": "memoryhub",
        "version": VERSION,
        "exported_at": serializers.moment(at),
        "levels": levels,
        "whole": everything,
    }


def memory(row: Memory, lists: dict[str, list[Any]] | None, *, whole: bool) -> dict[str, Any]:
    """``whole``: with its place beside memories that its reader may not know of."""
    told: dict[str, Any] = {
        "kind": "memory",
        **serializers.memory(row, lists),
        "ttl_days": row.ttl_days,
        **{name: getattr(row, name) for name in _HISTORY_FIELDS},
        "reviewed_at": serializers.moment(row.reviewed_at),
        "consolidated_at": serializers.moment(row.consolidated_at),
    }
    return {**told, "copy_number": row.copy} if whole else told


def fact(row: Fact, *, whole: bool) -> dict[str, Any]:
    told = {"kind": "fact", **serializers.fact(row), "author": row.author}
    return {**told, "copy_number": row.copy} if whole else told


def session(row: Session) -> dict[str, Any]:
    moments = {name: serializers.moment(getattr(row, name)) for name in ("started_at", "last_at", "ended_at")}
    return {"kind": "session", **{name: getattr(row, name) for name in _SESSION_FIELDS}, **moments}


def visible_session(row: Any) -> dict[str, Any]:
    """A session as ``Session.objects.visible_to`` gives it: no more than what may be seen of it."""
    return {"kind": "session", **serializers.session(row)}


def event(row: Event) -> dict[str, Any]:
    return {
        "kind": "event",
        "session_id": row.session.session_id,
        "project": row.session.project,
        "at": serializers.moment(row.at),
        **{name: getattr(row, name) for name in _EVENT_FIELDS},
        "memory_id": row.memory.uid if row.memory else None,
    }


def revision(row: Revision, memory_id: str) -> dict[str, Any]:
    return {"kind": "revision", "memory_id": memory_id, **serializers.revision(row)}


def evidence(row: Evidence) -> dict[str, Any]:
    return {
        "kind": "evidence",
        "memory_id": row.memory.uid,
        "session_id": row.session_id,
        "at": serializers.moment(row.at),
    }


def journal(row: JournalEntry) -> dict[str, Any]:
    """A row that was imported itself goes out as it was where it was made."""
    detail = dict(row.detail)
    origin = detail.pop("imported", None) or {"seq": row.seq, "hash": row.hash}
    return {
        "kind": "journal",
        "seq": origin["seq"],
        "hash": origin["hash"],
        "at": serializers.moment(row.at),
        **{name: getattr(row, name) for name in _JOURNAL_FIELDS},
        "detail": detail,
    }


# A memory of the longest texts, with every character written as an escape, fits well into this.
MAX_LINE_BYTES = 16 * 1024 * 1024
_CHUNK = 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class InvalidLine(Exception):
    """A line that holds no memory."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(map(str, problems)))


@dataclass(frozen=True)
class RawLine:
    """``raw`` is ``None`` for a line that is too long to be a memory."""

    number: int
    raw: bytes | None


class LineReader:
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

    def __iter__(self) -> Iterator[RawLine]:
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
            yield RawLine(self.number + 1, whole if len(whole) <= MAX_LINE_BYTES else None)
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


def line_bytes(line: RawLine) -> bytes:
    """The bare bytes of a line, empty for a blank one; :class:`BadLine`."""
    if line.raw is None:
        raise InvalidLine([Problem("", f"is longer than {MAX_LINE_BYTES // 1024**2} MiB")])
    return (line.raw.removeprefix(_BOM) if line.number == 1 else line.raw).strip()


def to_line(shape: dict[str, Any]) -> bytes:
    """A shape as a line of its own."""
    return json.dumps(shape, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def memory_to_line(row: Memory, lists: ListValues | None = None, *, whole: bool = False) -> bytes:
    """A memory as a line that an import takes back; ``lists`` as in :func:`memoryhub.serializers.memory`."""
    return to_line(memory(row, lists, whole=whole))
