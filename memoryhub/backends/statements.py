"""Raw SQL for hot paths: top rows by bm25, rare words, session neighbours, change token, checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from django.db import connection
from django.db.models.expressions import RawSQL

from memoryhub.backends.fts_query import match_any


def key_list(keys: Iterable[int]) -> RawSQL:
    """For ``filter(pk__in=any_of(keys))``."""
    return RawSQL("SELECT value FROM json_each(%s)", [json.dumps(list(keys))])


TEXT_TABLE = "memoryhub_text"


def top_rows(expression: str, most: int, *, by: Literal["rank", "rowid"] = "rank") -> list[int]:
    """Primary keys, best first or last stored first, of all memories: which of them may be seen is the
    caller's to find out."""
    # The plus keeps FTS5 from sorting all of them: the best few are picked a third faster.
    order = "+rank" if by == "rank" else "rowid DESC"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT rowid FROM {TEXT_TABLE} WHERE {TEXT_TABLE} MATCH %s ORDER BY {order} LIMIT %s",
            [expression, most],
        )
        return [int(row[0]) for row in cursor.fetchall()]


def rare_words(words: list[str], most: int) -> dict[str, int]:
    """Those of the words that stand in at least one memory and in fewer than ``most``, with their number.

    It stops counting there.
    """
    if not words:
        return {}
    one = f"SELECT count(*) FROM (SELECT 1 FROM {TEXT_TABLE} WHERE {TEXT_TABLE} MATCH %s LIMIT {most:d})"
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join([one] * len(words)), [match_any([word]) for word in words])
        counted = [int(row[0]) for row in cursor.fetchall()]
    return {word: count for word, count in zip(words, counted, strict=True) if 0 < count < most}


MEMORY_TABLE = "memoryhub_memory"


def session_neighbours(
    sql: str, params: Sequence[Any], pks: Iterable[int], steps: int
) -> list[tuple[int, ...]]:
    """For each of these memories that lies in a session: its key, and so many keys before it and after it,
    the nearest first, 0 where there is none.

    ``sql`` selects ``id``, ``session_id``, ``project`` and ``created_at`` of those that may be neighbours.
    """
    own = "SELECT id, session_id, project, created_at FROM {} WHERE id IN ({}) AND NOT (session_id = '')"
    keys = ", ".join(str(int(pk)) for pk in pks)
    same = (
        f"FROM ({sql}) n WHERE n.session_id = c.session_id AND NOT (n.session_id = '')"
        " AND n.project = c.project"
    )
    # The first condition is one that the index of sessions serves; the second parts equal moments.
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
    """Move what the log holds into the file while others read and write: nobody waits for this.

    Otherwise some commit has to do it, with the write lock in its hand, when the log has grown long. Nothing
    is done inside a transaction, where SQLite refuses it.
    """
    if not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(PASSIVE)")
            cursor.fetchall()


_LAST_ROWS_SQL = """SELECT (SELECT hash FROM memoryhub_journalentry ORDER BY seq DESC LIMIT 1),
    (SELECT max(id) FROM memoryhub_event),
    (SELECT max(id) FROM memoryhub_injection), (SELECT max(last_at) FROM memoryhub_session)"""


def change_token() -> str:
    """Another text after each change; one query of four look-ups at the ends of indexes.

    It tells of every project and level, so it stays on this side: nothing shown may be made of it.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LAST_ROWS_SQL)
        return "/".join(map(str, cursor.fetchone()))
