"""Shared views: the sensitivity switches and field suggestions."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from memoryhub.accounts.clearance import clearance_of
from memoryhub.models import Memory
from memoryhub.stats.counts import counts
from memoryhub.web.base import access
from memoryhub.web.base.redirects import back_of


@require_POST
def turn_switch(request: HttpRequest) -> HttpResponse:
    """POST ``level``, ``on`` (1 or 0) and ``next``, a page of this site."""
    level = request.POST.get("level", "")
    if level not in access.SWITCHES:
        raise Http404
    if not access.may_see(request.user, level):
        raise PermissionDenied
    access.turn(request, level, request.POST.get("on") == "1")
    return redirect(back_of(request, "home"))


MOST = 200


@require_safe
def project_names(request: HttpRequest) -> HttpResponse:
    """Options for a ``<datalist>``: projects that may be seen, those with most memories first."""
    live = Memory.objects.visible_to(clearance_of(request)).live()
    names = [name for name in counts(live, "project", most=MOST) if name]
    return render(request, "suggest/projects.html", {"names": names})
