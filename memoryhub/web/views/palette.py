"""The list of the command palette, fetched while someone types into it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memoryhub.text import collapse
from memoryhub.web.access import clearance_of
from memoryhub.web.palette import MOST_CHARS, groups


@require_safe
def palette(request: HttpRequest) -> HttpResponse:
    """``q``: what was typed; the options of a listbox, in groups."""
    typed = collapse(request.GET.get("q", "").replace("\x00", " "))[:MOST_CHARS].strip()
    found = groups(request.user, clearance_of(request), typed)
    return render(request, "palette/found.html", {"groups": found})
