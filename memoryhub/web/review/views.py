"""The review queue: new, unsure, flagged, nearly the same, contradicting; decided one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST, require_safe

from memoryhub import memories
from memoryhub.accounts.clearance import record_reveal, request_actor, request_clearance
from memoryhub.facts import contradictions
from memoryhub.models import Memory, Profile
from memoryhub.stats import review_items
from memoryhub.web.base.fields import parse_aware_datetime, parse_whole_number
from memoryhub.web.base.htmx import HtmxHttpRequest, patch_vary
from memoryhub.web.base.redirects import return_url
from memoryhub.web.duplicates import presenters
from memoryhub.web.duplicates.views import decision_rights
from memoryhub.web.facts.contradictions import contradiction_cards as shown_facts
from memoryhub.web.memories import bulk_actions, queries
from memoryhub.web.review import queue as review_queue
from memoryhub.web.review.queue import CONTRADICTIONS, DUPLICATES, NEW, PAGE_SIZE, ReviewCard, ReviewFilter

# What each button does, as an act of the store, and what it is called when done. Whoever demotes has looked.
_ACTIONS = {
    "approve": ("approve", "Approved"),
    "demote": ("demote_and_approve", "Demoted"),
    "trash": ("trash", "In the trash"),
}


@require_safe
def review_page(request: HttpRequest) -> HttpResponse:
    """``tab``, ``project``, ``page`` in the address; ``at``: the memory to begin with."""
    form = ReviewFilter(request.GET)
    clearance, reader = request_clearance(request), review_queue.reader_for(request)
    if not form.is_valid():
        wrong = " ".join(str(error) for errors in form.errors.values() for error in errors)
        tabs = review_queue.build_tabs(
            review_queue.count_by_tab(clearance, reader), "", "", presenters.cached_count(clearance)
        )
        return render(request, "review/page.html", {"form": form, "wrong": wrong, "tabs": tabs}, status=422)
    project = form.value("project")
    counted = review_queue.count_by_tab(clearance, reader, project)
    tab = form.value("tab") or review_queue.first_nonempty_tab(counted)
    if not project:
        request.review_counted = counted  # type: ignore[attr-defined]  # the badge counts the same
    context = {
        "form": form,
        "tab": tab,
        "project": project,
        "tabs": review_queue.build_tabs(counted, tab, project, presenters.cached_count(clearance, project)),
        "left": counted.get(tab),
        "back": request.get_full_path(),
        "now": timezone.now(),
        "since": reader.since,
        "most": PAGE_SIZE,
        "has_looked": review_queue.last_reviewed_at(request) is not None,
        **decision_rights(request),
    }
    context["compare"] = tab != DUPLICATES and context["tabs"][-2].count is None
    context |= _tab_context(request, tab, project, counted)
    return render(request, "review/page.html", context)


@require_GET
def review_tabs(request: HttpRequest) -> HttpResponse:
    """The tabs anew, after something was decided, or with near-duplicates counted (``compare``): a part."""
    form, clearance = _valid_filter(request), request_clearance(request)
    tab, project = form.value("tab") or NEW, form.value("project")
    counted = review_queue.count_by_tab(clearance, review_queue.reader_for(request), project)
    compared = tab == DUPLICATES or "compare" in request.GET
    alike = (
        len(presenters.cached_clusters(clearance, project).near)
        if compared
        else presenters.cached_count(clearance, project)
    )
    context = {
        "tabs": review_queue.build_tabs(counted, tab, project, alike),
        "left": alike if tab == DUPLICATES else counted[tab],
        "waiting": review_queue.badge_text(request),
        "tab": tab,
    }
    return render(request, "review/tabs.html", context)


@require_GET
def review_duplicates(request: HttpRequest) -> HttpResponse:
    """The near-duplicates: a part of the page that comes later, because comparing takes a while."""
    project = _valid_filter(request).value("project")
    back = review_queue.tab_url(DUPLICATES, project, look="1")
    context = {
        **_duplicates_context(request, project),
        **decision_rights(request),
        "back": back,
        "tab": DUPLICATES,
        "project": project,
    }
    return render(request, "review/alike.html", context)


@require_safe
def review_card(request: HtmxHttpRequest, uid: str) -> HttpResponse:
    """One memory as a card of the queue: a part of the page, else the page that begins with it.

    ``whole``: with all of its text, however long.
    """
    tab = _parse_tab(request.GET.get("tab", ""))
    if not request.htmx:
        return redirect(review_queue.tab_url(tab, at=uid))
    return _card_response(request, uid, tab, is_whole="whole" in request.GET)


@require_safe
def review_merge(request: HtmxHttpRequest, uid: str) -> HttpResponse:
    """A memory beside those most like it, to be merged: in the place of its card, else a page."""
    memory = queries.get_visible_memory(request, uid)
    clearance = request_clearance(request)
    tab = _parse_tab(request.GET.get("tab", ""))
    found = None
    if memory.deleted_at is None:
        found = presenters.build_merge_card(memory, clearance, settings.MEMORYHUB.near_duplicate_similarity)
    for one in found.everyone if found else []:
        _reveal_if_secret(request, one)
    context = {
        "memory": memory,
        "cluster": found,
        "tab": tab,
        "back": review_queue.tab_url(tab),
        **decision_rights(request),
    }
    response = render(request, "review/merge_part.html" if request.htmx else "review/merge.html", context)
    patch_vary(response)
    return response


@require_POST
def review_action(request: HtmxHttpRequest) -> HttpResponse:
    """``act``: approve, demote or trash; ``uid``; ``seen``: the version of it that the person read.

    ``card``: ids of the cards that are on the page, which the next one is not.
    """
    kind, said = _ACTIONS.get(request.POST.get("act", ""), ("", ""))
    if not kind:
        raise BadRequest("act is approve, demote or trash")
    if not bulk_actions.is_allowed(request, kind):
        raise PermissionDenied
    memory = queries.get_visible_memory(request, request.POST.get("uid", ""))
    seen = parse_aware_datetime(request.POST.get("seen", ""))
    acted = memories.apply_bulk_action(
        kind, [memory.uid], request_actor(request), seen={memory.uid: seen} if seen else {}
    )
    if acted.refused:
        return _refused_response(request, memory, acted.refused[0][1])
    context = {"memory": memory, "said": said, "acted": acted, "tab": _parse_tab(request.POST.get("tab", ""))}
    context["back"] = _review_url(request)
    if not request.htmx:
        messages.success(request, render_to_string("review/undo.html", context, request=request))
        return redirect(_review_url(request))
    context["more"] = _next_card(request)
    return render(request, "review/done.html", context | decision_rights(request))


@require_POST
def review_undo(request: HtmxHttpRequest) -> HttpResponse:
    """``undo``: id, first and last journal row of the act; ``uid``: the memory that it was about."""
    act_id, first, last = _parse_undo(request.POST.get("undo", ""))
    memory = queries.get_visible_memory(request, request.POST.get("uid", ""))
    undone = bulk_actions.undo_own_action(request, act_id, first, last)
    if undone.refused:
        return _refused_response(request, memory, undone.refused[0][1])
    if request.htmx:
        return _card_response(request, memory.uid, _parse_tab(request.POST.get("tab", "")))
    messages.success(request, "Taken back: all is as it was.")
    return redirect(_review_url(request))


@require_POST
def review_mark_seen(request: HttpRequest) -> HttpResponse:
    """``until``: the moment up to which the person has looked, as ISO 8601; empty takes it back to never."""
    text = request.POST.get("until", "")
    until = parse_aware_datetime(text)
    if text and (until is None or until > timezone.now()):
        raise BadRequest("until is not a moment that has passed")
    before = review_queue.last_reviewed_at(request)
    Profile.objects.update_or_create(user_id=request.user.pk, defaults={"looked_at": until})  # type: ignore[misc]
    if request.POST.get("back"):
        messages.success(request, "Taken back: all is as it was.")
    else:
        context = {"before": before, "back": _review_url(request)}
        messages.success(request, render_to_string("review/looked.html", context, request=request))
    return redirect(_review_url(request))


def _tab_context(request: HttpRequest, tab: str, project: str, counted: Mapping[str, int]) -> dict[str, Any]:
    """What a tab holds; near-duplicates come later, unless they are asked for at once (``look``)."""
    if tab == CONTRADICTIONS:
        return _contradictions_context(request, project)
    if tab == DUPLICATES:
        return _duplicates_context(request, project) if "look" in request.GET else {}
    return _cards_context(request, tab, project, counted[tab])


def _cards_context(request: HttpRequest, tab: str, project: str, count: int) -> dict[str, Any]:
    """A page of cards; the one that was asked for first, wherever it stands."""
    found = review_items.select_queue(
        review_queue.live_memories(request_clearance(request), project), tab, review_queue.reader_for(request)
    )
    last = max(-(-count // PAGE_SIZE), 1)
    number = min(parse_whole_number(request.GET.get("page", ""), 6) or 1, last)
    at = request.GET.get("at", "")
    begin = review_queue.build_cards(found.filter(uid=at)) if at else []
    begun = [card.memory.pk for card in begin]
    rest = found.exclude(pk__in=begun) if begun else found
    place = (number - 1) * PAGE_SIZE
    cards = begin + review_queue.build_cards(rest[place : place + PAGE_SIZE - len(begin)])
    for card in cards:
        _reveal_if_secret(request, card.memory)
    missing = queries.get_visible_memory(request, at) if at and not begin else None
    return {"cards": cards, "number": number, "last": last, "missing": missing}


def _duplicates_context(request: HttpRequest, project: str) -> dict[str, Any]:
    clearance = request_clearance(request)
    found = presenters.cached_clusters(clearance, project)
    clusters = presenters.build_first_cards(found, clearance, PAGE_SIZE)
    for cluster in clusters:
        for memory in cluster.everyone:
            _reveal_if_secret(request, memory)
    return {"found": found, "clusters": clusters, "more": len(found.near) - len(clusters)}


def _contradictions_context(request: HttpRequest, project: str) -> dict[str, Any]:
    survey = contradictions.find_contradictions(request_clearance(request), project=project)
    return {
        "groups": shown_facts(request, survey.open[:PAGE_SIZE]),
        "more": len(survey.open) - PAGE_SIZE,
        "left": len(survey.open),
    }


def _card_response(request: HttpRequest, uid: str, tab: str, is_whole: bool = False) -> HttpResponse:
    card = _get_card(request, uid, is_whole)
    context = {
        "card": card,
        "tab": tab,
        "back": review_queue.tab_url(tab),
        "is_fresh": True,
        "is_whole": is_whole,
    }
    context |= decision_rights(request)
    response = render(request, "review/card.html", context)
    patch_vary(response)
    return response


def _get_card(request: HttpRequest, uid: str, is_whole: bool) -> ReviewCard:
    """A live memory as a card, whether it waits or not; 404 where it may not be seen."""
    found = review_queue.build_cards(
        review_queue.live_memories(request_clearance(request)).filter(uid=uid), is_whole
    )
    if not found:
        raise Http404
    _reveal_if_secret(request, found[0].memory)
    return found[0]


def _next_card(request: HttpRequest) -> ReviewCard | None:
    """The first that waits and is not on the page yet."""
    tab, project = _parse_tab(request.POST.get("tab", "")), request.POST.get("project", "")
    there = request.POST.getlist("card")[: 4 * PAGE_SIZE]
    live = review_queue.live_memories(request_clearance(request), project).exclude(uid__in=there)
    found = review_queue.build_cards(
        review_items.select_queue(live, tab, review_queue.reader_for(request))[:1]
    )
    for card in found:
        _reveal_if_secret(request, card.memory)
    return found[0] if found else None


def _refused_response(request: HtmxHttpRequest, memory: Memory, refusal: str) -> HttpResponse:
    """Why it was not done, above the card as it is now."""
    text = f"Not done: {refusal}."
    if not request.htmx:
        messages.error(request, text)
        return redirect(_review_url(request))
    tab = _parse_tab(request.POST.get("tab", ""))
    live = review_queue.live_memories(request_clearance(request)).filter(pk=memory.pk)
    card = next(iter(review_queue.build_cards(live)), None)
    context = {"card": card, "memory": memory, "tab": tab, "back": review_queue.tab_url(tab), "refusal": text}
    return render(
        request, "review/card.html", context | {"is_fresh": True, **decision_rights(request)}, status=422
    )


def _reveal_if_secret(request: HttpRequest, memory: Memory) -> None:
    """A card shows what a memory says: a secret was read."""
    if queries.is_secret(memory.sensitivity):
        record_reveal(request, memory, "review")


def _valid_filter(request: HttpRequest) -> ReviewFilter:
    form = ReviewFilter(request.GET)
    if not form.is_valid():
        raise BadRequest("tab or project cannot be used")
    return form


def _parse_tab(name: str) -> str:
    """One of the tabs of memories."""
    return name if name in review_items.REASONS else NEW


def _parse_undo(text: str) -> tuple[str, int, int]:
    uid, _, numbers = text.partition(" ")
    first, _, last = numbers.partition(" ")
    if not (bulk_actions.parse_journal_number(first) and bulk_actions.parse_journal_number(last)):
        raise BadRequest("undo is the id of an act and the numbers of its journal rows")
    return uid, bulk_actions.parse_journal_number(first), bulk_actions.parse_journal_number(last)


def _review_url(request: HttpRequest) -> str:
    """The page of the queue that was acted on."""
    here = reverse("review")
    return return_url(request, here, here)
