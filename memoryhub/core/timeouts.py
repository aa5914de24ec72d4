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

_STEPS = 2000  # of SQLite's virtual machine between two looks at the clock: some ten microseconds
_STEPS_OF_ANY = 100_000  # the same for reads that may take long


class TooLate(Exception):
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
            raise TooLate

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Reads in here are broken off when the deadline passes. Not for writes: SQLite would roll back."""
        connection.ensure_connection()
        sqlite = connection.connection
        sqlite.set_progress_handler(lambda: self.left() <= 0, _STEPS)
        try:
            yield
        except OperationalError as error:
            if was_broken_off(error):
                raise TooLate from error
            raise
        finally:
            sqlite.set_progress_handler(_takes_too_long, _STEPS_OF_ANY)


class _Patience(threading.local):
    """Of this thread: how long one read may take (0: as long as it likes), and when the last one began."""

    seconds = 0.0
    began = 0.0


_patience = _Patience()


@contextmanager
def patient_for(seconds: float) -> Iterator[None]:
    """Each read in here that takes longer is broken off: OperationalError, see :func:`was_broken_off`.

    What runs in a transaction is left alone: SQLite would roll it back. 0: as long as it takes.
    """
    before, _patience.seconds = _patience.seconds, seconds
    try:
        yield
    finally:
        _patience.seconds = before


def was_broken_off(error: BaseException) -> bool:
    """Whether this is SQLite saying that a read was not let go on."""
    return isinstance(error, OperationalError) and "interrupted" in str(error)


def _takes_too_long() -> bool:
    seconds = _patience.seconds
    return 0 < seconds < time.perf_counter() - _patience.began and not connection.in_atomic_block


def _begin(execute: Callable[..., Any], *arguments: Any) -> Any:
    _patience.began = time.perf_counter()
    return execute(*arguments)


def _watch(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    connection.connection.set_progress_handler(_takes_too_long, _STEPS_OF_ANY)
    if _begin not in connection.execute_wrappers:
        connection.execute_wrappers.append(_begin)


def connect() -> None:
    """Watch every connection that is made from now on."""
    connection_created.connect(_watch, dispatch_uid="deadline")
