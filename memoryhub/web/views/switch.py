"""Turning the switches that show what is above public."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from memoryhub.web import access
from memoryhub.web.back import back_of


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
