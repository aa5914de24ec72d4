"""Recall preview: the block for a prompt, and what was held back and why. Nothing is logged or counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.views.decorators.http import require_http_methods

from memoryhub.retrieval.inject import Injected, Wanted, inject
from memoryhub.sensitivity import Actor, Sensitivity
from memoryhub.web.access import SWITCHES, actor_of, clearance_of, is_on, may_see, reveal
from memoryhub.web.htmx import HtmxHttpRequest, page_or_fragment
from memoryhub.web.preview import PreviewForm, groups, shares


@require_http_methods(["GET", "HEAD", "POST"])
def preview(request: HtmxHttpRequest) -> HttpResponse:
    """A prompt is posted, for it may be long and private; htmx fills ``#recalled``."""
    posted = request.method == "POST"
    form = PreviewForm(request.POST if posted else None)
    context: dict[str, Any] = {"form": form}
    valid = posted and form.is_valid()
    if valid:
        context |= _recalled(request, form.wanted())
    return page_or_fragment(
        request,
        "preview/page.html",
        context,
        fragment="preview/recalled.html",
        target="recalled",
        status=422 if posted and not valid else 200,
    )


def _recalled(request: HtmxHttpRequest, wanted: Wanted) -> dict[str, Any]:
    actor = actor_of(request)
    found = inject(wanted, actor, record=False)
    for one in found.shown:
        if one.candidate.memory.sensitivity == Sensitivity.SECRET.value:
            reveal(request, one.candidate.memory, "recall preview")
    return {
        "found": found,
        "budget": wanted.budget,
        "most": wanted.count,
        "floor": settings.MEMORYHUB.injection_min_score,
        "shares": shares(found, wanted.budget),
        "groups": groups(found),
        "more": _more(request, wanted, actor, found),
    }


def _more(request: HtmxHttpRequest, wanted: Wanted, actor: Actor, found: Injected) -> list[tuple[str, int]]:
    """For each switch that this person could turn on: how many memories would be shown that are not now.

    Told to nobody else, since the number speaks of memories that they may not see.
    """
    told = []
    shown = {one.uid for one in found.injected}
    for level in SWITCHES:
        if may_see(request.user, level) and not is_on(request, level):
            clearance = clearance_of(request, also=[level])
            wider = inject(wanted, replace(actor, clearance=clearance), record=False)
            if new := len({one.uid for one in wider.injected} - shown):
                told.append((level, new))
    return told
