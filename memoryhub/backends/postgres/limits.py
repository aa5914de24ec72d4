"""Limits of a connection to PostgreSQL: it cancels long reads, and gives up on a server without an answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from psycopg.abc import PQGen
from psycopg.types.string import TextLoader
from psycopg.waiting import Ready
from psycopg_pool import ConnectionPool

from memoryhub.core.database import answer_limit, read_limit, wrap_statements
from memoryhub.core.database_errors import LostCommit, is_definite, same_errors_as_sqlite


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
        # An InternalError: PgBouncer sent two errors, of PostgreSQL and its own.
        except (psycopg.OperationalError, psycopg.InternalError) as error:
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


def _limit_statement(execute: Callable[..., Any], query: str, params: Any, many: bool, context: Any) -> Any:
    """Cancel a read on the server after the limit. One round trip, and no setting of the session remains.

    A setting for the transaction must end with the statement, so it is reset in the same round trip.
    """
    is_read = not many and query.lstrip()[:6].upper().startswith(("SELECT", "WITH"))
    if is_read and isinstance(params, list | tuple):  # PostgreSQL refuses NUL, which no stored text contains
        params = [one.replace("\x00", "\uffff") if isinstance(one, str) else one for one in params]
    inside = context["connection"].in_atomic_block
    seconds = read_limit(in_transaction=inside) if is_read else 0.0
    if not seconds:
        with same_errors_as_sqlite():
            return execute(query, params, many, context)
    before = f"SELECT set_config('statement_timeout', '{seconds * 1000:.0f}', true);"
    after = "; SELECT set_config('statement_timeout', '0', true)" if inside else ""
    result = execute(f"{before} {query}{after}", params, many, context)
    context["cursor"].cursor.nextset()
    return result


def _prepare(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    connection.connection.adapters.register_loader("json", TextLoader)  # text, as Django's for jsonb
    wrap_statements(connection, _limit_statement)


def limit_connections() -> None:
    """Use this class for the connections of the pools, and limit their statements."""
    for one in connections.all():
        one.settings_dict["OPTIONS"]["pool"]["connection_class"] = LimitedConnection
    connection_created.connect(_prepare, dispatch_uid="limits")
