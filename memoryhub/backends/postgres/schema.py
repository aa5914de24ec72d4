"""Text search configuration, index tables and triggers of PostgreSQL: installed after every migration.

The comment of an object is the digest of its SQL: :func:`install` replaces objects of other versions.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from typing import NamedTuple

from django.db import DatabaseError, connection, transaction
from django.db.backends.utils import CursorWrapper

from memoryhub.backends import change_blocks, change_log, release
from memoryhub.backends.postgres import (
    CONFIGURATION,
    JOURNAL_COPIES,
    NOW,
    RELEASE_TABLE,
    rates,
    refuse,
    trigger_statements,
    vectors,
)
from memoryhub.backends.tables import (
    ABSENCE_TABLE,
    EMBEDDED_COLUMNS,
    INDEXES,
    JOURNAL_TABLE,
    MEMORY_TABLE,
    REINDEX_TABLE,
    TEXT_COLUMNS,
    TEXT_TABLE,
    TRIGRAM_CHARACTERS,
    Trigger,
)

logger = logging.getLogger(__name__)
MAX_SUBJECT_CHARS = 255
MAX_WORD_CHARACTERS = 250_000  # of a text in the word index: a tsvector has at most a megabyte
DISABLED = "is disabled"
_STEMMER = "memoryhub_porter"  # a dictionary of stems
# Kinds of words that the parser finds in texts of letters, digits and spaces.
_TOKENS = "asciiword, word, numword, int, uint, float, sfloat"
# A collation with the letters of all scripts, in the order of preference.
_COLLATIONS = ("pg_c_utf8", "und-x-icu", "C.utf8", "default")
_APPEND_ONLY = refuse("the journal is append-only")


class SchemaObject(NamedTuple):
    """``identity``: as in COMMENT ON and DROP. ``regtype``: the type of its address in the catalogue."""

    identity: str
    statements: tuple[str, ...]

    @property
    def digest(self) -> str:
        return hashlib.md5("\n".join(self.statements).encode(), usedforsecurity=False).hexdigest()


def _functions(collation: str) -> dict[str, SchemaObject]:
    """Return the functions that make index rows. The first does the same as ``core.text.fold``."""
    texts = ", ".join(f"{column} text" for column in TEXT_COLUMNS)
    folded = (
        f'normalize(regexp_replace(normalize(lower(t COLLATE "{collation}"), NFD),'
        " '([a-z])[\\u0300-\\u036f]+', '\\1', 'g'), NFC)"
    )
    words = (
        f"SELECT regexp_replace((CASE WHEN octet_length(t) = length(t) THEN lower(t)"
        f" ELSE translate({folded}, 'ςµſ', 'σμs') END) COLLATE \"{collation}\", '[^[:alnum:]]+', ' ', 'g')"
    )
    # Before a stemmer that lacks SQLite's rules for -bly and -logy: see ``core.text.stem``.
    begin, end = "([aeiouy][^aeiou[:space:][:punct:]][[:alnum:]]*)", "(y|ys|ies|ied|ying|i)\\M"
    endings = (
        f"SELECT CASE WHEN t ~ '(bl|log)[yi]' THEN regexp_replace(regexp_replace(t,"
        f" '{begin}bl{end}', '\\1ble', 'g'), '{begin}log{end}', '\\1log', 'g') ELSE t END"
    )
    weights = {"title": "A", "alias_text": "B"}
    vectors = " || ".join(
        f"setweight(to_tsvector('{CONFIGURATION}',"
        f" memoryhub_endings(memoryhub_words(left({column}, {MAX_WORD_CHARACTERS})))),"
        f" '{weights.get(column, 'D')}')"
        for column in TEXT_COLUMNS
    )
    cut = {one: f"left({one}, {limit})" for one, limit in TRIGRAM_CHARACTERS.items()}
    together = " || repeat(chr(1), 2) || ".join(cut.get(column, column) for column in TEXT_COLUMNS)
    trigrams = (
        "SELECT coalesce(array_to_tsvector(array_agg(DISTINCT trigram)), '') FROM (SELECT"
        " c || lead(c) OVER w || lead(c, 2) OVER w AS trigram FROM unnest(string_to_array("
        f'lower(({together}) COLLATE "{collation}"), NULL)) WITH ORDINALITY AS letters(c, n)'
        " WINDOW w AS (ORDER BY n)) AS found WHERE trigram IS NOT NULL"
    )
    made = {
        "memoryhub_words": ("t text", "text", words),
        "memoryhub_endings": ("t text", "text", endings),
        "memoryhub_word_vector": (texts, "tsvector", f"SELECT {vectors}"),
        "memoryhub_trigram_vector": (texts, "tsvector", trigrams),
    }
    return {
        name: SchemaObject(
            f"FUNCTION {name}",
            (
                f"CREATE OR REPLACE FUNCTION {name}({arguments}) RETURNS {result}"
                f" LANGUAGE sql IMMUTABLE PARALLEL {_parallel(name)} AS $body$ {body} $body$",
            ),
        )
        for name, (arguments, result, body) in made.items()
    }


_CONFIGURATION_OBJECT = SchemaObject(
    f"TEXT SEARCH CONFIGURATION {CONFIGURATION}",
    (
        f"DROP TEXT SEARCH DICTIONARY IF EXISTS {_STEMMER} CASCADE",
        f"CREATE TEXT SEARCH DICTIONARY {_STEMMER} (TEMPLATE = snowball, LANGUAGE = porter)",
        f"CREATE TEXT SEARCH CONFIGURATION {CONFIGURATION} (PARSER = default)",
        f"ALTER TEXT SEARCH CONFIGURATION {CONFIGURATION} ADD MAPPING FOR {_TOKENS} WITH {_STEMMER}",
    ),
)


def _parallel(function: str) -> str:
    """Return the parallel mode of a function.

    Every search for words calls ``memoryhub_endings``. Parallel workers would take longer to start.
    """
    return "UNSAFE" if function == "memoryhub_endings" else "SAFE"


def _tables() -> dict[str, SchemaObject]:
    """Return the tables. Those of the indexes have the names and columns of SQLite's."""
    made: dict[str, tuple[str, ...]] = {
        table: (
            f"CREATE TABLE {table} (rowid bigint PRIMARY KEY, {table} tsvector NOT NULL, rank real)",
            f"CREATE INDEX {table}_terms ON {table} USING gin ({table})",
        )
        for table in INDEXES
    }
    plain = {**change_log.TABLES, **change_blocks.TABLES, rates.TABLE: rates.CREATE_TABLE}
    made |= {table: (statement,) for table, statement in plain.items()}
    return {table: SchemaObject(f"TABLE {table}", statements) for table, statements in made.items()}


def index_values(table: str, row: str) -> str:
    """Return an expression for the index row of a memory. ``row``: ``new`` or a table."""
    function = "memoryhub_word_vector" if table == TEXT_TABLE else "memoryhub_trigram_vector"
    return f"{function}({', '.join(f'{row}.{column}' for column in TEXT_COLUMNS)})"


def _index_triggers() -> dict[str, Trigger]:
    made, columns = {}, ", ".join(TEXT_COLUMNS)
    changed = " OR ".join(f"old.{column} IS DISTINCT FROM new.{column}" for column in TEXT_COLUMNS)
    for table in INDEXES:
        write = (
            f"INSERT INTO {table} VALUES (new.id, {index_values(table, 'new')})"
            f" ON CONFLICT (rowid) DO UPDATE SET {table} = excluded.{table};"
        )
        made[f"{table}_insert"] = Trigger("AFTER INSERT", MEMORY_TABLE, write)
        made[f"{table}_update"] = Trigger(f"AFTER UPDATE OF {columns}", MEMORY_TABLE, write, changed)
        made[f"{table}_delete"] = Trigger(
            "AFTER DELETE", MEMORY_TABLE, f"DELETE FROM {table} WHERE rowid = old.id;"
        )
    return made


# A memory comes back from the trash, or its expiry is moved. ``least`` ignores NULL.
_GONE_SINCE = "least(old.deleted_at, old.expires_at)"
_ABSENCE_END = Trigger(
    "AFTER UPDATE OF deleted_at, expires_at",
    MEMORY_TABLE,
    f"INSERT INTO {ABSENCE_TABLE}(memory_id, began_at, ended_at) VALUES (old.id, {_GONE_SINCE}, {NOW});",
    f"{_GONE_SINCE} <= {NOW} AND new.deleted_at IS NULL"
    f" AND (new.expires_at IS NULL OR new.expires_at > {NOW})",
)


def _trigger_objects(wanted: dict[str, Trigger]) -> dict[str, SchemaObject]:
    return {
        name: SchemaObject(f"TRIGGER {name} ON {one.table}", trigger_statements(name, one))
        for name, one in wanted.items()
    }


def _vector_objects() -> dict[str, SchemaObject]:
    """Return what needs the extension ``vector``."""
    return {
        vectors.FUNCTION: SchemaObject(f"FUNCTION {vectors.FUNCTION}", (vectors.CREATE_FUNCTION,)),
        vectors.TABLE: SchemaObject(f"TABLE {vectors.TABLE}", vectors.CREATE_TABLE),
        **_trigger_objects(vectors.TRIGGERS),
    }


def _triggers() -> dict[str, SchemaObject]:
    wanted = _index_triggers()
    for event in ("UPDATE", "DELETE"):
        wanted[f"memoryhub_journal_no_{event.lower()}"] = Trigger(
            f"BEFORE {event}", JOURNAL_TABLE, _APPEND_ONLY
        )
    wanted["memoryhub_absence_end"] = _ABSENCE_END
    wanted |= change_log.triggers(MEMORY_TABLE, EMBEDDED_COLUMNS) | change_blocks.triggers()
    made = _trigger_objects(wanted)
    name = "memoryhub_journal_no_truncate"
    function, _ = trigger_statements(name, Trigger("", JOURNAL_TABLE, _APPEND_ONLY))
    create = f"CREATE OR REPLACE TRIGGER {name} BEFORE TRUNCATE ON {JOURNAL_TABLE} EXECUTE FUNCTION {name}()"
    made[name] = SchemaObject(f"TRIGGER {name} ON {JOURNAL_TABLE}", (function, create))
    return made


def _objects(cursor: CursorWrapper) -> dict[str, SchemaObject]:
    """Return all objects in the order in which they are created."""
    cursor.execute("SELECT collname FROM pg_collation WHERE collname = ANY(%s)", [list(_COLLATIONS)])
    present = {name for (name,) in cursor.fetchall()}
    collation = next(name for name in _COLLATIONS if name in present)
    return {
        CONFIGURATION: _CONFIGURATION_OBJECT,
        **_functions(collation),
        **_tables(),
        **_triggers(),
        **(_vector_objects() if vectors.has_extension(cursor) else {}),
    }


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


def _differences(cursor: CursorWrapper) -> Iterator[tuple[str, SchemaObject, str]]:
    """Yield the name, the object and the problem of each object that is missing or different.

    A newer release may have other objects.
    """
    if release.find_later_migrations():
        return
    present = _present(cursor)
    for name, one in _objects(cursor).items():
        kind = one.identity.split()[0]
        digest, is_enabled = present.get((kind, name), (None, True))
        if digest is None:
            yield name, one, "is missing"
        elif digest != one.digest:
            yield name, one, "is not the one this version installs"
        elif not is_enabled:
            yield name, one, DISABLED


def install() -> None:
    """Create missing objects, replace different ones, and rebuild indexes that are wrong.

    The objects of a newer release stay: its nodes may serve the store, too.
    """
    if later := release.find_later_migrations():
        logger.warning("a newer release has made the tables and triggers (%s)", ", ".join(later))
        return
    with transaction.atomic(), connection.cursor() as cursor:
        has_vectors = vectors.create_extension(cursor)
        vectors.drop_leftovers(cursor)
        differences = list(_differences(cursor))
        for name, one, problem in differences:
            _create(cursor, name, one)
            if problem == DISABLED:  # a trigger
                cursor.execute(f"ALTER TABLE {one.identity.split()[-1]} ENABLE TRIGGER {name}")
        _keep_bytes_of_details(cursor)
        _widen_subjects(cursor)
        names = {name for name, _, _ in differences}
        logged = change_log.triggers(MEMORY_TABLE, EMBEDDED_COLUMNS)
        change_log.start_tracking(cursor, restart=not names.isdisjoint(logged))
        change_blocks.start_tracking(cursor, restart=not names.isdisjoint(change_blocks.triggers()))
        release.record()
        changed = {*_functions(""), CONFIGURATION} & names
        for table in INDEXES:
            if changed or not is_index_complete(table):
                rebuild_indexes(table)
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
        for one in _triggers().values():
            name, table = one.identity.split()[1], one.identity.split()[-1]
            cursor.execute(f"DROP TRIGGER IF EXISTS {name} ON {table}")
        _drop_triggers(cursor, vectors.TRIGGERS)
        change_log.stop_tracking(cursor)
        change_blocks.stop_tracking(cursor)


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
    return frozenset({*_tables(), REINDEX_TABLE, RELEASE_TABLE, vectors.TABLE})


def find_object_problems() -> list[str]:
    """Describe the tables, functions and triggers that are missing or differ."""
    found = []
    tables = connection.introspection.table_names()
    with connection.cursor() as cursor:
        for name, one, problem in _differences(cursor):
            found.append(f"{one.identity.split()[0].lower()} {name} {problem}")
        if not vectors.has_extension(cursor):
            present = _present(cursor)
            left = [name for name in vectors.TRIGGERS if ("TRIGGER", name) in present]
            found += [f"trigger {name} needs the extension vector" for name in left]
        elif vectors.TABLE in tables and not vectors.is_complete(cursor):
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


def scrub_erased() -> None:
    """Let PostgreSQL reuse the pages of erased rows. Its write-ahead log contains their bytes longer."""
    transaction.on_commit(_vacuum)


def _vacuum() -> None:
    if connection.in_atomic_block:
        return
    try:
        with connection.cursor() as cursor:
            tables = [MEMORY_TABLE, *INDEXES, change_log.VECTOR_TABLE]
            if vectors.has_extension(cursor):
                tables.append(vectors.TABLE)
            cursor.execute(f"VACUUM {', '.join(tables)}")
    except DatabaseError as error:
        logger.warning("the pages of erased rows are vacuumed later: %s", error)


def merge_step(table: str, pages: int, *, begin: bool) -> bool:
    """Do nothing: a GIN index contains no words of deleted rows after a vacuum."""
    return False


def truncate_log() -> None:
    """Do nothing: the server removes its write-ahead log by itself."""


def database_bytes() -> int:
    """Return the bytes of the database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])


def storage_sizes() -> dict[str, int]:
    """Return the bytes of the database and of the full-text indexes. PostgreSQL reports no free pages."""
    sizes = " + ".join(f"pg_total_relation_size('{table}')" for table in INDEXES)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_database_size(current_database()), 0, {sizes}")
        return dict(zip(("database_bytes", "free_bytes", "index_bytes"), cursor.fetchone(), strict=True))


def is_index_complete(table: str) -> bool:
    """Whether an index has a row for each memory. Compares counts only."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT (SELECT count(*) FROM {table}) = (SELECT count(*) FROM {MEMORY_TABLE})")
        return bool(cursor.fetchone()[0])


def is_index_sound(table: str) -> bool:
    """Whether every row of an index equals its memory. Slow."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT EXISTS (SELECT 1 FROM {MEMORY_TABLE} AS m FULL JOIN {table} AS i ON i.rowid = m.id"
            f" WHERE i.{table} IS DISTINCT FROM {index_values(table, 'm')} OR m.id IS NULL)"
        )
        return not cursor.fetchone()[0]
