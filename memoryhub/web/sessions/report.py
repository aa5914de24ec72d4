"""The printable report of a session, and the pages of injections."""

from __future__ import annotations

from itertools import accumulate

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.injection.queries import load_reports
from memoryhub.memories.filters import MemoryFilter
from memoryhub.models import Injection, Memory, Session
from memoryhub.models.querysets import InjectionQuerySet
from memoryhub.stats import timeline
from memoryhub.web.base.forms import InjectionFilter
from memoryhub.web.base.requests import cursor_page
from memoryhub.web.sessions.overview import name_sessions
from memoryhub.web.sessions.picture import fit_to_bytes
from memoryhub.web.sessions.views import read_entries, sessions_with_titles, visible_summary

MAX_ENTRIES = 500
MAX_REPORT_BYTES = 78_000  # of the entries in one part


@require_safe
def session_report(request: HttpRequest, session_id: str) -> HttpResponse:
    """Show all entries, oldest first; ``cursor`` leads to the next part of a long session.

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
        found, clearance, cursor, limit=MAX_ENTRIES, kinds=timeline.PAGE_KINDS, oldest_first=True
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
    return render_to_string("sessions/report.html#report_days", {"entries": entries, "summary": summary})


def _find_sessions(session_id: str, project: str | None, clearance: Clearance) -> list[Session]:
    """Return up to two sessions with this id, in one project or, with None, in any."""
    rows = sessions_with_titles(clearance).filter(session_id=session_id)
    return list((rows if project is None else rows.filter(project=project))[:2])


PAGE_SIZE = 10


@require_safe
def injections(request: HttpRequest) -> HttpResponse:
    """List the visible injections, newest first; each shows only its visible memories."""
    form = InjectionFilter(request.GET)
    clearance = request_clearance(request)
    visible: InjectionQuerySet = Injection.objects.visible_to(clearance).select_related("session")
    rows = _apply_filter(visible, form) if form.is_valid() else visible.none()
    listed = cursor_page(request, rows, "at", PAGE_SIZE)
    name_sessions([row.session for row in listed["page"].items if row.session], clearance)
    context = {"form": form, "logs": load_reports(listed["page"].items, clearance), **listed}
    return render(request, "injections/page.html", context, status=form.http_status)


@require_safe
def injection(request: HttpRequest, uid: str) -> HttpResponse:
    """Show the visible part of one injection."""
    clearance = request_clearance(request)
    visible = Injection.objects.visible_to(clearance).select_related("session").filter(uid=uid)
    logs = load_reports(visible, clearance)
    if not logs:
        raise Http404
    name_sessions([log.injection.session for log in logs if log.injection.session], clearance)
    return render(request, "injections/one.html", {"log": logs[0]})


def _apply_filter(rows: InjectionQuerySet, form: InjectionFilter) -> InjectionQuerySet:
    rows = rows.filter(**form.given("project")).between("at", form.begin(), form.end())
    if outcome := form.value("outcome"):
        rows = rows.empty() if outcome == "empty" else rows.filled()
    if query := form.value("q"):
        rows = rows.filter(prompt_preview__icontains=query)
    if session_id := form.value("session_id"):
        rows = rows.filter(session__session_id=session_id)
    return rows
