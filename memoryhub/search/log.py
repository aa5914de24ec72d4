"""SQLite's write-ahead log during long work."""

from __future__ import annotations

from django.db import connection


def move_on() -> None:
    """Move what the log holds into the file while others read and write: nobody waits for this.

    Otherwise some commit has to do it, with the write lock in its hand, when the log has grown long. Nothing
    is done inside a transaction, where SQLite refuses it.
    """
    if not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
            cursor.fetchall()
