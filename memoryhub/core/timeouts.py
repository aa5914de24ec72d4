"""A point in time after which an answer is worth nothing, and reads that stop there.

:class:`Deadline` is for one answer that is wanted soon. :func:`patient_for` is for requests of any kind: it
bounds each single read, so that none of them can hold a thread of the server for good.
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

_DEADLINE_STEPS = 2000  # of SQLite's virtual machine between two looks at the clock: some ten microseconds
_READ_STEPS = 100_000  # the same for reads that may take long


class DeadlinePassed(Exception):
    """The deadline has passed."""


class Deadline:
    """So many milliseconds from now."""

    def __init__(self, milliseconds: float) -> None:
        self.milliseconds = milliseconds
        self._began = time.perf_counter()

    def took(self) -> float:
        """Milliseconds since the start."""
        return round((time.perf_counter() - self._began) * 1000, 3)

    def left(self) -> float:
        """Seconds that are left; negative afterwards."""
        return self._began + self.milliseconds / 1000 - time.perf_counter()

    def check(self) -> None:
        """:class:`TooLate` when it has passed."""
        if self.left() <= 0:
            raise DeadlinePassed

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Reads in here are broken off when the deadline passes. Not for writes: SQLite would roll back."""
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
    """Of this thread: how long one read may take (0: as long as it likes), and when the last one began."""

    seconds = 0.0
    began = 0.0


_limit = _ReadLimit()


@contextmanager
def read_timeout(seconds: float) -> Iterator[None]:
    """Each read in here that takes longer is broken off: OperationalError, see :func:`was_broken_off`.

    What runs in a transaction is left alone: SQLite would roll it back. 0: as long as it takes.
    """
    before, _limit.seconds = _limit.seconds, seconds
    try:
        yield
    finally:
        _limit.seconds = before


def is_interrupted(error: BaseException) -> bool:
    """Whether this is SQLite saying that a read was not let go on."""
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
    """Watch every connection that is made from now on."""
    connection_created.connect(_watch_connection, dispatch_uid="deadline")
