"""What the hub needs of a PostgreSQL server: version, encoding, rights, extension ``vector``, time limits.

A connection cancels long reads, and gives up on a server without an answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from django.db import DatabaseError, NotSupportedError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from psycopg.abc import PQGen
from psycopg.types.string import TextLoader
from psycopg.waiting import Ready
from psycopg_pool import ConnectionPool

from memoryhub.core.database import answer_limit, fetch_one, read_limit, wrap_statements
from memoryhub.core.database_errors import LostCommit, is_definite, same_errors_as_sqlite

MIN_VERSION = 15
MIN_VECTOR = (0, 8)  # the first with iterative scans


class ServerFacts(NamedTuple):
    """``vector``: the installed version of the extension, ``available``: that of the server; may be empty."""

    version: int
    encoding: str
    may_create: bool
    vector: str
    available: str
    is_migrated: bool


class BackupFacts(NamedTuple):
    """``archives``: full parts of the write-ahead log are archived. ``failing``: the last one was not."""

    has_checksums: bool
    archives: bool
    last_archived: datetime | None
    failing: bool


class ServerProblem(NamedTuple):
    id: str
    text: str
    fix: str
    is_serious: bool = True


_FACTS_SQL = """SELECT current_setting('server_version_num')::int / 10000,
    (SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()),
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false),
    coalesce((SELECT extversion FROM pg_extension WHERE extname = 'vector'), ''),
    coalesce((SELECT default_version FROM pg_available_extensions WHERE name = 'vector'), ''),
    to_regclass('memoryhub_memory') IS NOT NULL"""


def read_facts() -> ServerFacts:
    return ServerFacts(*fetch_one(_FACTS_SQL))


_BACKUP_SQL = """SELECT current_setting('data_checksums') = 'on', current_setting('archive_mode') <> 'off',
    last_archived_time, coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false)
    FROM pg_stat_archiver"""


def read_backup_facts() -> BackupFacts:
    return BackupFacts(*fetch_one(_BACKUP_SQL))


def find_connection_problem(error: DatabaseError) -> ServerProblem:
    """Return why the hub cannot connect to the server."""
    if isinstance(error, NotSupportedError):  # Django refuses versions that are older still
        return _too_old(str(error).rstrip("."))
    error = _error_without_pool() or error
    return ServerProblem(
        "memoryhub.E007",
        f"PostgreSQL does not answer: {str(error).strip().splitlines()[0]}",
        "Start it, or correct DATABASE_URL.",
    )


def _error_without_pool() -> DatabaseError | None:
    """Return why a new connection fails. The pool only reports how long it waited for one."""
    options = {**connection.get_connection_params(), "connect_timeout": 5}
    try:
        with connection.wrap_database_errors:
            connection.Database.connect(**options).close()  # type: ignore[attr-defined]
    except DatabaseError as error:
        return error
    return None


def _too_old(text: str) -> ServerProblem:
    return ServerProblem("memoryhub.E008", text, f"Upgrade the server to PostgreSQL {MIN_VERSION} or newer.")


def find_problems(facts: ServerFacts) -> Iterator[ServerProblem]:
    """Yield why the hub cannot use this server, or not all of its features."""
    if facts.version < MIN_VERSION:
        yield _too_old(f"PostgreSQL {facts.version} is too old")
    if facts.encoding != "UTF8":
        yield ServerProblem(
            "memoryhub.E009",
            f"The database has the encoding {facts.encoding}",
            "Create a new one: CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0;",
        )
    if not facts.may_create:
        yield ServerProblem(
            "memoryhub.E010",
            "The user of DATABASE_URL may not create tables",
            "As an administrator of the database: GRANT CREATE, USAGE ON SCHEMA public TO the_user;",
        )
    if not facts.vector and (facts.is_migrated or not is_vector_usable(facts.available)):
        install = "" if is_vector_usable(facts.available) else "Install pgvector 0.8 or newer on the server. "
        yield ServerProblem(
            "memoryhub.W011",
            "The extension vector is not installed: search uses words only",
            f"{install}As an administrator of the database: CREATE EXTENSION vector; then: manage.py migrate",
            is_serious=False,
        )
    if facts.vector and not is_vector_usable(facts.vector):
        yield ServerProblem(
            "memoryhub.E011",
            f"The extension vector {facts.vector} is too old",
            "Install pgvector 0.8 or newer on the server, then: ALTER EXTENSION vector UPDATE;",
        )


def is_vector_usable(version: str) -> bool:
    """Whether a version of the extension has what the hub needs. An empty one has not."""
    return _numbers(version) >= MIN_VECTOR


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


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
