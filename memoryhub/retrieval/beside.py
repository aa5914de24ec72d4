"""The memories before and after some in their sessions, two to each side, behind the same gate."""

from __future__ import annotations

from collections.abc import Collection

from django.core.exceptions import EmptyResultSet

from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval.evidence import LENT_WORDS, Beside
from memoryhub.search.sessions import places

STEPS = len(LENT_WORDS)


def beside(memories: MemoryQuerySet, pks: Collection[int]) -> dict[int, Beside]:
    """For those that lie in a session, its neighbours of the queryset, the nearest first. One query."""
    columns = memories.order_by().values("id", "session_id", "project", "created_at")
    try:
        sql, params = columns.query.sql_with_params()
    except EmptyResultSet:
        return {}
    return {
        pk: Beside([one for one in around[:STEPS] if one], [one for one in around[STEPS:] if one])
        for pk, *around in places(sql, params, pks, STEPS)
    }
