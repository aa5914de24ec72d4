"""Which memories a bulk action changes: the ticked ones, or all that match the filters of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from django.http import QueryDict
from django.urls import Resolver404, ResolverMatch, resolve

from memoryhub.access.policy import Clearance
from memoryhub.accounts.permissions import CHANGE_MEMORY, DELETE_MEMORY
from memoryhub.memories import StoreError
from memoryhub.memories.bulk_actions import MAX_MEMORIES
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.web.base.forms import TimelineFilter, parse_aware_datetime
from memoryhub.web.base.requests import narrow_to_project
from memoryhub.web.memories.filters import MemoryListFilter

# Any one of these permissions allows an action and its undo.
PERMISSIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("approve", "demote", "demote_and_approve", "promote", "expire"), (CHANGE_MEMORY,)),
    **dict.fromkeys(("pin", "unpin", "useful", "not_useful", "tag", "untag", "set"), (CHANGE_MEMORY,)),
    "still_true": (CHANGE_MEMORY,),
    "trash": (DELETE_MEMORY,),
    "restore": (DELETE_MEMORY, CHANGE_MEMORY),
    "accept": (CHANGE_MEMORY,),
    "discard": (DELETE_MEMORY,),
}

ListQuery = Callable[[QueryDict, ResolverMatch, Clearance], MemoryQuerySet]


class TooManySelected(StoreError):
    """More memories match than one request may change."""


def matching_memories(address: str, clearance: Clearance) -> MemoryQuerySet:
    """Return all visible memories on all pages of the list at a URL.

    Memories stored after the parameter ``as_of`` (ISO 8601) of the URL are not included: the person has not
    seen them. Raises StoreError if the URL is not of a list, or if its filters are invalid.
    """
    try:
        parts = urlsplit(address)
        match = resolve(parts.path)
        select = LIST_QUERIES[match.url_name or ""]
    except (ValueError, Resolver404, KeyError):
        raise StoreError(
            "this list cannot be selected as a whole; select memories one by one", "list"
        ) from None
    query = QueryDict(parts.query)
    memories = select(query, match, clearance)
    if shown_at := parse_aware_datetime(query.get("as_of", "")):
        memories = memories.exclude(created_at__gt=shown_at).exclude(imported_at__gt=shown_at)
    return memories


def select_all_matching(address: str, clearance: Clearance) -> list[str]:
    """Return the ids of :func:`matching_memories`; raise :class:`TooManySelected` above ``MAX_MEMORIES``."""
    memories = matching_memories(address, clearance).order_by("-pk")
    uids = list(memories.values_list("uid", flat=True)[: MAX_MEMORIES + 1])
    if len(uids) > MAX_MEMORIES:
        raise TooManySelected(
            f"more than {MAX_MEMORIES} match, and this cannot be undone; narrow the filters first", "every"
        )
    return uids


def _memory_list(query: QueryDict, match: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    form = MemoryListFilter(query)
    _require_valid(form.is_valid() and not form.moment())
    return form.matching(clearance)


def ended_memories(clearance: Clearance, tab: str, project: str) -> MemoryQuerySet:
    """Return the memories on a tab of the trash: expired ones, or those that were deleted."""
    visible = Memory.objects.visible_to(narrow_to_project(clearance, project))
    return visible.expired() if tab == "expired" else visible.trashed()


def _trash_list(query: QueryDict, match: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    return ended_memories(clearance, query.get("tab", ""), query.get("project", ""))


def _timeline_list(query: QueryDict, match: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    form = TimelineFilter(query)
    _require_valid(form.is_valid())
    return form.wanted().select(clearance)


def _session_list(query: QueryDict, match: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    session = Memory.objects.visible_to(clearance).live().in_session(match.kwargs["session_id"])
    return session.filter(project=query["project"]) if "project" in query else session


def _require_valid(is_valid: bool) -> None:
    if not is_valid:
        raise StoreError("the filters of this list cannot be used; correct them first", "list")


LIST_QUERIES: dict[str, ListQuery] = {
    "memories": _memory_list,
    "search": _memory_list,  # the old address, in runs that wait and pages that are open
    "trash": _trash_list,
    "timeline-entries": _timeline_list,
    "session": _session_list,
}


# Lists with selections, by the name of their URL; the others are lists of memories.
LIST_NAMES = {"trash": "Trash", "timeline-entries": "Timeline", "session": "Session"}


def list_page(address: str) -> dict[str, str]:
    """Return the link to a list, now with the memories that were stored later; empty if it is none."""
    parts = urlsplit(address)
    query = QueryDict(parts.query, mutable=True)
    query.pop("as_of", None)
    try:
        name = resolve(parts.path).url_name or ""
    except Resolver404:
        return {}
    href = f"{parts.path}?{query.urlencode()}".rstrip("?")
    return {"back_url": href, "back_name": LIST_NAMES.get(name, "Memories")}


@dataclass(frozen=True)
class Selection:
    """``seen``: the ``updated_at`` of each ticked memory as the page showed it; empty for whole lists."""

    uids: list[str]
    seen: Mapping[str, datetime]


def parse_ticked(values: Iterable[str]) -> Selection:
    """Parse the values of checkboxes: an id, or an id, a space and the ``updated_at`` that was shown.

    With an invalid datetime, the whole value becomes an id that no memory has: the action must not apply to
    a version that was not shown.
    """
    uids, seen = [], {}
    for value in values:
        uid, _, moment = value.partition(" ")
        read_at = parse_aware_datetime(moment)
        uids.append(uid if read_at else value)
        if read_at:
            seen[uid] = read_at
    return Selection(uids, seen)


def parse_selection(form: QueryDict, clearance: Clearance) -> Selection:
    """Return the ticked ``uid``s, or with ``every`` all memories of the URL ``list``."""
    if "every" in form:
        return Selection(select_all_matching(form.get("list", ""), clearance), {})
    return parse_ticked(form.getlist("uid"))
