"""The trash: what was thrown away and why, what has expired, and the way back."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from memoryhub import store
from memoryhub.models import Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval.paging import BadCursor, page
from memoryhub.sensitivity import Clearance
from memoryhub.web.access import actor_of, clearance_of
from memoryhub.web.back import back_of
from memoryhub.web.lists import without
from memoryhub.web.selection import chosen

PAGE_SIZE = 50
MOST_AT_ONCE = 1000
_TABS = {"trashed": ("In the trash", "deleted_at"), "expired": ("Expired", "expires_at")}
RESTORE = ("memoryhub.delete_memory", "memoryhub.change_memory")
ERASE = "memoryhub.erase_memory"


@require_http_methods(["GET", "HEAD", "POST"])
def trash(request: HttpRequest) -> HttpResponse:
    """GET lists; POST with ``uid``s erases, after a confirmation. (What is restored is an act.)"""
    return _end(request) if request.method == "POST" else _list(request)


def may_restore(request: HttpRequest) -> bool:
    """Who may throw away or change may bring back."""
    return any(request.user.has_perm(permission) for permission in RESTORE)


def may_erase(request: HttpRequest) -> bool:
    return bool(request.user.has_perm(ERASE))


def _list(request: HttpRequest) -> HttpResponse:
    clearance = clearance_of(request)
    tab = request.GET.get("tab", "trashed")
    if tab not in _TABS:
        tab = "trashed"
    counts = {name: _of(clearance, name).count() for name in _TABS}
    context: dict[str, Any] = {
        "tab": tab,
        "total": counts[tab],
        "tabs": [
            {
                "title": title,
                "href": without(request, tab=name),
                "current": name == tab,
                "count": counts[name],
            }
            for name, (title, _) in _TABS.items()
        ],
        "may_restore": may_restore(request),
        "may_erase": may_erase(request),
        "first": not request.GET.get("cursor"),
    }
    rows = _of(clearance, tab).select_related("merged_into")
    try:
        context["page"] = page(rows, _TABS[tab][1], PAGE_SIZE, request.GET.get("cursor"))
    except BadCursor:
        return render(request, "trash.html", context | {"bad_cursor": without(request)}, status=422)
    return render(request, "trash.html", context)


def _of(clearance: Clearance, tab: str) -> MemoryQuerySet:
    visible: MemoryQuerySet = Memory.objects.visible_to(clearance)
    return visible.trashed() if tab == "trashed" else visible.expired()


def _end(request: HttpRequest) -> HttpResponse:
    if not may_erase(request):
        raise PermissionDenied
    try:
        uids = _meant(request)
    except store.StoreError as refusal:
        messages.error(request, f"Nothing was erased: {refusal.message}.")
        return redirect(_back(request))
    if not uids:
        messages.warning(request, "Nothing was chosen; tick what it is to be done with.")
    elif request.POST.get("confirmed") != "yes":
        return _ask(request, uids)
    else:
        _erase(request, uids)
    return redirect(_back(request))


def _meant(request: HttpRequest) -> list[str]:
    """The ticked ones, or with ``every`` all of the tab; StoreError where they are too many."""
    form = request.POST
    uids = chosen(form.getlist("uid"), "every" in form, form.get("list", ""), clearance_of(request))
    if len(uids) > MOST_AT_ONCE:
        raise store.StoreError(f"at most {MOST_AT_ONCE} at once; tick fewer", "uid")
    return uids


def _erase(request: HttpRequest, uids: list[str]) -> None:
    """Only what has ended can be erased here."""
    ended = [row.uid for row in _chosen(request, uids)]
    erased = store.erase(ended, actor_of(request)) if ended else []
    messages.success(request, f"{_memories(len(erased))} erased for good.")


def _ask(request: HttpRequest, uids: list[str]) -> HttpResponse:
    """The confirmation: names what is going to be lost."""
    chosen = _chosen(request, uids)
    if not chosen:
        messages.warning(request, "None of these lies in the trash any more.")
        return redirect(_back(request))
    return render(
        request, "trash_erase.html", {"chosen": chosen, "back": _back(request), "action": request.path}
    )


def _chosen(request: HttpRequest, uids: list[str]) -> list[Memory]:
    clearance = clearance_of(request)
    ended = _of(clearance, "trashed").filter(uid__in=uids) | _of(clearance, "expired").filter(uid__in=uids)
    return list(ended.order_by("-pk"))


def _memories(count: int) -> str:
    return "1 memory" if count == 1 else f"{count} memories"


def _back(request: HttpRequest) -> str:
    """The page of the trash that was acted on."""
    return back_of(request, "/trash/", "/trash/")
