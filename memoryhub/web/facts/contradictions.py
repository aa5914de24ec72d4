"""The page of contradictory facts, with the actions that settle a contradiction and undo the decision."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import permission_required
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from memoryhub import memories
from memoryhub.accounts.clearance import request_actor, request_clearance
from memoryhub.accounts.permissions import CHANGE_FACT
from memoryhub.facts import contradictions
from memoryhub.facts.contradictions import Contradiction, ContradictionReport
from memoryhub.facts.queries import node_key
from memoryhub.models import Fact
from memoryhub.web.base.requests import HtmxHttpRequest, numbered_page, return_url, show_success
from memoryhub.web.facts.filters import ContradictionFilter, GraphAddress, suggested_predicates
from memoryhub.web.memories.filters import filter_url

PAGE_SIZE = 20
_TABS = {"open": "To decide", "together": "Possibly compatible"}


@require_safe
def contradiction_list(request: HttpRequest) -> HttpResponse:
    """List contradictions, filtered by ``subject``, ``predicate``, ``project`` and ``tab`` of the address."""
    form = ContradictionFilter(request.GET)
    if not form.is_valid():
        return render(request, "facts/conflicts.html", {"form": form}, status=422)
    clearance, project = request_clearance(request), form.value("project")
    survey = form.select(contradictions.find_contradictions(clearance, project=project))
    tab = request.GET.get("tab", "open")
    tab = tab if tab in _TABS else "open"
    groups = survey.open if tab == "open" else survey.together
    groups, numbers = numbered_page(request, groups, PAGE_SIZE)
    address, subject = GraphAddress(request.GET), form.value("subject")
    context = {
        "form": form,
        "tab": tab,
        "tabs": [
            {"name": name, "title": title, "href": filter_url(request, tab=name), "current": name == tab}
            for name, title in _TABS.items()
        ],
        "counts": _tab_counts(survey),
        "groups": contradiction_cards(request, groups),
        **numbers,
        "back": request.get_full_path(),
        "graph": address.of([node_key(subject)] if subject else []),
        "table": address.table(**({"subject": subject} if subject else {})),
        "conflicts": address.conflicts(subject=subject),
        "predicates": suggested_predicates(clearance, project),
    }
    return render(request, "facts/conflicts.html", context)


def _tab_counts(survey: ContradictionReport) -> dict[str, int]:
    return {"open": len(survey.open), "together": len(survey.together)}


def contradiction_cards(request: HttpRequest, groups: list[Contradiction]) -> list[dict[str, Any]]:
    """Return the context of each contradiction's card; all facts are loaded in one query."""
    wanted = [row.pk for group in groups for row in group.rows]
    visible = (
        Fact.objects.visible_to(request_clearance(request)).select_related("memory").defer("memory__content")
    )
    facts = {fact.pk: fact for fact in visible.filter(pk__in=wanted)}
    return [
        {
            "group": group,
            "facts": [facts[row.pk] for row in group.rows if row.pk in facts],
            "graph": GraphAddress(request.GET).of([node_key(group.newest.subject)]),
        }
        for group in groups
    ]


@require_POST
@permission_required(CHANGE_FACT, raise_exception=True)
def decide_contradiction(request: HtmxHttpRequest) -> HttpResponse:
    """Settle a contradiction. ``fact``: the ids of its facts; ``keep``: the true one; empty: all are."""
    uids, keep = request.POST.getlist("fact"), request.POST.get("keep", "")
    try:
        if keep:
            others = [uid for uid in uids if uid != keep]
            holds, gone = contradictions.supersede_facts(keep, others, request_actor(request))
            context = {"holds": holds, "gone": gone}
        else:
            context = {
                "decision": contradictions.mark_compatible(uids, request_actor(request)),
                "count": len(uids),
            }
    except memories.StoreError as refusal:
        return _refused_response(request, refusal)
    return _decided_response(request, context | {"fact_ids": uids})


@require_POST
@permission_required(CHANGE_FACT, raise_exception=True)
def undo_decision(request: HtmxHttpRequest) -> HttpResponse:
    """Undo a decision. ``gone``: the ids of superseded facts, or ``decision``: that all are true."""
    gone = request.POST.getlist("gone")
    try:
        if gone:
            contradictions.undo_supersede(gone, request_actor(request))
        else:
            contradictions.undo_mark_compatible(request.POST.get("decision", ""), request_actor(request))
    except memories.StoreError as refusal:
        return _refused_response(request, refusal)
    if request.htmx:
        return _card_response(request)
    messages.success(request, "Undone.")
    return redirect(_back_address(request))


def _decided_response(request: HtmxHttpRequest, context: dict[str, Any]) -> HttpResponse:
    """Show the decision with an undo button: in place of the card, or as a message without htmx."""
    context |= {"back": _back_address(request)}
    if request.htmx:
        return render(request, "facts/conflicts.html#decided", context | _current_counts(request))
    show_success(request, "facts/page.html#undo", context)
    return redirect(_back_address(request))


def _card_response(request: HtmxHttpRequest) -> HttpResponse:
    """Show the card of these facts again."""
    uids = set(request.POST.getlist("fact"))
    survey = contradictions.find_contradictions(request_clearance(request))
    group = next((group for group in survey.groups if uids & {row.uid for row in group.rows}), None)
    if group is None:
        raise Http404
    [card] = contradiction_cards(request, [group])
    context = {"one": card, "back": _back_address(request), "is_fresh": True, **_current_counts(request)}
    return render(request, "facts/conflicts.html#conflict_again", context)


def _refused_response(request: HtmxHttpRequest, refusal: memories.StoreError) -> HttpResponse:
    """Show why the action was refused; 404 for facts that are not visible."""
    if isinstance(refusal, memories.NotFound):
        raise Http404
    if request.htmx:
        context = {"refusal": refusal.message, "back": _back_address(request), **_current_counts(request)}
        return render(request, "facts/page.html#refused", context, status=422)
    messages.error(request, f"Nothing was changed: {refusal.message}.")
    return redirect(_back_address(request))


def _current_counts(request: HttpRequest) -> dict[str, Any]:
    """Return the new counts under the filters of the page of contradictions; nothing for another page."""
    path, _, query = _back_address(request).partition("?")
    form = ContradictionFilter(QueryDict(query))
    if path != reverse("fact-conflicts") or not form.is_valid():
        return {}
    survey = contradictions.find_contradictions(request_clearance(request), project=form.value("project"))
    return {"counts": _tab_counts(form.select(survey)), "names": list(_TABS)}


def _back_address(request: HttpRequest) -> str:
    """Return the page to go back to: a page of facts, or the review queue."""
    return return_url(request, "/facts/contradictions/", ("/facts/", "/review/"))
