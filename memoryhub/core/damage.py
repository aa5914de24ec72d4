"""Damage of the database file: recognise it, and record it for all processes until ``doctor`` finds none."""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.utils import DatabaseErrorWrapper

logger = logging.getLogger(__name__)
ADVICE = "the store is damaged; its operator can run: manage.py doctor"
_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NOT_TEXT = "Could not decode to UTF-8"  # no write of the app stores such bytes
_seen: set[str] = set()  # stores whose file of damage cannot be written


def is_damage(error: BaseException | None) -> bool:
    """Whether the error, or a cause of it, means that the file does not contain what SQLite wrote."""
    while error is not None:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _CODES or (isinstance(error, sqlite3.Error) and str(error).startswith(_NOT_TEXT)):
            return True
        error = error.__cause__
    return False


def record_path() -> Path:
    """Return the file next to the store that records damage. A damaged store cannot record its own."""
    return Path(f"{connection.settings_dict['NAME']}-damaged")


def is_recorded() -> bool:
    """Whether a process has met damage that no full check has cleared."""
    return str(record_path()) in _seen or record_path().exists()


def record(error: BaseException) -> None:
    path = record_path()
    if is_recorded():
        return
    logger.error("the store is damaged: %s; run manage.py doctor", error)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {error}\n")
    except OSError:
        _seen.add(str(path))


def clear() -> None:
    """Forget recorded damage, once the file was checked or replaced."""
    _seen.discard(str(record_path()))
    with suppress(FileNotFoundError):
        record_path().unlink()


class _RecordDamage(DatabaseErrorWrapper):
    """Django's conversion of SQLite's errors, through which every query goes, from execute to fetch."""

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_value is not None and is_damage(exc_value):
            record(exc_value)
        super().__exit__(exc_type, exc_value, traceback)


def _watch_connection(connection: BaseDatabaseWrapper, **kwargs: object) -> None:
    connection.__dict__["wrap_database_errors"] = _RecordDamage(connection)


def watch_connections() -> None:
    """Record the damage that any connection meets."""
    connection_created.connect(_watch_connection, dispatch_uid="damage")
