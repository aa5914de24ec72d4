"""The parts of SQL that are different on SQLite, under the same names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import numpy as np
from django.db import connection
from django.db.backends.utils import CursorWrapper
from numpy.typing import NDArray

from memoryhub.backends import AS_TEXT, TEXT_TABLE, TRIGRAM_TABLE, Trigger
from memoryhub.backends.fts_query import WordStart
from memoryhub.core.text import words

KEYS_OF_JSON = "SELECT value::bigint FROM json_array_elements_text(%s::json)"
TEXTS_OF_JSON = "SELECT value FROM json_array_elements_text(%s::json)"
# PostgreSQL expects many values of a subquery, and would read a whole table instead of seeking them.
IN_FEW = "= ANY (ARRAY({}))"
IN_KEYS, IN_TEXTS = IN_FEW.format(KEYS_OF_JSON), IN_FEW.format(TEXTS_OF_JSON)
IS_DIFFERENT = "IS DISTINCT FROM"
LEAST, GREATEST = "least", "greatest"
RANDOM_TEXT = "gen_random_uuid()::text"
LAST_KEY = "(SELECT lastval())"  # a subquery is computed once, and an index can be used
NOW = "statement_timestamp()"
ENDS_WITH, ENDS_WITH_LENGTHS = "right(path, %s) = %s", 1
CONFIGURATION = "memoryhub"  # the text search configuration: the stems of SQLite's porter tokenizer
WORD_QUERY = f"to_tsquery('{CONFIGURATION}', memoryhub_endings(%s))"
JULIAN_DAY = "(extract(epoch FROM ({})::timestamptz)::float8 / 86400 + 2440587.5)".format
VALUE_OF_KEY = "%s::json ->> id::text"
DOCUMENT_HAS_ATOM = (
    "EXISTS (SELECT 1 FROM jsonb_path_query({column}::jsonb, 'strict $.**') AS atom"
    " WHERE jsonb_typeof(atom) = 'string' AND atom #>> '{{}}' IN {texts})"
).format
TABLE_EXISTS = "SELECT 1 WHERE to_regclass(%s) IS NOT NULL"
LAST_VECTOR = "(SELECT coalesce(max(id), 0) FROM memoryhub_embedding)"
# Not of the sequence, which is ahead of what other transactions have committed.
LAST_CHANGE = "(SELECT coalesce(max(id), 0) FROM memoryhub_change)"
JSON_ARRAY, JSON_LIST_OF = "json_build_array", "coalesce(json_agg({}), '[]')".format
CHANGE_TABLE_COLUMNS = "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, memory bigint, vector bigint"
TABLE_OPTIONS = ""
UNINDEXED_MODEL = "model"
STATE_AFTER_PROMPT = "state || jsonb_build_object('asked', %s, 'prompted', true)"
KEY_LIST = "string_agg((%(expressions)s)::text, ',')"
JOURNAL_COPIES: tuple[str, ...] = ("detail_text",)  # PostgreSQL does not store the text of a jsonb column
IN_TITLES = ":AB"  # the end of an expression that counts words of titles and aliases only
KEYS_BY_EXPRESSION = "SELECT key::int, memoryhub_word_keys(value) FROM json_each_text(%s::json)"
RETURNING = " RETURNING"
RELEASE_TABLE = "memoryhub_release"


def MATCH(index: str, expression: str) -> str:
    """Return the condition that a row of an index matches an expression."""
    if TRIGRAM_TABLE in index:
        return f"{index} @@ {expression}::tsquery"
    return f"{index} @@ {WORD_QUERY.replace('%s', expression)}"


# A subquery for each row, because PostgreSQL could begin a join with all rows that match.
KEYS_NEAR_CHANGED = (
    f"SELECT key::int, (SELECT {KEY_LIST % {'expressions': 'memory'}} FROM changed WHERE 1 ="
    f" (SELECT 1 FROM {TEXT_TABLE} WHERE rowid = changed.memory AND {MATCH(TEXT_TABLE, 'one.value')}))"
    " FROM json_each_text(%s::json) AS one"
)


def speaker_part(chars: int) -> str:
    """Return an expression: the beginning of the content if it has a colon, else an empty text."""
    return f"CASE WHEN strpos(left(content, {chars}), ':') > 0 THEN left(content, {chars}) ELSE '' END"


def is_question(chars: int) -> str:
    """Return an expression: whether the end of the content has a question mark."""
    return f"right(content, {chars}) ~ '[?？]'"


def parse_keys(found: str | None) -> NDArray[np.int64]:
    """Return the keys that :data:`KEYS_BY_EXPRESSION` has found, ascending."""
    keys = np.fromstring(found or "", np.int64, sep=",")
    keys.sort()
    return keys


def storable_document(text: str) -> str:
    """Return a JSON document of ASCII, or one that contains it as a text if PostgreSQL cannot store it.

    It stores neither NUL nor half of a surrogate pair, which old journals contain.
    """
    if "\\u0000" not in text and "\\ud" not in text:
        return text
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps({AS_TEXT: text})
    return json.dumps({AS_TEXT: text}) if "\\u0000" in text else text


def stored_bytes(column: str) -> str:
    """Return an expression for the bytes of a column of the journal, as SQLite stores them."""
    text = {
        "at": "regexp_replace(to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), '\\.000000$', '')",
        "detail": f"CASE WHEN detail ->> '{AS_TEXT}' = detail_text THEN detail_text"
        " WHEN detail = detail_text::jsonb THEN detail_text ELSE detail::text END",
    }.get(column, f"{column}::text")
    return f"convert_to({text}, 'UTF8')"


def refuse(message: str) -> str:
    """Return the statement with which a trigger refuses a write."""
    return f"RAISE EXCEPTION '{message}';"


def trigger_statements(name: str, trigger: Trigger) -> tuple[str, str]:
    """Return the statements that create the function of a trigger and the trigger."""
    condition = f" WHEN ({trigger.condition})" if trigger.condition else ""
    return (
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS"
        f" $body$ BEGIN {trigger.statements} RETURN NULL; END $body$",
        f"CREATE OR REPLACE TRIGGER {name} {trigger.event} ON {trigger.table}"
        f" FOR EACH ROW{condition} EXECUTE FUNCTION {name}()",
    )


def _quote(text: str) -> str:
    doubled = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"


def match_any(texts: Iterable[str]) -> str:
    """Return an expression that matches any of these texts, empty without words.

    The words of a text must be next to each other.
    """
    return " | ".join(_match(text) for text in texts if words(text))


def _match(text: str) -> str:
    return _quote(" ".join(words(text))) + (":*" if isinstance(text, WordStart) else "")


def in_titles(word: str) -> str:
    """Return an expression for the word index: this word in a title or an alias."""
    return _match(word) + IN_TITLES


def title_beginnings(beginnings: Iterable[str]) -> str:
    """Return an expression for the word index: titles with words that start with all of these."""
    return " & ".join(f"{_quote(word)}:*A" for word in beginnings)


def trigram_groups(groups: Iterable[Iterable[str]]) -> str:
    """Return an expression for the trigram index: all trigrams of any group."""
    alternatives = (" & ".join(_quote(one.lower()) for one in group) for group in groups)
    return " | ".join(f"({one})" for one in alternatives)


def inserted_keys(cursor: CursorWrapper, count: int) -> Sequence[int]:
    """Return the keys of inserted rows. Not needed: every INSERT returns its keys (:data:`RETURNING`)."""
    raise NotImplementedError


def read_release() -> int:
    """Return the number of the oldest release that may serve the store, 0 for none."""
    with connection.cursor() as cursor:
        cursor.execute(TABLE_EXISTS, [RELEASE_TABLE])
        if not cursor.fetchone():
            return 0
        cursor.execute(f"SELECT coalesce(max(oldest), 0) FROM {RELEASE_TABLE}")
        return int(cursor.fetchone()[0])


def write_release(number: int) -> None:
    """Record the oldest release that may serve the store."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {RELEASE_TABLE} (oldest integer PRIMARY KEY)")
        cursor.execute(f"INSERT INTO {RELEASE_TABLE} VALUES (%s) ON CONFLICT DO NOTHING", [number])
        cursor.execute(f"DELETE FROM {RELEASE_TABLE} WHERE oldest <> %s", [number])


def checkpoint_log() -> None:
    """Do nothing: PostgreSQL writes its checkpoints automatically."""


def write_temporary_file() -> None:
    """Write about a megabyte where the tables are, in a transaction: DatabaseError if there is no room."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('temp_tablespaces', '', true), set_config('work_mem', '64kB', true)"
        )
        cursor.execute("SELECT count(*) FROM generate_series(1, 50000)")
