"""Rebuild a text index in steps: fill a new one, then replace the old one, which serves searches until then.

Triggers keep the copied rows of the new index up to date. The last rows are copied in the transaction that
swaps the two. A table stores the position; a migration, which drops triggers, cancels the rebuild.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from django.db import connection

from memoryhub.backends.sqlite import schema
from memoryhub.backends.tables import INDEXES, MEMORY_TABLE, REINDEX_TABLE, TEXT_COLUMNS
from memoryhub.core.database import fetch_all, fetch_one
from memoryhub.core.disks import draft_folder


def find_unsound_indexes() -> list[str]:
    """Return the indexes that differ from their table. Checks a copy of the store, so that no writer waits.

    The temporary copy is in the folder of the store and takes some seconds for 100 000 memories. Inside a
    transaction, which a copy would not contain, the check is in place.
    """
    if connection.in_atomic_block:
        return [table for table in INDEXES if not schema.is_index_sound(table)]
    folder = Path(connection.settings_dict["NAME"]).parent
    connection.ensure_connection()
    with (
        draft_folder(folder) as draft,
        tempfile.TemporaryDirectory(dir=draft) as place,
        closing(sqlite3.connect(Path(place) / "copy.db")) as copy,
    ):
        connection.connection.backup(copy)
        return [table for table in INDEXES if not _is_sound_in(copy, table)]


def _is_sound_in(copy: sqlite3.Connection, table: str) -> bool:
    try:
        copy.execute(f"INSERT INTO {table}({table}, rank) VALUES ('integrity-check', 1)")
    except sqlite3.DatabaseError:
        return False
    return True


def copy_position(table: str) -> int | None:
    """Return the key of the last copied row, or None if no rebuild is in progress."""
    if REINDEX_TABLE not in connection.introspection.table_names():
        return None
    row = fetch_one(f"SELECT position FROM {REINDEX_TABLE} WHERE name = %s", [table])
    return int(row[0]) if row else None


def begin_rebuild(table: str) -> None:
    """Create an empty index and the triggers that keep its copied rows up to date."""
    new, columns = f"{table}_new", ", ".join(TEXT_COLUMNS)
    old_values, new_values = (", ".join(schema.indexed_values(table, row)) for row in ("old", "new"))
    remove = f"INSERT INTO {new}({new}, rowid, {columns}) VALUES ('delete', old.id, {old_values});"
    add = f"INSERT INTO {new}(rowid, {columns}) VALUES (new.id, {new_values});"
    copied = f"WHEN old.id <= (SELECT position FROM {REINDEX_TABLE} WHERE name = '{table}')"
    with connection.cursor() as cursor:
        for trigger in schema.shadow_triggers(table):
            cursor.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        cursor.execute(f"DROP TABLE IF EXISTS {new}")
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {REINDEX_TABLE} (name TEXT PRIMARY KEY, position INTEGER)"
        )
        cursor.execute(f"INSERT OR REPLACE INTO {REINDEX_TABLE} VALUES (%s, 0)", [table])
        cursor.execute(schema.create_index(table, new))
        on_delete, on_update = schema.shadow_triggers(table)
        cursor.execute(
            f"CREATE TRIGGER {on_delete} AFTER DELETE ON {MEMORY_TABLE} {copied} BEGIN {remove} END"
        )
        cursor.execute(
            f"CREATE TRIGGER {on_update} AFTER UPDATE OF {columns} ON {MEMORY_TABLE} {copied}"
            f" BEGIN {remove} {add} END"
        )


def copy_rows(table: str, limit: int, characters: int = 0) -> bool:
    """Copy the next rows. Return whether there may be more.

    Copies at most ``limit`` rows with at most ``characters`` characters in total (0: no limit), at least one
    row.
    """
    after, columns = copy_position(table) or 0, ", ".join(TEXT_COLUMNS)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT id, length(content) FROM {MEMORY_TABLE} WHERE id > %s ORDER BY id LIMIT %s",
            [after, limit],
        )
        found = cursor.fetchall()
        last = size = 0
        for pk, length in found:
            size += length
            if last and characters and size > characters:
                break
            last = pk
        if last:
            cursor.execute(
                f"INSERT INTO {table}_new(rowid, {columns})"
                f" SELECT id, {columns} FROM {schema.index_source(table)} WHERE id > %s AND id <= %s",
                [after, last],
            )
            cursor.execute(f"UPDATE {REINDEX_TABLE} SET position = %s WHERE name = %s", [last, table])
    return len(found) == limit or (bool(found) and last < found[-1][0])


def swap_index(table: str) -> None:
    """Copy the remaining rows and replace the index by the new one. The old one is renamed to ``_old``."""
    while copy_rows(table, 1000):
        pass
    triggers = schema.index_triggers(table)
    with connection.cursor() as cursor:
        # Renaming a table would change its name in the triggers too.
        for name in (*triggers, *schema.shadow_triggers(table)):
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        cursor.execute(f"DROP TABLE IF EXISTS {table}_old")
        cursor.execute(f"ALTER TABLE {table} RENAME TO {table}_old")
        cursor.execute(f"ALTER TABLE {table}_new RENAME TO {table}")
        for statement in triggers.values():
            cursor.execute(statement)
        cursor.execute(f"DELETE FROM {REINDEX_TABLE} WHERE name = %s", [table])


def leftover_tables(table: str) -> list[str]:
    """Return the unfinished and the replaced index tables that an earlier run has left."""
    names = (f"{table}_new", f"{table}_old")
    return [name for (name,) in fetch_all("SELECT name FROM sqlite_master WHERE name IN (%s, %s)", names)]


def drop_in_steps(name: str, rows: int) -> bool:
    """Delete some rows of an index table, or drop it once it is empty. Return whether there is more to do.

    Dropping a full table would overwrite a hundred megabytes with zeros while writers wait. An unfinished
    index loses its triggers first.
    """
    table = name.removesuffix("_new")
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM sqlite_master WHERE name = %s", [name])
        if not cursor.fetchone():
            return False
        if table != name and copy_position(table) is not None:
            for trigger in schema.shadow_triggers(table):
                cursor.execute(f"DROP TRIGGER IF EXISTS {trigger}")
            cursor.execute(f"DELETE FROM {REINDEX_TABLE} WHERE name = %s", [table])
        # FTS5 needs the first ten rows of the data, even to drop the table.
        for part, first in (("data", 11), ("docsize", 0)):
            some = f"SELECT id FROM {name}_{part} WHERE id >= {first} LIMIT %s"
            cursor.execute(f"DELETE FROM {name}_{part} WHERE id IN ({some})", [rows])
            if cursor.rowcount:
                return True
        cursor.execute(f"DROP TABLE {name}")
        return False
