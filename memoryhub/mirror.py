"""The journal's mirror: the same rows as JSON lines in ``LETSGO_MEMORY_LOG``, in order, without gaps.

Every append first looks where the file ends. Rows that another process has committed and not yet written, or
that a crash kept from being written, are fetched and written too. A file that does not end with a row of this
journal is of another store (a backup was put back, two stores were given one path): it is kept under another
name.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from memoryhub.models import JournalEntry

logger = logging.getLogger(__name__)
LINE = ("seq", "at", "actor", "operation", "object_type", "object_id", "detail", "hash")
_TAIL = 4096  # bytes read from the end at first; more when they hold no whole line


def path() -> Path:
    return Path(settings.MEMORY_LOG)


def as_line(row: JournalEntry) -> dict[str, Any]:
    """Return a row in the shape of the API, which is the mirror's too."""
    return {name: shown(row.at) if name == "at" else getattr(row, name) for name in LINE}


def shown(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def append(lines: list[dict[str, Any]], after: str = "") -> None:
    """Bring the file up to date with these committed rows; ``after``: the hash of the one before, if known.

    A full disk is logged, never raised: the journal itself is written, and the next append makes up for it.
    """
    try:
        with ExitStack() as stack:
            file = stack.enter_context(_locked())
            seq, digest = last_row(file)
            if (seq, digest) != (lines[0]["seq"] - 1, after) and not _is_ours(file, seq, digest):
                logger.warning("journal mirror %s was of another store; kept as %s", path(), keep_aside())
                file, seq = stack.enter_context(_locked()), 0
            missing = lines if lines[0]["seq"] == seq + 1 else lines_after(seq)
            file.writelines(_encode(line) for line in missing)
    except (OSError, DatabaseError) as error:
        logger.warning("journal mirror %s not written: %s (the journal itself is; see doctor)", path(), error)


def last_row(file: IO[bytes]) -> tuple[int, str]:
    """Number and hash of the last whole line, ``(0, "")`` without a readable one; a torn line is cut off."""
    size = file.seek(0, os.SEEK_END)
    tail = _tail(file, size)
    whole = tail[: tail.rfind(b"\n") + 1]
    if len(whole) < len(tail):
        file.truncate(size - len(tail) + len(whole))
    return _number_and_hash(_last_line(whole))


def ends() -> tuple[tuple[int, str], tuple[int, str]] | None:
    """Number and hash of the first and of the last whole line; None where there is no readable file."""
    try:
        with path().open("rb") as file:
            first = file.readline()
            tail = _tail(file, file.seek(0, os.SEEK_END))
    except OSError:
        return None
    last = _last_line(tail[: tail.rfind(b"\n") + 1])
    return (_number_and_hash(first), _number_and_hash(last)) if last else None


def _number_and_hash(line: bytes) -> tuple[int, str]:
    """Of one line; ``(0, "")`` when it is not readable."""
    try:
        row = json.loads(line)
        return int(row["seq"]), str(row["hash"])
    except (ValueError, KeyError, TypeError):
        return 0, ""


@contextmanager
def _locked() -> Iterator[IO[bytes]]:
    """The file, open and locked; opened again if it was renamed while the lock was waited for.

    Made for its owner alone where there is none.
    """
    name = path()
    while True:
        with _open(name) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                is_current = os.path.samestat(os.fstat(file.fileno()), os.stat(name))
            except FileNotFoundError:
                is_current = False
            if is_current:
                yield file
                return


def _open(name: Path) -> IO[bytes]:
    def owner_only(file: str, flags: int) -> int:
        return os.open(file, flags, 0o600)

    try:
        return open(name, "a+b", opener=owner_only)
    except FileNotFoundError:
        name.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return open(name, "a+b", opener=owner_only)


def _is_ours(file: IO[bytes], seq: int, digest: str) -> bool:
    """Whether the file holds nothing, or ends with a row of this journal."""
    if file.seek(0, os.SEEK_END) == 0:
        return True
    return JournalEntry.objects.filter(seq=seq, hash=digest).exists()


def keep_aside() -> Path:
    """Give the file another name, which is returned; the next append begins a new one with the first row."""
    kept = path().with_name(f"{path().name}.{timezone.now():%Y%m%dT%H%M%S%f}")
    path().rename(kept)
    return kept


def lines_after(seq: int) -> Iterator[dict[str, Any]]:
    """Yield the rows after a number as they are stored: loaded ones would lack what readers must not see."""
    rows = JournalEntry.objects.filter(seq__gt=seq).order_by("seq").values(*LINE)
    for row in rows.iterator(chunk_size=1000):
        yield {**row, "at": shown(row["at"])}


def _tail(file: IO[bytes], size: int) -> bytes:
    """The end of the file: at least one whole line, with the break before it, where there is one."""
    reach = _TAIL
    while True:
        file.seek(max(0, size - reach))
        tail = file.read()
        if reach >= size or tail.count(b"\n") > 1:
            return tail
        reach *= 16


def _last_line(whole: bytes) -> bytes:
    """Of lines that each end with a break; empty without any."""
    return whole[whole.rfind(b"\n", 0, -1) + 1 : -1]


def _encode(line: dict[str, Any]) -> bytes:
    return (json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n").encode("utf-8", "replace")
