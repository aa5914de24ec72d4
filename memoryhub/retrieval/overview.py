"""Counts over what one clearance may see: facets, statistics, memories over time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, TextField
from django.db.models.functions import Cast, Substr
from django.utils import timezone

from memoryhub.models import Fact, Memory, Session
from memoryhub.querysets import MemoryQuerySet
from memoryhub.search import schema
from memoryhub.sensitivity import Clearance

FACETS = ("type", "category", "project", "sensitivity")
EXPIRING_DAYS = 7


def counts(memories: MemoryQuerySet, column: str, most: int | None = None) -> dict[str, int]:
    """How many memories there are of each value, most first."""
    rows = memories.order_by().values_list(column).annotate(n=Count("pk")).order_by("-n", column)
    return dict(rows[:most] if most else rows)


def facets(memories: MemoryQuerySet, columns: Iterable[str] = FACETS) -> dict[str, dict[str, int]]:
    """The counts of each column within a gated, filtered queryset."""
    return {column: counts(memories, column, most=20) for column in columns}


def statistics(clearance: Clearance, now: datetime | None = None) -> dict[str, Any]:
    """The numbers of ``GET /stats``; all of them behind the gate, but for the sizes of the files."""
    now = now or timezone.now()
    visible: MemoryQuerySet = Memory.objects.visible_to(clearance)
    live = visible.live(now)
    cap = settings.MEMORYHUB.max_memories
    return {
        "total": live.count(),
        **{f"by_{column}": counts(live, column) for column in FACETS},
        "expiring": live.filter(expires_at__lte=now + timedelta(days=EXPIRING_DAYS)).count(),
        "expired": visible.expired(now).count(),
        "trashed": visible.trashed().count(),
        "facts": Fact.objects.visible_to(clearance).count(),
        "sessions": Session.objects.visible_to(clearance).count(),
        "max_memories": cap,
        "near_cap": near_cap(live),
        **schema.sizes(),
        "index_bytes": schema.index_bytes(),
    }


def near_cap(live: MemoryQuerySet) -> dict[str, int]:
    """Projects that hold more than ``cap_warning_share`` of ``max_memories``."""
    config = settings.MEMORYHUB
    if not config.max_memories:
        return {}
    limit = config.max_memories * config.cap_warning_share
    return {project: n for project, n in counts(live, "project").items() if n >= limit}


def per_day(memories: MemoryQuerySet) -> list[tuple[date, str, int]]:
    """``(day in UTC, type, count)`` of when memories were made, oldest first.

    The stored text is cut, not parsed: Django's Trunc functions call Python for every row of an SQLite table.
    """
    day = Substr(Cast("created_at", TextField()), 1, 10)
    rows = memories.order_by().annotate(day=day).values_list("day", "type").annotate(n=Count("pk"))
    return sorted((date.fromisoformat(text), kind, count) for text, kind, count in rows)
