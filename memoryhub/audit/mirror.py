"""The journal's mirror: the same rows as JSON lines in ``LETSGO_MEMORY_LOG``, in order, without gaps.

Every append first reads the end of the file. It also writes committed rows that another process, or a process
that crashed, has not written. A file that does not end with a row of this journal is set aside under another
name: it belongs to another store with the same path, or the journal has lost rows, which ``journal_loss``
records.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.utils import timezone

from memoryhub.core.dates import format_iso
from memoryhub.core.pagination import row_pages
from memoryhub.models import JournalEntry
from memoryhub.models.journal import read_detail

logger = logging.getLogger(__name__)
LINE_FIELDS = ("seq", "at", "actor", "operation", "object_type", "object_id", "detail", "hash")
LOSS = "journal_loss"  # the operation of a row that records lost rows
_ASIDE = re.compile(r"\.\d{8}T\d{12}$")
_BLOCK = 64 * 1024
_TAIL_BYTES = 4096  # read from the end at first; more if they contain no whole line


def mirror_path() -> Path:
    return Path(settings.MEMORY_LOG)


def append(lines: list[dict[str, Any]], after: str = "") -> None:
    """Append committed rows, and rows that are missing before them. ``after``: the hash of the previous row.

    A failure is logged, not raised: the journal has the rows, and the next append writes them. Rows that were
    damaged may raise anything.
    """
    try:
        with ExitStack() as stack:
            file = stack.enter_context(_locked())
            seq, digest = last_row(file)
            if (seq, digest) != (lines[0]["seq"] - 1, after) and not _is_ours(file, seq, digest):
                logger.warning("journal mirror %s was set aside as %s", mirror_path(), move_aside(digest))
                file, seq = stack.enter_context(_locked()), 0
            missing = lines if lines[0]["seq"] == seq + 1 else lines_after(seq)
            file.writelines(_encode(line) for line in missing)
    except Exception as error:  # noqa: BLE001 the change is committed
        logger.warning(
            "journal mirror %s not written: %s (the journal itself is; see doctor)", mirror_path(), error
        )


def last_row(file: IO[bytes]) -> tuple[int, str]:
    """Return number and hash of the last whole line, or ``(0, "")``. Cuts off an incomplete line."""
    size = file.seek(0, os.SEEK_END)
    tail = _read_tail(file, size)
    whole = tail[: tail.rfind(b"\n") + 1]
    if len(whole) < len(tail):
        file.truncate(size - len(tail) + len(whole))
    return number_and_hash(_last_line(whole))


def first() -> bytes | None:
    """Return the first line, or None without a readable file."""
    try:
        with mirror_path().open("rb") as file:
            return file.readline()
    except OSError:
        return None


def last() -> tuple[int, str] | None:
    """Return number and hash of the last whole line that is readable, or None without a whole line.

    ``(0, "")`` if no line is readable. After a power loss, the last one may begin with zeros.
    """
    try:
        with mirror_path().open("rb") as file:
            tail = _read_tail(file, file.seek(0, os.SEEK_END))
        line = _last_line(tail[: tail.rfind(b"\n") + 1])
        if not line:
            return None
        found = number_and_hash(line)
        return found if found[0] else next((one for one in from_the_end() if one[0]), found)
    except OSError:
        return None


def from_the_end() -> Iterator[tuple[int, str]]:
    """Yield number and hash of each line, the last line first. ``(0, "")`` for an unreadable line."""
    with mirror_path().open("rb") as file:
        position, rest = file.seek(0, os.SEEK_END), b""
        while position:
            begin = max(0, position - _BLOCK)
            file.seek(begin)
            rest, *lines = (file.read(position - begin) + rest).split(b"\n")
            yield from map(number_and_hash, reversed(lines))
            position = begin
        yield number_and_hash(rest)


def number_and_hash(line: bytes) -> tuple[int, str]:
    """Return number and hash of a line, or ``(0, "")`` if it is unreadable."""
    try:
        row = json.loads(line)
        return int(row["seq"]), str(row["hash"])
    except (ValueError, KeyError, TypeError):
        return 0, ""


def moment(line: bytes) -> datetime | None:
    """Return when the row of this line was written, or None if it is unreadable."""
    try:
        at = datetime.fromisoformat(json.loads(line)["at"])
    except (ValueError, KeyError, TypeError):
        return None
    return at if at.tzinfo else None


@contextmanager
def _locked() -> Iterator[IO[bytes]]:
    """Open and lock the file. Open it again if it was renamed while waiting for the lock.

    A new file is readable for its owner only.
    """
    name = mirror_path()
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
    """Whether the file is empty or ends with a row of this journal."""
    if file.seek(0, os.SEEK_END) == 0:
        return True
    return JournalEntry.objects.filter(seq=seq, hash=digest).exists()


def recorded_loss(digest: str) -> JournalEntry | None:
    """Return the row that records the loss of rows up to the one with this hash."""
    losses = JournalEntry.objects.filter(operation=LOSS, detail__mirror_hash=digest)
    return losses.exclude(detail__has_key="imported").order_by("-seq").first() if digest else None


def timestamped_path() -> Path:
    """Return a new name for a file that is set aside."""
    return mirror_path().with_name(f"{mirror_path().name}.{timezone.now():%Y%m%dT%H%M%S%f}")


def move_aside(digest: str = "") -> Path:
    """Rename the file and return its new path. The next append starts a new file with the first row.

    ``digest``: the hash of its last line, by which a recorded loss names the file.
    """
    loss = recorded_loss(digest or (last() or (0, ""))[1])
    target = mirror_path().with_name(Path(loss.detail["file"]).name) if loss else timestamped_path()
    if target.exists():
        target = timestamped_path()
    mirror_path().rename(target)
    return target


def set_aside() -> list[Path]:
    """Return the files that :func:`move_aside` has renamed, oldest first."""
    folder, name = mirror_path().parent, mirror_path().name
    if not folder.is_dir():
        return []
    return sorted(one for one in folder.iterdir() if one.name.startswith(name) and _ASIDE.search(one.name))


def lines_after(seq: int) -> Iterator[dict[str, Any]]:
    """Yield the rows after a number as stored. Model instances lack hashes that readers must not see."""
    rows = JournalEntry.objects.filter(seq__gt=seq).values(*LINE_FIELDS)
    for row in chain.from_iterable(row_pages(rows, key=itemgetter("seq"))):
        yield {**row, "at": format_iso(row["at"]), "detail": read_detail(row["detail"])}


def _read_tail(file: IO[bytes], size: int) -> bytes:
    """Return the end of the file with at least one whole line, if there is one."""
    length = _TAIL_BYTES
    while True:
        file.seek(max(0, size - length))
        tail = file.read()
        if length >= size or tail.count(b"\n") > 1:
            return tail
        length *= 16


def _last_line(whole: bytes) -> bytes:
    """Return the last of lines that each end with a line break; empty without lines."""
    return whole[whole.rfind(b"\n", 0, -1) + 1 : -1]


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _encode(line: dict[str, Any]) -> bytes:
    return (_ENCODER.encode(line) + "\n").encode("utf-8", "replace")
