"""Suggestions for fields, fetched when someone comes to one: most readers of a page need none."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memoryhub.models import Memory
from memoryhub.retrieval.overview import counts
from memoryhub.web.access import clearance_of

MOST = 200


@require_safe
def project_names(request: HttpRequest) -> HttpResponse:
    """Options for a ``<datalist>``: projects that may be seen, those with most memories first."""
    live = Memory.objects.visible_to(clearance_of(request)).live()
    names = [name for name in counts(live, "project", most=MOST) if name]
    return render(request, "suggest/projects.html", {"names": names})
