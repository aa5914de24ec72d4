"""Turning the switches that show what is above public."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from memoryhub.web import access


@require_POST
def turn_switch(request: HttpRequest) -> HttpResponse:
    """POST ``level``, ``on`` (1 or 0) and ``next``, a page of this site."""
    level = request.POST.get("level", "")
    if level not in access.SWITCHES:
        raise Http404
    if not access.may_see(request.user, level):
        raise PermissionDenied
    access.turn(request, level, request.POST.get("on") == "1")
    return redirect(_next(request))


def _next(request: HttpRequest) -> str:
    """Where to go on: a page of this host, else home."""
    wanted = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if safe else "home"
