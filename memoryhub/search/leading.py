"""The best rows of the word index by bm25 alone, before any gate: a fraction of the cost of both at once."""

from __future__ import annotations

from typing import Literal

from django.db import connection

TEXT = "memoryhub_text"


def leading(expression: str, most: int, *, by: Literal["rank", "rowid"] = "rank") -> list[int]:
    """Primary keys, best first or last stored first, of all memories: which of them may be seen is the
    caller's to find out."""
    # The plus keeps FTS5 from sorting all of them: the best few are picked a third faster.
    order = "+rank" if by == "rank" else "rowid DESC"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT rowid FROM {TEXT} WHERE {TEXT} MATCH %s ORDER BY {order} LIMIT %s", [expression, most]
        )
        return [int(row[0]) for row in cursor.fetchall()]
