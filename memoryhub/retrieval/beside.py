"""The memories before and after some in their sessions, in two steps to each side, behind the same gate."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db.models import F, OuterRef, Q, Subquery

from memoryhub.models import Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval.evidence import LENT_WORDS, Beside

_STEPS = range(len(LENT_WORDS))


def beside(memories: MemoryQuerySet, pks: Collection[int]) -> dict[int, Beside]:
    """For those that lie in a session, its neighbours of the queryset, the nearest first. One query."""
    same = memories.order_by().in_session(OuterRef("session_id"), project=OuterRef("project"))
    moment, pk = OuterRef("created_at"), OuterRef("pk")
    # The first condition is one that the index of sessions serves; the second parts equal moments.
    before = same.filter(created_at__lte=moment).filter(Q(created_at__lt=moment) | Q(pk__lt=pk))
    after = same.filter(created_at__gte=moment).filter(Q(created_at__gt=moment) | Q(pk__gt=pk))
    rows = (
        Memory.objects.filter(pk__in=list(pks))
        .exclude(session_id="")
        .values_list(
            F("pk"),
            *(_step(before.order_by("-created_at", "-pk"), step) for step in _STEPS),
            *(_step(after.order_by("created_at", "pk"), step) for step in _STEPS),
        )
    )
    return {row[0]: Beside(_known(row[1 : 1 + len(_STEPS)]), _known(row[1 + len(_STEPS) :])) for row in rows}


def _step(rows: MemoryQuerySet, step: int) -> Subquery:
    return Subquery(rows.values("pk")[step : step + 1])


def _known(pks: tuple[Any, ...]) -> list[int]:
    return [pk for pk in pks if pk is not None]
