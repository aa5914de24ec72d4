"""Raw SQL for hot paths: top rows by bm25, rare words, session neighbours, change token, checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from django.db import connection
from django.db.models.expressions import RawSQL

from memoryhub.backends.fts_query import match_any
from memoryhub.backends.schema import MEMORY_TABLE

TEXT_TABLE = "memoryhub_text"


def key_list(keys: Iterable[int]) -> RawSQL:
    """Return a subquery for ``filter(pk__in=key_list(keys))``."""
    return RawSQL("SELECT value FROM json_each(%s)", [json.dumps(list(keys))])


def top_rows(expression: str, most: int, *, by: Literal["rank", "rowid"] = "rank") -> list[int]:
    """Return primary keys of matching memories, best or newest first. The caller filters access."""
    # The plus stops FTS5 from sorting all matches, which is a third slower.
    order = "+rank" if by == "rank" else "rowid DESC"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT rowid FROM {TEXT_TABLE} WHERE {TEXT_TABLE} MATCH %s ORDER BY {order} LIMIT %s",
            [expression, most],
        )
        return [int(row[0]) for row in cursor.fetchall()]


def rare_words(words: list[str], most: int) -> dict[str, int]:
    """Return the words that are in at least one and fewer than ``most`` memories, with the number.

    Stops counting at ``most``.
    """
    if not words:
        return {}
    one = f"SELECT count(*) FROM (SELECT 1 FROM {TEXT_TABLE} WHERE {TEXT_TABLE} MATCH %s LIMIT {most:d})"
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join([one] * len(words)), [match_any([word]) for word in words])
        counted = [int(row[0]) for row in cursor.fetchall()]
    return {word: count for word, count in zip(words, counted, strict=True) if 0 < count < most}


def session_neighbours(
    sql: str, params: Sequence[Any], pks: Iterable[int], steps: int
) -> list[tuple[int, ...]]:
    """Return a row for each of these memories that belongs to a session.

    A row has the key of the memory, then ``steps`` keys of its predecessors and of its successors, the
    nearest first, 0 for none. ``sql`` selects ``id``, ``session_id``, ``project`` and ``created_at`` of
    possible neighbours.
    """
    own = "SELECT id, session_id, project, created_at FROM {} WHERE id IN ({}) AND NOT (session_id = '')"
    keys = ", ".join(str(int(pk)) for pk in pks)
    same = (
        f"FROM ({sql}) n WHERE n.session_id = c.session_id AND NOT (n.session_id = '')"
        " AND n.project = c.project"
    )
    # An index serves the first condition; the second separates equal moments.
    before = "n.created_at <= c.created_at AND (n.created_at < c.created_at OR n.id < c.id)"
    after = "n.created_at >= c.created_at AND (n.created_at > c.created_at OR n.id > c.id)"
    columns = [
        f"coalesce((SELECT n.id {same} AND {side} ORDER BY {order} LIMIT 1 OFFSET {step}), 0)"
        for side, order in ((before, "n.created_at DESC, n.id DESC"), (after, "n.created_at, n.id"))
        for step in range(steps)
    ]
    statement = f"SELECT c.id, {', '.join(columns)} FROM ({own.format(MEMORY_TABLE, keys)}) c"
    with connection.cursor() as cursor:
        cursor.execute(statement, list(params) * len(columns))
        return [tuple(row) for row in cursor.fetchall()]


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
