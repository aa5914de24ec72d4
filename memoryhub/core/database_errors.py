"""Errors of the database: a store that cannot be used, a busy one, an interrupted read, a damaged file.

Damage of the file is recorded for all processes until ``doctor`` finds none. ``core.database`` records what
any connection finds.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.db import InternalError, OperationalError, connection

STORE_UNAVAILABLE = (
    "the store cannot be used now; /readyz has the reason, and the operator can run: manage.py doctor"
)
_UNAVAILABLE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
OUTCOME_UNKNOWN = (
    "the connection to the database ended while the change was saved, so it may be saved or not;"
    " send a write that is safe to repeat again, and check before you repeat another one"
)
_READ_ONLY_STATE, _IDLE_WRITE_STATE = "25006", "25P03"
# PostgreSQL's codes: no connection, no resources, the server stops, a failing disk, a standby, an idle write.
_UNAVAILABLE_STATES = ("08", "53", "57P", "58", _READ_ONLY_STATE, _IDLE_WRITE_STATE)
_STATES_OF_LOSS = ("08", "57P")  # no connection, the server stops: it may have committed
_BUSY_STATES = ("55P03", "40P01", "40001")  # a lock that is not free, a deadlock, a conflict
_CANCELLED_STATE = "57014"


class LostCommit(Exception):
    """No one knows whether a transaction was committed: the connection ended before the answer."""


def is_outcome_unknown(error: BaseException) -> bool:
    """Whether the change of a transaction may have been saved, although it ended with this error."""
    return isinstance(error.__cause__, LostCommit)


def is_definite(state: str | None) -> bool:
    """Whether an error of a commit with this code of PostgreSQL means that nothing was saved."""
    return bool(state) and not str(state).startswith(_STATES_OF_LOSS)


def sqlstate(error: BaseException) -> str:
    """Return PostgreSQL's code of an error, empty without one."""
    return getattr(error.__cause__, "sqlstate", "") or ""


@contextmanager
def same_errors_as_sqlite() -> Iterator[None]:
    """Raise OperationalError if the server is read-only, as a standby is, or has ended an idle write."""
    try:
        yield
    except InternalError as error:
        if sqlstate(error) in (_READ_ONLY_STATE, _IDLE_WRITE_STATE):
            raise OperationalError(*error.args) from error.__cause__
        raise


def is_store_unavailable(error: BaseException) -> bool:
    """Whether the disk is full, read-only or failing, or the file or the server cannot be opened."""
    if connection.vendor == "postgresql":
        is_unreachable = isinstance(error, OperationalError) and not sqlstate(error)
        return is_unreachable or sqlstate(error).startswith(_UNAVAILABLE_STATES)
    return getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF in _UNAVAILABLE


def is_database_busy(error: BaseException) -> bool:
    """Whether the error means that another writer has the lock, so that a retry may help."""
    is_locked = any(word in str(error) for word in ("locked", "busy"))
    return isinstance(error, OperationalError) and (is_locked or sqlstate(error) in _BUSY_STATES)


def is_interrupted(error: BaseException) -> bool:
    """Whether the error is an interrupted read."""
    is_cancelled = "interrupted" in str(error) or sqlstate(error) == _CANCELLED_STATE
    return isinstance(error, OperationalError) and is_cancelled


logger = logging.getLogger(__name__)
DAMAGE_ADVICE = "the store is damaged; its operator can run: manage.py doctor"
_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NOT_TEXT = "Could not decode to UTF-8"  # no write of the app stores such bytes
_CHECK_SECONDS, _CHECK_INTERVAL = 5, 60
_next_check: dict[str, float] = {}  # when a store may be checked again
_seen: set[str] = set()  # stores whose file of damage cannot be written


def is_damage(error: BaseException | None) -> bool:
    """Whether the error, or a cause of it, means that the file does not contain what SQLite wrote."""
    while error is not None:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _CODES or (isinstance(error, sqlite3.Error) and str(error).startswith(_NOT_TEXT)):
            return True
        error = error.__cause__
    return False


class FileConnection(sqlite3.Connection):
    """A connection outside of Django that raises :func:`to_database_error`."""

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        try:
            return super().execute(*arguments)
        except UnicodeDecodeError as error:
            raise to_database_error(error) from None


def to_database_error(error: UnicodeDecodeError) -> sqlite3.DatabaseError:
    """Return the error of SQLite whose message Python could not decode: it quotes a damaged name."""
    found = sqlite3.DatabaseError(error.object.decode("utf-8", "replace"))
    if error.object.startswith(b"malformed"):
        found.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return found


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
    if now < _next_check.get(path, 0):
        return False
    _next_check[path] = now + _CHECK_INTERVAL
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
    return str(damage_path()) in _seen or damage_path().exists()


def record_damage(error: BaseException) -> None:
    path = damage_path()
    if is_damage_recorded():
        return
    logger.error("the store is damaged: %s; run manage.py doctor", error)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {error}\n")
    except OSError:
        _seen.add(str(path))


def clear_damage() -> None:
    """Forget recorded damage, once the file was checked or replaced."""
    if connection.vendor != "sqlite":
        return
    _seen.discard(str(damage_path()))
    with suppress(FileNotFoundError):
        damage_path().unlink()
