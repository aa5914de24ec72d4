"""Full-text tables and triggers: installed after every migration, dropped before one, verified by checks.

Django rebuilds an SQLite table to alter it, which silently drops its triggers. So no migration contains them:
``pre_migrate`` drops the triggers, ``post_migrate`` creates them again and repairs the indexes.
"""

from __future__ import annotations

import sqlite3

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from memoryhub.backends import change_log, release
from memoryhub.backends.dialect.sqlite import NOW, refuse
from memoryhub.backends.tables import (
    ABSENCE_TABLE,
    EMBEDDED_COLUMNS,
    JOURNAL_TABLE,
    MEMORY_TABLE,
    REINDEX_TABLE,
    TEXT_COLUMNS,
    TRIGRAM_CHARACTERS,
    Trigger,
)
from memoryhub.core.database import fetch_one

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
