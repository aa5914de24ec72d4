"""The injection log over all sessions, and the page of one injection."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memoryhub.accounts.clearance import request_clearance
from memoryhub.core import pagination
from memoryhub.injection.queries import load_reports
from memoryhub.models import Injection
from memoryhub.models.querysets import InjectionQuerySet
from memoryhub.web.base.errors import bad_cursor_as_400
from memoryhub.web.base.filters import InjectionFilter

PAGE_SIZE = 20


@require_safe
def injections(request: HttpRequest) -> HttpResponse:
    """List the visible injections, newest first; each shows only its visible memories."""
    form = InjectionFilter(request.GET)
    valid = form.is_valid()
    clearance = request_clearance(request)
    visible: InjectionQuerySet = Injection.objects.visible_to(clearance).select_related("session")
    rows = _apply_filter(visible, form) if valid else visible.none()
    with bad_cursor_as_400():
        page = pagination.paginate(rows, "at", PAGE_SIZE, request.GET.get("cursor"))
    context = {
        "form": form,
        "logs": load_reports(page.items, clearance),
        "next_cursor": page.next_cursor,
        "first": not request.GET.get("cursor"),
    }
    return render(request, "injections/page.html", context, status=200 if valid else 422)


@require_safe
def injection(request: HttpRequest, uid: str) -> HttpResponse:
    """Show the visible part of one injection."""
    clearance = request_clearance(request)
    visible = Injection.objects.visible_to(clearance).select_related("session").filter(uid=uid)
    logs = load_reports(visible, clearance)
    if not logs:
        raise Http404
    return render(request, "injections/one.html", {"log": logs[0]})


def _apply_filter(rows: InjectionQuerySet, form: InjectionFilter) -> InjectionQuerySet:
    rows = rows.between("at", form.begin(), form.end())
    if outcome := form.value("outcome"):
        rows = rows.empty() if outcome == "empty" else rows.filled()
    if query := form.value("q"):
        rows = rows.filter(prompt_preview__icontains=query)
    if project := form.value("project"):
        rows = rows.filter(project=project)
    if session_id := form.value("session_id"):
        rows = rows.filter(session__session_id=session_id)
    return rows
