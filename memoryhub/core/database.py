"""The database: write transactions, one at a time in the store; query timeouts; damaged files; batches.

SQLite has one lock for writers. On PostgreSQL an advisory lock does the same for all processes and nodes: the
journal's chain, the change log and the caps depend on the order of the writes.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings
from django.db import DatabaseError, OperationalError, connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.backends.utils import CursorWrapper
from django.db.utils import DatabaseErrorWrapper
from django.utils import timezone

from memoryhub.core.database_errors import (
    FileConnection,
    is_damage,
    is_database_busy,
    is_interrupted,
    same_errors_as_sqlite,
    to_database_error,
)

logger = logging.getLogger(__name__)

# Write transactions

_writer_lock = threading.RLock()  # reentrant: an on-commit callback may write
LOCK_TIMEOUT_SECONDS = 20.0
WRITER_LOCK = 7_206_001  # the number of PostgreSQL's advisory lock
# PostgreSQL ends a write transaction without a statement for this long: its node may have lost the network or
# be stopped. Less than LOCK_TIMEOUT_SECONDS, so that the writers that wait for it succeed.
WRITER_IDLE_SECONDS = 12.0
_RETRY_SECONDS = 0.001  # between two checks whether another process is writing
_OPENED_FILE = "opened_file"  # attribute of a connection
_lock_deadline: ContextVar[float | None] = ContextVar("lock_deadline", default=None)  # monotonic clock


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
    use_primary()
    if connection.in_atomic_block:
        # It already has SQLite's lock: transactions are IMMEDIATE. The thread lock's owner may wait for it.
        with transaction.atomic():
            if is_postgres():
                _lock_writers(LOCK_TIMEOUT_SECONDS)
            yield
        return
    until = time.monotonic() + (LOCK_TIMEOUT_SECONDS if patience is None else max(patience, 0))
    if patience is None:
        until = min(until, _lock_deadline.get() or until)
    if not _writer_lock.acquire(timeout=max(until - time.monotonic(), 0)):
        raise OperationalError(
            "database is locked: another thread of this process has been writing for too long"
        )
    global _writing_since
    outer = _writing_since
    try:
        with ExitStack() as transactions:
            _begin(transactions, until)
            _writing_since = outer or time.monotonic()
            yield
    finally:
        _writing_since = outer
        _writer_lock.release()


_writing_since = 0.0  # when the current write of this process began, on the monotonic clock; 0 without one


def hanging_write_seconds() -> float:
    """Return how long a write of this process has lasted if others no longer wait for it, otherwise 0."""
    since = _writing_since
    seconds = time.monotonic() - since if since else 0.0
    return seconds if seconds > LOCK_TIMEOUT_SECONDS else 0.0


def _begin(transactions: ExitStack, until: float) -> None:
    """Enter a transaction when no other process writes. Raise OperationalError at ``until``."""
    connection.ensure_connection()
    if is_postgres():
        transactions.enter_context(same_errors_as_sqlite())
        transactions.enter_context(_without_reconnecting())
        transactions.enter_context(transaction.atomic())
        _lock_writers(until - time.monotonic())
        return
    _require_same_file()
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


@contextmanager
def _without_reconnecting() -> Iterator[None]:
    """Open no other connection at the end of a transaction that has lost its own.

    Django would, to turn autocommit on. It would wait for the server with the lock of the writers of this
    process, and if that fails, replace the error of a commit whose outcome is unknown.
    """
    wrapper = connections[connection.alias]  # ``connection`` is a proxy, with attributes of its own
    usual = wrapper.set_autocommit

    def set_autocommit(*arguments: Any, **options: Any) -> None:
        if wrapper.connection is not None:
            usual(*arguments, **options)

    outer = vars(wrapper).get("set_autocommit")  # of the write whose commit runs this one
    wrapper.set_autocommit = set_autocommit  # type: ignore[method-assign]
    try:
        yield
    finally:
        if outer:
            wrapper.set_autocommit = outer  # type: ignore[method-assign]
        else:
            del wrapper.set_autocommit


def _lock_writers(seconds: float) -> None:
    """Wait for the transactions of other writers. Raise OperationalError if they take too long."""
    # Not through Django's cursor, which would count it as a query.
    # The server answers within this time, also to background threads: a lock timeout.
    waits = read_timeout(max(seconds, _limit.seconds, 1))
    idle = f"{WRITER_IDLE_SECONDS * 1000:.0f}ms"
    with connection.wrap_database_errors, waits:
        connection.connection.execute(
            "SELECT set_config('lock_timeout', %s, true), pg_advisory_xact_lock(%s),"
            " set_config('idle_in_transaction_session_timeout', %s, true),"
            # A transaction whose result the server cannot send is not idle.
            " set_config('tcp_user_timeout', %s, true)",
            [f"{max(int(seconds * 1000), 1)}ms", WRITER_LOCK, idle, idle],
        )


def _require_same_file() -> None:
    """Raise OperationalError if the file was removed or replaced: what is written to the open one is lost."""
    opened = getattr(connection, _OPENED_FILE, None)
    if opened and opened != _identify_file(connection):
        _empty_log()
        raise OperationalError(
            "the file of the store was removed or replaced; put it back, or stop the hub and restore a backup"
        )


def _empty_log() -> None:
    """Move the write-ahead log into the open file. SQLite would apply it to the new one at the next start."""
    try:
        connection.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error as error:
        logger.warning("the write-ahead log of the removed store was not moved into it: %s", error)


def _identify_file(connection: BaseDatabaseWrapper) -> tuple[int, int] | None:
    """Return the device and the inode of the store's file. A store in memory has none."""
    try:
        file = os.stat(connection.settings_dict["NAME"])
    except OSError:
        return None
    return (file.st_dev, file.st_ino)


@contextmanager
def read_snapshot() -> Iterator[None]:
    """Let all reads in this context find the store as it is at the first one. Nothing may be written."""
    if connection.in_atomic_block:  # its owner decides
        yield
        return
    connection.ensure_connection()
    with ExitStack() as transactions:
        if is_postgres():
            transactions.enter_context(transaction.atomic())
            execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        else:
            usual, connection.transaction_mode = connection.transaction_mode, "DEFERRED"  # type: ignore[attr-defined]
            try:
                transactions.enter_context(transaction.atomic())  # takes no lock of writers
            finally:
                connection.transaction_mode = usual  # type: ignore[attr-defined]
        yield


SIDE_WRITE_SECONDS = 1.0  # that a read waits for other writers


def side_write(what: str, write: Callable[[], object], patience: float = SIDE_WRITE_SECONDS) -> bool:
    """Make a write that belongs to a read. Return whether it succeeded: a failure is logged, not raised."""
    try:
        # Inside a transaction a savepoint would not help: its owner commits or fails.
        with nullcontext() if connection.in_atomic_block else write_transaction(patience):
            write()
    except DatabaseError as error:
        logger.warning("%s: %s", what, error)
        return False
    return True


# Connections


def store_path() -> Path:
    """Return the file of a SQLite store. For PostgreSQL, a path in the home for files that belong to it."""
    name = connection.settings_dict["NAME"]
    return Path(settings.HOME, f"postgres-{name}") if is_postgres() else Path(name)


def is_postgres() -> bool:
    """Whether the store is on PostgreSQL."""
    return connection.vendor == "postgresql"


@contextmanager
def open_cursor() -> Iterator[CursorWrapper]:
    """Open a cursor for SQL with fixed text.

    In a transaction, PostgreSQL prepares a statement that a connection repeats, if ``prepare_threshold`` is
    set in ``DATABASE_URL``. Not with a deadline: that adds statements, and only one can be prepared.
    """
    with connection.cursor() as cursor:
        if is_postgres() and connection.in_atomic_block and _limit.deadline is None:
            session = connection.connection
            if session.prepare_threshold is not None:
                from psycopg import Cursor

                cursor.cursor = Cursor(session)  # Django's own puts the parameters into the text
        yield cursor


def execute(statement: str, params: Sequence[Any] | None = None) -> None:
    """Run a statement without a result."""
    with open_cursor() as cursor:
        cursor.execute(statement, params)


def fetch_one(statement: str, params: Sequence[Any] | None = None) -> Any:
    """Return the first row of a statement, None without one."""
    with open_cursor() as cursor:
        cursor.execute(statement, params)
        return cursor.fetchone()


def fetch_all(statement: str, params: Sequence[Any] | None = None) -> list[Any]:
    """Return the rows of a statement."""
    with open_cursor() as cursor:
        cursor.execute(statement, params)
        rows: list[Any] = cursor.fetchall()
    return rows


def database_time() -> datetime:
    """Return the time of the database, which is the same for all nodes."""
    if not is_postgres():
        return timezone.now()
    now: datetime = fetch_one("SELECT statement_timestamp()")[0]
    return now


def close_before_fork() -> None:
    """Close all connections. The threads of a pool do not run in a forked process, so it is closed, too."""
    connections.close_all()
    if is_postgres():
        for one in connections.all():
            one.close_pool()  # type: ignore[attr-defined]


REPLICA = "replica"  # the alias of its connections


class _Primary(threading.local):
    """Per thread: the connection to the primary while the thread reads from the replica."""

    connection: BaseDatabaseWrapper | None = None


_primary = _Primary()


def use_replica() -> None:
    """Let this thread read from the replica, until it writes or calls :func:`use_primary`."""
    primary, replica = connections["default"], connections[REPLICA]
    replica.execute_wrappers = primary.execute_wrappers  # limits and measurements of the request
    _primary.connection = primary
    connections["default"] = replica


def use_primary() -> None:
    """Let this thread read from the primary again."""
    if _primary.connection is not None:
        connections["default"], _primary.connection = _primary.connection, None


# Time limits

_DEADLINE_STEPS = 2000  # of SQLite's virtual machine between two checks of the clock: some ten microseconds
_READ_STEPS = 100_000  # the same for reads that may take long
BACKGROUND_READ_SECONDS, BACKGROUND_WRITE_SECONDS = 900.0, 60.0  # of one statement
_SECONDS_TO_ANSWER = 5.0  # after the limit of a read, which the server keeps


class DeadlinePassed(Exception):
    """The deadline has passed, or certainly will. The argument, if any, says until when."""


class Deadline:
    """A deadline in milliseconds from now."""

    def __init__(self, milliseconds: float) -> None:
        self.milliseconds = milliseconds
        self._began = time.perf_counter()

    def elapsed_ms(self) -> float:
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
        try:
            with self._limit_of_server() if is_postgres() else self._progress_handler():
                yield
        except OperationalError as error:
            if is_interrupted(error):
                raise DeadlinePassed from error
            raise

    @contextmanager
    def _progress_handler(self) -> Iterator[None]:
        sqlite = connection.connection
        sqlite.set_progress_handler(lambda: self.left() <= 0, _DEADLINE_STEPS)
        try:
            yield
        finally:
            sqlite.set_progress_handler(_is_over_limit, _READ_STEPS)

    @contextmanager
    def _limit_of_server(self) -> Iterator[None]:
        before, _limit.deadline = _limit.deadline, self
        try:
            self.check()
            # A cancelled statement aborts its transaction: only a savepoint of it.
            with transaction.atomic() if connection.in_atomic_block else nullcontext():
                yield
        finally:
            _limit.deadline = before


class _ReadLimit(threading.local):
    """Per thread: the limit for one read in seconds (0: none), and the start of the current one.

    ``deadline``: of all reads, on PostgreSQL. ``is_background``: see :func:`limit_background_thread`.
    """

    seconds = 0.0
    began = 0.0
    deadline: Deadline | None = None
    is_background = False


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


def read_limit(*, in_transaction: bool) -> float:
    """Return how many seconds the next read may take on PostgreSQL; 0 means no limit."""
    if _limit.deadline is not None:
        return max(_limit.deadline.left(), 0.001)
    return 0.0 if in_transaction else _limit.seconds


def answer_limit() -> float:
    """Return how many seconds a statement may remain without an answer of the server; 0 means no limit."""
    seconds = _limit.seconds
    if _limit.is_background and not seconds:
        # Django commits before it returns to autocommit, and calls on-commit callbacks after that.
        seconds = BACKGROUND_READ_SECONDS if connection.autocommit else BACKGROUND_WRITE_SECONDS
    return seconds + _SECONDS_TO_ANSWER if seconds else 0.0


def limit_background_thread() -> None:
    """Let this thread of a server give up on a database that never answers, as after a failover.

    Otherwise its write would block all others of the process, and its lease would never be free.
    """
    _limit.is_background = True


def _is_over_limit() -> bool:
    seconds = _limit.seconds
    return 0 < seconds < time.perf_counter() - _limit.began and not connection.in_atomic_block


def _start_clock(execute: Callable[..., Any], *arguments: Any) -> Any:
    _limit.began = time.perf_counter()
    return execute(*arguments)


# Damage of the file, recorded for all processes until ``doctor`` finds none

_CHECK_SECONDS, _CHECK_INTERVAL = 5, 60
_next_damage_check: dict[str, float] = {}  # when a store may be checked again
_damaged_stores: set[str] = set()  # stores whose file of damage cannot be written


class _RecordDamage(DatabaseErrorWrapper):
    """Django's conversion of SQLite's errors, through which every query goes, from execute to fetch."""

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, UnicodeDecodeError):
            error = to_database_error(error)
            kind = type(error)
        if error is not None and is_damage(error):
            record_damage(error)
        super().__exit__(kind, error, traceback)


def _watch_file(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    connection.__dict__["wrap_database_errors"] = _RecordDamage(connection)
    connection.__dict__[_OPENED_FILE] = _identify_file(connection)
    if not os.access(connection.settings_dict["NAME"], os.W_OK):
        # Until all connections of the process are closed, SQLite does not write, even when it could.
        connection.close_at = time.monotonic()  # Django closes it after the request
    connection.connection.set_progress_handler(_is_over_limit, _READ_STEPS)
    wrap_statements(connection, _start_clock)


def is_caused_by_damage(error: BaseException) -> bool:
    """Whether damage is the cause of an unexpected error.

    A page with the content of another one is valid for SQLite, but its values fit no code. So the file is
    checked, at most once a minute in each process and for some seconds.
    """
    return is_damage(error) or is_damage_recorded() or _is_found_in_file()


def _is_found_in_file() -> bool:
    if connection.vendor != "sqlite":
        return False
    path, now = str(connection.settings_dict["NAME"]), time.monotonic()
    if now < _next_damage_check.get(path, 0):
        return False
    _next_damage_check[path] = now + _CHECK_INTERVAL
    try:
        uri = f"{Path(path).absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, factory=FileConnection)) as file:
            file.set_progress_handler(lambda: time.monotonic() > now + _CHECK_SECONDS, 10_000)
            [[found]] = file.execute("PRAGMA integrity_check(1)")
    except sqlite3.Error as error:
        found = str(error) if is_damage(error) else "ok"
    if found != "ok":
        record_damage(sqlite3.DatabaseError(found))
    return bool(found != "ok")


def damage_path() -> Path:
    """Return the file next to the store that records damage. A damaged store cannot record its own."""
    return Path(f"{connection.settings_dict['NAME']}-damaged")


def is_damage_recorded() -> bool:
    """Whether a process has found damage that no full check has cleared. PostgreSQL reports its own."""
    if connection.vendor != "sqlite":
        return False
    return str(damage_path()) in _damaged_stores or damage_path().exists()


def record_damage(error: BaseException) -> None:
    path = damage_path()
    if is_damage_recorded():
        return
    logger.error("the store is damaged: %s; run manage.py doctor", error)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {error}\n")
    except OSError:
        _damaged_stores.add(str(path))


def clear_damage() -> None:
    """Forget recorded damage, once the file was checked or replaced."""
    if connection.vendor != "sqlite":
        return
    _damaged_stores.discard(str(damage_path()))
    with suppress(FileNotFoundError):
        damage_path().unlink()


def wrap_statements(connection: BaseDatabaseWrapper, wrapper: Callable[..., Any]) -> None:
    """Add a wrapper of statements before all others: those of a request remove the last one at its end."""
    if wrapper not in connection.execute_wrappers:
        connection.execute_wrappers.insert(0, wrapper)


def watch_files() -> None:
    """Limit the reads of every new connection to a file, and record the damage that it finds."""
    connection_created.connect(_watch_file, dispatch_uid="deadline")


T = TypeVar("T")


def batched(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most ``size`` rows. Replace by ``itertools.batched`` with Python 3.12."""
    rows = iter(rows)
    while chunk := list(islice(rows, size)):
        yield chunk


@lru_cache(maxsize=1024)
def adapt_moment(at: Any) -> Any:
    """Return a datetime as the database stores it. Cached: the rows of a batch share most moments."""
    return connection.ops.adapt_datetimefield_value(at)
