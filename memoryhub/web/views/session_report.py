"""One session as a report to be read from top to bottom, and printed."""

from __future__ import annotations

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from memoryhub.models import Memory, Session
from memoryhub.retrieval import injections, paging, timeline
from memoryhub.retrieval.filters import MemoryFilter
from memoryhub.retrieval.sessions import with_counts
from memoryhub.web.access import clearance_of
from memoryhub.web.days import by_day

ENTRIES = 500


@require_safe
def session_report(request: HttpRequest, session_id: str) -> HttpResponse:
    """All that happened, oldest first; a very long session in parts, by ``cursor``.

    Where several projects have a session of this name, and none is named, its page lets one choose.
    """
    clearance = clearance_of(request)
    rows = with_counts(clearance).filter(session_id=session_id)
    if (project := request.GET.get("project")) is not None:
        rows = rows.filter(project=project)
    sessions: list[Session] = list(rows[:2])
    if not sessions:
        raise Http404
    if len(sessions) > 1:
        return redirect("session", session_id)
    found = sessions[0]
    try:
        entries, next_cursor = timeline.timeline(
            clearance,
            MemoryFilter(),
            limit=ENTRIES,
            cursor=request.GET.get("cursor"),
            kinds=timeline.PAGE_KINDS,
            of=found,
            oldest_first=True,
        )
    except paging.BadCursor as error:
        raise BadRequest(str(error)) from None
    injections.look_up_entries(entries, clearance)
    summary = Memory.objects.visible_to(clearance).live().filter(pk=found.summary_id).first()
    context = {
        "session": found,
        "summary": summary,
        "days": by_day(entries),
        "first": not request.GET.get("cursor"),
        "next_cursor": next_cursor,
    }
    return render(request, "sessions/report.html", context)
