"""What a bar of acts is about: the ticked rows as they were read, or all memories that match a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from django.http import QueryDict
from django.urls import Resolver404, ResolverMatch, resolve

from memoryhub.access.policy import Clearance
from memoryhub.memories import StoreError
from memoryhub.memories.bulk_actions import MAX_MEMORIES
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.hybrid import search_memories
from memoryhub.web.base.fields import parse_aware_datetime
from memoryhub.web.base.filters import TimelineFilter
from memoryhub.web.memories.filters import BrowseFilter, SearchFilter

ListQuery = Callable[[QueryDict, ResolverMatch, Clearance], MemoryQuerySet]


NEWEST = "newest"  # of a list that is too long to be taken as a whole: those stored last


def select_all_matching(address: str, clearance: Clearance, newest: bool = False) -> list[str]:
    """The ids of all memories that the list at this address shows on all of its pages, behind the gate.

    With ``newest`` those stored last, as many as one act may change.

    ``as_of`` in the address, ISO 8601: what came after that moment was not on the list that the person saw.
    StoreError where the address is of no such list, where its filters are wrong, and where more than
    :data:`~memoryhub.memories.bulk_actions.MAX_MEMORIES` fit.
    """
    try:
        parts = urlsplit(address)
        place = resolve(parts.path)
    except (ValueError, Resolver404):
        raise _unknown_list() from None
    if place.url_name not in LIST_QUERIES:
        raise _unknown_list()
    query = QueryDict(parts.query)
    found = LIST_QUERIES[place.url_name](query, place, clearance)
    if shown := parse_aware_datetime(query.get("as_of", "")):
        found = found.exclude(created_at__gt=shown).exclude(imported_at__gt=shown)
    uids = list(found.order_by("-pk").values_list("uid", flat=True)[: MAX_MEMORIES + 1])
    if newest:
        return uids[:MAX_MEMORIES]
    if len(uids) > MAX_MEMORIES:
        raise StoreError(f"more than {MAX_MEMORIES} match; narrow the filters first", "every")
    return uids


def _unknown_list() -> StoreError:
    return StoreError("this list cannot be taken as a whole; tick what is meant", "list")


def _browse_list(query: QueryDict, place: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    form = BrowseFilter(query)
    _require_valid(form.is_valid())
    return form.select(clearance)


def _search_list(query: QueryDict, place: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    form = SearchFilter(query)
    _require_valid(form.is_valid() and bool(query.get("q", "").strip()))
    memories = form.wanted().select(clearance)
    return memories.filter(
        pk__in=search_memories(memories, form.value("q"), limit=0, min_score=form.floor()).ids
    )


def _trash_list(query: QueryDict, place: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    visible: MemoryQuerySet = Memory.objects.visible_to(clearance)
    return visible.expired() if query.get("tab") == "expired" else visible.trashed()


def _timeline_list(query: QueryDict, place: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    form = TimelineFilter(query)
    _require_valid(form.is_valid())
    return form.wanted().select(clearance)


def _session_list(query: QueryDict, place: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    session = Memory.objects.visible_to(clearance).live().in_session(place.kwargs["session_id"])
    return session.filter(project=query["project"]) if "project" in query else session


def _require_valid(fits: bool) -> None:
    if not fits:
        raise StoreError("the filters of this list cannot be used; mend them first", "list")


LIST_QUERIES: dict[str, ListQuery] = {
    "memories": _browse_list,
    "search": _search_list,
    "trash": _trash_list,
    "timeline-entries": _timeline_list,
    "session": _session_list,
}


@dataclass(frozen=True)
class Selection:
    """``seen``: ``updated_at`` of the ticked ones, as the page showed them; none for all that match."""

    uids: list[str]
    seen: Mapping[str, datetime]


def parse_ticked(values: Iterable[str]) -> Selection:
    """Boxes give an id, a blank and the ``updated_at`` of what the person read; or an id alone.

    A moment that is none makes an id that nothing has: better than acting on what nobody read.
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
    """What a form with boxes means: the ``uid``s that were ticked, or with ``every`` all of ``list``.

    With :data:`NEWEST` as ``every``: as many of them as one act may change.
    """
    if "every" in form:
        return Selection(select_all_matching(form.get("list", ""), clearance, form["every"] == NEWEST), {})
    return parse_ticked(form.getlist("uid"))
