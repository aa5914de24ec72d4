"""Deadlines and timeouts for database reads.

:class:`Deadline` limits one response that must be fast. :func:`read_timeout` limits each single read of a
request, so that none can block a server thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

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
