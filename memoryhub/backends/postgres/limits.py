"""A connection to PostgreSQL that gives up on a server that does not answer, and reports a lost commit."""

from __future__ import annotations

import time
from typing import Any

import psycopg
from django.db import connections
from psycopg.abc import PQGen
from psycopg.waiting import Ready
from psycopg_pool import ConnectionPool

from memoryhub.core.database import answer_limit
from memoryhub.core.database_errors import LostCommit, is_definite


class _Silence(psycopg.OperationalError):
    """The server did not answer in time."""


class _LostCommit(LostCommit, psycopg.OperationalError):
    """The connection ended before the server confirmed a commit."""


_CHECK = ""  # the statement with which the pool checks a connection
_SECONDS_TO_CHECK = 5.0


class LimitedConnection(psycopg.Connection[Any]):
    """Closes itself if the answer takes longer than the request may wait.

    The server cancels statements that take too long, but no answer comes if the network stalls, or if the
    server was replaced by another.
    """

    _seconds_to_check = 0.0

    def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        if query != _CHECK:
            return super().execute(query, *arguments, **options)
        self._seconds_to_check = _SECONDS_TO_CHECK
        try:
            return super().execute(query, *arguments, **options)
        except _Silence:
            if isinstance(self._pool, ConnectionPool):
                self._pool.drain()  # it need not check each of the others
            raise
        finally:
            self._seconds_to_check = 0.0

    def commit(self) -> None:
        try:
            super().commit()
        except psycopg.OperationalError as error:
            if is_definite(error.sqlstate):
                raise
            raise _LostCommit(str(error)) from error

    def wait(self, gen: PQGen[Any], *arguments: Any, **options: Any) -> Any:
        seconds = self._seconds_to_check or answer_limit()
        return super().wait(self._limit(gen, seconds) if seconds else gen, *arguments, **options)

    def _limit(self, gen: PQGen[Any], seconds: float) -> PQGen[Any]:
        until = time.monotonic() + seconds
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready == Ready.NONE and time.monotonic() > until:  # several times a second
                    self.pgconn.finish()
                    raise _Silence(f"the database did not answer within {seconds:.0f} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


def limit_connections() -> None:
    """Use this class for the connections of the pools."""
    for one in connections.all():
        one.settings_dict["OPTIONS"]["pool"]["connection_class"] = LimitedConnection
