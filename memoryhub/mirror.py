"""The journal's mirror: the same rows as JSON lines in ``LETSGO_MEMORY_LOG``, in order, without gaps.

Every append first looks where the file ends. Rows that another process has committed and not yet written, or that
a crash kept from being written, are fetched and written too.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.utils import timezone

logger = logging.getLogger(__name__)
_TAIL = 65_536


def path() -> Path:
    return Path(settings.MEMORY_LOG)


def append(lines: list[dict[str, Any]]) -> None:
    """Bring the file up to date with these rows, which are committed. A full disk is logged, never raised."""
    try:
        path().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path().open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            last = last_seq(file)
            if last >= lines[-1]["seq"] and last > _newest():
                file = _start_anew(file)
                last = 0
            missing = lines if lines[0]["seq"] == last + 1 else _rows_after(last)
            file.write(b"".join(_encode(line) for line in missing))
    except OSError as error:
        logger.warning("journal mirror %s not written: %s (the journal itself is; see doctor)", path(), error)


def last_seq(file: IO[bytes]) -> int:
    """The number of the last whole line, 0 for an empty file; a torn last line is cut off."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL))
    tail = file.read()
    whole = tail[: tail.rfind(b"\n") + 1]
    if len(whole) < len(tail):
        file.truncate(size - len(tail) + len(whole))
    for line in reversed(whole.splitlines()):
        try:
            return int(json.loads(line)["seq"])
        except (ValueError, KeyError, TypeError):
            continue
    return 0


def _encode(line: dict[str, Any]) -> bytes:
    return (json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n").encode("utf-8", "replace")


def _rows_after(seq: int) -> list[dict[str, Any]]:
    from memoryhub.journal import as_line
    from memoryhub.models import JournalEntry

    return [as_line(row) for row in JournalEntry.objects.filter(seq__gt=seq).order_by("seq")]


def _newest() -> int:
    from memoryhub.models import JournalEntry

    return JournalEntry.objects.order_by("-seq").values_list("seq", flat=True).first() or 0


def _start_anew(file: IO[bytes]) -> IO[bytes]:
    """The file is ahead of the database, so it belongs to another store: keep it under another name."""
    kept = _kept_name(timezone.now())
    path().rename(kept)
    logger.warning("journal mirror %s was of another store; kept as %s", path(), kept)
    file.close()
    fresh = path().open("a+b")
    fcntl.flock(fresh, fcntl.LOCK_EX)
    return fresh


def _kept_name(now: datetime) -> Path:
    return path().with_name(f"{path().name}.{now:%Y%m%dT%H%M%S%f}")
