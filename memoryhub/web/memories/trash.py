"""The trash: deleted and expired memories, restored by bulk actions or erased here."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from memoryhub import memories
from memoryhub.accounts.clearance import request_actor, request_clearance
from memoryhub.accounts.permissions import ERASE_MEMORY
from memoryhub.core.pagination import InvalidCursor
from memoryhub.core.text import format_count
from memoryhub.memories.rows import is_unchanged
from memoryhub.models import Memory
from memoryhub.web.base.requests import cursor_page, return_url
from memoryhub.web.memories.bulk_actions import (
    Selection,
    ended_memories,
    is_allowed,
    parse_selection,
    warn_changed_since,
)
from memoryhub.web.memories.filters import filter_url

PAGE_SIZE = 20
MAX_ERASED_AT_ONCE = 1000
_TABS = {"trashed": ("In the trash", "deleted_at"), "expired": ("Expired", "expires_at")}


@require_http_methods(["GET", "HEAD", "POST"])
def trash_page(request: HttpRequest) -> HttpResponse:
    """List the trash; POST with ``uid``s erases after a confirmation."""
    return _handle_erase(request) if request.method == "POST" else _trash_list(request)


def may_erase(request: HttpRequest) -> bool:
    return bool(request.user.has_perm(ERASE_MEMORY))


def _trash_list(request: HttpRequest) -> HttpResponse:
    clearance = request_clearance(request)
    tab = request.GET.get("tab", "trashed")
    if tab not in _TABS:
        tab = "trashed"
    project = request.GET.get("project", "")
    counts = {name: ended_memories(clearance, name, project).count() for name in _TABS}
    context: dict[str, Any] = {
        "tab": tab,
        "total": counts[tab],
        "tabs": [
            {
                "title": title,
                "href": filter_url(request, tab=name),
                "current": name == tab,
                "count": counts[name],
            }
            for name, (title, _) in _TABS.items()
        ],
        "may_restore": is_allowed(request, "restore"),
        "may_erase": may_erase(request),
    }
    rows = ended_memories(clearance, tab, project).select_related("merged_into")
    try:
        context |= cursor_page(request, rows, _TABS[tab][1], PAGE_SIZE)
    except InvalidCursor:
        return render(request, "trash.html", context | {"bad_cursor": filter_url(request)}, status=422)
    return render(request, "trash.html", context)


def _handle_erase(request: HttpRequest) -> HttpResponse:
    if not may_erase(request):
        raise PermissionDenied
    try:
        selection = parse_selection(request.POST, request_clearance(request))
        if len(selection.uids) > MAX_ERASED_AT_ONCE:
            raise memories.StoreError(f"at most {MAX_ERASED_AT_ONCE} at once; select fewer", "uid")
    except memories.StoreError as refusal:
        messages.error(request, f"Nothing was erased: {refusal.message}.")
        return redirect(_trash_url(request))
    if not selection.uids:
        messages.warning(request, "Nothing is selected. Select at least one memory.")
    elif request.POST.get("confirmed") != "yes":
        return _confirmation_page(request, selection)
    else:
        _erase(request, selection)
    return redirect(_trash_url(request))


def _erase(request: HttpRequest, selection: Selection) -> None:
    """Erase trashed and expired memories that have not changed since they were shown."""
    ended = [row.uid for row in _selected_ended(request, selection)]
    erased = memories.erase_memories(ended, request_actor(request), seen=selection.seen) if ended else []
    messages.success(request, f"{format_count(len(erased), 'memory')} erased permanently.")
    warn_changed_since(request, len(ended) - len(erased), "memory")


def _confirmation_page(request: HttpRequest, selection: Selection) -> HttpResponse:
    """List the memories to be erased, without those that have changed since they were ticked."""
    ended = _selected_ended(request, selection)
    unchanged = [row for row in ended if is_unchanged(row, selection.seen)]
    warn_changed_since(request, len(ended) - len(unchanged), "memory")
    if not ended:
        messages.warning(request, "None of these are in the trash any more.")
    back = _trash_url(request)
    if not unchanged:
        return redirect(back)
    context = {"chosen": unchanged, "back": back, "action": request.path}
    return render(request, "trash_erase.html", context)


def _selected_ended(request: HttpRequest, selection: Selection) -> list[Memory]:
    """Return the selected memories that are in the trash or have expired."""
    selected = Memory.objects.visible_to(request_clearance(request)).filter(uid__in=selection.uids)
    return list((selected.trashed() | selected.expired()).order_by("-pk"))


def _trash_url(request: HttpRequest) -> str:
    return return_url(request, "/trash/", "/trash/")
