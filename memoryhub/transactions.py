"""Write transactions, one at a time in this process.

SQLite lets one writer in and sends the others to sleep for ever longer (1, 2, 5, … 100 ms), so threads that
store at once would spend most of their time asleep beside a free database. Waiting in line here, each goes on
the moment the one before has committed. Between processes SQLite's own waiting holds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError, connection, transaction

_turn = threading.RLock()  # a callback on commit may write again
PATIENCE = 20.0  # seconds, as long as SQLite itself waits for another process


@contextmanager
def write() -> Iterator[None]:
    """A transaction that writes; nested ones are savepoints. OperationalError when the line does not move."""
    if connection.in_atomic_block:
        # It has SQLite's lock already (transactions are IMMEDIATE): who has the turn may be waiting for that.
        with transaction.atomic():
            yield
        return
    if not _turn.acquire(timeout=PATIENCE):
        raise OperationalError(
            "database is locked: another thread of this process has been writing for too long"
        )
    try:
        with transaction.atomic():
            yield
    finally:
        _turn.release()


def is_busy(error: BaseException) -> bool:
    """Whether this is SQLite saying that somebody else writes, so that trying again may help."""
    return isinstance(error, OperationalError) and any(word in str(error) for word in ("locked", "busy"))
