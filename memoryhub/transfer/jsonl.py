"""The hub's own JSON lines: serialize rows, read and write lines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from typing import IO, Any

from django.db.models import QuerySet

from memoryhub import models
from memoryhub.core.pagination import iterate_rows
from memoryhub.memories import serializers
from memoryhub.memories.rows import ListValues
from memoryhub.transfer.records import Problem
from memoryhub.transfer.schema import HISTORY_LINES, VERSION, MemoryLine

_JOURNAL_FIELDS = ("actor", "operation", "object_type", "object_id", "project", "sensitivity", "owner")


def header(at: datetime, levels: list[str], whole: bool) -> dict[str, Any]:
    """Return the header. ``whole`` marks a file without omissions, which can restore the store."""
    return {
        "kind": "memoryhub",
        "version": VERSION,
        "exported_at": serializers.moment(at),
        "levels": levels,
        "whole": whole,
    }


def memory(row: models.Memory, lists: dict[str, list[Any]] | None, *, whole: bool) -> dict[str, Any]:
    """Serialize a memory. ``whole`` adds its copy number, which may reveal hidden memories.

    ``superseded_by`` is exported as a separate line after both memories.
    """
    values = {"kind": "memory", **serializers.memory(row, {}, lists), "ttl_days": row.ttl_days}
    more = [name for name in MemoryLine.model_fields if name not in values and name != "copy_number"]
    values |= {name: _read(row, name) for name in more}
    del values["superseded_by"], values["may_be_outdated"]
    return {**values, "copy_number": row.copy} if whole else values


def fact(row: models.Fact, *, whole: bool) -> dict[str, Any]:
    values = {"kind": "fact", **serializers.fact(row), "author": row.author}
    return {**values, "copy_number": row.copy} if whole else values


# Where a row has values of its line under another name.
_PATHS: dict[str, dict[str, str]] = {
    "identity": {"project": "project.name"},
    "count": {"project": "project.name"},
    "event": {"session_id": "session.session_id", "project": "session.project"},
    "merge": {"memory_id": "uid", "into": "merged_into.uid"},
    "replacement": {"memory_id": "uid", "by": "superseded_by.uid"},
    "superseded": {"fact_id": "uid", "by": "superseded_by.uid"},
    "summary": {"memory_id": "summary.uid"},
    "check": {"id": "uid"},
}


def history_lines(kind: str, rows: QuerySet[Any]) -> Iterator[bytes]:
    """Yield a line for each row."""
    related = {path.split(".")[0] for path in _paths(kind).values() if "." in path}
    for row in iterate_rows(rows.select_related(*related) if related else rows):
        yield to_line(history(kind, row))


def history(kind: str, row: Any, **values: Any) -> dict[str, Any]:
    """Serialize a row with the fields of its schema. ``values`` replace those of the row."""
    read = {name: _read(row, path) for name, path in _paths(kind).items() if name not in values}
    return {"kind": kind, **read, **values}


@cache
def _paths(kind: str) -> dict[str, str]:
    """Return the path in a row to each value of its line."""
    paths = {"memory_id": "memory.uid", **_PATHS.get(kind, {})}
    return {name: paths.get(name, name) for name in HISTORY_LINES[kind].model_fields if name != "kind"}


def _read(row: Any, path: str) -> Any:
    """Return a value as JSON; None if a row on its path is missing."""
    for name in path.split("."):
        row = None if row is None else getattr(row, name)
    if isinstance(row, datetime):
        return serializers.moment(row)
    return row.isoformat() if isinstance(row, date) else row


def visible_session(row: Any) -> dict[str, Any]:
    """Serialize a session from ``Session.objects.visible_to``, which contains only visible values."""
    return {"kind": "session", **serializers.session(row)}


def journal(row: models.JournalEntry, *, numbered: bool) -> dict[str, Any]:
    """Serialize a journal row; an imported row is exported as in its original store.

    Number and hash in the chain depend on all rows. Unless ``numbered``, there is no number, and the hash is
    of this row alone.
    """
    detail = dict(row.detail)
    origin = detail.pop("imported", None) or {"seq": row.seq, "hash": row.hash}
    values = {
        "at": serializers.moment(row.at),
        **{name: getattr(row, name) for name in _JOURNAL_FIELDS},
        "detail": detail,
    }
    if not numbered:
        origin = {"seq": None, "hash": hashlib.sha256(to_line(values)).hexdigest()}
    return {"kind": "journal", "seq": origin["seq"], "hash": origin["hash"], **values}


# Fits a memory with the longest texts and every character escaped.
MAX_LINE_BYTES = 16 * 1024 * 1024
_CHUNK = 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class InvalidLine(Exception):
    """A line without a valid item."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(map(str, problems)))


@dataclass(frozen=True)
class RawLine:
    """``raw`` is ``None`` for a line above the size limit."""

    number: int
    raw: bytes | None


class LineReader:
    """Read the lines of a stream one at a time.

    ``number``, ``offset`` and ``digest`` describe the position *before* the current line: everything before
    it need not be read again.
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
            self.finish_line()

    def finish_line(self) -> None:
        """Move the position after the current line."""
        if self._length:
            self._hash, self.offset, self.number = self._ahead, self.offset + self._length, self.number + 1
            self._length = 0

    def skip(self, number: int, offset: int, digest: str) -> bool:
        """Move to an earlier position; return False if the content before it has changed."""
        left = offset
        while left and (chunk := self._stream.read(min(left, _CHUNK))):
            self._hash.update(chunk)
            left -= len(chunk)
        self.number, self.offset = number, offset
        return not left and self.digest == digest


def line_bytes(line: RawLine) -> bytes:
    """Return the bytes of a line, empty for a blank line. Raise :class:`InvalidLine`."""
    if line.raw is None:
        raise InvalidLine([Problem("", f"is longer than {MAX_LINE_BYTES // 1024**2} MiB")])
    return line.raw.removeprefix(_BOM).strip()  # files may be joined


def to_line(shape: dict[str, Any]) -> bytes:
    """Serialize a dictionary to a line."""
    return json.dumps(shape, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def memory_to_line(row: models.Memory, lists: ListValues | None = None, *, whole: bool = False) -> bytes:
    """Serialize a memory to an importable line; ``lists`` as in :func:`serializers.memory`."""
    return to_line(memory(row, lists, whole=whole))
