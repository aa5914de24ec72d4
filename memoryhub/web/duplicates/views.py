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
from memoryhub.accounts.clearance import actor_of, clearance_of, reveal
from memoryhub.duplicates.clusters import MOST_MEMBERS, find, stamp
from memoryhub.memories.schemas import MAX_CONTENT
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.web.base.caching import as_it_stands, eyes
from memoryhub.web.base.fields import aware, unix
from memoryhub.web.base.htmx import HtmxHttpRequest, patch_vary
from memoryhub.web.base.redirects import back_of
from memoryhub.web.duplicates.presenters import DuplicatesFilter, Entered, Shown, one_cluster, shown
from memoryhub.web.memories import queries

PAGE_SIZE = 5
_MERGE = ("memoryhub.change_memory", "memoryhub.delete_memory")
_APART = ("memoryhub.change_memory",)
_DECISIONS = ("merge", "text", "apart")
_TITLE = 80  # characters of a title in a sentence
_UNREADABLE = datetime.min.replace(tzinfo=UTC)  # equals no version of a memory


@require_safe
def duplicates(request: HttpRequest) -> HttpResponse:
    """``project``, ``category``, ``similarity`` and ``page`` in the address.

    Comparing takes long: page after page is told from one comparison, while nothing happens.
    """
    form = DuplicatesFilter(request.GET)
    if not form.is_valid():
        return render(request, "duplicates/page.html", {"form": form}, status=422)
    clearance = clearance_of(request)
    live = _live(request)
    about = repr((eyes(clearance), sorted(form.cleaned_data.items()), stamp()))
    found = as_it_stands(
        "duplicates", about, lambda: find(form.narrow(live), clearance, similarity=form.least())
    )
    page = Paginator(found.clusters, PAGE_SIZE).get_page(request.GET.get("page"))
    clusters = shown(list(page.object_list), live)
    _journal(request, clusters)
    context = {"form": form, "found": found, "clusters": clusters, "number": page.number}
    return render(
        request, "duplicates/page.html", context | rights(request) | {"last": page.paginator.num_pages}
    )


@require_POST
def cluster(request: HtmxHttpRequest) -> HttpResponse:
    """The memories named ``member`` compared with the one named ``keep``: a part of the page.

    It changes nothing; it is posted because the text that somebody has begun to write comes along.
    """
    keep = request.POST.get("keep", "")
    return _fragment(request, _cluster(request, request.POST.getlist("member"), keep, _entered(request)))


@require_POST
def decide(request: HtmxHttpRequest) -> HttpResponse:
    """``do``: merge, text (merge, with ``content`` as its text) or apart (they are no duplicates).

    ``keep``, and ``uid`` of each that is merged into it, or ``member`` of all that are no duplicates;
    ``seen`` is the version of each that the person looked at.
    """
    doing, keep = request.POST.get("do"), request.POST.get("keep", "")
    _require(request, _APART if doing == "apart" else _MERGE)
    about = request.POST.getlist("uid")
    if doing == "apart":  # of the whole card: a tick says what to merge
        about = request.POST.getlist("member") or about
    chosen = list(dict.fromkeys([keep, *about]))[:MOST_MEMBERS]
    if wrong := _unclear(doing, chosen):
        return _refused(request, wrong)
    content = unix(request.POST.get("content", "")) if doing == "text" else ""
    if doing == "text" and not content.strip():
        return _refused(request, "the text is empty; write one, or merge without a text of your own")
    try:
        if doing == "apart":
            undo = {"apart": memories.not_duplicates(chosen, actor_of(request))}
        else:
            undo = {"merge": _merge(request, keep, chosen[1:], content)}
    except memories.StoreError as refusal:
        return _refused(request, refusal.message)
    except ValidationError:
        return _refused(request, f"the text is longer than {MAX_CONTENT} characters, or holds a NUL")
    return _done(request, undo, chosen)


@require_POST
def undo(request: HtmxHttpRequest) -> HttpResponse:
    """``merge`` or ``apart``: the id of what is taken back."""
    merge, apart = request.POST.get("merge", ""), request.POST.get("apart", "")
    _require(request, _MERGE if merge else _APART)
    try:
        if merge:
            memories.unmerge(merge, actor_of(request))
        else:
            memories.undo_not_duplicates(apart, actor_of(request))
    except memories.NotFound:
        raise Http404 from None
    except memories.StoreError as refusal:
        return _refused(request, refusal.message)
    if request.htmx:
        return _fragment(request, _cluster(request, request.POST.getlist("member"), ""), is_fresh=True)
    messages.success(request, "Taken back: all is as it was.")
    return redirect(_back(request))


def _merge(request: HttpRequest, keep: str, others: list[str], content: str) -> str:
    versions = (version.partition(" ") for version in request.POST.getlist("seen"))
    seen = {uid: aware(text) or _UNREADABLE for uid, _, text in versions}
    return memories.merge(keep, others, actor_of(request), content=content, seen=seen).uid


def _unclear(doing: str | None, chosen: list[str]) -> str:
    """Why it cannot be told what to do; empty when it can."""
    if doing not in _DECISIONS:
        return "choose to merge, to merge with a text of your own, or to say that they are no duplicates"
    if len(chosen) < 2:
        return "name the duplicates" if doing == "apart" else "tick at least one to merge"
    return ""


def _entered(request: HttpRequest) -> Entered:
    ticked, warned = (frozenset(request.POST.getlist(name)) for name in ("uid", "warned"))
    return Entered(ticked, warned, unix(request.POST.get("content", "")), request.POST.get("begun", ""))


def _live(request: HttpRequest) -> MemoryQuerySet:
    live: MemoryQuerySet = Memory.objects.visible_to(clearance_of(request)).live()
    return live


def _cluster(request: HttpRequest, uids: list[str], keep: str, entered: Entered | None = None) -> Shown:
    """404 unless at least two of these may be seen."""
    made = one_cluster(_live(request).filter(uid__in=uids[:MOST_MEMBERS]), keep, entered)
    if made is None:
        raise Http404
    return made


def _fragment(request: HttpRequest, made: Shown, status: int = 200, **more: Any) -> HttpResponse:
    _journal(request, [made])
    context = {"cluster": made, **rights(request), **more}
    response = render(request, "duplicates/cluster.html", context, status=status)
    patch_vary(response)
    return response


def _journal(request: HttpRequest, clusters: list[Shown]) -> None:
    """The page shows whole texts: a secret among them was read."""
    for made in clusters:
        for memory in made.everyone:
            if queries.is_secret(memory.sensitivity):
                reveal(request, memory, "duplicates")


def rights(request: HttpRequest) -> dict[str, bool]:
    """What this person may decide about clusters."""
    return {"may_merge": _may(request, _MERGE), "may_tell_apart": _may(request, _APART)}


def _may(request: HttpRequest, permissions: tuple[str, ...]) -> bool:
    return all(request.user.has_perm(permission) for permission in permissions)


def _require(request: HttpRequest, permissions: tuple[str, ...]) -> None:
    if not _may(request, permissions):
        raise PermissionDenied


def _done(request: HtmxHttpRequest, undo: dict[str, str], members: list[str]) -> HttpResponse:
    """What was done and a button that undoes it: in the place of the cluster, or as a message."""
    memory = queries.find(request, members[0])
    card = (request.POST.getlist("member") or members)[:MOST_MEMBERS]
    context = {"undo": undo, "memory": memory, "members": members, "card": card, "back": _back(request)}
    if request.htmx:
        return render(request, "duplicates/done.html", context)
    messages.success(request, render_to_string("duplicates/undo.html", context, request=request))
    return redirect(_back(request))


def _refused(request: HtmxHttpRequest, message: str) -> HttpResponse:
    """Why it was not done, above the cluster as it is now."""
    text = f"Not done: {_named(request, message)}."
    if not request.htmx:
        messages.error(request, text)
        return redirect(_back(request))
    uids = request.POST.getlist("member") or request.POST.getlist("uid")
    live = _live(request).filter(uid__in=uids[:MOST_MEMBERS])
    made = one_cluster(live, request.POST.get("keep", ""), _entered(request))
    if made is None:
        return render(request, "duplicates/refused.html", {"refusal": text}, status=422)
    return _fragment(request, made, status=422, refusal=text, is_fresh=True)


def _named(request: HttpRequest, message: str) -> str:
    """A refusal with titles in the place of the ids of what may be seen."""
    uids = {*request.POST.getlist("member"), *request.POST.getlist("uid"), request.POST.get("keep", "")}
    visible = Memory.objects.visible_to(clearance_of(request)).filter(uid__in=list(uids)[: 2 * MOST_MEMBERS])
    for title, uid, level in visible.values_list("title", "uid", "sensitivity"):
        if title:
            called = f"“{redaction.name(title, uid, level)[:_TITLE]}”"
            message = message.replace(f"memory {uid}", called).replace(uid, called)
    return message


def _back(request: HttpRequest) -> str:
    """The page that was acted on: of duplicates, of the memory that is kept, or the review."""
    return back_of(request, "/duplicates/", ("/duplicates/", "/memories/", "/review/"))
