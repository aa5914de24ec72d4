"""A point in time after which an answer is worth nothing, and reads that stop there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError, connection

_STEPS = 2000  # of SQLite's virtual machine between two looks at the clock: some ten microseconds


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
            if "interrupted" in str(error):
                raise TooLate from error
            raise
        finally:
            sqlite.set_progress_handler(None, 0)
