"""Sessions with what one clearance may see of them."""

from __future__ import annotations

from django.db.models import Count, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from memoryhub.models import Event, Memory, Session
from memoryhub.querysets import SessionQuerySet
from memoryhub.sensitivity import Clearance


def with_counts(clearance: Clearance) -> SessionQuerySet:
    """The visible sessions, each with ``memory_count`` and ``event_count`` behind the same gate. Lazy."""
    memories = Memory.objects.visible_to(clearance).live()
    events = Event.objects.visible_to(clearance).filter(session=OuterRef("pk"))
    sessions: SessionQuerySet = Session.objects.visible_to(clearance).annotate(
        memory_count=_number(memories.in_session(OuterRef("session_id"), project=OuterRef("project"))),
        event_count=_number(events),
    )
    return sessions


def _number(rows: QuerySet[Memory] | QuerySet[Event]) -> Coalesce:
    """How many rows a correlated queryset has."""
    # Grouped by a constant there is one group, or none.
    grouped = rows.order_by().values(one=Value(1)).annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(grouped), 0)
