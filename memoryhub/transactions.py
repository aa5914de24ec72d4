"""Write transactions, one at a time in this process.

SQLite lets one writer in and sends the others to sleep for ever longer (1, 2, 5, … 100 ms), so threads that
store at once would spend most of their time asleep beside a free database. Waiting in line here, each goes on
the moment the one before has committed. Between processes SQLite's own waiting holds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.db import OperationalError, connection, transaction

_turn = threading.RLock()  # a callback on commit may write again
PATIENCE = 20.0  # seconds, as long as SQLite itself waits for another process
_until: ContextVar[float | None] = ContextVar("until", default=None)  # on the monotonic clock


@contextmanager
def hurried(seconds: float) -> Iterator[None]:
    """Writes in here that name no patience of their own wait so long for other writers, all together."""
    mine = _until.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _until.reset(mine)


@contextmanager
def write(patience: float | None = None) -> Iterator[None]:
    """A transaction that writes; nested ones are savepoints. OperationalError when the line does not move.

    ``patience``: how long to wait for other writers, of this process and of others, in seconds; usually
    :data:`PATIENCE`.
    """
    if connection.in_atomic_block:
        # It has SQLite's lock already (transactions are IMMEDIATE): who has the turn may be waiting for that.
        with transaction.atomic():
            yield
        return
    began = time.monotonic()
    until = _until.get()
    if patience is None and until is not None:
        patience = max(until - began, 0)
    if not _turn.acquire(timeout=PATIENCE if patience is None else max(patience, 0)):
        raise OperationalError(
            "database is locked: another thread of this process has been writing for too long"
        )
    try:
        if patience is None:
            with transaction.atomic():
                yield
        else:
            with _within(patience - (time.monotonic() - began)):
                yield
    finally:
        _turn.release()


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """A transaction that waits no longer than this for writers of other processes."""
    usual = _busy_timeout()
    _set_busy_timeout(max(int(seconds * 1000), 0))
    try:
        with transaction.atomic():
            _set_busy_timeout(usual)  # the lock is held: what comes now is not the caller's hurry
            yield
    finally:
        _set_busy_timeout(usual)


def _busy_timeout() -> int:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        return int(cursor.fetchone()[0])


def _set_busy_timeout(milliseconds: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA busy_timeout = {milliseconds:d}")


def is_busy(error: BaseException) -> bool:
    """Whether this is SQLite saying that somebody else writes, so that trying again may help."""
    return isinstance(error, OperationalError) and any(word in str(error) for word in ("locked", "busy"))
