"""Functions, index tables and triggers on PostgreSQL: installed after migrations, dropped before them.

The comment of an object is the digest of its SQL: :func:`install` replaces objects of other versions. A text
index is rebuilt in place: triggers write changed rows, and each step some of the others.
"""

from __future__ import annotations

import hashlib
import logging
from functools import partial
from typing import NamedTuple

from django.db import DatabaseError, connection, transaction
from django.db.backends.utils import CursorWrapper

from memoryhub.backends import (
    ABSENCE_TABLE,
    EMBEDDED_COLUMNS,
    INDEXES,
    JOURNAL_TABLE,
    MEMORY_TABLE,
    REINDEX_TABLE,
    TEXT_COLUMNS,
    TEXT_TABLE,
    TRIGRAM_CHARACTERS,
    TRIGRAM_TABLE,
    Trigger,
    change_log,
    release,
)
from memoryhub.backends.dialect.postgres import (
    CONFIGURATION,
    IN_TITLES,
    JOURNAL_COPIES,
    NOW,
    RELEASE_TABLE,
    TABLE_EXISTS,
    WORD_QUERY,
    refuse,
    trigger_statements,
)
from memoryhub.backends.postgres import rates, vectors
from memoryhub.core.database import answer_limit, execute, fetch_one, read_timeout, write_transaction


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


MAX_SUBJECT_CHARS = 255
ERASING_TABLE = "memoryhub_erasing"  # a row for each erase whose pages were not vacuumed yet
_ERASING_COLUMNS = "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
MAX_WORD_CHARACTERS = 250_000  # of a text in the word index: a tsvector has at most a megabyte

# Only the words of titles and aliases. Its index is exact; with weights, PostgreSQL reads every found row.
_TITLES = f"ts_filter({TEXT_TABLE}, '{{a,b}}')"
# Writes first append to a list that each search reads. By default it grows to 4 MB. Smaller lists would make
# writes of trigrams slower.
_MAX_LIST_KB = {TEXT_TABLE: 64, TRIGRAM_TABLE: 256}
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


def function_objects(collation: str) -> dict[str, SchemaObject]:
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
        "SELECT coalesce(array_to_tsvector(array_agg(found[1])), '') FROM (SELECT"
        f' lower(({together}) COLLATE "{collation}") OFFSET 0) AS texts (t), generate_series(1, 3) AS first,'
        " regexp_matches(substr(t, first), '...', 'g') AS found"
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


def table_objects() -> dict[str, SchemaObject]:
    """Return the tables. Those of the indexes have the names and columns of SQLite's."""
    made: dict[str, tuple[str, ...]] = {
        table: (
            f"CREATE TABLE {table} (rowid bigint PRIMARY KEY, {table} tsvector NOT NULL, rank real)",
            f"CREATE INDEX {table}_terms ON {table} USING gin ({table})"
            f" WITH (gin_pending_list_limit = {limit:d})",
        )
        for table, limit in _MAX_LIST_KB.items()
    }
    made[TEXT_TABLE] += (
        f"CREATE INDEX {TEXT_TABLE}_titles ON {TEXT_TABLE} USING gin ({_TITLES})"
        f" WITH (gin_pending_list_limit = {_MAX_LIST_KB[TEXT_TABLE]:d})",
    )
    plain = {**change_log.TABLES, **change_log.MARK_TABLES, rates.TABLE: rates.CREATE_TABLE}
    plain[ERASING_TABLE] = f"CREATE TABLE {ERASING_TABLE} ({_ERASING_COLUMNS})"
    made |= {table: (statement,) for table, statement in plain.items()}
    return {table: SchemaObject(f"TABLE {table}", statements) for table, statements in made.items()}


def _word_search() -> SchemaObject:
    """Return the function that returns the keys of the memories with the words of an expression.

    Without its settings, PostgreSQL reads the whole table for a word that some percent of the rows contain:
    it assumes that ``@@`` costs no more than a comparison of numbers.
    """
    end = len(IN_TITLES)
    expression, in_titles = "expression", f"left(expression, -{end:d})"
    select = f"SELECT string_agg(rowid::text, ',') FROM {TEXT_TABLE} WHERE {{}} @@ {WORD_QUERY}"
    return SchemaObject(
        "FUNCTION memoryhub_word_keys",
        (
            "CREATE OR REPLACE FUNCTION memoryhub_word_keys(expression text) RETURNS text LANGUAGE plpgsql"
            " STABLE PARALLEL UNSAFE SET enable_seqscan = off SET max_parallel_workers_per_gather = 0"
            f" SET jit = off AS $body$ BEGIN IF right(expression, {end:d}) = '{IN_TITLES}' THEN"
            f" RETURN ({select.format(_TITLES).replace('%s', in_titles)}); END IF;"
            f" RETURN ({select.format(TEXT_TABLE).replace('%s', expression)}); END $body$",
        ),
    )


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


def _to_objects(wanted: dict[str, Trigger]) -> dict[str, SchemaObject]:
    return {
        name: SchemaObject(f"TRIGGER {name} ON {one.table}", trigger_statements(name, one))
        for name, one in wanted.items()
    }


def _vector_objects() -> dict[str, SchemaObject]:
    """Return what needs the extension ``vector``."""
    return {
        vectors.FUNCTION: SchemaObject(f"FUNCTION {vectors.FUNCTION}", (vectors.CREATE_FUNCTION,)),
        vectors.TABLE: SchemaObject(f"TABLE {vectors.TABLE}", vectors.CREATE_TABLE),
        **_to_objects(vectors.TRIGGERS),
    }


def trigger_objects() -> dict[str, SchemaObject]:
    wanted = _index_triggers()
    for event in ("UPDATE", "DELETE"):
        wanted[f"memoryhub_journal_no_{event.lower()}"] = Trigger(
            f"BEFORE {event}", JOURNAL_TABLE, _APPEND_ONLY
        )
    wanted["memoryhub_absence_end"] = _ABSENCE_END
    wanted |= change_log.triggers(MEMORY_TABLE, EMBEDDED_COLUMNS) | change_log.mark_triggers()
    made = _to_objects(wanted)
    name = "memoryhub_journal_no_truncate"
    function, _ = trigger_statements(name, Trigger("", JOURNAL_TABLE, _APPEND_ONLY))
    create = f"CREATE OR REPLACE TRIGGER {name} BEFORE TRUNCATE ON {JOURNAL_TABLE} EXECUTE FUNCTION {name}()"
    made[name] = SchemaObject(f"TRIGGER {name} ON {JOURNAL_TABLE}", (function, create))
    return made


def schema_objects(cursor: CursorWrapper) -> dict[str, SchemaObject]:
    """Return all objects in the order in which they are created."""
    cursor.execute("SELECT collname FROM pg_collation WHERE collname = ANY(%s)", [list(_COLLATIONS)])
    present = {name for (name,) in cursor.fetchall()}
    collation = next(name for name in _COLLATIONS if name in present)
    return {
        CONFIGURATION: _CONFIGURATION_OBJECT,
        **function_objects(collation),
        **table_objects(),
        "memoryhub_word_keys": _word_search(),
        **trigger_objects(),
        **(_vector_objects() if vectors.has_extension(cursor) else {}),
    }


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
        while copy_position(table) is not None:
            release.repeat_while_locked(partial(_rebuild_step, table))


def _rebuild_step(table: str) -> None:
    with write_transaction():
        if not copy_rows(table, _STEP_ROWS, _STEP_CHARACTERS):
            swap_index(table)


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
                begin_rebuild(table)
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
    return is_sound(table)
