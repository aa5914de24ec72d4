"""Counts of what a clearance can see: facets, totals, memories over time, updated incrementally."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from memoryhub import embeddings
from memoryhub.access.policy import Clearance
from memoryhub.backends import change_blocks, schema, vector_log
from memoryhub.backends.change_blocks import Block
from memoryhub.embeddings import EmbeddingError
from memoryhub.memories.quotas import AUTHOR, Quota, count_by_quota, fullest
from memoryhub.models import Embedding, Event, Fact, Memory, Session
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.stats import calendar

# As in the gate's index: SQLite then counts as it walks, and sorts nothing.
COUNTED_COLUMNS = ("sensitivity", "scope", "project", "type", "category")
MAX_CACHED = 32  # pairs of a clearance and a time zone; each takes 1.3 MB at 100 000 memories
_MAX_SINGLE_BLOCKS = 8  # blocks; for more of one kind one pass over everything costs less
_FACET, _DAY, _SESSION, _QUOTA = "facet", "day", "session", "quota"
BlockCounts = Counter[tuple[Any, ...]]  # what one block counts: the kind of number first, then of what


@dataclass(frozen=True)
class VisibleCounts:
    """``facets``: by the values of :data:`FACETS`; ``days``: as ``local_days.counted``, by type.

    ``quotas``: memories of each project and owner.
    """

    facets: Mapping[tuple[str, ...], int]
    days: calendar.DailyCounts
    sessions: int
    quotas: Mapping[Quota, int]


@dataclass(frozen=True)
class _CachedCounts:
    """What was counted at a moment, block by block, and all of it together. Never changed."""

    at: datetime
    marks: Mapping[Block, str] = field(default_factory=dict)
    parts: Mapping[Block, BlockCounts] = field(default_factory=dict)
    whole: BlockCounts = field(default_factory=Counter)


_cache: OrderedDict[tuple[Clearance, str], _CachedCounts] = OrderedDict()
_lock = threading.Lock()


def load_visible_counts(clearance: Clearance, now: datetime | None = None) -> VisibleCounts:
    """How much of what lives may be seen now, in the days of the reader's time zone."""
    now = now or timezone.now()
    key = (clearance, timezone.get_current_timezone_name())
    with _lock:
        before = _cache.get(key)
    found = _update_counts(before or _CachedCounts(now), clearance, now)
    with _lock:
        _cache[key] = found
        _cache.move_to_end(key)
        while len(_cache) > MAX_CACHED:
            _cache.popitem(last=False)
    return _to_visible_counts(found.whole)


def _update_counts(before: _CachedCounts, clearance: Clearance, now: datetime) -> _CachedCounts:
    seen = change_blocks.read_marks()  # before counting: what is written meanwhile is found the next time
    ended = _expired_blocks(before.at, now)
    same = {one for one, mark in seen.items() if mark and before.marks.get(one) == mark} - ended
    if now < before.at:
        same = set()  # what had ended then lives again
    if len(same) == len(seen) == len(before.parts):
        return replace(before, at=now)
    counted = _count_blocks(clearance, now, [one for one in seen if one not in same])
    whole = Counter(before.whole)
    for one, part in before.parts.items():
        if one not in same:
            whole.subtract(part)
    for part in counted.values():
        whole.update(part)
    parts = {one: part for one, part in before.parts.items() if one in same} | counted
    return _CachedCounts(now, seen, parts, +whole)


def _expired_blocks(since: datetime, now: datetime) -> set[Block]:
    """The blocks in which something expired between two moments: no row was written for it."""
    expired = Memory.objects.filter(expires_at__gt=since, expires_at__lte=now).order_by()
    memories = list(expired.values_list("pk", flat=True))
    if not memories:
        return set()
    own = Session.objects.filter(session_id__in=expired.exclude(session_id="").values("session_id"))
    of_events = Event.objects.filter(memory__in=expired.values("pk")).order_by()
    sessions = [*own.values_list("pk", flat=True), *of_events.values_list("session", flat=True)]
    return {(change_blocks.MEMORY, pk >> change_blocks.SHIFT) for pk in memories} | {
        (change_blocks.SESSION, pk >> change_blocks.SHIFT) for pk in sessions
    }


def _count_blocks(clearance: Clearance, now: datetime, blocks: list[Block]) -> dict[Block, BlockCounts]:
    """What these blocks hold, each of which has a part, be it empty."""
    counted: dict[Block, BlockCounts] = {one: Counter() for one in blocks}
    keys: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # blocks share them: they are most of what is kept

    def add(block: Block, key: tuple[Any, ...], n: int) -> None:
        if block in counted:  # else it came after the marks were read, and is counted with its own
            counted[block][keys.setdefault(key, key)] += n

    of_memories = [number for kind, number in blocks if kind == change_blocks.MEMORY]
    of_sessions = [number for kind, number in blocks if kind == change_blocks.SESSION]
    memories: MemoryQuerySet = Memory.objects.visible_to(clearance).live(now)
    for rows in _filter_blocks(memories, of_memories):
        for block, *values, n in rows.values_list("block", *COUNTED_COLUMNS).annotate(n=Count("pk")):
            add((change_blocks.MEMORY, block), (_FACET, *values), n)
        for block, day, kind, n in calendar.count_parts_by_day(rows, "block", "created_at", "type"):
            add((change_blocks.MEMORY, block), (_DAY, day, kind), n)
        for block, *quota, n in rows.values_list("block", "project", "owner", AUTHOR).annotate(n=Count("pk")):
            add((change_blocks.MEMORY, block), (_QUOTA, *quota), n)
    for rows in _filter_blocks(Session.objects.visible_to(clearance, now), of_sessions):
        for block, n in rows.values_list("block").annotate(n=Count("pk")):
            add((change_blocks.SESSION, block), (_SESSION,), n)
    return counted


def _filter_blocks(rows: QuerySet[Any], blocks: list[int]) -> Iterable[QuerySet[Any]]:
    """The rows of these blocks, each with its ``block``, in one queryset or a few."""
    rows = rows.order_by().annotate(block=F("pk").bitrightshift(change_blocks.SHIFT))
    if len(blocks) > _MAX_SINGLE_BLOCKS:
        return [rows]
    ends = [(number << change_blocks.SHIFT, (number + 1) << change_blocks.SHIFT) for number in blocks]
    return [rows.filter(Q(pk__gte=first, pk__lt=end)) for first, end in ends]


def _to_visible_counts(whole: BlockCounts) -> VisibleCounts:
    facets = {tuple(key[1:]): n for key, n in whole.items() if key[0] == _FACET}
    days = sorted((key[1], key[2], n) for key, n in whole.items() if key[0] == _DAY)
    quotas = {Quota(*key[1:]): n for key, n in whole.items() if key[0] == _QUOTA}
    return VisibleCounts(facets, days, whole[_SESSION,], quotas)


FACETS = ("type", "category", "project", "sensitivity")
EXPIRING_DAYS = 7


def count_values(memories: MemoryQuerySet, column: str, most: int | None = None) -> dict[str, int]:
    """How many memories there are of each value, most first."""
    rows = memories.order_by().values_list(column).annotate(n=Count("pk")).order_by("-n", column)
    return dict(rows[:most] if most else rows)


def count_facets(memories: MemoryQuerySet) -> dict[str, dict[str, int]]:
    """For each facet :func:`counts`, in one query and one pass over the index."""
    rows = memories.order_by().values_list(*COUNTED_COLUMNS).annotate(n=Count("pk"))
    return _group_by_facet({tuple(values): n for *values, n in rows})


def _group_by_facet(counted: Mapping[tuple[str, ...], int]) -> dict[str, dict[str, int]]:
    """For each facet :func:`counts`, out of numbers by all values of :data:`COUNTED`."""
    whole: dict[str, Counter[str]] = {column: Counter() for column in COUNTED_COLUMNS}
    for values, count in counted.items():
        for column, value in zip(COUNTED_COLUMNS, values, strict=True):
            whole[column][value] += count
    return {column: dict(sorted(whole[column].items(), key=_by_count)) for column in FACETS}


def top_facets(memories: MemoryQuerySet, most: int = 20) -> dict[str, dict[str, int]]:
    """The commonest values of each facet within a gated, filtered queryset."""
    return {column: dict(list(found.items())[:most]) for column, found in count_facets(memories).items()}


def _by_count(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def store_statistics(clearance: Clearance, now: datetime | None = None) -> dict[str, Any]:
    """The numbers of ``GET /stats``, all of them behind the gate; :func:`sizes` go with them."""
    return statistics_and_days(clearance, now)[0]


def statistics_and_days(
    clearance: Clearance, now: datetime | None = None
) -> tuple[dict[str, Any], calendar.DailyCounts]:
    """:func:`statistics`, and how many memories of each type were made on each day of the reader's zone."""
    now = now or timezone.now()
    visible: MemoryQuerySet = Memory.objects.visible_to(clearance)
    live = visible.live(now)
    stands = load_visible_counts(clearance, now)
    found = _group_by_facet(stands.facets)
    numbers = {
        "total": sum(found["sensitivity"].values()),
        **{f"by_{column}": values for column, values in found.items()},
        "expiring": live.filter(expires_at__lte=now + timedelta(days=EXPIRING_DAYS)).count(),
        "expired": visible.expired(now).count(),
        "trashed": visible.trashed().count(),
        "facts": Fact.objects.visible_to(clearance).count(),
        "sessions": stands.sessions,
        "max_memories": settings.MEMORYHUB.max_memories,
        "near_cap": _quotas_near_cap(stands.quotas),
    }
    return numbers, stands.days


def database_sizes(clearance: Clearance) -> dict[str, int | None]:
    """Bytes of the database file, of what is free in it and of the indexes.

    They tell how much there is in every project: ``None`` each for who is confined to some.
    """
    if clearance.projects is not None:
        return dict.fromkeys(("database_bytes", "free_bytes", "index_bytes"))
    return {**schema.file_sizes(), "index_bytes": schema.index_bytes()}


def vector_statistics(clearance: Clearance, now: datetime | None = None) -> dict[str, Any]:
    """The model, how many live memories lack its vector (behind the gate), and the bytes of all vectors,
    which are ``None`` as in :func:`sizes`.

    Without a model, or with one that cannot be used, nothing is lacking: search goes by words alone.
    """
    try:
        embedder = embeddings.configured()
    except EmbeddingError:
        embedder = None  # the doctor tells why, and so does every search
    model = embedder.name if embedder else ""
    live = Memory.objects.visible_to(clearance).live(now)
    without = ~Exists(Embedding.objects.filter(model=model, memory=OuterRef("pk")))
    return {
        "embedding_model": model,
        "embedding_missing": live.filter(without).count() if model else 0,
        "vector_bytes": vector_bytes() if clearance.projects is None else None,
    }


def vector_bytes() -> int:
    """Of all vectors of the store."""
    return sum(size for _, size in vector_log.sizes_by_model().values())


def projects_near_cap(live: MemoryQuerySet) -> dict[str, int]:
    """Return projects where one owner has ``cap_warning_share`` of ``max_memories`` or more, and how many."""
    return _quotas_near_cap(count_by_quota(live))


def _quotas_near_cap(quotas: Mapping[Quota, int]) -> dict[str, int]:
    config = settings.MEMORYHUB
    if not config.max_memories:
        return {}
    limit = config.max_memories * config.cap_warning_share
    return {project: n for project, n in fullest(quotas).items() if n >= limit}


def count_memories_by_day(memories: MemoryQuerySet) -> list[tuple[date, str, int]]:
    """``(day, type, count)`` of when memories were made, oldest first; days of the reader's time zone."""
    return calendar.count_by_day(memories, "created_at", "type")
