"""Kinds of database errors: a store that cannot be used, a busy one, an interrupted read, a damaged file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
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


DAMAGE_ADVICE = "the store is damaged; its operator can run: manage.py doctor"
_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NOT_TEXT = "Could not decode to UTF-8"  # no write of the app stores such bytes


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
