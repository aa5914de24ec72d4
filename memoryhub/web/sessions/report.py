"""One session as a report to be read from top to bottom, and printed, with its memories whole."""

from __future__ import annotations

from itertools import accumulate

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import clearance_of
from memoryhub.core import pagination
from memoryhub.injection import queries
from memoryhub.memories.filters import MemoryFilter
from memoryhub.models import Memory, Session
from memoryhub.stats import timeline
from memoryhub.stats.timeline import with_counts
from memoryhub.web.base.days import by_day
from memoryhub.web.sessions.story import fitting

ENTRIES = 500
MOST_WEIGHT = 78_000  # bytes of the entries of a part


@require_safe
def session_report(request: HttpRequest, session_id: str) -> HttpResponse:
    """All that happened, oldest first; a long session in parts, by ``cursor``.

    Where several projects have a session of this name, and none is named, its page lets one choose.
    """
    clearance, cursor = clearance_of(request), request.GET.get("cursor")
    sessions = _named(session_id, request.GET.get("project"), clearance)
    if not sessions:
        raise Http404
    if len(sessions) > 1:
        return redirect("session", session_id)
    [found] = sessions
    summary = Memory.objects.visible_to(clearance).live().filter(pk=found.summary_id).first()
    entries, next_cursor = _happened(found, clearance, cursor)
    most = _bearable(entries)
    listing, fit = fitting(lambda count: _listing(entries[:count], summary), most, MOST_WEIGHT)
    if fit < len(entries):
        entries, next_cursor = entries[:fit], timeline.after(entries[fit - 1])
    before = timeline.count_up_to(cursor, clearance, found) if cursor else 0
    context = {
        "session": found,
        "summary": summary,
        "listing": listing,
        "began": entries[0].at if entries else None,
        "ended": entries[-1].at if entries else None,
        "from_number": before + 1,
        "to_number": before + len(entries),
        "total": timeline.count(clearance, MemoryFilter(), kinds=timeline.PAGE_KINDS, of=found),
        "first": not cursor,
        "next_cursor": next_cursor,
    }
    return render(request, "sessions/report.html", context)


def _bearable(entries: list[timeline.Entry]) -> int:
    """How many of them to try to show, by the lengths of their texts: to draw ten parts for one is slow."""
    weights = accumulate(len(getattr(entry.row, "content", "")) for entry in entries)
    return max(1, sum(weight <= MOST_WEIGHT for weight in weights)) if entries else 0


def _listing(entries: list[timeline.Entry], summary: Memory | None) -> str:
    return render_to_string("sessions/report_days.html", {"days": by_day(entries), "summary": summary})


def _named(session_id: str, project: str | None, clearance: Clearance) -> list[Session]:
    """Two at most: more than one is too many already. ``project``: None for any."""
    rows = with_counts(clearance).filter(session_id=session_id)
    return list((rows if project is None else rows.filter(project=project))[:2])


def _happened(
    session: Session, clearance: Clearance, cursor: str | None
) -> tuple[list[timeline.Entry], str | None]:
    """A part of what happened, and where the next one begins."""
    try:
        entries, next_cursor = timeline.timeline(
            clearance,
            MemoryFilter(),
            limit=ENTRIES,
            cursor=cursor,
            kinds=timeline.PAGE_KINDS,
            of=session,
            oldest_first=True,
        )
    except pagination.BadCursor as error:
        raise BadRequest(str(error)) from None
    queries.look_up_entries(entries, clearance)
    return entries, next_cursor
