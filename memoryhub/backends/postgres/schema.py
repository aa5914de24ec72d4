"""Install, verify and drop the objects of the schema on PostgreSQL, after and before every migration.

The comment of an object is the digest of its SQL: :func:`install` replaces objects of other versions.
"""

from __future__ import annotations

import logging
from functools import partial

from django.db import DatabaseError, connection, transaction
from django.db.backends.utils import CursorWrapper

from memoryhub.backends import change_log, release
from memoryhub.backends.dialect.postgres import CONFIGURATION, JOURNAL_COPIES, RELEASE_TABLE
from memoryhub.backends.postgres import reindexing, vectors
from memoryhub.backends.postgres.schema_objects import (
    ERASING_TABLE,
    MAX_SUBJECT_CHARS,
    SchemaObject,
    function_objects,
    index_values,
    schema_objects,
    table_objects,
    trigger_objects,
)
from memoryhub.backends.tables import (
    EMBEDDED_COLUMNS,
    INDEXES,
    JOURNAL_TABLE,
    MEMORY_TABLE,
    REINDEX_TABLE,
    Trigger,
)
from memoryhub.core.database import answer_limit, execute, fetch_one, read_timeout, write_transaction

logger = logging.getLogger(__name__)
DISABLED = "is disabled"
_MAX_VACUUM_SECONDS = 6 * 3600.0
_STEP_ROWS, _STEP_CHARACTERS = 25, 30_000  # that a rebuild writes while other writers wait: some 100 ms


_PRESENT_SQL = """
    SELECT 'TRIGGER', tgname, obj_description(oid, 'pg_trigger'), tgenabled <> 'D' FROM pg_trigger
        WHERE NOT tgisinternal
    UNION ALL SELECT 'FUNCTION', proname, obj_description(oid, 'pg_proc'), true FROM pg_proc
        WHERE pg_function_is_visible(oid)
    UNION ALL SELECT 'TABLE', relname, obj_description(oid, 'pg_class'), true FROM pg_class
        WHERE relkind = 'r' AND pg_table_is_visible(oid)
    UNION ALL SELECT 'TEXT', cfgname, obj_description(oid, 'pg_ts_config'), true FROM pg_ts_config
        WHERE pg_ts_config_is_visible(oid)"""


def _present(cursor: CursorWrapper) -> dict[tuple[str, str], tuple[str, bool]]:
    """Return the digest of each object, and whether it is enabled, by the kind and the name."""
    cursor.execute(
        f"SELECT * FROM ({_PRESENT_SQL}) AS all_objects (kind, name, digest, enabled)"
        " WHERE name LIKE 'memoryhub%'"
    )
    return {(kind, name): (digest or "", enabled) for kind, name, digest, enabled in cursor.fetchall()}


def _differences(
    cursor: CursorWrapper, present: dict[tuple[str, str], tuple[str, bool]]
) -> list[tuple[str, SchemaObject, str]]:
    """Return the name, the object and the problem of each object that is missing or different.

    A newer release may have other objects.
    """
    found = []
    for name, one in schema_objects(cursor).items():
        kind = one.identity.split()[0]
        digest, is_enabled = present.get((kind, name), (None, True))
        if digest is None:
            found.append((name, one, "is missing"))
        elif digest != one.digest:
            found.append((name, one, "is not the one this version installs"))
        elif not is_enabled:
            found.append((name, one, DISABLED))
    return [] if found and release.find_later_migrations() else found


def install() -> None:
    """Create missing objects, replace different ones, and rebuild indexes that are wrong.

    The objects of a newer release stay: its nodes may serve the store, too. If only the rules for words
    changed, the indexes are rebuilt in steps between which nodes write. The next start of a server completes
    them if this process is killed.
    """
    if later := release.find_later_migrations():
        logger.warning("a newer release has made the tables and triggers (%s)", ", ".join(later))
        return
    release.repeat_while_locked(_install)
    if not connection.in_atomic_block:
        finish_rebuilds()


def finish_rebuilds() -> None:
    """Complete the rebuilds of text indexes that an installation has begun, perhaps one that was killed."""
    for table in INDEXES:
        while reindexing.copy_position(table) is not None:
            release.repeat_while_locked(partial(_rebuild_step, table))


def _rebuild_step(table: str) -> None:
    with write_transaction():
        if not reindexing.copy_rows(table, _STEP_ROWS, _STEP_CHARACTERS):
            reindexing.swap_index(table)


def _install() -> None:
    # Another node must not write meanwhile with the old functions: these would make other index rows.
    with write_transaction(), connection.cursor() as cursor:
        release.limit_lock_wait()
        has_vectors = vectors.create_extension(cursor)
        vectors.drop_leftovers(cursor)
        differences = _differences(cursor, _present(cursor))
        for name, one, problem in differences:
            _create(cursor, name, one)
            if problem == DISABLED:  # a trigger
                cursor.execute(f"ALTER TABLE {one.identity.split()[-1]} ENABLE TRIGGER {name}")
        _keep_bytes_of_details(cursor)
        _widen_subjects(cursor)
        names = {name for name, _, _ in differences}
        logged = change_log.triggers(MEMORY_TABLE, EMBEDDED_COLUMNS)
        change_log.start_tracking(cursor, restart=not names.isdisjoint(logged))
        change_log.start_marking(cursor, restart=not names.isdisjoint(change_log.mark_triggers()))
        release.record()
        changed = {*function_objects(""), CONFIGURATION} & names
        for table in INDEXES:
            if not is_index_complete(table):  # searches would miss memories until it is
                rebuild_indexes(table)
            elif changed:
                reindexing.begin_rebuild(table)
        if has_vectors:
            vectors.copy_missing(cursor)
        else:
            _drop_triggers(cursor, vectors.TRIGGERS)  # they need the extension, which was dropped


def _create(cursor: CursorWrapper, name: str, one: SchemaObject) -> None:
    if one.identity.startswith("TABLE"):
        cursor.execute(f"DROP TABLE IF EXISTS {name}")
    if one.identity.startswith("TEXT"):
        cursor.execute(f"DROP {one.identity.replace(name, f'IF EXISTS {name}')} CASCADE")
    for statement in one.statements:
        cursor.execute(statement)
    cursor.execute(f"COMMENT ON {one.identity} IS '{one.digest}'")


def _keep_bytes_of_details(cursor: CursorWrapper) -> None:
    """Store the details of the journal also as they were written: its chain contains their bytes."""
    present = {one.name for one in connection.introspection.get_table_description(cursor, JOURNAL_TABLE)}
    for column in set(JOURNAL_COPIES) - present:
        cursor.execute(f"ALTER TABLE {JOURNAL_TABLE} ADD COLUMN {column} text")


def _widen_subjects(cursor: CursorWrapper) -> None:
    """Allow subjects of single sign-on as long as OpenID Connect does. The column of allauth has 191."""
    cursor.execute(
        "SELECT 1 FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = %s"
        " AND column_name = 'uid' AND character_maximum_length < %s",
        ["socialaccount_socialaccount", MAX_SUBJECT_CHARS],
    )
    if cursor.fetchone():
        cursor.execute(
            f"ALTER TABLE socialaccount_socialaccount ALTER COLUMN uid TYPE varchar({MAX_SUBJECT_CHARS:d})"
        )


def drop_triggers() -> None:
    """Drop all triggers, for the tests: changes are no longer tracked."""
    with connection.cursor() as cursor:
        for one in trigger_objects().values():
            name, table = one.identity.split()[1], one.identity.split()[-1]
            cursor.execute(f"DROP TRIGGER IF EXISTS {name} ON {table}")
        _drop_triggers(cursor, vectors.TRIGGERS)
        change_log.stop_tracking(cursor)
        change_log.stop_marking(cursor)


def _drop_triggers(cursor: CursorWrapper, triggers: dict[str, Trigger]) -> None:
    for name, one in triggers.items():
        cursor.execute(f"DROP TRIGGER IF EXISTS {name} ON {one.table}")


def drop_views() -> None:
    """Do nothing: PostgreSQL needs no views."""


def uninstall() -> None:
    """Drop the indexes after ``migrate memoryhub zero``: they would still contain the deleted words."""
    with connection.cursor() as cursor:
        for table in derived_tables():
            cursor.execute(f"DROP TABLE IF EXISTS {table}")


def derived_tables() -> frozenset[str]:
    """Return the tables that :func:`install` makes, with what it needs from the others."""
    return frozenset({*table_objects(), REINDEX_TABLE, RELEASE_TABLE, vectors.TABLE})


def find_object_problems() -> list[str]:
    """Describe the tables, functions and triggers that are missing or differ."""
    with connection.cursor() as cursor:
        present = _present(cursor)
        found = [
            f"{one.identity.split()[0].lower()} {name} {problem}"
            for name, one, problem in _differences(cursor, present)
        ]
        if not vectors.has_extension(cursor):
            left = [name for name in vectors.TRIGGERS if ("TRIGGER", name) in present]
            found += [f"trigger {name} needs the extension vector" for name in left]
        elif ("TABLE", vectors.TABLE) in present and not vectors.is_complete(cursor):
            found.append(f"index {vectors.TABLE} does not hold as many rows as its table")
    return found


def rebuild_indexes(table: str | None = None) -> None:
    """Rebuild one index or all."""
    with transaction.atomic(), connection.cursor() as cursor:
        for name in [table] if table else INDEXES:
            cursor.execute(f"DELETE FROM {name}")
            cursor.execute(
                f"INSERT INTO {name} SELECT id, {index_values(name, MEMORY_TABLE)} FROM {MEMORY_TABLE}"
            )
        if table is None and vectors.has_extension(cursor):
            vectors.copy_missing(cursor)


def begin_erase() -> None:
    """Record that rows are being erased, in their transaction."""
    execute(f"INSERT INTO {ERASING_TABLE} DEFAULT VALUES")


def is_erase_pending() -> bool:
    """Whether pages of erased rows were not vacuumed yet."""
    return bool(fetch_one(f"SELECT EXISTS (SELECT 1 FROM {ERASING_TABLE})")[0])


def finish_erase() -> None:
    """Vacuum, so that PostgreSQL reuses the pages of erased rows. The write-ahead log keeps them longer."""
    try:
        [last] = fetch_one(f"SELECT max(id) FROM {ERASING_TABLE}")
        if last is None or connection.in_atomic_block:
            return
        with connection.cursor() as cursor, read_timeout(_MAX_VACUUM_SECONDS):
            tables = [MEMORY_TABLE, *INDEXES, change_log.VECTOR_TABLE]
            if vectors.has_extension(cursor):
                tables.append(vectors.TABLE)
            cursor.execute(f"VACUUM {', '.join(tables)}")
            cursor.execute(f"DELETE FROM {ERASING_TABLE} WHERE id <= %s", [last])
    except DatabaseError as error:
        logger.warning("the pages of erased rows are vacuumed later: %s", error)


def scrub_erased() -> None:
    """Vacuum after the transaction. A request leaves it to a worker, because it may take minutes."""
    if not answer_limit():
        transaction.on_commit(finish_erase)


def merge_step(table: str, pages: int, *, begin: bool) -> bool:
    """Do nothing: a GIN index contains no words of deleted rows after a vacuum."""
    return False


def truncate_log() -> None:
    """Do nothing: the server removes its write-ahead log by itself."""


def database_bytes() -> int:
    return int(fetch_one("SELECT pg_database_size(current_database())")[0])


def storage_sizes() -> dict[str, int]:
    """Return the bytes of the database and of the full-text indexes. PostgreSQL reports no free pages."""
    sizes = " + ".join(f"pg_total_relation_size('{table}')" for table in INDEXES)
    found = fetch_one(f"SELECT pg_database_size(current_database()), 0, {sizes}")
    return dict(zip(("database_bytes", "free_bytes", "index_bytes"), found, strict=True))


def is_index_complete(table: str) -> bool:
    """Whether an index has a row for each memory. Compares counts only."""
    return bool(
        fetch_one(f"SELECT (SELECT count(*) FROM {table}) = (SELECT count(*) FROM {MEMORY_TABLE})")[0]
    )


def is_index_sound(table: str) -> bool:
    """Whether every row of an index equals its memory. Slow."""
    return reindexing.is_sound(table)
