"""Write transactions, one at a time in this process; query timeouts; chunks for SQL parameters."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from itertools import islice
from typing import Any, TypeVar

from django.db import DatabaseError, OperationalError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

logger = logging.getLogger(__name__)
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


def is_shared() -> bool:
    """Whether servers on other machines can use the same database."""
    return connection.vendor != "sqlite"


SIDE_WRITE_SECONDS = 1.0  # that a read waits for other writers


def side_write(what: str, write: Callable[[], object]) -> bool:
    """Make a write that belongs to a read. Return whether it succeeded: a failure is logged, not raised."""
    try:
        # Inside a transaction a savepoint would not help: its owner commits or fails.
        with nullcontext() if connection.in_atomic_block else write_transaction(SIDE_WRITE_SECONDS):
            write()
    except DatabaseError as error:
        logger.warning("%s: %s", what, error)
        return False
    return True


_UNAVAILABLE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)


def is_store_unavailable(error: BaseException) -> bool:
    """Whether the disk refused: it is full, read-only or failing, or the file cannot be opened."""
    return getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF in _UNAVAILABLE


def is_database_busy(error: BaseException) -> bool:
    """Whether the error means that another writer has the lock, so that a retry may help."""
    return isinstance(error, OperationalError) and any(word in str(error) for word in ("locked", "busy"))


_DEADLINE_STEPS = 2000  # of SQLite's virtual machine between two checks of the clock: some ten microseconds
_READ_STEPS = 100_000  # the same for reads that may take long


class DeadlinePassed(Exception):
    """The deadline has passed."""


class Deadline:
    """A deadline in milliseconds from now."""

    def __init__(self, milliseconds: float) -> None:
        self.milliseconds = milliseconds
        self._began = time.perf_counter()

    def took(self) -> float:
        """Return the milliseconds since the start."""
        return round((time.perf_counter() - self._began) * 1000, 3)

    def left(self) -> float:
        """Return the seconds left, negative after the deadline."""
        return self._began + self.milliseconds / 1000 - time.perf_counter()

    def check(self) -> None:
        """Raise :class:`DeadlinePassed` if it has passed."""
        if self.left() <= 0:
            raise DeadlinePassed

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Interrupt reads in this context at the deadline. Not for writes: SQLite would roll back."""
        connection.ensure_connection()
        sqlite = connection.connection
        sqlite.set_progress_handler(lambda: self.left() <= 0, _DEADLINE_STEPS)
        try:
            yield
        except OperationalError as error:
            if is_interrupted(error):
                raise DeadlinePassed from error
            raise
        finally:
            sqlite.set_progress_handler(_is_over_limit, _READ_STEPS)


class _ReadLimit(threading.local):
    """Per thread: the limit for one read in seconds (0: none), and the start of the current one."""

    seconds = 0.0
    began = 0.0


_limit = _ReadLimit()


@contextmanager
def read_timeout(seconds: float) -> Iterator[None]:
    """Interrupt each longer read in this context with an OperationalError, see :func:`is_interrupted`.

    Transactions are not interrupted, because SQLite would roll them back. 0 means no limit.
    """
    before, _limit.seconds = _limit.seconds, seconds
    try:
        yield
    finally:
        _limit.seconds = before


def is_interrupted(error: BaseException) -> bool:
    """Whether the error is an interrupted read."""
    return isinstance(error, OperationalError) and "interrupted" in str(error)


def _is_over_limit() -> bool:
    seconds = _limit.seconds
    return 0 < seconds < time.perf_counter() - _limit.began and not connection.in_atomic_block


def _start_clock(execute: Callable[..., Any], *arguments: Any) -> Any:
    _limit.began = time.perf_counter()
    return execute(*arguments)


def _watch_connection(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    connection.connection.set_progress_handler(_is_over_limit, _READ_STEPS)
    if _start_clock not in connection.execute_wrappers:
        connection.execute_wrappers.append(_start_clock)


def watch_connections() -> None:
    """Install the timeout on every new connection."""
    connection_created.connect(_watch_connection, dispatch_uid="deadline")


T = TypeVar("T")


def batched(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most ``size`` rows. Replace by ``itertools.batched`` with Python 3.12."""
    rows = iter(rows)
    while chunk := list(islice(rows, size)):
        yield chunk
