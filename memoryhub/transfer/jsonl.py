"""The hub's own JSON lines: serialize rows, read and write lines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any

from memoryhub import models
from memoryhub.checks.services import to_draft
from memoryhub.memories import serializers
from memoryhub.memories.rows import ListValues
from memoryhub.transfer.records import Problem
from memoryhub.transfer.schema import EVENT_COLUMNS, VERSION

_SESSION_FIELDS = ("session_id", "project", "agent", "cwd", "end_reason", "segment", "state")
_JOURNAL_FIELDS = ("actor", "operation", "object_type", "object_id", "project", "sensitivity", "owner")
_HISTORY_FIELDS = (
    *("author", "owner", "trash_reason", "flags", "scale", "consolidated_accesses"),
    *("shown_count", "helped_count"),
)


def header(at: datetime, levels: list[str], everything: bool) -> dict[str, Any]:
    """Return the header. ``whole`` marks a file without omissions, which can restore the store."""
    return {
        "kind": "memoryhub",
        "version": VERSION,
        "exported_at": serializers.moment(at),
        "levels": levels,
        "whole": everything,
    }


def memory(row: models.Memory, lists: dict[str, list[Any]] | None, *, whole: bool) -> dict[str, Any]:
    """Serialize a memory. ``whole`` adds its copy number, which may reveal hidden memories.

    ``superseded_by`` is a line of its own, after both memories.
    """
    values: dict[str, Any] = {
        "kind": "memory",
        **serializers.memory(row, {}, lists),
        "ttl_days": row.ttl_days,
        **{name: getattr(row, name) for name in _HISTORY_FIELDS},
        "reviewed_at": serializers.moment(row.reviewed_at),
        "consolidated_at": serializers.moment(row.consolidated_at),
        "outdated_at": serializers.moment(row.outdated_at),
    }
    del values["superseded_by"], values["may_be_outdated"]
    return {**values, "copy_number": row.copy} if whole else values


def fact(row: models.Fact, *, whole: bool) -> dict[str, Any]:
    values = {"kind": "fact", **serializers.fact(row), "author": row.author}
    return {**values, "copy_number": row.copy} if whole else values


def project(row: models.Project) -> dict[str, Any]:
    """Serialize the settings of a project, without a pause."""
    names = ("name", "mode", "ignored_paths", "sends_page", "off_page_facts", "max_memories")
    return {"kind": "project", **{name: getattr(row, name) for name in names}}


def identity(row: models.ProjectIdentity) -> dict[str, Any]:
    values = {"project": row.project.name, "key": row.key, "owner": row.owner}
    return {"kind": "identity", **values, "created_at": serializers.moment(row.created_at)}


def event_count(row: models.EventCount) -> dict[str, Any]:
    values = {"project": row.project.name, "day": row.day.isoformat(), "event": row.event}
    return {"kind": "count", **values, "count": row.count}


def absence(row: models.AbsenceSpan) -> dict[str, Any]:
    moments = {name: serializers.moment(getattr(row, name)) for name in ("began_at", "ended_at")}
    return {"kind": "absence", "memory_id": row.memory.uid, **moments}


def code_reference(row: models.CodeReference) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in ("path", "lines", "gone", "dismissed")}
    return {
        "kind": "reference",
        "memory_id": row.memory.uid,
        **values,
        "as_of": serializers.moment(row.as_of),
    }


def check(row: models.MemoryCheck) -> dict[str, Any]:
    """Serialize a check without the result of its last run, which the next run replaces."""
    moments = {name: serializers.moment(getattr(row, name)) for name in ("created_at", "updated_at")}
    return {"kind": "check", "id": row.uid, "owner": row.owner, **to_draft(row), **moments}


def session(row: models.Session) -> dict[str, Any]:
    moments = {name: serializers.moment(getattr(row, name)) for name in ("started_at", "last_at", "ended_at")}
    return {"kind": "session", **{name: getattr(row, name) for name in _SESSION_FIELDS}, **moments}


def visible_session(row: Any) -> dict[str, Any]:
    """Serialize a session from ``Session.objects.visible_to``, which contains only visible values."""
    return {"kind": "session", **serializers.session(row)}


def event(row: models.Event) -> dict[str, Any]:
    return {
        "kind": "event",
        "session_id": row.session.session_id,
        "project": row.session.project,
        "at": serializers.moment(row.at),
        **{name: getattr(row, name) for name in EVENT_COLUMNS},
        "memory_id": row.memory.uid if row.memory else None,
    }


def revision(row: models.Revision, memory_id: str) -> dict[str, Any]:
    return {"kind": "revision", "memory_id": memory_id, **serializers.revision(row)}


def evidence(row: models.Evidence) -> dict[str, Any]:
    return {
        "kind": "evidence",
        "memory_id": row.memory.uid,
        "session_id": row.session_id,
        "at": serializers.moment(row.at),
    }


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
        """Move the position behind the current line."""
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
    return (line.raw.removeprefix(_BOM) if line.number == 1 else line.raw).strip()


def to_line(shape: dict[str, Any]) -> bytes:
    """Serialize a dictionary to a line."""
    return json.dumps(shape, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def memory_to_line(row: models.Memory, lists: ListValues | None = None, *, whole: bool = False) -> bytes:
    """Serialize a memory to an importable line; ``lists`` as in :func:`serializers.memory`."""
    return to_line(memory(row, lists, whole=whole))
