"""Remove the bytes of erased rows from the indexes, the database file and its write-ahead log.

A file next to the store records an erase until this is done. If the process is killed or the file is in use,
the next worker that starts, the next erase, or ``doctor --fix`` completes it.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from django.db import OperationalError, connection, transaction

from memoryhub.backends import vector_index
from memoryhub.backends.tables import INDEXES
from memoryhub.core import disks
from memoryhub.core.database import execute

logger = logging.getLogger(__name__)
LOG_TRIES = 600  # seconds, with one try each, to empty the write-ahead log after an erase
_BUSY_TIMEOUT_MS = 20  # for readers, while the write lock is held


def begin_erase() -> None:
    """Record that rows are being erased. Call it inside their transaction, before :func:`scrub_erased`."""
    try:
        descriptor = os.open(_record_path(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w") as file:
            file.write(secrets.token_hex(8))
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        logger.warning("%s: %s; if the hub is killed now, erase again", _record_path(), error.strerror)


def is_erase_pending() -> bool:
    """Whether the files may still contain bytes of erased rows."""
    return _record_path().exists()


def finish_erase() -> None:
    """Complete an erase whose process was killed, or that found the file in use."""
    if is_erase_pending():
        scrub_erased()


def scrub_erased() -> None:
    """Rewrite indexes and file after an erase so that they contain no byte of the erased rows.

    Words of a deleted row stay in FTS5 segments until these are merged, pages stay in the file until VACUUM,
    and both stay in the write-ahead log until it is truncated. Inside a transaction the file is rewritten
    after the commit. The files of vectors are overwritten first, and unfinished copies are removed.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        for table in INDEXES:
            cursor.execute(f"INSERT INTO {table}({table}) VALUES ('optimize')")
        record = _read_record()  # with the write lock: an erase that begins later changes the record
    transaction.on_commit(vector_index.overwrite_deleted, robust=True)
    transaction.on_commit(disks.remove_abandoned, robust=True)
    transaction.on_commit(partial(_vacuum, record))


def _record_path() -> Path:
    return Path(f"{connection.settings_dict['NAME']}-erasing")


def _read_record() -> str | None:
    """Return the content of the record, which is empty if the disk was full; None without one."""
    with suppress(FileNotFoundError):
        return _record_path().read_text()
    return None


def _vacuum(record: str | None) -> None:
    """Vacuum the file. A busy file is logged: no reader sees the erased rows in any case."""
    try:
        execute("VACUUM")
    except OperationalError as error:
        logger.error(
            "the database file still holds bytes of what was erased: %s; erase or vacuum again", error
        )
        return
    truncate_log(record)


def truncate_log(record: str | None = None) -> None:
    """Move the write-ahead log into the file and truncate it, later if a reader needs it now.

    ``record``: of the erase that is complete then.
    """
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")  # most of the work, without blocking anyone
        cursor.fetchall()
    if not _try_truncate_log(record):
        logger.warning("the write-ahead log is being read; it keeps bytes of what was erased until it is not")
        threading.Thread(target=_truncate_log_later, args=(record,), name="truncate-log", daemon=True).start()


def _try_truncate_log(record: str | None) -> bool:
    """Empty the write-ahead log unless a reader needs it. Waits too briefly to delay writers."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        patience = cursor.fetchone()[0]
        cursor.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
        try:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if cursor.fetchone()[0]:
                return False
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {patience:d}")
    if record is not None and record == _read_record():
        _record_path().unlink(missing_ok=True)
    return True


def _truncate_log_later(record: str | None) -> None:
    """Retry until no reader needs the log."""
    try:
        for _ in range(LOG_TRIES):
            time.sleep(1)
            if _try_truncate_log(record):
                return
        logger.error(
            "the write-ahead log still holds bytes of what was erased: it is being read all the time"
        )
    finally:
        connection.close()
