"""The numbers over everything one may see, brought up to date instead of counted anew.

Memories and sessions are counted in blocks. A block whose mark is the one it had holds what it held
(``search.marks``), so that after a write only the blocks it touched are counted again, behind the same gate
as any other read. Kept in the process, for those whose first page was asked for last.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Q, QuerySet
from django.utils import timezone

from memoryhub.models import Event, Memory, Session
from memoryhub.querysets import MemoryQuerySet
from memoryhub.quotas import AUTHOR, Quota
from memoryhub.retrieval import local_days
from memoryhub.search import marks
from memoryhub.search.marks import Block
from memoryhub.sensitivity import Clearance

# As in the gate's index: SQLite then counts as it walks, and sorts nothing.
FACETS = ("sensitivity", "scope", "project", "type", "category")
MOST_KEPT = 32  # pairs of a clearance and a time zone; each takes 1.3 MB at 100 000 memories
_ONE_BY_ONE = 8  # blocks; for more of one kind one pass over everything costs less
_FACET, _DAY, _SESSION, _QUOTA = "facet", "day", "session", "quota"
Part = Counter[tuple[Any, ...]]  # what one block counts: the kind of number first, then of what


@dataclass(frozen=True)
class Standing:
    """``facets``: by the values of :data:`FACETS`; ``days``: as ``local_days.counted``, by type.

    ``quotas``: memories of each project and owner.
    """

    facets: Mapping[tuple[str, ...], int]
    days: local_days.Dated
    sessions: int
    quotas: Mapping[Quota, int]


@dataclass(frozen=True)
class _Kept:
    """What was counted at a moment, block by block, and all of it together. Never changed."""

    at: datetime
    marks: Mapping[Block, str] = field(default_factory=dict)
    parts: Mapping[Block, Part] = field(default_factory=dict)
    whole: Part = field(default_factory=Counter)


_kept: OrderedDict[tuple[Clearance, str], _Kept] = OrderedDict()
_lock = threading.Lock()


def standing(clearance: Clearance, now: datetime | None = None) -> Standing:
    """How much of what lives may be seen now, in the days of the reader's time zone."""
    now = now or timezone.now()
    key = (clearance, timezone.get_current_timezone_name())
    with _lock:
        before = _kept.get(key)
    found = _brought_up(before or _Kept(now), clearance, now)
    with _lock:
        _kept[key] = found
        _kept.move_to_end(key)
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return _told(found.whole)


def _brought_up(before: _Kept, clearance: Clearance, now: datetime) -> _Kept:
    seen = marks.read()  # before counting: what is written meanwhile is found the next time
    ended = _ended(before.at, now)
    same = {one for one, mark in seen.items() if mark and before.marks.get(one) == mark} - ended
    if now < before.at:
        same = set()  # what had ended then lives again
    if len(same) == len(seen) == len(before.parts):
        return replace(before, at=now)
    counted = _count(clearance, now, [one for one in seen if one not in same])
    whole = Counter(before.whole)
    for one, part in before.parts.items():
        if one not in same:
            whole.subtract(part)
    for part in counted.values():
        whole.update(part)
    parts = {one: part for one, part in before.parts.items() if one in same} | counted
    return _Kept(now, seen, parts, +whole)


def _ended(since: datetime, now: datetime) -> set[Block]:
    """The blocks in which something expired between two moments: no row was written for it."""
    expired = Memory.objects.filter(expires_at__gt=since, expires_at__lte=now).order_by()
    memories = list(expired.values_list("pk", flat=True))
    if not memories:
        return set()
    own = Session.objects.filter(session_id__in=expired.exclude(session_id="").values("session_id"))
    of_events = Event.objects.filter(memory__in=expired.values("pk")).order_by()
    sessions = [*own.values_list("pk", flat=True), *of_events.values_list("session", flat=True)]
    return {(marks.MEMORY, pk >> marks.SHIFT) for pk in memories} | {
        (marks.SESSION, pk >> marks.SHIFT) for pk in sessions
    }


def _count(clearance: Clearance, now: datetime, blocks: list[Block]) -> dict[Block, Part]:
    """What these blocks hold, each of which has a part, be it empty."""
    counted: dict[Block, Part] = {one: Counter() for one in blocks}
    keys: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # blocks share them: they are most of what is kept

    def add(block: Block, key: tuple[Any, ...], n: int) -> None:
        if block in counted:  # else it came after the marks were read, and is counted with its own
            counted[block][keys.setdefault(key, key)] += n

    of_memories = [number for kind, number in blocks if kind == marks.MEMORY]
    of_sessions = [number for kind, number in blocks if kind == marks.SESSION]
    memories: MemoryQuerySet = Memory.objects.visible_to(clearance).live(now)
    for rows in _within(memories, of_memories):
        for block, *values, n in rows.values_list("block", *FACETS).annotate(n=Count("pk")):
            add((marks.MEMORY, block), (_FACET, *values), n)
        for block, day, kind, n in local_days.counted_within(rows, "block", "created_at", "type"):
            add((marks.MEMORY, block), (_DAY, day, kind), n)
        for block, *quota, n in rows.values_list("block", "project", "owner", AUTHOR).annotate(n=Count("pk")):
            add((marks.MEMORY, block), (_QUOTA, *quota), n)
    for rows in _within(Session.objects.visible_to(clearance, now), of_sessions):
        for block, n in rows.values_list("block").annotate(n=Count("pk")):
            add((marks.SESSION, block), (_SESSION,), n)
    return counted


def _within(rows: QuerySet[Any], blocks: list[int]) -> Iterable[QuerySet[Any]]:
    """The rows of these blocks, each with its ``block``, in one queryset or a few."""
    rows = rows.order_by().annotate(block=F("pk").bitrightshift(marks.SHIFT))
    if len(blocks) > _ONE_BY_ONE:
        return [rows]
    ends = [(number << marks.SHIFT, (number + 1) << marks.SHIFT) for number in blocks]
    return [rows.filter(Q(pk__gte=first, pk__lt=end)) for first, end in ends]


def _told(whole: Part) -> Standing:
    facets = {tuple(key[1:]): n for key, n in whole.items() if key[0] == _FACET}
    days = sorted((key[1], key[2], n) for key, n in whole.items() if key[0] == _DAY)
    quotas = {Quota(*key[1:]): n for key, n in whole.items() if key[0] == _QUOTA}
    return Standing(facets, days, whole[_SESSION,], quotas)
