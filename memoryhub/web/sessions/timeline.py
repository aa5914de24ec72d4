"""Timelines: a month by day, the entries of all sessions and projects, and the report of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import accumulate
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.decorators.http import require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.memories.filters import MemoryFilter
from memoryhub.models import Memory, Session
from memoryhub.stats import timeline, usage
from memoryhub.web.base.forms import MonthFilter, TimelineFilter
from memoryhub.web.base.labels import make_title, name_sessions, title_columns
from memoryhub.web.base.requests import cached_until_change
from memoryhub.web.sessions.picture import fit_to_bytes
from memoryhub.web.sessions.views import fold_routine, read_entries, sessions_with_titles, visible_summary

ENTRIES_PER_PAGE, SESSIONS_PER_DAY = 24, 3


@dataclass(frozen=True)
class StripPart:
    """The memories of one type in a day's strip; positions are percent of the busiest day."""

    type: str
    count: int
    x: float
    width: float


@dataclass(frozen=True)
class DayRow:
    """A day with memories or events, or ``quiet`` consecutive days without any."""

    first: date
    last: date
    day: usage.CalendarDay | None
    strip: list[StripPart]

    @property
    def quiet(self) -> int:
        return 0 if self.day else (self.last - self.first).days + 1


def fold_days(days: Sequence[usage.CalendarDay], today: date) -> list[DayRow]:
    """Return the rows of a month, newest first: no future days, and consecutive quiet days as one row."""
    busiest = max((sum(day.types.values()) for day in days), default=0)
    rows: list[DayRow] = []
    for day in days:
        if not day.is_quiet:
            rows.append(DayRow(day.date, day.date, day, make_strip(day.types, busiest)))
        elif day.date <= today:
            if rows and not rows[-1].day and rows[-1].first - day.date == timedelta(days=1):
                rows[-1] = DayRow(day.date, rows[-1].last, None, [])
            else:
                rows.append(DayRow(day.date, day.date, None, []))
    return rows


def make_strip(types: Mapping[str, int], busiest: int) -> list[StripPart]:
    """Return the parts of a day's strip side by side, in the given order."""
    parts: list[StripPart] = []
    x = 0.0
    for kind, count in types.items():
        width = 100 * count / busiest
        parts.append(StripPart(kind, count, round(x, 2), round(width, 2)))
        x += width
    return parts


@require_safe
def timeline_month(request: HttpRequest) -> HttpResponse:
    """Show a month of one project or of all; each day lists its decisions and bug fixes first."""
    form = MonthFilter(request.GET)
    if not form.is_valid():
        return render(request, "timeline/month.html", {"form": form}, status=422)
    clearance, project = request_clearance(request), form.value("project")
    first = form.value("month") or usage.find_latest_month(clearance, project)
    days, (earlier, later) = cached_until_change(
        request,
        "month",
        clearance,
        lambda: (
            _load_month(clearance, project, first),
            usage.find_adjacent_months(clearance, project, first),
        ),
        project,
        first,
        timezone.get_current_timezone_name(),
        depends_on_events=True,
    )
    form.data = {**request.GET.dict(), "month": f"{first:%Y-%m}"}  # the field shows the month of the page
    context: dict[str, Any] = {
        "form": form,
        "project": project,
        "month": first,
        "days": fold_days(days, timezone.localdate()),
        "anything": any(not day.is_quiet for day in days),
        "memories": sum(day.memories for day in days),
        "events": sum(day.events for day in days),
        "sessions": len({session for day in days for session in day.sessions}),
        "earlier": earlier,
        "later": later,
    }
    return render(request, "timeline/month.html", context)


def _load_month(clearance: Clearance, project: str, first: date) -> list[usage.CalendarDay]:
    days = usage.load_month(clearance, project, first)
    ids = {session_id for day in days for session_id, _ in day.sessions[:SESSIONS_PER_DAY]}
    sessions = Session.objects.filter(session_id__in=ids).annotate(**title_columns(clearance))
    titles = {(session.session_id, session.project): make_title(session) for session in sessions}
    for day in days:
        day.named_sessions = [(*key, titles.get(key) or key[0]) for key in day.sessions[:SESSIONS_PER_DAY]]
    return days


@require_safe
def timeline_entries(request: HttpRequest) -> HttpResponse:
    """List memories, events, boundaries, starts and ends of sessions by day, newest first."""
    form = TimelineFilter(request.GET)
    cursor = request.GET.get("cursor")
    found: list[timeline.TimelineEntry] = []
    next_cursor = None
    if form.is_valid():
        found, next_cursor = timeline.load_timeline(
            request_clearance(request), form.wanted(), limit=ENTRIES_PER_PAGE, cursor=cursor
        )
    rows = [entry.row for entry in found if not isinstance(entry.row, Memory)]
    sessions = [row if isinstance(row, Session) else row.session for row in rows]
    name_sessions([session for session in sessions if session], request_clearance(request))
    context = {
        "form": form,
        "entries": found,
        "next_cursor": next_cursor,
        "first": not cursor,
    }
    return render(request, "timeline/page.html", context, status=form.http_status)


MAX_REPORT_ENTRIES, MAX_REPORT_BYTES = 500, 78_000  # in one part


@require_safe
def session_report(request: HttpRequest, session_id: str) -> HttpResponse:
    """Show all entries, oldest first; ``cursor`` leads to the next part of a long session. For printing.

    If several projects have a session with this id and the address names none of them, redirect to the
    session's page, which offers the choice.
    """
    clearance, cursor = request_clearance(request), request.GET.get("cursor")
    sessions = _find_sessions(session_id, request.GET.get("project"), clearance)
    if not sessions:
        raise Http404
    if len(sessions) > 1:
        return redirect("session", session_id)
    [found] = sessions
    summary = visible_summary(found)
    entries, listing, next_cursor = _read_part(found, summary, clearance, cursor)
    before = timeline.count_entries_before(cursor, clearance, found) if cursor else 0
    context = {
        "session": found,
        "summary": summary,
        "listing": listing,
        "began": entries[0].at if entries else None,
        "ended": entries[-1].at if entries else None,
        "from_number": before + 1,
        "to_number": before + len(entries),
        "total": timeline.count_entries(clearance, MemoryFilter(), kinds=timeline.PAGE_KINDS, of=found),
        "first": not cursor,
        "next_cursor": next_cursor,
    }
    return render(request, "sessions/report.html", context)


def _read_part(
    found: Session, summary: Memory | None, clearance: Clearance, cursor: str | None
) -> tuple[list[timeline.TimelineEntry], str, str | None]:
    """Return the entries that fit into a part, rendered, and the cursor of the next part."""
    entries, next_cursor = read_entries(
        found, clearance, cursor, limit=MAX_REPORT_ENTRIES, kinds=timeline.PAGE_KINDS, oldest_first=True
    )
    listing, fit = fit_to_bytes(
        lambda count: _render_entries(entries[:count], summary),
        _count_within_budget(entries),
        MAX_REPORT_BYTES,
    )
    if fit < len(entries):
        entries, next_cursor = entries[:fit], timeline.cursor_after(entries[fit - 1])
    return entries, listing, next_cursor


def _count_within_budget(entries: list[timeline.TimelineEntry]) -> int:
    """Estimate from the text lengths how many entries fit, because rendering all of them is slow."""
    weights = accumulate(len(getattr(entry.row, "content", "")) for entry in entries)
    return max(1, sum(weight <= MAX_REPORT_BYTES for weight in weights)) if entries else 0


def _render_entries(entries: list[timeline.TimelineEntry], summary: Memory | None) -> str:
    context = {"entries": fold_routine(entries), "summary": summary}
    return render_to_string("sessions/report.html#report_days", context)


def _find_sessions(session_id: str, project: str | None, clearance: Clearance) -> list[Session]:
    """Return up to two sessions with this id, in one project or, with None, in any."""
    rows = sessions_with_titles(clearance).filter(session_id=session_id)
    return list((rows if project is None else rows.filter(project=project))[:2])
