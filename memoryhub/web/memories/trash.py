"""The trash: what was thrown away and why, what has expired, and the way back."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from memoryhub import memories
from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import actor_of, clearance_of
from memoryhub.core.pagination import BadCursor, page
from memoryhub.memories.rows import is_as_read
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.web.base.redirects import back_of
from memoryhub.web.memories.bulk_actions import were_changed
from memoryhub.web.memories.bulk_selection import Chosen, chosen
from memoryhub.web.memories.list_forms import without

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
        found = _meant(request)
    except memories.StoreError as refusal:
        messages.error(request, f"Nothing was erased: {refusal.message}.")
        return redirect(_back(request))
    if not found.uids:
        messages.warning(request, "Nothing was chosen; tick what it is to be done with.")
    elif request.POST.get("confirmed") != "yes":
        return _ask(request, found)
    else:
        _erase(request, found)
    return redirect(_back(request))


def _meant(request: HttpRequest) -> Chosen:
    """The ticked ones, or with ``every`` all of the tab; StoreError where they are too many."""
    found = chosen(request.POST, clearance_of(request))
    if len(found.uids) > MOST_AT_ONCE:
        raise memories.StoreError(f"at most {MOST_AT_ONCE} at once; tick fewer", "uid")
    return found


def _erase(request: HttpRequest, found: Chosen) -> None:
    """Only what has ended can be erased here, and only as the person read it."""
    ended = [row.uid for row in _ended(request, found)]
    erased = memories.erase(ended, actor_of(request), seen=found.seen) if ended else []
    messages.success(request, f"{_memories(len(erased))} erased for good.")
    _tell_changed(request, len(ended) - len(erased))


def _ask(request: HttpRequest, found: Chosen) -> HttpResponse:
    """The confirmation: names what is going to be lost, without what was changed since it was ticked."""
    ended = _ended(request, found)
    meant = [row for row in ended if is_as_read(row, found.seen)]
    _tell_changed(request, len(ended) - len(meant))
    if not ended:
        messages.warning(request, "None of these lies in the trash any more.")
    if not meant:
        return redirect(_back(request))
    return render(
        request, "trash_erase.html", {"chosen": meant, "back": _back(request), "action": request.path}
    )


def _tell_changed(request: HttpRequest, count: int) -> None:
    if count:
        messages.warning(request, were_changed(_memories(count), count))


def _ended(request: HttpRequest, found: Chosen) -> list[Memory]:
    """Those that still lie in the trash or have expired."""
    clearance, uids = clearance_of(request), found.uids
    ended = _of(clearance, "trashed").filter(uid__in=uids) | _of(clearance, "expired").filter(uid__in=uids)
    return list(ended.order_by("-pk"))


def _memories(count: int) -> str:
    return "1 memory" if count == 1 else f"{count} memories"


def _back(request: HttpRequest) -> str:
    """The page of the trash that was acted on."""
    return back_of(request, "/trash/", "/trash/")
