"""What happened when, over all sessions and projects."""

from __future__ import annotations

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memoryhub.retrieval import paging, timeline
from memoryhub.web.access import clearance_of
from memoryhub.web.days import by_day
from memoryhub.web.filters import TimelineFilter

ENTRIES = 60


@require_safe
def project_timeline(request: HttpRequest) -> HttpResponse:
    """Memories, events, boundaries, starts and ends of sessions, newest first, grouped by day."""
    form = TimelineFilter(request.GET)
    cursor = request.GET.get("cursor")
    entries: list[timeline.Entry] = []
    next_cursor = None
    valid = form.is_valid()
    if valid:
        try:
            entries, next_cursor = timeline.timeline(
                clearance_of(request), form.wanted(), limit=ENTRIES, cursor=cursor
            )
        except paging.BadCursor as error:
            raise BadRequest(str(error)) from None
    context = {
        "form": form,
        "days": by_day(entries),
        "next_cursor": next_cursor,
        "first": not cursor,
    }
    return render(request, "timeline/page.html", context, status=200 if valid else 422)
