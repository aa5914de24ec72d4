"""Near-duplicates: clusters side by side, merged with one click, and that taken back with another."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_POST, require_safe
from pydantic import ValidationError

from memoryhub import memories
from memoryhub.access import redaction
from memoryhub.accounts.clearance import record_reveal, request_actor, request_clearance
from memoryhub.duplicates.clusters import MAX_MEMBERS, change_token, find_clusters
from memoryhub.memories.schemas import MAX_CONTENT
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.web.base.caching import cached_until_change, clearance_key
from memoryhub.web.base.fields import normalize_newlines, parse_aware_datetime
from memoryhub.web.base.htmx import HtmxHttpRequest, patch_vary
from memoryhub.web.base.redirects import return_url
from memoryhub.web.duplicates.presenters import (
    CardInput,
    ClusterCard,
    DuplicatesFilter,
    build_card,
    build_cards,
)
from memoryhub.web.memories import queries

PAGE_SIZE = 5
_MERGE_PERMISSIONS = ("memoryhub.change_memory", "memoryhub.delete_memory")
_DISMISS_PERMISSIONS = ("memoryhub.change_memory",)
_DECISIONS = ("merge", "text", "apart")
_MAX_TITLE_CHARS = 80  # characters of a title in a sentence
_NO_VERSION = datetime.min.replace(tzinfo=UTC)  # equals no version of a memory


@require_safe
def duplicates_page(request: HttpRequest) -> HttpResponse:
    """``project``, ``category``, ``similarity`` and ``page`` in the address.

    Comparing takes long: page after page is told from one comparison, while nothing happens.
    """
    form = DuplicatesFilter(request.GET)
    if not form.is_valid():
        return render(request, "duplicates/page.html", {"form": form}, status=422)
    clearance = request_clearance(request)
    live = _live_memories(request)
    about = repr((clearance_key(clearance), sorted(form.cleaned_data.items()), change_token()))
    found = cached_until_change(
        "duplicates", about, lambda: find_clusters(form.narrow(live), clearance, similarity=form.least())
    )
    page = Paginator(found.clusters, PAGE_SIZE).get_page(request.GET.get("page"))
    clusters = build_cards(list(page.object_list), live)
    _reveal_secrets(request, clusters)
    context = {"form": form, "found": found, "clusters": clusters, "number": page.number}
    return render(
        request,
        "duplicates/page.html",
        context | decision_rights(request) | {"last": page.paginator.num_pages},
    )


@require_POST
def duplicates_cluster(request: HtmxHttpRequest) -> HttpResponse:
    """The memories named ``member`` compared with the one named ``keep``: a part of the page.

    It changes nothing; it is posted because the text that somebody has begun to write comes along.
    """
    keep = request.POST.get("keep", "")
    return _card_response(
        request, _card_or_404(request, request.POST.getlist("member"), keep, _card_input(request))
    )


@require_POST
def duplicates_decide(request: HtmxHttpRequest) -> HttpResponse:
    """``do``: merge, text (merge, with ``content`` as its text) or apart (they are no duplicates).

    ``keep``, and ``uid`` of each that is merged into it, or ``member`` of all that are no duplicates;
    ``seen`` is the version of each that the person looked at.
    """
    doing, keep = request.POST.get("do"), request.POST.get("keep", "")
    _require_permissions(request, _DISMISS_PERMISSIONS if doing == "apart" else _MERGE_PERMISSIONS)
    about = request.POST.getlist("uid")
    if doing == "apart":  # of the whole card: a tick says what to merge
        about = request.POST.getlist("member") or about
    chosen = list(dict.fromkeys([keep, *about]))[:MAX_MEMBERS]
    if wrong := _input_error(doing, chosen):
        return _refused_response(request, wrong)
    content = normalize_newlines(request.POST.get("content", "")) if doing == "text" else ""
    if doing == "text" and not content.strip():
        return _refused_response(request, "the text is empty; write one, or merge without a text of your own")
    try:
        if doing == "apart":
            undo = {"apart": memories.dismiss_duplicates(chosen, request_actor(request))}
        else:
            undo = {"merge": _merge(request, keep, chosen[1:], content)}
    except memories.StoreError as refusal:
        return _refused_response(request, refusal.message)
    except ValidationError:
        return _refused_response(request, f"the text is longer than {MAX_CONTENT} characters, or holds a NUL")
    return _done_response(request, undo, chosen)


@require_POST
def duplicates_undo(request: HtmxHttpRequest) -> HttpResponse:
    """``merge`` or ``apart``: the id of what is taken back."""
    merge, apart = request.POST.get("merge", ""), request.POST.get("apart", "")
    _require_permissions(request, _MERGE_PERMISSIONS if merge else _DISMISS_PERMISSIONS)
    try:
        if merge:
            memories.undo_merge(merge, request_actor(request))
        else:
            memories.undo_dismissal(apart, request_actor(request))
    except memories.NotFound:
        raise Http404 from None
    except memories.StoreError as refusal:
        return _refused_response(request, refusal.message)
    if request.htmx:
        return _card_response(
            request, _card_or_404(request, request.POST.getlist("member"), ""), is_fresh=True
        )
    messages.success(request, "Taken back: all is as it was.")
    return redirect(_return_url(request))


def _merge(request: HttpRequest, keep: str, others: list[str], content: str) -> str:
    versions = (version.partition(" ") for version in request.POST.getlist("seen"))
    seen = {uid: parse_aware_datetime(text) or _NO_VERSION for uid, _, text in versions}
    return memories.merge_memories(keep, others, request_actor(request), content=content, seen=seen).uid


def _input_error(doing: str | None, chosen: list[str]) -> str:
    """Why it cannot be told what to do; empty when it can."""
    if doing not in _DECISIONS:
        return "choose to merge, to merge with a text of your own, or to say that they are no duplicates"
    if len(chosen) < 2:
        return "name the duplicates" if doing == "apart" else "tick at least one to merge"
    return ""


def _card_input(request: HttpRequest) -> CardInput:
    ticked, warned = (frozenset(request.POST.getlist(name)) for name in ("uid", "warned"))
    return CardInput(
        ticked, warned, normalize_newlines(request.POST.get("content", "")), request.POST.get("begun", "")
    )


def _live_memories(request: HttpRequest) -> MemoryQuerySet:
    live: MemoryQuerySet = Memory.objects.visible_to(request_clearance(request)).live()
    return live


def _card_or_404(
    request: HttpRequest, uids: list[str], keep: str, entered: CardInput | None = None
) -> ClusterCard:
    """404 unless at least two of these may be seen."""
    made = build_card(_live_memories(request).filter(uid__in=uids[:MAX_MEMBERS]), keep, entered)
    if made is None:
        raise Http404
    return made


def _card_response(request: HttpRequest, made: ClusterCard, status: int = 200, **more: Any) -> HttpResponse:
    _reveal_secrets(request, [made])
    context = {"cluster": made, **decision_rights(request), **more}
    response = render(request, "duplicates/cluster.html", context, status=status)
    patch_vary(response)
    return response


def _reveal_secrets(request: HttpRequest, clusters: list[ClusterCard]) -> None:
    """The page shows whole texts: a secret among them was read."""
    for made in clusters:
        for memory in made.everyone:
            if queries.is_secret(memory.sensitivity):
                record_reveal(request, memory, "duplicates")


def decision_rights(request: HttpRequest) -> dict[str, bool]:
    """What this person may decide about clusters."""
    return {
        "may_merge": _has_permissions(request, _MERGE_PERMISSIONS),
        "may_tell_apart": _has_permissions(request, _DISMISS_PERMISSIONS),
    }


def _has_permissions(request: HttpRequest, permissions: tuple[str, ...]) -> bool:
    return all(request.user.has_perm(permission) for permission in permissions)


def _require_permissions(request: HttpRequest, permissions: tuple[str, ...]) -> None:
    if not _has_permissions(request, permissions):
        raise PermissionDenied


def _done_response(request: HtmxHttpRequest, undo: dict[str, str], members: list[str]) -> HttpResponse:
    """What was done and a button that undoes it: in the place of the cluster, or as a message."""
    memory = queries.get_visible_memory(request, members[0])
    card = (request.POST.getlist("member") or members)[:MAX_MEMBERS]
    context = {"undo": undo, "memory": memory, "members": members, "card": card, "back": _return_url(request)}
    if request.htmx:
        return render(request, "duplicates/done.html", context)
    messages.success(request, render_to_string("duplicates/undo.html", context, request=request))
    return redirect(_return_url(request))


def _refused_response(request: HtmxHttpRequest, message: str) -> HttpResponse:
    """Why it was not done, above the cluster as it is now."""
    text = f"Not done: {_with_titles(request, message)}."
    if not request.htmx:
        messages.error(request, text)
        return redirect(_return_url(request))
    uids = request.POST.getlist("member") or request.POST.getlist("uid")
    live = _live_memories(request).filter(uid__in=uids[:MAX_MEMBERS])
    made = build_card(live, request.POST.get("keep", ""), _card_input(request))
    if made is None:
        return render(request, "duplicates/refused.html", {"refusal": text}, status=422)
    return _card_response(request, made, status=422, refusal=text, is_fresh=True)


def _with_titles(request: HttpRequest, message: str) -> str:
    """A refusal with titles in the place of the ids of what may be seen."""
    uids = {*request.POST.getlist("member"), *request.POST.getlist("uid"), request.POST.get("keep", "")}
    visible = Memory.objects.visible_to(request_clearance(request)).filter(
        uid__in=list(uids)[: 2 * MAX_MEMBERS]
    )
    for title, uid, level in visible.values_list("title", "uid", "sensitivity"):
        if title:
            called = f"“{redaction.format_display_name(title, uid, level)[:_MAX_TITLE_CHARS]}”"
            message = message.replace(f"memory {uid}", called).replace(uid, called)
    return message


def _return_url(request: HttpRequest) -> str:
    """The page that was acted on: of duplicates, of the memory that is kept, or the review."""
    return return_url(request, "/duplicates/", ("/duplicates/", "/memories/", "/review/"))
