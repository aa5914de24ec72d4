"""Who stands next to whom in a session, asked in one statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection

MEMORY = "memoryhub_memory"


def places(sql: str, params: Sequence[Any], pks: Iterable[int], steps: int) -> list[tuple[int, ...]]:
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
    statement = f"SELECT c.id, {', '.join(columns)} FROM ({own.format(MEMORY, keys)}) c"
    with connection.cursor() as cursor:
        cursor.execute(statement, list(params) * len(columns))
        return [tuple(row) for row in cursor.fetchall()]
