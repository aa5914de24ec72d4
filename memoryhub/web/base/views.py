"""Shared views: the sensitivity switches and field suggestions."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from memoryhub.accounts.clearance import SWITCHABLE_LEVELS, may_view_level, request_clearance, show_level
from memoryhub.models import Memory
from memoryhub.stats.counts import count_values
from memoryhub.web.base.redirects import return_url

MAX_PROJECT_NAMES = 200


@require_POST
def turn_switch(request: HttpRequest) -> HttpResponse:
    """Turn the switch of ``level`` ``on`` (1 or 0), then redirect to ``next``."""
    level = request.POST.get("level", "")
    if level not in SWITCHABLE_LEVELS:
        raise Http404
    if not may_view_level(request.user, level):
        raise PermissionDenied
    show_level(request, level, request.POST.get("on") == "1")
    return redirect(return_url(request, "home"))


@require_safe
def project_names(request: HttpRequest) -> HttpResponse:
    """Return ``<datalist>`` options: the visible projects, those with most memories first."""
    live = Memory.objects.visible_to(request_clearance(request)).live()
    names = [name for name in count_values(live, "project", most=MAX_PROJECT_NAMES) if name]
    return render(request, "suggest/projects.html", {"names": names})
