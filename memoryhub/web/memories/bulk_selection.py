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
from memoryhub.memories.bulk_actions import MOST
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.hybrid import search
from memoryhub.web.base.fields import aware
from memoryhub.web.base.filters import TimelineFilter
from memoryhub.web.memories.list_forms import BrowseFilter, SearchFilter

Select = Callable[[QueryDict, ResolverMatch, Clearance], MemoryQuerySet]


NEWEST = "newest"  # of a list that is too long to be taken as a whole: those stored last


def matching(address: str, clearance: Clearance, newest: bool = False) -> list[str]:
    """The ids of all memories that the list at this address shows on all of its pages, behind the gate.

    With ``newest`` those stored last, as many as one act may change.

    ``as_of`` in the address, ISO 8601: what came after that moment was not on the list that the person saw.
    StoreError where the address is of no such list, where its filters are wrong, and where more than
    :data:`~memoryhub.memories.bulk_actions.MOST` fit.
    """
    try:
        parts = urlsplit(address)
        place = resolve(parts.path)
    except (ValueError, Resolver404):
        raise _unknown() from None
    if place.url_name not in LISTS:
        raise _unknown()
    query = QueryDict(parts.query)
    found = LISTS[place.url_name](query, place, clearance)
    if shown := aware(query.get("as_of", "")):
        found = found.exclude(created_at__gt=shown).exclude(imported_at__gt=shown)
    uids = list(found.order_by("-pk").values_list("uid", flat=True)[: MOST + 1])
    if newest:
        return uids[:MOST]
    if len(uids) > MOST:
        raise StoreError(f"more than {MOST} match; narrow the filters first", "every")
    return uids


def _unknown() -> StoreError:
    return StoreError("this list cannot be taken as a whole; tick what is meant", "list")


def _browsed(query: QueryDict, place: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    form = BrowseFilter(query)
    _require(form.is_valid())
    return form.select(clearance)


def _searched(query: QueryDict, place: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    form = SearchFilter(query)
    _require(form.is_valid() and bool(query.get("q", "").strip()))
    memories = form.wanted().select(clearance)
    return memories.filter(pk__in=search(memories, form.value("q"), limit=0, min_score=form.floor()).ids)


def _ended(query: QueryDict, place: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    visible: MemoryQuerySet = Memory.objects.visible_to(clearance)
    return visible.expired() if query.get("tab") == "expired" else visible.trashed()


def _happened(query: QueryDict, place: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    form = TimelineFilter(query)
    _require(form.is_valid())
    return form.wanted().select(clearance)


def _of_session(query: QueryDict, place: ResolverMatch, clearance: Clearance) -> MemoryQuerySet:
    session = Memory.objects.visible_to(clearance).live().in_session(place.kwargs["session_id"])
    return session.filter(project=query["project"]) if "project" in query else session


def _require(fits: bool) -> None:
    if not fits:
        raise StoreError("the filters of this list cannot be used; mend them first", "list")


LISTS: dict[str, Select] = {
    "memories": _browsed,
    "search": _searched,
    "trash": _ended,
    "timeline-entries": _happened,
    "session": _of_session,
}


@dataclass(frozen=True)
class Chosen:
    """``seen``: ``updated_at`` of the ticked ones, as the page showed them; none for all that match."""

    uids: list[str]
    seen: Mapping[str, datetime]


def ticked(values: Iterable[str]) -> Chosen:
    """Boxes give an id, a blank and the ``updated_at`` of what the person read; or an id alone.

    A moment that is none makes an id that nothing has: better than acting on what nobody read.
    """
    uids, seen = [], {}
    for value in values:
        uid, _, moment = value.partition(" ")
        read_at = aware(moment)
        uids.append(uid if read_at else value)
        if read_at:
            seen[uid] = read_at
    return Chosen(uids, seen)


def chosen(form: QueryDict, clearance: Clearance) -> Chosen:
    """What a form with boxes means: the ``uid``s that were ticked, or with ``every`` all of ``list``.

    With :data:`NEWEST` as ``every``: as many of them as one act may change.
    """
    if "every" in form:
        return Chosen(matching(form.get("list", ""), clearance, form["every"] == NEWEST), {})
    return ticked(form.getlist("uid"))
