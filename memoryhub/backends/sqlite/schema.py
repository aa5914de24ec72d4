"""Full-text tables and triggers: installed after every migration, dropped before one, verified by checks.

Django rebuilds an SQLite table to alter it, which silently drops its triggers. So no migration contains them:
``pre_migrate`` drops the triggers, ``post_migrate`` creates them again and repairs the indexes.

A text index is rebuilt in steps: a new one is filled, then replaces the old one, which serves searches until
then. Triggers keep the copied rows up to date. The last rows are copied in the transaction that swaps the
two. A table stores the position; a migration, which drops triggers, cancels the rebuild.

The bytes of erased rows are removed from the indexes, the database file and its write-ahead log. A file next
to the store records an erase until this is done. If the process is killed or the file is in use, the next
worker that starts, the next erase, or ``doctor --fix`` completes it.
"""

from __future__ import annotations

import logging
import os
import secrets
import sqlite3
import tempfile
import threading
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper

from memoryhub.backends import (
    ABSENCE_TABLE,
    EMBEDDED_COLUMNS,
    JOURNAL_TABLE,
    MEMORY_TABLE,
    REINDEX_TABLE,
    TEXT_COLUMNS,
    TRIGRAM_CHARACTERS,
    Trigger,
    change_log,
    release,
    vector_index,
)
from memoryhub.backends.dialect.sqlite import NOW, refuse
from memoryhub.core import disks
from memoryhub.core.database import execute, fetch_all, fetch_one
from memoryhub.core.disks import draft_folder

INDEXES = {
    "memoryhub_text": "tokenize='porter unicode61 remove_diacritics 2'",
    "memoryhub_trigram": "tokenize='trigram', detail=none",
}
TRIGRAM_VIEW = "memoryhub_trigram_source"
RETIRED_TABLES = ("memoryhub_text_vocabulary", *change_log.RETIRED_TABLES)


# Fixed statistics for the query planner: rows, then rows for one value of the first column, of the first
# two, …
# Without statistics the planner uses the access index for every list and sorts all visible rows for a page of
# fifty (167 ms instead of 2 at 100 000 memories). Real statistics would change over time, and the plans too.
STATISTICS = {
    "memory_gate": "100000 100000 50000 50000 10000 5000 5000 5000 5 1 noskipscan",
    "memory_updated": "100000 1",
    "memory_created": "100000 1",
    "memory_project_updated": "100000 50000 1",
    "memory_session": "100000 10 1",
    "memory_expires": "100000 5",
    "memory_importance": "100000 10",
    "memory_accessed": "100000 10",
    "memory_deleted": "1000 1",
    "memory_imported": "100000 1",
    "memory_pinned": "100 1",
    "memory_outdated": "1000 1",
    "memory_unsure": "1000 10",
    "memory_flagged": "1000 1000 1000",
}


def derived_tables() -> frozenset[str]:
    """Return the tables that :func:`install` makes, with what it needs from the others."""
    return frozenset({*_tables(), *RETIRED_TABLES, REINDEX_TABLE})


def _tables() -> dict[str, str]:
    return {table: create_index(table) for table in INDEXES} | change_log.TABLES | change_log.MARK_TABLES


def create_index(table: str, name: str = "") -> str:
    """Return the statement that creates an index, under another name if one is given."""
    source = f"content='{index_source(table)}', content_rowid='id'"
    body = f"{', '.join(TEXT_COLUMNS)}, {source}, {INDEXES[table]}"
    return f"CREATE VIRTUAL TABLE {name or table} USING fts5({body})"


def index_source(table: str) -> str:
    """Return the table or view with the texts of an index."""
    return TRIGRAM_VIEW if table == "memoryhub_trigram" else MEMORY_TABLE


def indexed_values(table: str, row: str) -> list[str]:
    """Return the SQL expressions of a memory's texts in an index. ``row``: ``new``, ``old`` or a table."""
    limits = TRIGRAM_CHARACTERS if index_source(table) == TRIGRAM_VIEW else {}
    values = {column: f"{row}.{column}" for column in TEXT_COLUMNS}
    values |= {column: f"substr({row}.{column}, 1, {limit})" for column, limit in limits.items()}
    return list(values.values())


def _views() -> dict[str, str]:
    columns = ", ".join(
        map("{} AS {}".format, indexed_values("memoryhub_trigram", MEMORY_TABLE), TEXT_COLUMNS)
    )
    return {TRIGRAM_VIEW: f"CREATE VIEW {TRIGRAM_VIEW} AS SELECT id, {columns} FROM {MEMORY_TABLE}"}


def _objects() -> tuple[tuple[str, dict[str, str]], ...]:
    """Return what :func:`install` makes, by kind."""
    return (("VIEW", _views()), ("TABLE", _tables()), ("TRIGGER", _triggers()))


def index_triggers(table: str) -> dict[str, str]:
    """Return the statements for the triggers that keep an index up to date."""
    return {name: sql for name, sql in _triggers().items() if name.startswith(f"{table}_")}


def shadow_triggers(table: str) -> tuple[str, str]:
    """Return the names of the triggers on an index that :mod:`memoryhub.backends.schema` builds."""
    return f"{table}_new_delete", f"{table}_new_update"


# A memory comes back from the trash, or its expiry is moved: searches of the past need to know since when it
# was gone.
_GONE_SINCE = "min(coalesce(old.deleted_at, old.expires_at), coalesce(old.expires_at, old.deleted_at))"
_ABSENCE_END = (
    f"AFTER UPDATE OF deleted_at, expires_at ON {MEMORY_TABLE} WHEN {_GONE_SINCE} <= {NOW}"
    f" AND new.deleted_at IS NULL AND (new.expires_at IS NULL OR new.expires_at > {NOW})"
    f" BEGIN INSERT INTO {ABSENCE_TABLE}(memory_id, began_at, ended_at)"
    f" VALUES (old.id, {_GONE_SINCE}, {NOW}); END"
)


def _triggers() -> dict[str, str]:
    """Return all triggers. They are unconditional: the index contains every row, querysets filter access."""
    columns = ", ".join(TEXT_COLUMNS)
    made = {}
    for table in INDEXES:
        values = {row: indexed_values(table, row) for row in ("old", "new")}
        old, new = (", ".join(texts) for texts in values.values())
        changed = " OR ".join(map("{} IS NOT {}".format, *values.values()))
        add = f"INSERT INTO {table}(rowid, {columns}) VALUES (new.id, {new});"
        remove = f"INSERT INTO {table}({table}, rowid, {columns}) VALUES ('delete', old.id, {old});"
        made[f"{table}_insert"] = f"AFTER INSERT ON {MEMORY_TABLE} BEGIN {add} END"
        made[f"{table}_delete"] = f"AFTER DELETE ON {MEMORY_TABLE} BEGIN {remove} END"
        made[f"{table}_update"] = (
            f"AFTER UPDATE OF {columns} ON {MEMORY_TABLE} WHEN {changed} BEGIN {remove} {add} END"
        )
    # INSERT OR REPLACE fires no delete trigger on a connection without recursive_triggers.
    made["memoryhub_journal_no_replace"] = (
        f"BEFORE INSERT ON {JOURNAL_TABLE} WHEN EXISTS (SELECT 1 FROM {JOURNAL_TABLE} WHERE seq = new.seq)"
        " BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END"
    )
    for event in ("UPDATE", "DELETE"):
        made[f"memoryhub_journal_no_{event.lower()}"] = (
            f"BEFORE {event} ON {JOURNAL_TABLE} BEGIN {refuse('the journal is append-only')} END"
        )
    made["memoryhub_absence_end"] = _ABSENCE_END
    logged = change_log.triggers(MEMORY_TABLE, EMBEDDED_COLUMNS) | change_log.mark_triggers()
    made |= {name: _trigger_body(one) for name, one in logged.items()}
    return {name: f"CREATE TRIGGER {name} {body}" for name, body in made.items()}


def _trigger_body(trigger: Trigger) -> str:
    """Return what follows ``CREATE TRIGGER name``."""
    condition = f" WHEN {trigger.condition}" if trigger.condition else ""
    return f"{trigger.event} ON {trigger.table}{condition} BEGIN {trigger.statements} END"


def install() -> None:
    """Create missing tables and triggers, replace different ones, and rebuild indexes that are wrong."""
    made: set[str] = set()
    with connection.cursor() as cursor:
        for kind, wanted in _objects():
            present = _present_objects()[kind]
            for name, statement in wanted.items():
                if present.get(name) != statement:
                    cursor.execute(f"DROP {kind} IF EXISTS {name}")
                    cursor.execute(statement)
                    made.add(name)
        for table in RETIRED_TABLES:
            cursor.execute(f"DROP TABLE IF EXISTS {table}")
        logged = change_log.triggers(MEMORY_TABLE, EMBEDDED_COLUMNS)
        change_log.start_tracking(cursor, restart=not made.isdisjoint(logged))
        change_log.start_marking(cursor, restart=not made.isdisjoint(change_log.mark_triggers()))
        _set_statistics(cursor)
    release.record()
    for table in INDEXES:
        if not is_index_sound(table):
            rebuild_indexes(table)


def _set_statistics(cursor: CursorWrapper) -> None:
    """Write the statistics as ``ANALYZE`` does. Connections read them when they open."""
    cursor.execute("PRAGMA analysis_limit = 1")
    cursor.execute(f"ANALYZE {JOURNAL_TABLE}")  # creates the table of statistics
    cursor.execute("PRAGMA analysis_limit = 0")
    cursor.execute("DELETE FROM sqlite_stat1 WHERE tbl IN (%s, %s)", [MEMORY_TABLE, JOURNAL_TABLE])
    cursor.executemany(
        "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (%s, %s, %s)",
        [(MEMORY_TABLE, index, stat) for index, stat in STATISTICS.items()],
    )
    cursor.execute("ANALYZE sqlite_schema")  # this connection reads them now


def drop_triggers() -> None:
    """Drop all triggers before a migration, so that a rebuilt table does not update the index."""
    shadows = [name for table in INDEXES for name in shadow_triggers(table)]
    with connection.cursor() as cursor:
        for name in (*_triggers(), *shadows):
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        cursor.execute(f"DROP TABLE IF EXISTS {REINDEX_TABLE}")
        change_log.stop_tracking(cursor)
        change_log.stop_marking(cursor)


def drop_views() -> None:
    """Drop all views before a migration: SQLite renames no table while a view reads a missing one."""
    with connection.cursor() as cursor:
        for name in _views():
            cursor.execute(f"DROP VIEW IF EXISTS {name}")


def uninstall() -> None:
    """Drop the indexes after ``migrate memoryhub zero``: they would still contain the deleted words."""
    drop_views()
    with connection.cursor() as cursor:
        shadows = [f"{table}_{which}" for table in INDEXES for which in ("new", "old")]
        for table in (*reversed(_tables()), *shadows):
            cursor.execute(f"DROP TABLE IF EXISTS {table}")


def find_object_problems() -> list[str]:
    """Describe the views, tables and triggers that are missing or differ."""
    found, objects = [], _present_objects()
    for kind, wanted in _objects():
        present = objects[kind]
        for name, statement in wanted.items():
            if name not in present:
                found.append(f"{kind.lower()} {name} is missing")
            elif present[name] != statement:
                found.append(f"{kind.lower()} {name} is not the one this version installs")
    return found


def finish_rebuilds() -> None:
    """Do nothing: an installation rebuilds an index in one transaction."""


def rebuild_indexes(table: str | None = None) -> None:
    """Rebuild one index or all."""
    with transaction.atomic(), connection.cursor() as cursor:
        for name in [table] if table else INDEXES:
            cursor.execute(f"INSERT INTO {name}({name}) VALUES ('rebuild')")


def merge_step(table: str, pages: int, *, begin: bool) -> bool:
    """Merge about this number of pages of an index, in a transaction. Return whether there is more to do.

    ``begin`` starts to merge all segments into one, which removes the words of deleted rows: ``optimize`` in
    small steps.
    """
    with connection.cursor() as cursor:
        before = connection.connection.total_changes
        amount = -pages if begin else pages
        cursor.execute(f"INSERT INTO {table}({table}, rank) VALUES ('merge', {amount:d})")
        return bool(connection.connection.total_changes - before >= 2)


def database_bytes() -> int:
    """Return the bytes of the database file."""
    return int(fetch_one("SELECT page_size * page_count FROM pragma_page_size, pragma_page_count")[0])


def storage_sizes() -> dict[str, int]:
    """Return the bytes of the database file, of its free pages and of the full-text indexes."""
    sizes = (f"(SELECT coalesce(sum(length(block)), 0) FROM {table}_data)" for table in INDEXES)
    found = fetch_one(
        f"SELECT page_size * page_count, page_size * freelist_count, {' + '.join(sizes)}"
        " FROM pragma_page_size, pragma_page_count, pragma_freelist_count"
    )
    return dict(zip(("database_bytes", "free_bytes", "index_bytes"), found, strict=True))


def _present_objects() -> dict[str, dict[str, str]]:
    """Return the statement of each object by its kind and name."""
    found: dict[str, dict[str, str]] = {"VIEW": {}, "TABLE": {}, "TRIGGER": {}, "INDEX": {}}
    with connection.cursor() as cursor:
        cursor.execute("SELECT upper(type), name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        for kind, name, sql in cursor.fetchall():
            found[kind][name] = sql.replace(f'"{name}"', name, 1)  # a renamed table is in quotes
    return found


def is_index_complete(table: str) -> bool:
    """Whether an index has a row for each memory. Compares counts only: a few milliseconds at 100 000."""
    return bool(
        fetch_one(f"SELECT (SELECT count(*) FROM {table}_docsize) = (SELECT count(*) FROM {MEMORY_TABLE})")[0]
    )


def is_index_sound(table: str) -> bool:
    """Whether every row of an index equals its memory. Slow, and takes the write lock."""
    try:
        with transaction.atomic():
            # Not through Django's cursor, which would record a difference as damage of the file.
            connection.connection.execute(f"INSERT INTO {table}({table}, rank) VALUES ('integrity-check', 1)")
    except sqlite3.DatabaseError:
        return False
    return True


def find_unsound_indexes() -> list[str]:
    """Return the indexes that differ from their table. Checks a copy of the store, so that no writer waits.

    The temporary copy is in the folder of the store and takes some seconds for 100 000 memories. Inside a
    transaction, which a copy would not contain, the check is in place.
    """
    if connection.in_atomic_block:
        return [table for table in INDEXES if not is_index_sound(table)]
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
    old_values, new_values = (", ".join(indexed_values(table, row)) for row in ("old", "new"))
    remove = f"INSERT INTO {new}({new}, rowid, {columns}) VALUES ('delete', old.id, {old_values});"
    add = f"INSERT INTO {new}(rowid, {columns}) VALUES (new.id, {new_values});"
    copied = f"WHEN old.id <= (SELECT position FROM {REINDEX_TABLE} WHERE name = '{table}')"
    with connection.cursor() as cursor:
        for trigger in shadow_triggers(table):
            cursor.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        cursor.execute(f"DROP TABLE IF EXISTS {new}")
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {REINDEX_TABLE} (name TEXT PRIMARY KEY, position INTEGER)"
        )
        cursor.execute(f"INSERT OR REPLACE INTO {REINDEX_TABLE} VALUES (%s, 0)", [table])
        cursor.execute(create_index(table, new))
        on_delete, on_update = shadow_triggers(table)
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
                f" SELECT id, {columns} FROM {index_source(table)} WHERE id > %s AND id <= %s",
                [after, last],
            )
            cursor.execute(f"UPDATE {REINDEX_TABLE} SET position = %s WHERE name = %s", [last, table])
    return len(found) == limit or (bool(found) and last < found[-1][0])


def swap_index(table: str) -> None:
    """Copy the remaining rows and replace the index by the new one. The old one is renamed to ``_old``."""
    while copy_rows(table, 1000):
        pass
    triggers = index_triggers(table)
    with connection.cursor() as cursor:
        # Renaming a table would change its name in the triggers too.
        for name in (*triggers, *shadow_triggers(table)):
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
            for trigger in shadow_triggers(table):
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
