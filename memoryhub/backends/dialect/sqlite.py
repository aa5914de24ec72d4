"""The parts of SQL that are different on PostgreSQL, under the same names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from django.db import connection
from django.db.backends.utils import CursorWrapper
from numpy.typing import NDArray

from memoryhub.backends import TEXT_TABLE
from memoryhub.backends.fts_query import WordStart

KEYS_OF_JSON = TEXTS_OF_JSON = "SELECT value FROM json_each(%s)"  # a subquery; the parameter is a JSON array
IN_FEW = "IN ({})"
IN_KEYS = IN_TEXTS = IN_FEW.format(KEYS_OF_JSON)
IS_DIFFERENT = "IS NOT"
LEAST, GREATEST = "min", "max"
RANDOM_TEXT = "hex(randomblob(8))"
LAST_KEY = "last_insert_rowid()"  # of the row that a trigger has inserted
NOW = "strftime('%Y-%m-%d %H:%M:%f', 'now')"  # in triggers
ENDS_WITH = "substr(path, -%s, %s) = %s"  # the parameters: twice the length, and the text
ENDS_WITH_LENGTHS = 2
MATCH = "{index} MATCH {expression}".format
JULIAN_DAY = "julianday({})".format
VALUE_OF_KEY = "json_extract(%s, '$.\"' || id || '\"')"  # the text at the key ``id`` of a JSON object
DOCUMENT_HAS_ATOM = "EXISTS (SELECT 1 FROM json_tree({column}) WHERE atom IN {texts})".format
TABLE_EXISTS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = %s"
# The vectors with the keys up to this one can be read; keys are never used again.
LAST_VECTOR = "(SELECT seq FROM sqlite_sequence WHERE name = 'memoryhub_embedding')"
LAST_CHANGE = "(SELECT seq FROM sqlite_sequence WHERE name = 'memoryhub_change')"
JSON_ARRAY, JSON_LIST_OF = "json_array", "json_group_array({})".format
CHANGE_TABLE_COLUMNS = "id INTEGER PRIMARY KEY AUTOINCREMENT, memory INTEGER, vector INTEGER"
TABLE_OPTIONS = " WITHOUT ROWID"
# The plus stops SQLite from scanning all vectors of the model for a few new ones.
UNINDEXED_MODEL = "+model"
STATE_AFTER_PROMPT = "json_set(state, '$.asked', %s, '$.prompted', json('true'))"  # of a session
KEY_LIST = "group_concat(%(expressions)s)"  # the keys of a group, separated by commas
JOURNAL_COPIES: tuple[str, ...] = ()  # columns of the journal with the text of ``detail``
# The parameter: a JSON object of expressions by number.
KEYS_BY_EXPRESSION = (
    "SELECT CAST(key AS integer),"
    f" (SELECT group_concat(rowid) FROM {TEXT_TABLE} WHERE {TEXT_TABLE} MATCH value) FROM json_each(%s)"
)
# No row if nothing has changed. To look up one changed memory takes as long as to read hundreds of keys.
KEYS_NEAR_CHANGED = (
    f"SELECT CAST(key AS integer), (SELECT group_concat(rowid) FROM {TEXT_TABLE}"
    f" WHERE {TEXT_TABLE} MATCH value AND rowid BETWEEN first AND last)"
    " FROM (SELECT min(memory) AS first, max(memory) AS last FROM changed) AS range, json_each(%s)"
    " WHERE first IS NOT NULL"
)


def speaker_part(chars: int) -> str:
    """Return an expression: the beginning of the content if it has a colon, else an empty text."""
    return f"iif(instr(substr(content, 1, {chars}), ':'), substr(content, 1, {chars}), '')"


def is_question(chars: int) -> str:
    """Return an expression: whether the end of the content has a question mark."""
    return f"instr(replace(substr(content, -{chars}), '？', '?'), '?') > 0"


def parse_keys(found: str | None) -> NDArray[np.int64]:
    """Return the keys that :data:`KEYS_BY_EXPRESSION` has found, ascending."""
    return np.fromstring(found or "", np.int64, sep=",")


def storable_document(text: str) -> str:
    """Return a JSON document as it can be stored: unchanged."""
    return text


def stored_bytes(column: str) -> str:
    """Return an expression for the bytes of a column of the journal: parsing could hide a changed byte."""
    return f"CAST({column} AS BLOB)"


def refuse(message: str) -> str:
    """Return the statement with which a trigger refuses a write."""
    return f"SELECT RAISE(ABORT, '{message}');"


def match_any(texts: Iterable[str]) -> str:
    """Return an expression that matches any of these texts, empty without texts."""
    return " OR ".join(map(_quote, texts))


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' + (" *" if isinstance(text, WordStart) else "")


def in_titles(word: str) -> str:
    """Return an expression for the word index: this word in a title or an alias."""
    return f"{{title alias_text}} : {match_any([word])}"


def title_beginnings(beginnings: Iterable[str]) -> str:
    """Return an expression for the word index: titles with words that start with all of these."""
    parts = [f'"{word}" *' for word in beginnings]
    return f"title : ({' AND '.join(parts)})" if parts else ""


def trigram_groups(groups: Iterable[Iterable[str]]) -> str:
    """Return an expression for the trigram index: all trigrams of any group."""
    alternatives = (" AND ".join('"' + one.replace('"', '""') + '"' for one in group) for group in groups)
    return " OR ".join(f"({one})" for one in alternatives)


def inserted_keys(cursor: CursorWrapper, count: int) -> Sequence[int]:
    """Return the keys of the rows that one statement has inserted.

    They are consecutive: AUTOINCREMENT adds one to the highest key ever used.
    """
    last = cursor.lastrowid or 0
    return range(last - count + 1, last + 1)


RETURNING = ""  # appended to an INSERT, for inserted_keys


def read_release() -> int:
    """Return the number of the oldest release that may serve the store, 0 for none."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA user_version")
        return int(cursor.fetchone()[0])


def write_release(number: int) -> None:
    """Record the oldest release in the header of the file."""
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA user_version = {number:d}")


def checkpoint_log() -> None:
    """Move the write-ahead log into the file without blocking readers and writers.

    Otherwise a commit has to do it when the log has grown, while it holds the write lock. Does nothing inside
    a transaction, where SQLite refuses it.
    """
    if not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
            cursor.fetchall()


def write_temporary_file() -> None:
    """Do nothing: any write to the file shows whether there is room."""
