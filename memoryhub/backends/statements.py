"""Raw SQL for hot paths: full-text matches, columns for ranking, change token, checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from django.db import connection
from django.db.models.expressions import RawSQL
from numpy.typing import NDArray

from memoryhub.backends.schema import MEMORY_TABLE, TEXT_COLUMNS

Keys = NDArray[np.int64]

TEXT_TABLE = "memoryhub_text"


def key_list(keys: Iterable[int]) -> RawSQL:
    """Return a subquery for ``filter(pk__in=key_list(keys))``."""
    return RawSQL("SELECT value FROM json_each(%s)", [json.dumps(list(keys))])


def matching_keys(expressions: Sequence[str]) -> list[Keys]:
    """Return the keys of all memories that match each full-text expression, ascending. One statement.

    Store-wide: the caller intersects them with visible rows and shows nothing else of them.
    """
    if not expressions:
        return []
    one = f"SELECT %s, group_concat(rowid) FROM {TEXT_TABLE} WHERE {TEXT_TABLE} MATCH %s"
    params = [value for pair in enumerate(expressions) for value in pair]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join([one] * len(expressions)), params)
        found = dict(cursor.fetchall())
    return [np.fromstring(found[number] or "", np.int64, sep=",") for number in range(len(expressions))]


# Columns of a memory that ranking needs: VisibleRows.columns has one field for each.
_RANKING_SQL = f"""SELECT id, julianday(updated_at), julianday(created_at), julianday(expires_at), importance,
    trust, length(content), coalesce(superseded_by_id, 0), session_id, project
    FROM {MEMORY_TABLE} WHERE id IN (%s)"""


def read_ranking_columns(
    sql: str, params: Sequence[Any], keys: Iterable[int] | None = None
) -> list[tuple[Any, ...]]:
    """Return the columns for ranking of the rows whose keys ``sql`` selects, or of those among ``keys``."""
    statement = _RANKING_SQL.replace("%s", sql)
    if keys is not None:
        statement += " AND id IN (SELECT value FROM json_each(%s))"
        params = [*params, json.dumps(list(keys))]
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def read_texts(keys: Iterable[int]) -> list[tuple[Any, ...]]:
    """Return the key and the texts of memories. The caller has checked access."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT id, {', '.join(TEXT_COLUMNS)} FROM {MEMORY_TABLE}"
            " WHERE id IN (SELECT value FROM json_each(%s))",
            [json.dumps([int(key) for key in keys])],
        )
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def checkpoint_log() -> None:
    """Move the write-ahead log into the file without blocking readers and writers.

    Otherwise a commit has to do it when the log has grown, while it holds the write lock. Does nothing inside
    a transaction, where SQLite refuses it.
    """
    if not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
            cursor.fetchall()


_LAST_ROWS_SQL = """SELECT (SELECT hash FROM memoryhub_journalentry ORDER BY seq DESC LIMIT 1),
    (SELECT max(id) FROM memoryhub_event),
    (SELECT max(id) FROM memoryhub_injection), (SELECT max(last_at) FROM memoryhub_session)"""


def change_token() -> str:
    """Return a text that differs after each change of the store. One query of four index lookups.

    Internal only: it depends on every project and level, so no response may contain it.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LAST_ROWS_SQL)
        return "/".join(map(str, cursor.fetchone()))
