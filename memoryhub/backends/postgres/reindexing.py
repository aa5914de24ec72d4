"""Rebuild a text index in place: triggers write changed rows, and each step some of the others."""

from __future__ import annotations

from django.db import connection

from memoryhub.backends.dialect.postgres import TABLE_EXISTS
from memoryhub.backends.postgres.schema_objects import index_values
from memoryhub.backends.tables import INDEXES, MEMORY_TABLE, REINDEX_TABLE
from memoryhub.core.database import execute, fetch_one


def find_unsound_indexes() -> list[str]:
    """Return the indexes that differ from their table. No writer waits."""
    return [table for table in INDEXES if not is_sound(table)]


def is_sound(table: str) -> bool:
    """Whether every row of an index equals its memory. Slow."""
    return not fetch_one(
        f"SELECT EXISTS (SELECT 1 FROM {MEMORY_TABLE} AS m FULL JOIN {table} AS i ON i.rowid = m.id"
        f" WHERE i.{table} IS DISTINCT FROM {index_values(table, 'm')} OR m.id IS NULL)"
    )[0]


def copy_position(table: str) -> int | None:
    """Return the key of the last written row, or None if no rebuild is in progress."""
    with connection.cursor() as cursor:
        cursor.execute(TABLE_EXISTS, [REINDEX_TABLE])
        if not cursor.fetchone():
            return None
        cursor.execute(f"SELECT position FROM {REINDEX_TABLE} WHERE name = %s", [table])
        row = cursor.fetchone()
    return int(row[0]) if row else None


def begin_rebuild(table: str) -> None:
    """Begin at the first row. Rows of memories that do not exist are removed."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {REINDEX_TABLE} (name text PRIMARY KEY, position bigint NOT NULL)"
        )
        cursor.execute(
            f"INSERT INTO {REINDEX_TABLE} VALUES (%s, 0) ON CONFLICT (name) DO UPDATE SET position = 0",
            [table],
        )
        cursor.execute(
            f"DELETE FROM {table} AS i"
            f" WHERE NOT EXISTS (SELECT 1 FROM {MEMORY_TABLE} AS m WHERE m.id = i.rowid)"
        )


def copy_rows(table: str, limit: int, characters: int = 0) -> bool:
    """Write the next rows. Return whether there may be more; False without a rebuild in progress.

    Writes at most ``limit`` rows with at most ``characters`` characters in total (0: no limit), at least one
    row.
    """
    after = copy_position(table)
    if after is None:  # another process has ended it
        return False
    size = f"sum(length(content)) OVER (ORDER BY id) <= {characters:d} OR row_number() OVER (ORDER BY id) = 1"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT max(id), count(*) FROM (SELECT id, {size if characters else 'true'} AS fits FROM"
            f" (SELECT id, content FROM {MEMORY_TABLE} WHERE id > %s ORDER BY id LIMIT %s) AS following)"
            " AS sized WHERE fits",
            [after, limit],
        )
        last, count = cursor.fetchone()
        if not count:
            return False
        cursor.execute(
            f"INSERT INTO {table} SELECT id, {index_values(table, MEMORY_TABLE)} FROM {MEMORY_TABLE}"
            f" WHERE id > %s AND id <= %s ON CONFLICT (rowid) DO UPDATE SET {table} = excluded.{table}",
            [after, last],
        )
        cursor.execute(f"UPDATE {REINDEX_TABLE} SET position = %s WHERE name = %s", [last, table])
        cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {MEMORY_TABLE} WHERE id > %s)", [last])
        return bool(cursor.fetchone()[0])


def swap_index(table: str) -> None:
    """Write the remaining rows and end the rebuild."""
    while copy_rows(table, 1000):
        pass
    execute(f"DELETE FROM {REINDEX_TABLE} WHERE name = %s", [table])


def leftover_tables(table: str) -> list[str]:
    """Return nothing: a rebuild in place leaves no tables."""
    return []


def drop_in_steps(name: str, rows: int) -> bool:
    """Return that there is nothing to drop."""
    return False
