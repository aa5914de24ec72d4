"""Facts that contradict each other: the newer supersedes the others with one click, and undo with another."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from memoryhub import memories
from memoryhub.accounts.clearance import actor_of, clearance_of
from memoryhub.facts import contradictions
from memoryhub.facts.contradictions import Contradiction, Survey
from memoryhub.facts.graph_index import key_of
from memoryhub.models import Fact
from memoryhub.web.base.htmx import HtmxHttpRequest, patch_vary
from memoryhub.web.base.redirects import back_of
from memoryhub.web.facts.filters import ConflictFilter, GraphAddress, suggested_predicates
from memoryhub.web.memories.list_forms import without

PAGE_SIZE = 20
_TABS = {"open": "To decide", "together": "May all hold"}
_CHANGE = "memoryhub.change_fact"


@require_safe
def conflicts(request: HttpRequest) -> HttpResponse:
    """``subject``, ``predicate``, ``project``, ``tab`` (open or together) and ``page`` in the address."""
    form = ConflictFilter(request.GET)
    if not form.is_valid():
        return render(request, "facts/conflicts.html", {"form": form}, status=422)
    clearance, project = clearance_of(request), form.value("project")
    survey = form.select(contradictions.survey(clearance, project=project))
    tab = request.GET.get("tab", "open")
    tab = tab if tab in _TABS else "open"
    groups = survey.open if tab == "open" else survey.together
    page = Paginator(groups, PAGE_SIZE).get_page(request.GET.get("page"))
    address, subject = GraphAddress(request.GET), form.value("subject")
    context = {
        "form": form,
        "tab": tab,
        "tabs": [
            {"name": name, "title": title, "href": without(request, tab=name), "current": name == tab}
            for name, title in _TABS.items()
        ],
        "counts": _counts(survey),
        "groups": shown(request, list(page.object_list)),
        "number": page.number,
        "last": page.paginator.num_pages,
        "back": request.get_full_path(),
        "graph": address.of([key_of(subject)] if subject else []),
        "table": address.table(**({"subject": subject} if subject else {})),
        "conflicts": address.conflicts(subject=subject),
        "predicates": suggested_predicates(clearance, project),
    }
    return render(request, "facts/conflicts.html", context)


def _counts(survey: Survey) -> dict[str, int]:
    """How many there are, by tab."""
    return {"open": len(survey.open), "together": len(survey.together)}


def shown(request: HttpRequest, groups: list[Contradiction]) -> list[dict[str, Any]]:
    """Each group with its whole facts, in one query for all."""
    wanted = [row.pk for group in groups for row in group.rows]
    visible = Fact.objects.visible_to(clearance_of(request)).select_related("memory").defer("memory__content")
    facts = {fact.pk: fact for fact in visible.filter(pk__in=wanted)}
    return [
        {
            "group": group,
            "facts": [facts[row.pk] for row in group.rows if row.pk in facts],
            "graph": GraphAddress(request.GET).of([key_of(group.newest.subject)]),
        }
        for group in groups
    ]


@require_POST
@permission_required(_CHANGE, raise_exception=True)
def decide(request: HtmxHttpRequest) -> HttpResponse:
    """``fact``: the ids of all that were shown; ``keep``: the one that holds, or none when all of them do."""
    uids, keep = request.POST.getlist("fact"), request.POST.get("keep", "")
    try:
        if keep:
            others = [uid for uid in uids if uid != keep]
            holds, gone = contradictions.supersede(keep, others, actor_of(request))
            context = {"holds": holds, "gone": gone}
        else:
            context = {"decision": contradictions.hold_together(uids, actor_of(request)), "count": len(uids)}
    except memories.StoreError as refusal:
        return _refused(request, refusal)
    return _told(request, context | {"fact_ids": uids})


@require_POST
@permission_required(_CHANGE, raise_exception=True)
def undo(request: HtmxHttpRequest) -> HttpResponse:
    """``gone``: the ids of facts that gave way to another; or ``decision``, that all hold."""
    gone = request.POST.getlist("gone")
    try:
        if gone:
            contradictions.reinstate(gone, actor_of(request))
        else:
            contradictions.undo_hold_together(request.POST.get("decision", ""), actor_of(request))
    except memories.StoreError as refusal:
        return _refused(request, refusal)
    if request.htmx:
        return _card(request)
    messages.success(request, "Taken back: all is as it was.")
    return redirect(_back(request))


def _told(request: HtmxHttpRequest, context: dict[str, Any]) -> HttpResponse:
    """What was decided, with a button that undoes it: in the place of the card, or as a message."""
    context |= {"back": _back(request)}
    if request.htmx:
        return render(request, "facts/decided.html", context | _news(request))
    messages.success(request, render_to_string("facts/undo.html", context, request=request))
    return redirect(_back(request))


def _card(request: HtmxHttpRequest) -> HttpResponse:
    """The facts that were shown, as they are now."""
    uids = set(request.POST.getlist("fact"))
    survey = contradictions.survey(clearance_of(request))
    group = next((group for group in survey.groups if uids & {row.uid for row in group.rows}), None)
    if group is None:
        raise Http404
    [one] = shown(request, [group])
    context = {"one": one, "back": _back(request), "is_fresh": True, **_news(request)}
    response = render(request, "facts/conflict_again.html", context)
    patch_vary(response)
    return response


def _refused(request: HtmxHttpRequest, refusal: memories.StoreError) -> HttpResponse:
    """Why it was not done; what one may not see is not there."""
    if isinstance(refusal, memories.NotFound):
        raise Http404
    if request.htmx:
        context = {"refusal": refusal.message, "back": _back(request), **_news(request)}
        return render(request, "facts/refused.html", context, status=422)
    messages.error(request, f"Not done: {refusal.message}.")
    return redirect(_back(request))


def _news(request: HttpRequest) -> dict[str, Any]:
    """How many there are by now under the filters of the page that was acted on; nothing for another page."""
    path, _, query = _back(request).partition("?")
    form = ConflictFilter(QueryDict(query))
    if path != reverse("fact-conflicts") or not form.is_valid():
        return {}
    survey = contradictions.survey(clearance_of(request), project=form.value("project"))
    return {"counts": _counts(form.select(survey)), "names": list(_TABS)}


def _back(request: HttpRequest) -> str:
    """The page of facts that was acted on, or the review."""
    return back_of(request, "/facts/contradictions/", ("/facts/", "/review/"))
