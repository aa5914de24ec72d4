"""A text index built anew beside the one that is asked, row by row, and then put in its place.

Searches go on in the old one all the while. Triggers keep what is copied already in step with the table, and
the last rows are copied in the transaction that exchanges the two. What is underway is known by a table of
its own; a migration, which drops triggers, gives it up.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from django.db import connection

from memoryhub.backends import schema
from memoryhub.backends.schema import INDEXES, MEMORY_TABLE, REINDEX_TABLE, TEXT_COLUMNS


def find_unsound_indexes() -> list[str]:
    """The indexes that do not fit their table, examined in a copy of the store: nobody waits for it.

    The copy stands beside the store while it is read, some seconds for a hundred thousand memories. Inside a
    transaction, which a copy would not know, they are examined in place.
    """
    if connection.in_atomic_block:
        return [table for table in INDEXES if not schema.is_index_sound(table)]
    folder = Path(connection.settings_dict["NAME"]).parent
    connection.ensure_connection()
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="examined-") as place,
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
    """The last row that was copied; None when nothing is underway."""
    if REINDEX_TABLE not in connection.introspection.table_names():
        return None
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT position FROM {REINDEX_TABLE} WHERE name = %s", [table])
        row = cursor.fetchone()
    return int(row[0]) if row else None


def begin_rebuild(table: str) -> None:
    """An empty index beside the one in use, and triggers for what will be copied."""
    new, columns = f"{table}_new", ", ".join(TEXT_COLUMNS)
    old_values = ", ".join(f"old.{column}" for column in TEXT_COLUMNS)
    new_values = ", ".join(f"new.{column}" for column in TEXT_COLUMNS)
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
        cursor.execute(f"INSERT INTO {new}({new}, rank) VALUES ('rank', '{schema.RANK_FUNCTION}')")
        on_delete, on_update = schema.shadow_triggers(table)
        cursor.execute(
            f"CREATE TRIGGER {on_delete} AFTER DELETE ON {MEMORY_TABLE} {copied} BEGIN {remove} END"
        )
        cursor.execute(
            f"CREATE TRIGGER {on_update} AFTER UPDATE OF {columns} ON {MEMORY_TABLE} {copied}"
            f" BEGIN {remove} {add} END"
        )


def copy_rows(table: str, limit: int, characters: int = 0) -> bool:
    """Copy the next rows; whether there may be more.

    So many at most, and of no more than so many characters together (0: any), but one at least.
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
                f" SELECT id, {columns} FROM {MEMORY_TABLE} WHERE id > %s AND id <= %s",
                [after, last],
            )
            cursor.execute(f"UPDATE {REINDEX_TABLE} SET position = %s WHERE name = %s", [last, table])
    return len(found) == limit or (bool(found) and last < found[-1][0])


def swap_index(table: str) -> None:
    """Copy what came meanwhile, and let the new index take the old one's place, which then is ``_old``."""
    while copy_rows(table, 1000):
        pass
    triggers = schema.index_triggers(table)
    with connection.cursor() as cursor:
        # Renaming would change the table's name in these too.
        for name in (*triggers, *schema.shadow_triggers(table)):
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        cursor.execute(f"DROP TABLE IF EXISTS {table}_old")
        cursor.execute(f"ALTER TABLE {table} RENAME TO {table}_old")
        cursor.execute(f"ALTER TABLE {table}_new RENAME TO {table}")
        for statement in triggers.values():
            cursor.execute(statement)
        cursor.execute(f"DELETE FROM {REINDEX_TABLE} WHERE name = %s", [table])


def leftover_tables(table: str) -> list[str]:
    """What an earlier run left of an index: one half built, one exchanged and not cleared away."""
    names = (f"{table}_new", f"{table}_old")
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE name IN (%s, %s)", names)
        return [name for (name,) in cursor.fetchall()]


def drop_in_steps(name: str, rows: int) -> bool:
    """Empty an index by so many rows of its tables, at last drop it; whether there is more to do.

    To drop it whole would overwrite a hundred megabytes with zeros, under the write lock. What is half built
    is given up first: nothing keeps it in step with the memories any longer.
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
        # The first ten rows of the data tell FTS5 what the table is, and it wants to know even to drop it.
        for part, first in (("data", 11), ("docsize", 0)):
            some = f"SELECT id FROM {name}_{part} WHERE id >= {first} LIMIT %s"
            cursor.execute(f"DELETE FROM {name}_{part} WHERE id IN ({some})", [rows])
            if cursor.rowcount:
                return True
        cursor.execute(f"DROP TABLE {name}")
        return False
