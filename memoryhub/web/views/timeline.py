"""What happened when, over all sessions and projects: by day, and entry by entry."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from memoryhub.retrieval import days, paging, timeline
from memoryhub.web.access import clearance_of
from memoryhub.web.day_strips import fold
from memoryhub.web.days import by_day
from memoryhub.web.filters import MonthFilter, TimelineFilter

ENTRIES = 30


@require_safe
def by_days(request: HttpRequest) -> HttpResponse:
    """A month of one project or of all: each day with what was decided and mended on it first."""
    form = MonthFilter(request.GET)
    if not form.is_valid():
        return render(request, "timeline/month.html", {"form": form}, status=422)
    clearance, project = clearance_of(request), form.value("project")
    first = form.value("month") or days.latest_month(clearance, project)
    shown = days.month(clearance, project, first)
    earlier, later = days.months_beside(clearance, project, first)
    context: dict[str, Any] = {
        "form": form,
        "project": project,
        "month": first,
        "days": fold(shown, timezone.localdate()),
        "anything": any(not day.is_quiet for day in shown),
        "memories": sum(day.memories for day in shown),
        "events": sum(day.events for day in shown),
        "sessions": len({session for day in shown for session in day.sessions}),
        "earlier": earlier,
        "later": later,
    }
    return render(request, "timeline/month.html", context)


@require_safe
def entries(request: HttpRequest) -> HttpResponse:
    """Memories, events, boundaries, starts and ends of sessions, newest first, grouped by day."""
    form = TimelineFilter(request.GET)
    cursor = request.GET.get("cursor")
    found: list[timeline.Entry] = []
    next_cursor = None
    valid = form.is_valid()
    if valid:
        try:
            found, next_cursor = timeline.timeline(
                clearance_of(request), form.wanted(), limit=ENTRIES, cursor=cursor
            )
        except paging.BadCursor as error:
            raise BadRequest(str(error)) from None
    context = {
        "form": form,
        "days": by_day(found),
        "next_cursor": next_cursor,
        "first": not cursor,
    }
    return render(request, "timeline/page.html", context, status=200 if valid else 422)
