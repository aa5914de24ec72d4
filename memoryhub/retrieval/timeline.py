"""What happened when: memories, events, boundaries, starts and ends of sessions in one list, newest first."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q, QuerySet

from memoryhub.models import Event, Memory, Session
from memoryhub.retrieval.filters import MemoryFilter
from memoryhub.retrieval.paging import BadCursor
from memoryhub.sensitivity import Clearance

# At the same moment: an end stands above what happened, a start below it.
_KINDS = ("session_start", "event", "boundary", "memory", "session_end")


@dataclass(frozen=True)
class Entry:
    """One line of a timeline. ``kind`` is one of session_start, event, boundary, memory, session_end."""

    at: datetime
    kind: str
    row: Memory | Event | Session

    @property
    def order(self) -> tuple[datetime, int, int]:
        return (self.at, _KINDS.index(self.kind), self.row.pk)


def timeline(
    clearance: Clearance, wanted: MemoryFilter, *, limit: int = 50, cursor: str | None = None
) -> tuple[list[Entry], str | None]:
    """The next entries before the cursor, and the cursor after them. A filter by what only memories have shows
    memories alone. The number of queries is fixed."""
    before = _decode(cursor) if cursor else None
    memories = wanted.select(clearance).with_details()
    entries = _take(memories, "created_at", "memory", limit, before)
    if _everything(wanted):
        for rows, column, kind in _happenings(clearance, wanted):
            entries += _take(rows, column, kind, limit, before)
    entries.sort(key=lambda entry: entry.order, reverse=True)
    shown = entries[:limit]
    more = len(entries) > limit
    return shown, _encode(shown[-1]) if more and shown else None


def count(clearance: Clearance, wanted: MemoryFilter) -> int:
    """How many entries the whole timeline has."""
    total = wanted.select(clearance).count()
    if _everything(wanted):
        total += sum(rows.count() for rows, _, _ in _happenings(clearance, wanted))
    return total


def _everything(wanted: MemoryFilter) -> bool:
    """Whether events and sessions fit the filter too."""
    shared = {"project", "session_id", "since", "until"}
    return all(not value for name, value in wanted if name not in shared)


def _happenings(clearance: Clearance, wanted: MemoryFilter) -> Iterator[tuple[QuerySet[Any], str, str]]:
    """What happened besides memories: rows, the column that dates them, and their kind."""
    events = Event.objects.visible_to(clearance).select_related("session", "memory")
    sessions = Session.objects.visible_to(clearance)
    if wanted.project:
        events, sessions = events.filter(session__project=wanted.project), sessions.filter(project=wanted.project)
    if wanted.session_id:
        events = events.filter(session__session_id=wanted.session_id)
        sessions = sessions.filter(session_id=wanted.session_id)
    for rows, column, kind in (
        (events.filter(boundary=False), "at", "event"),
        (events.filter(boundary=True), "at", "boundary"),
        (sessions, "started_at", "session_start"),
        (sessions.filter(ended_at__isnull=False), "ended_at", "session_end"),
    ):
        if wanted.since:
            rows = rows.filter(**{f"{column}__gte": wanted.since})
        if wanted.until:
            rows = rows.filter(**{f"{column}__lt": wanted.until})
        yield rows, column, kind


def _take(
    rows: QuerySet[Any], column: str, kind: str, limit: int, before: tuple[datetime, int, int] | None
) -> list[Entry]:
    """The newest rows of one kind before the cursor; one more than the limit shows that there are more."""
    if before:
        at, place, pk = before
        here = _KINDS.index(kind)
        same = Q(**{column: at, "pk__lt": pk}) if here == place else Q(**{column: at}) if here < place else Q(pk__in=[])
        rows = rows.filter(Q(**{f"{column}__lt": at}) | same)
    return [Entry(getattr(row, column), kind, row) for row in rows.order_by(f"-{column}", "-pk")[: limit + 1]]


def _encode(entry: Entry) -> str:
    at, place, pk = entry.order
    return base64.urlsafe_b64encode(json.dumps([at.isoformat(), place, pk]).encode()).decode().rstrip("=")


def _decode(cursor: str) -> tuple[datetime, int, int]:
    try:
        at, place, pk = json.loads(base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)))
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is None or not (0 <= int(place) < len(_KINDS)) or not 0 <= int(pk) < 2**63:
            raise BadCursor
        return moment.astimezone(UTC), int(place), int(pk)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise BadCursor from None
