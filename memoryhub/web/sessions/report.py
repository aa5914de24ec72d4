"""One session as a report to be read from top to bottom, and printed, with its memories whole."""

from __future__ import annotations

from itertools import accumulate

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.core import pagination
from memoryhub.injection import queries
from memoryhub.memories.filters import MemoryFilter
from memoryhub.models import Memory, Session
from memoryhub.stats import timeline
from memoryhub.stats.timeline import sessions_with_counts
from memoryhub.web.base.days import group_by_day
from memoryhub.web.sessions.picture import fit_to_bytes

MAX_ENTRIES = 500
MAX_REPORT_BYTES = 78_000  # bytes of the entries of a part


@require_safe
def session_report(request: HttpRequest, session_id: str) -> HttpResponse:
    """All that happened, oldest first; a long session in parts, by ``cursor``.

    Where several projects have a session of this name, and none is named, its page lets one choose.
    """
    clearance, cursor = request_clearance(request), request.GET.get("cursor")
    sessions = _find_sessions(session_id, request.GET.get("project"), clearance)
    if not sessions:
        raise Http404
    if len(sessions) > 1:
        return redirect("session", session_id)
    [found] = sessions
    summary = Memory.objects.visible_to(clearance).live().filter(pk=found.summary_id).first()
    entries, next_cursor = _read_entries(found, clearance, cursor)
    most = _count_within_budget(entries)
    listing, fit = fit_to_bytes(
        lambda count: _render_entries(entries[:count], summary), most, MAX_REPORT_BYTES
    )
    if fit < len(entries):
        entries, next_cursor = entries[:fit], timeline.cursor_after(entries[fit - 1])
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


def _count_within_budget(entries: list[timeline.TimelineEntry]) -> int:
    """How many of them to try to show, by the lengths of their texts: to draw ten parts for one is slow."""
    weights = accumulate(len(getattr(entry.row, "content", "")) for entry in entries)
    return max(1, sum(weight <= MAX_REPORT_BYTES for weight in weights)) if entries else 0


def _render_entries(entries: list[timeline.TimelineEntry], summary: Memory | None) -> str:
    return render_to_string("sessions/report_days.html", {"days": group_by_day(entries), "summary": summary})


def _find_sessions(session_id: str, project: str | None, clearance: Clearance) -> list[Session]:
    """Two at most: more than one is too many already. ``project``: None for any."""
    rows = sessions_with_counts(clearance).filter(session_id=session_id)
    return list((rows if project is None else rows.filter(project=project))[:2])


def _read_entries(
    session: Session, clearance: Clearance, cursor: str | None
) -> tuple[list[timeline.TimelineEntry], str | None]:
    """A part of what happened, and where the next one begins."""
    try:
        entries, next_cursor = timeline.load_timeline(
            clearance,
            MemoryFilter(),
            limit=MAX_ENTRIES,
            cursor=cursor,
            kinds=timeline.PAGE_KINDS,
            of=session,
            oldest_first=True,
        )
    except pagination.InvalidCursor as error:
        raise BadRequest(str(error)) from None
    queries.attach_reports(entries, clearance)
    return entries, next_cursor
