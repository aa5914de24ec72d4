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
from memoryhub.accounts.clearance import actor_of, clearance_of, reveal
from memoryhub.facts import contradictions
from memoryhub.models import Memory, Profile
from memoryhub.stats import review_items
from memoryhub.web.base.fields import aware, whole
from memoryhub.web.base.htmx import HtmxHttpRequest, patch_vary
from memoryhub.web.base.redirects import back_of
from memoryhub.web.duplicates import presenters
from memoryhub.web.duplicates.views import rights
from memoryhub.web.facts.contradictions import shown as shown_facts
from memoryhub.web.memories import bulk_actions, queries
from memoryhub.web.review import queue as review_queue
from memoryhub.web.review.queue import ALIKE, CLASHES, NEW, PAGE_SIZE, Card, ReviewFilter

# What each button does, as an act of the store, and what it is called when done. Whoever demotes has looked.
_DEEDS = {
    "approve": ("approve", "Approved"),
    "demote": ("demote_and_approve", "Demoted"),
    "trash": ("trash", "In the trash"),
}


@require_safe
def queue(request: HttpRequest) -> HttpResponse:
    """``tab``, ``project``, ``page`` in the address; ``at``: the memory to begin with."""
    form = ReviewFilter(request.GET)
    clearance, reader = clearance_of(request), review_queue.reader_of(request)
    if not form.is_valid():
        wrong = " ".join(str(error) for errors in form.errors.values() for error in errors)
        tabs = review_queue.tabs(
            review_queue.numbers(clearance, reader), "", "", presenters.counted(clearance)
        )
        return render(request, "review/page.html", {"form": form, "wrong": wrong, "tabs": tabs}, status=422)
    project = form.value("project")
    counted = review_queue.numbers(clearance, reader, project)
    tab = form.value("tab") or review_queue.first_tab(counted)
    if not project:
        request.review_counted = counted  # type: ignore[attr-defined]  # the badge counts the same
    context = {
        "form": form,
        "tab": tab,
        "project": project,
        "tabs": review_queue.tabs(counted, tab, project, presenters.counted(clearance, project)),
        "left": counted.get(tab),
        "back": request.get_full_path(),
        "now": timezone.now(),
        "since": reader.since,
        "most": PAGE_SIZE,
        "has_looked": review_queue.looked_at(request) is not None,
        **rights(request),
    }
    context["compare"] = tab != ALIKE and context["tabs"][-2].count is None
    context |= _listed(request, tab, project, counted)
    return render(request, "review/page.html", context)


@require_GET
def counts(request: HttpRequest) -> HttpResponse:
    """The tabs anew, after something was decided, or with near-duplicates counted (``compare``): a part."""
    form, clearance = _form(request), clearance_of(request)
    tab, project = form.value("tab") or NEW, form.value("project")
    counted = review_queue.numbers(clearance, review_queue.reader_of(request), project)
    compared = tab == ALIKE or "compare" in request.GET
    alike = (
        len(presenters.clusters(clearance, project).near)
        if compared
        else presenters.counted(clearance, project)
    )
    context = {
        "tabs": review_queue.tabs(counted, tab, project, alike),
        "left": alike if tab == ALIKE else counted[tab],
        "waiting": review_queue.waiting(request),
        "tab": tab,
    }
    return render(request, "review/tabs.html", context)


@require_GET
def alike(request: HttpRequest) -> HttpResponse:
    """The near-duplicates: a part of the page that comes later, because comparing takes a while."""
    project = _form(request).value("project")
    back = review_queue.address(ALIKE, project, look="1")
    context = {**_alike(request, project), **rights(request), "back": back, "tab": ALIKE, "project": project}
    return render(request, "review/alike.html", context)


@require_safe
def one_card(request: HtmxHttpRequest, uid: str) -> HttpResponse:
    """One memory as a card of the queue: a part of the page, else the page that begins with it.

    ``whole``: with all of its text, however long.
    """
    tab = _tab(request.GET.get("tab", ""))
    if not request.htmx:
        return redirect(review_queue.address(tab, at=uid))
    return _card_part(request, uid, tab, is_whole="whole" in request.GET)


@require_safe
def merge_with(request: HtmxHttpRequest, uid: str) -> HttpResponse:
    """A memory beside those most like it, to be merged: in the place of its card, else a page."""
    memory = queries.find(request, uid)
    clearance = clearance_of(request)
    tab = _tab(request.GET.get("tab", ""))
    found = None
    if memory.deleted_at is None:
        found = presenters.beside(memory, clearance, settings.MEMORYHUB.near_duplicate_similarity)
    for one in found.everyone if found else []:
        _journal_secret(request, one)
    context = {
        "memory": memory,
        "cluster": found,
        "tab": tab,
        "back": review_queue.address(tab),
        **rights(request),
    }
    response = render(request, "review/merge_part.html" if request.htmx else "review/merge.html", context)
    patch_vary(response)
    return response


@require_POST
def act(request: HtmxHttpRequest) -> HttpResponse:
    """``act``: approve, demote or trash; ``uid``; ``seen``: the version of it that the person read.

    ``card``: ids of the cards that are on the page, which the next one is not.
    """
    kind, said = _DEEDS.get(request.POST.get("act", ""), ("", ""))
    if not kind:
        raise BadRequest("act is approve, demote or trash")
    if not bulk_actions.may(request, kind):
        raise PermissionDenied
    memory = queries.find(request, request.POST.get("uid", ""))
    seen = aware(request.POST.get("seen", ""))
    acted = memories.act(kind, [memory.uid], actor_of(request), seen={memory.uid: seen} if seen else {})
    if acted.refused:
        return _refused(request, memory, acted.refused[0][1])
    context = {"memory": memory, "said": said, "acted": acted, "tab": _tab(request.POST.get("tab", ""))}
    context["back"] = _back(request)
    if not request.htmx:
        messages.success(request, render_to_string("review/undo.html", context, request=request))
        return redirect(_back(request))
    context["more"] = _next_card(request)
    return render(request, "review/done.html", context | rights(request))


@require_POST
def undo(request: HtmxHttpRequest) -> HttpResponse:
    """``undo``: id, first and last journal row of the act; ``uid``: the memory that it was about."""
    act_id, first, last = _numbered(request.POST.get("undo", ""))
    memory = queries.find(request, request.POST.get("uid", ""))
    undone = bulk_actions.taken_back(request, act_id, first, last)
    if undone.refused:
        return _refused(request, memory, undone.refused[0][1])
    if request.htmx:
        return _card_part(request, memory.uid, _tab(request.POST.get("tab", "")))
    messages.success(request, "Taken back: all is as it was.")
    return redirect(_back(request))


@require_POST
def looked(request: HttpRequest) -> HttpResponse:
    """``until``: the moment up to which the person has looked, as ISO 8601; empty takes it back to never."""
    text = request.POST.get("until", "")
    until = aware(text)
    if text and (until is None or until > timezone.now()):
        raise BadRequest("until is not a moment that has passed")
    before = review_queue.looked_at(request)
    Profile.objects.update_or_create(user_id=request.user.pk, defaults={"looked_at": until})  # type: ignore[misc]
    if request.POST.get("back"):
        messages.success(request, "Taken back: all is as it was.")
    else:
        context = {"before": before, "back": _back(request)}
        messages.success(request, render_to_string("review/looked.html", context, request=request))
    return redirect(_back(request))


def _listed(request: HttpRequest, tab: str, project: str, counted: Mapping[str, int]) -> dict[str, Any]:
    """What a tab holds; near-duplicates come later, unless they are asked for at once (``look``)."""
    if tab == CLASHES:
        return _clashes(request, project)
    if tab == ALIKE:
        return _alike(request, project) if "look" in request.GET else {}
    return _memories(request, tab, project, counted[tab])


def _memories(request: HttpRequest, tab: str, project: str, count: int) -> dict[str, Any]:
    """A page of cards; the one that was asked for first, wherever it stands."""
    found = review_items.queue(
        review_queue.live(clearance_of(request), project), tab, review_queue.reader_of(request)
    )
    last = max(-(-count // PAGE_SIZE), 1)
    number = min(whole(request.GET.get("page", ""), 6) or 1, last)
    at = request.GET.get("at", "")
    begin = review_queue.cards(found.filter(uid=at)) if at else []
    begun = [card.memory.pk for card in begin]
    rest = found.exclude(pk__in=begun) if begun else found
    place = (number - 1) * PAGE_SIZE
    cards = begin + review_queue.cards(rest[place : place + PAGE_SIZE - len(begin)])
    for card in cards:
        _journal_secret(request, card.memory)
    missing = queries.find(request, at) if at and not begin else None
    return {"cards": cards, "number": number, "last": last, "missing": missing}


def _alike(request: HttpRequest, project: str) -> dict[str, Any]:
    clearance = clearance_of(request)
    found = presenters.clusters(clearance, project)
    clusters = presenters.first(found, clearance, PAGE_SIZE)
    for cluster in clusters:
        for memory in cluster.everyone:
            _journal_secret(request, memory)
    return {"found": found, "clusters": clusters, "more": len(found.near) - len(clusters)}


def _clashes(request: HttpRequest, project: str) -> dict[str, Any]:
    survey = contradictions.survey(clearance_of(request), project=project)
    return {
        "groups": shown_facts(request, survey.open[:PAGE_SIZE]),
        "more": len(survey.open) - PAGE_SIZE,
        "left": len(survey.open),
    }


def _card_part(request: HttpRequest, uid: str, tab: str, is_whole: bool = False) -> HttpResponse:
    card = _one(request, uid, is_whole)
    context = {
        "card": card,
        "tab": tab,
        "back": review_queue.address(tab),
        "is_fresh": True,
        "is_whole": is_whole,
    }
    context |= rights(request)
    response = render(request, "review/card.html", context)
    patch_vary(response)
    return response


def _one(request: HttpRequest, uid: str, is_whole: bool) -> Card:
    """A live memory as a card, whether it waits or not; 404 where it may not be seen."""
    found = review_queue.cards(review_queue.live(clearance_of(request)).filter(uid=uid), is_whole)
    if not found:
        raise Http404
    _journal_secret(request, found[0].memory)
    return found[0]


def _next_card(request: HttpRequest) -> Card | None:
    """The first that waits and is not on the page yet."""
    tab, project = _tab(request.POST.get("tab", "")), request.POST.get("project", "")
    there = request.POST.getlist("card")[: 4 * PAGE_SIZE]
    live = review_queue.live(clearance_of(request), project).exclude(uid__in=there)
    found = review_queue.cards(review_items.queue(live, tab, review_queue.reader_of(request))[:1])
    for card in found:
        _journal_secret(request, card.memory)
    return found[0] if found else None


def _refused(request: HtmxHttpRequest, memory: Memory, refusal: str) -> HttpResponse:
    """Why it was not done, above the card as it is now."""
    text = f"Not done: {refusal}."
    if not request.htmx:
        messages.error(request, text)
        return redirect(_back(request))
    tab = _tab(request.POST.get("tab", ""))
    live = review_queue.live(clearance_of(request)).filter(pk=memory.pk)
    card = next(iter(review_queue.cards(live)), None)
    context = {"card": card, "memory": memory, "tab": tab, "back": review_queue.address(tab), "refusal": text}
    return render(request, "review/card.html", context | {"is_fresh": True, **rights(request)}, status=422)


def _journal_secret(request: HttpRequest, memory: Memory) -> None:
    """A card shows what a memory says: a secret was read."""
    if queries.is_secret(memory.sensitivity):
        reveal(request, memory, "review")


def _form(request: HttpRequest) -> ReviewFilter:
    form = ReviewFilter(request.GET)
    if not form.is_valid():
        raise BadRequest("tab or project cannot be used")
    return form


def _tab(name: str) -> str:
    """One of the tabs of memories."""
    return name if name in review_items.REASONS else NEW


def _numbered(text: str) -> tuple[str, int, int]:
    uid, _, numbers = text.partition(" ")
    first, _, last = numbers.partition(" ")
    if not (bulk_actions.number(first) and bulk_actions.number(last)):
        raise BadRequest("undo is the id of an act and the numbers of its journal rows")
    return uid, bulk_actions.number(first), bulk_actions.number(last)


def _back(request: HttpRequest) -> str:
    """The page of the queue that was acted on."""
    here = reverse("review")
    return back_of(request, here, here)
