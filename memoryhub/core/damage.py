"""Damage of the database file: recognise it, and record it for all processes until ``doctor`` finds none.

``core.database`` records the damage that any connection finds.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.db import connection

logger = logging.getLogger(__name__)
ADVICE = "the store is damaged; its operator can run: manage.py doctor"
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


def explains(error: BaseException) -> bool:
    """Whether damage is the cause of an unexpected error.

    A page with the content of another one is valid for SQLite, but its values fit no code. So the file is
    checked, at most once a minute in each process and for some seconds.
    """
    return is_damage(error) or is_recorded() or _is_found_in_file()


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
        record(sqlite3.DatabaseError(found))
    return bool(found != "ok")


def record_path() -> Path:
    """Return the file next to the store that records damage. A damaged store cannot record its own."""
    return Path(f"{connection.settings_dict['NAME']}-damaged")


def is_recorded() -> bool:
    """Whether a process has found damage that no full check has cleared. PostgreSQL reports its own."""
    if connection.vendor != "sqlite":
        return False
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
    if connection.vendor != "sqlite":
        return
    _seen.discard(str(record_path()))
    with suppress(FileNotFoundError):
        record_path().unlink()
