"""Write transactions, one at a time in this process.

SQLite lets one writer in and the others sleep for increasing times (1, 2, 5, … 100 ms), mostly while the
database is free. So the threads of a process wait for a lock instead, which the next one gets as soon as a
transaction ends. The thread with the lock checks every millisecond whether another process is still writing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar

from django.db import OperationalError, connection, transaction

_writer_lock = threading.RLock()  # reentrant: an on-commit callback may write
LOCK_TIMEOUT_SECONDS = 20.0  # seconds
_RETRY_SECONDS = 0.001  # between two checks whether another process is writing
_lock_deadline: ContextVar[float | None] = ContextVar("until", default=None)  # monotonic clock


@contextmanager
def lock_timeout(seconds: float) -> Iterator[None]:
    """Limit the total time that writes in this context wait for other writers."""
    mine = _lock_deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _lock_deadline.reset(mine)


@contextmanager
def write_transaction(patience: float | None = None) -> Iterator[None]:
    """A write transaction, or a savepoint inside one. Raise OperationalError if other writers take too long.

    ``patience``: seconds to wait for other writers, by default :data:`LOCK_TIMEOUT_SECONDS`.
    """
    if connection.in_atomic_block:
        # It already has SQLite's lock: transactions are IMMEDIATE. The thread lock's owner may wait for it.
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
    """Enter a transaction when no other process writes. Raise OperationalError at ``until``."""
    connection.ensure_connection()
    # Not through Django's cursor, which would count these as queries.
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
    """Whether the error means that another writer has the lock, so that a retry may help."""
    return isinstance(error, OperationalError) and any(word in str(error) for word in ("locked", "busy"))
