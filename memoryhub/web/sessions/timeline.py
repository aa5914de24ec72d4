"""The timeline page: a month by day and the entries of all sessions and projects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Protocol

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from memoryhub.accounts.clearance import request_clearance
from memoryhub.core import pagination
from memoryhub.stats import calendar, timeline
from memoryhub.web.base.days import group_by_day
from memoryhub.web.base.filters import MonthFilter, TimelineFilter


class TimelineDay(Protocol):
    """What a day has to tell of itself here."""

    date: date
    types: dict[str, int]

    @property
    def is_quiet(self) -> bool: ...


@dataclass(frozen=True)
class StripPart:
    """One type's piece of a strip, in percent of the busiest day's."""

    type: str
    count: int
    x: float
    width: float


@dataclass(frozen=True)
class DayRow:
    """A day with something in it, or a stretch of days without (``quiet`` of them)."""

    first: date
    last: date
    day: TimelineDay | None
    strip: list[StripPart]

    @property
    def quiet(self) -> int:
        return 0 if self.day else (self.last - self.first).days + 1


def fold_days(days: Sequence[TimelineDay], today: date) -> list[DayRow]:
    """The days of a month, newest first; days to come are left out, neighbouring quiet ones are one entry."""
    busiest = max((sum(day.types.values()) for day in days), default=0)
    shown: list[DayRow] = []
    for day in days:
        if not day.is_quiet:
            shown.append(DayRow(day.date, day.date, day, make_strip(day.types, busiest)))
        elif day.date <= today:
            if shown and not shown[-1].day and shown[-1].first - day.date == timedelta(days=1):
                shown[-1] = DayRow(day.date, shown[-1].last, None, [])
            else:
                shown.append(DayRow(day.date, day.date, None, []))
    return shown


def make_strip(types: Mapping[str, int], busiest: int) -> list[StripPart]:
    """One piece after the other, in the order given."""
    parts: list[StripPart] = []
    x = 0.0
    for kind, count in types.items():
        width = 100 * count / busiest
        parts.append(StripPart(kind, count, round(x, 2), round(width, 2)))
        x += width
    return parts


ENTRIES_PER_PAGE = 30


@require_safe
def timeline_month(request: HttpRequest) -> HttpResponse:
    """A month of one project or of all: each day with what was decided and mended on it first."""
    form = MonthFilter(request.GET)
    if not form.is_valid():
        return render(request, "timeline/month.html", {"form": form}, status=422)
    clearance, project = request_clearance(request), form.value("project")
    first = form.value("month") or calendar.find_latest_month(clearance, project)
    shown = calendar.load_month(clearance, project, first)
    earlier, later = calendar.find_adjacent_months(clearance, project, first)
    context: dict[str, Any] = {
        "form": form,
        "project": project,
        "month": first,
        "days": fold_days(shown, timezone.localdate()),
        "anything": any(not day.is_quiet for day in shown),
        "memories": sum(day.memories for day in shown),
        "events": sum(day.events for day in shown),
        "sessions": len({session for day in shown for session in day.sessions}),
        "earlier": earlier,
        "later": later,
    }
    return render(request, "timeline/month.html", context)


@require_safe
def timeline_entries(request: HttpRequest) -> HttpResponse:
    """Memories, events, boundaries, starts and ends of sessions, newest first, grouped by day."""
    form = TimelineFilter(request.GET)
    cursor = request.GET.get("cursor")
    found: list[timeline.TimelineEntry] = []
    next_cursor = None
    valid = form.is_valid()
    if valid:
        try:
            found, next_cursor = timeline.load_timeline(
                request_clearance(request), form.wanted(), limit=ENTRIES_PER_PAGE, cursor=cursor
            )
        except pagination.InvalidCursor as error:
            raise BadRequest(str(error)) from None
    context = {
        "form": form,
        "days": group_by_day(found),
        "next_cursor": next_cursor,
        "first": not cursor,
    }
    return render(request, "timeline/page.html", context, status=200 if valid else 422)
