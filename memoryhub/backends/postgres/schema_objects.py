"""The objects of the schema on PostgreSQL: functions, index tables and triggers, as SQL with a digest."""

from __future__ import annotations

import hashlib
from typing import NamedTuple
from unicodedata import ucd_3_2_0

from django.db.backends.utils import CursorWrapper

from memoryhub.backends import change_log
from memoryhub.backends.dialect.postgres import (
    CONFIGURATION,
    IN_TITLES,
    NOW,
    WORD_QUERY,
    refuse,
    trigger_statements,
)
from memoryhub.backends.postgres import rates, vectors
from memoryhub.backends.tables import (
    ABSENCE_TABLE,
    EMBEDDED_COLUMNS,
    INDEXES,
    JOURNAL_TABLE,
    MEMORY_TABLE,
    TEXT_COLUMNS,
    TEXT_TABLE,
    TRIGRAM_CHARACTERS,
    TRIGRAM_TABLE,
    Trigger,
)

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
# Digits of other scripts, such as ٢: part of a word on SQLite, but not in "[:alnum:]" of pg_c_utf8.
# Unicode 3.2, because nodes with different versions of Python must create the same functions.
_DIGITS = "".join(one for one in map(chr, range(128, 1 << 16)) if ucd_3_2_0.category(one) == "Nd")
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
        f" ELSE translate({folded}, 'ςµſ', 'σμs') END) COLLATE \"{collation}\","
        f" '[^[:alnum:]{_DIGITS}]+', ' ', 'g')"
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
