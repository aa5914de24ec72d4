"""Write transactions, one at a time in this process.

SQLite lets one writer in and sends the others to sleep for ever longer (1, 2, 5, … 100 ms), so those who
store at once would spend most of their time asleep beside a free database. The threads of a process wait in
line here instead, and each goes on the moment the one before has committed; the first of them looks every
millisecond whether another process still writes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar

from django.db import OperationalError, connection, transaction

_writer_lock = threading.RLock()  # a callback on commit may write again
LOCK_TIMEOUT_SECONDS = 20.0  # seconds
_RETRY_SECONDS = 0.001  # seconds between two looks whether another process still writes
_lock_deadline: ContextVar[float | None] = ContextVar("until", default=None)  # on the monotonic clock


@contextmanager
def lock_timeout(seconds: float) -> Iterator[None]:
    """Writes in here that name no patience of their own wait so long for other writers, all together."""
    mine = _lock_deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _lock_deadline.reset(mine)


@contextmanager
def write_transaction(patience: float | None = None) -> Iterator[None]:
    """A transaction that writes; nested ones are savepoints. OperationalError when the line does not move.

    ``patience``: how long to wait for other writers, of this process and of others, in seconds; usually
    :data:`PATIENCE`.
    """
    if connection.in_atomic_block:
        # It has SQLite's lock already (transactions are IMMEDIATE): who has the turn may be waiting for that.
        with transaction.atomic():
            yield
        return
    until = (
        time.monotonic() + LOCK_TIMEOUT_SECONDS if patience is None else time.monotonic() + max(patience, 0)
    )
    if patience is None:
        until = min(until, _lock_deadline.get() or until)
    if not _writer_lock.acquire(timeout=max(until - time.monotonic(), 0)):
        raise OperationalError(
            "database is locked: another thread of this process has been writing for too long"
        )
    try:
        with ExitStack() as transactions:
            _begin(transactions, until)
            yield
    finally:
        _writer_lock.release()


def _begin(transactions: ExitStack, until: float) -> None:
    """Enter a transaction once no other process writes; OperationalError when one still does at ``until``."""
    connection.ensure_connection()
    # Not through Django's cursor: these belong to the transaction, and are no queries of their own.
    ask = connection.connection.execute
    [usual] = ask("PRAGMA busy_timeout").fetchone()
    ask("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                transactions.enter_context(transaction.atomic())
                return
            except OperationalError as error:
                if not is_database_busy(error) or time.monotonic() >= until:
                    raise
                time.sleep(_RETRY_SECONDS)
    finally:
        ask(f"PRAGMA busy_timeout = {usual:d}")


def is_database_busy(error: BaseException) -> bool:
    """Whether this is SQLite saying that somebody else writes, so that trying again may help."""
    return isinstance(error, OperationalError) and any(word in str(error) for word in ("locked", "busy"))
