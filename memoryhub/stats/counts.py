"""Counts of visible rows: facets, totals, memories by day (updated incrementally), and the review queue.

A memory waits for review if it is new to a person, unsure, flagged by the prompt injection detector, or
perhaps outdated, until someone approves it, and again after a change. One that may be outdated waits until
its mark is gone.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Value
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.backends import change_log, schema
from memoryhub.backends.change_log import Block
from memoryhub.backends.statements import key_list
from memoryhub.core.dates import expiry_time
from memoryhub.embeddings import EmbeddingError, provider
from memoryhub.memories.delete import (
    AUTHOR,
    Caps,
    Quota,
    count_by_quota,
    fullest_quotas,
    load_caps,
    projects_with_cap,
)
from memoryhub.models import Embedding, Event, Fact, Label, Memory, Project, Session
from memoryhub.models.querysets import MemoryQuerySet, live_memories, unapproved_filter
from memoryhub.stats import usage

# In the order of the access index, so SQLite counts while it reads and sorts nothing.
COUNTED_COLUMNS = ("sensitivity", "scope", "project", "type", "category")
MAX_CACHED = 32  # pairs of clearance and time zone; each takes 1.3 MB for 100,000 memories
_PROJECT = COUNTED_COLUMNS.index("project")
_MAX_SINGLE_BLOCKS = 8  # more blocks of one kind are cheaper to count in one query
_FACET, _DAY, _SESSION, _QUOTA = "facet", "day", "session", "quota"
BlockCounts = Counter[tuple[Any, ...]]  # keys start with one of the kinds above
FACETS = ("type", "category", "project", "sensitivity")
EXPIRING_DAYS = 7
MAX_FACET_VALUES = 20  # that a list of filters offers


@dataclass(frozen=True)
class VisibleCounts:
    """``facets``: by :data:`COUNTED_COLUMNS`; ``days``: as :data:`calendar.DailyCounts`, by type.

    ``quotas``: memories of each project and owner.
    """

    facets: Mapping[tuple[str, ...], int]
    days: usage.DailyCounts
    sessions: int
    quotas: Mapping[Quota, int]


@dataclass(frozen=True)
class _CachedCounts:
    """Counts at one time, by block and in total. Immutable."""

    at: datetime
    marks: Mapping[Block, str] = field(default_factory=dict)
    parts: Mapping[Block, BlockCounts] = field(default_factory=dict)
    whole: BlockCounts = field(default_factory=Counter)


_cache: OrderedDict[tuple[Clearance, str], _CachedCounts] = OrderedDict()
_lock = threading.Lock()


def load_visible_counts(clearance: Clearance, now: datetime | None = None) -> VisibleCounts:
    """Count the live rows that the viewer can see, by days of the current time zone."""
    now = now or timezone.now()
    key = (clearance, timezone.get_current_timezone_name())
    with _lock:
        cached = _cache.get(key)
    counts = _update_counts(cached or _CachedCounts(expiry_time(now)), clearance, now)
    with _lock:
        _cache[key] = counts
        _cache.move_to_end(key)
        while len(_cache) > MAX_CACHED:
            _cache.popitem(last=False)
    return _to_visible_counts(counts.whole)


def _update_counts(cached: _CachedCounts, clearance: Clearance, now: datetime) -> _CachedCounts:
    """Count the blocks again that changed, or in which rows expired."""
    at = expiry_time(now)
    # Before counting, so rows written meanwhile are counted next time.
    marks, expired = change_log.read_marks(cached.at, at)
    unchanged = {block for block, mark in marks.items() if mark and cached.marks.get(block) == mark}
    unchanged -= _blocks_of(expired)
    if at < cached.at:
        unchanged = set()  # expired rows are live again
    if len(unchanged) == len(marks) == len(cached.parts):
        return replace(cached, at=at)
    counted = _count_blocks(clearance, now, [block for block in marks if block not in unchanged])
    whole = Counter(cached.whole)
    for block, part in cached.parts.items():
        if block not in unchanged:
            whole.subtract(part)
    for part in counted.values():
        whole.update(part)
    parts = {block: part for block, part in cached.parts.items() if block in unchanged} | counted
    return _CachedCounts(at, marks, parts, +whole)


def _blocks_of(memories: list[int]) -> set[Block]:
    """Return the blocks of memories, and those of the sessions that they can make visible."""
    if not memories:
        return set()
    rows = Memory.objects.filter(pk__in=key_list(memories)).order_by()
    own = Session.objects.filter(session_id__in=rows.exclude(session_id="").values("session_id"))
    of_events = Event.objects.filter(memory__in=rows.values("pk")).order_by()
    sessions = [*own.values_list("pk", flat=True), *of_events.values_list("session", flat=True)]
    return {(change_log.MEMORY, pk >> change_log.BLOCK_SHIFT) for pk in memories} | {
        (change_log.SESSION, pk >> change_log.BLOCK_SHIFT) for pk in sessions
    }


def _count_blocks(clearance: Clearance, now: datetime, blocks: list[Block]) -> dict[Block, BlockCounts]:
    """Count the rows of these blocks. Every block has counts, possibly empty ones."""
    counted: dict[Block, BlockCounts] = {one: Counter() for one in blocks}
    keys: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # shared by all blocks to save memory

    def add(block: Block, key: tuple[Any, ...], n: int) -> None:
        if block in counted:  # otherwise created after the marks were read
            counted[block][keys.setdefault(key, key)] += n

    of_memories = [number for kind, number in blocks if kind == change_log.MEMORY]
    of_sessions = [number for kind, number in blocks if kind == change_log.SESSION]
    memories = Memory.objects.visible_to(clearance).live(now)
    for rows in _filter_blocks(memories, of_memories):
        counts = usage.count_created_by_day(rows, ("block", *COUNTED_COLUMNS, "owner", AUTHOR))
        for (number, *facets, owner, author), day, kind, n in counts:
            block = change_log.MEMORY, number
            add(block, (_FACET, *facets), n)
            add(block, (_DAY, day, kind), n)
            add(block, (_QUOTA, facets[_PROJECT], owner, author), n)
    for rows in _filter_blocks(Session.objects.with_visible_rows(clearance, now), of_sessions):
        for block, n in rows.values_list("block").annotate(n=Count("pk")):
            add((change_log.SESSION, block), (_SESSION,), n)
    return counted


def _filter_blocks(rows: QuerySet[Any], blocks: list[int]) -> Iterable[QuerySet[Any]]:
    """Return the rows of these blocks, annotated with ``block``, in one or a few querysets."""
    rows = rows.order_by().annotate(block=F("pk").bitrightshift(change_log.BLOCK_SHIFT))
    if len(blocks) > _MAX_SINGLE_BLOCKS:
        return [rows]
    ends = [(number << change_log.BLOCK_SHIFT, (number + 1) << change_log.BLOCK_SHIFT) for number in blocks]
    return [rows.filter(Q(pk__gte=first, pk__lt=end)) for first, end in ends]


def _to_visible_counts(whole: BlockCounts) -> VisibleCounts:
    facets = {tuple(key[1:]): n for key, n in whole.items() if key[0] == _FACET}
    days = sorted((key[1], key[2], n) for key, n in whole.items() if key[0] == _DAY)
    quotas = {Quota(*key[1:]): n for key, n in whole.items() if key[0] == _QUOTA}
    return VisibleCounts(facets, days, whole[_SESSION,], quotas)


def count_each(**querysets: QuerySet[Any]) -> dict[str, int]:
    """Count the rows of each queryset, all in one statement."""
    return count_each_and_caps(None, **querysets)[0]


def count_each_and_caps(
    own_caps: QuerySet[Project] | None, **querysets: QuerySet[Any]
) -> tuple[dict[str, int], Caps]:
    """Return :func:`count_each`, and the caps of these projects from the same statement."""
    first, *others = (
        rows.order_by().values_list(Value(name), Value("")).annotate(n=Count("pk"))
        for name, rows in querysets.items()
    )
    if own_caps is not None:
        others.append(own_caps.order_by().values_list(Value(""), "name", "max_memories"))
    found = list(first.union(*others, all=True))
    counted = {name: n for name, _, n in found if name}
    caps = Caps({project: cap for name, project, cap in found if not name})
    return dict.fromkeys(querysets, 0) | counted, caps


def count_values(memories: MemoryQuerySet, column: str, most: int | None = None) -> dict[str, int]:
    """Count the memories of each value of a column, most frequent first."""
    rows = memories.order_by().values_list(column).annotate(n=Count("pk")).order_by("-n", column)
    return dict(rows[:most] if most else rows)


def _group_by_facet(counted: Mapping[tuple[str, ...], int]) -> dict[str, dict[str, int]]:
    """Group counts by :data:`COUNTED_COLUMNS` into counts of each facet."""
    whole: dict[str, Counter[str]] = {column: Counter() for column in COUNTED_COLUMNS}
    for values, count in counted.items():
        for column, value in zip(COUNTED_COLUMNS, values, strict=True):
            whole[column][value] += count
    return {column: dict(sorted(whole[column].items(), key=_by_count)) for column in FACETS}


def facets_and_days(
    clearance: Clearance, now: datetime | None = None
) -> tuple[dict[str, dict[str, int]], usage.DailyCounts]:
    """Return the counts of each facet, and the memories created on each day by type."""
    found = load_visible_counts(clearance, now)
    return _group_by_facet(found.facets), found.days


def top_facets(memories: MemoryQuerySet, tag: str = "") -> dict[str, dict[str, int]]:
    """Return the most frequent values of each facet and tags in a queryset of visible rows, in one query.

    ``tag`` is counted even if no filter offers it.
    """
    by_columns = memories.order_by().values_list(Value("memory"), *COUNTED_COLUMNS).annotate(n=Count("pk"))
    blank = [Value("")] * (len(COUNTED_COLUMNS) - 1)
    by_tag = _tags(memories, tag).values_list(Value("tag"), "value", *blank, "n")
    counted: dict[tuple[str, ...], int] = {}
    tags: dict[str, int] = {}
    for kind, *values, n in by_columns.union(by_tag, all=True):
        if kind == "tag":
            tags[values[0]] = n
        else:
            counted[tuple(values)] = n
    return _first_values({**_group_by_facet(counted), "tag": dict(sorted(tags.items(), key=_by_count))})


def top_tags(memories: MemoryQuerySet) -> dict[str, int]:
    """Return the most frequent tags."""
    return dict(_tags(memories).order_by("-n", "value").values_list("value", "n")[:MAX_FACET_VALUES])


# A memory that an import brought has the tag ``source:`` with its origin.
_TAG_OF_CAPTURE = Q(value="captured") | Q(value__startswith="segment-", value__regex=r"^segment-[0-9]+$")
_SOURCE_OF_ONE = Q(value__startswith="source:", n=1)


def _tags(memories: MemoryQuerySet, chosen: str = "") -> Any:  # a queryset of dicts with value and n
    """Count tags, without those of capture and sources of one memory, which would fill the list."""
    tags = Label.objects.filter(kind=Label.Kind.TAG, memory__in=memories.order_by().values("pk"))
    tags = tags.exclude(_TAG_OF_CAPTURE & ~Q(value=chosen))
    return tags.values("value").annotate(n=Count("pk")).exclude(_SOURCE_OF_ONE & ~Q(value=chosen))


def top_visible_facets(clearance: Clearance) -> dict[str, dict[str, int]]:
    """Return the most frequent values of each facet among all live memories that the viewer can see."""
    return _first_values(facets_and_days(clearance)[0])


def _first_values(facets: Mapping[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return {column: dict(list(found.items())[:MAX_FACET_VALUES]) for column, found in facets.items()}


def _by_count(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def store_statistics(clearance: Clearance) -> dict[str, Any]:
    """Return the visible numbers of ``GET /stats``, without :func:`database_sizes`."""
    return statistics_days_and_caps(clearance)[0]


def statistics_days_and_caps(
    clearance: Clearance, **more: QuerySet[Any]
) -> tuple[dict[str, Any], usage.DailyCounts, Caps]:
    """Return :func:`store_statistics`, the memories created on each day by type, and the caps of projects.

    The statistics include the number of rows of ``more`` querysets.
    """
    now = timezone.now()
    visible = Memory.objects.visible_to(clearance)
    live = visible.live(now)
    visible_counts = load_visible_counts(clearance, now)
    found = _group_by_facet(visible_counts.facets)
    counted, caps = count_each_and_caps(
        projects_with_cap(),
        expiring=live.filter(expires_at__lte=now + timedelta(days=EXPIRING_DAYS)),
        expired=visible.expired(now),
        trashed=visible.trashed(),
        facts=Fact.objects.visible_to(clearance),
        **more,
    )
    numbers = {
        "total": sum(found["sensitivity"].values()),
        **{f"by_{column}": values for column, values in found.items()},
        **counted,
        "sessions": visible_counts.sessions,
        "max_memories": settings.MEMORYHUB.max_memories,
        "near_cap": _quotas_near_cap(visible_counts.quotas, caps),
    }
    return numbers, visible_counts.days, caps


def database_sizes(clearance: Clearance) -> dict[str, int | None]:
    """Return the bytes of the database file, of its free pages, of the indexes and of the vectors.

    ``clearance``: all that the viewer may see. Hidden rows have a size too, so all are ``None`` for viewers
    who cannot see every row.
    """
    if not clearance.is_whole:
        return dict.fromkeys(("database_bytes", "free_bytes", "index_bytes", "vector_bytes"))
    vectors = sum(size for _, size in change_log.sizes_by_model().values())
    return {**schema.storage_sizes(), "vector_bytes": vectors}


def vector_statistics(clearance: Clearance) -> dict[str, Any]:
    """Return the model, and the number of visible live memories without a vector.

    Without a usable model, none are missing.
    """
    try:
        embedder = provider.configured()
    except EmbeddingError:
        embedder = None  # the doctor and every search report the error
    model = embedder.name if embedder else ""
    live = live_memories(clearance)
    without = ~Exists(Embedding.objects.filter(model=model, memory=OuterRef("pk")))
    return {
        "embedding_model": model,
        "embedding_missing": live.filter(without).count() if model else 0,
    }


def projects_near_cap(live: MemoryQuerySet) -> dict[str, int]:
    """Return projects where one owner has ``cap_warning_share`` of the cap or more, and how many."""
    return _quotas_near_cap(count_by_quota(live), load_caps())


def _quotas_near_cap(quotas: Mapping[Quota, int], caps: Caps) -> dict[str, int]:
    share = settings.MEMORYHUB.cap_warning_share
    most = fullest_quotas(quotas)
    return {project: n for project, n in most.items() if (cap := caps[project]) and n >= cap * share}


NEW, UNSURE, FLAGGED, OUTDATED = "new", "unsure", "flagged", "outdated"
REASONS = (NEW, UNSURE, FLAGGED, OUTDATED)
UNSURE_BELOW = 0.4  # confidence; the default is 0.5
ALL_REASONS = "all"

# New memories are ordered by arrival, not by date of creation.
_ORDERS: Mapping[str, tuple[str, ...]] = {
    NEW: ("-pk",),
    UNSURE: ("confidence", "-pk"),
    FLAGGED: ("-updated_at", "-pk"),
    OUTDATED: ("-outdated_at", "-pk"),
}


@dataclass(frozen=True)
class Reviewer:
    """A reader. ``name``: as stored as author; ``since``: when they last marked everything as seen."""

    name: str
    since: datetime


def reason_condition(reason: str, reader: Reviewer) -> Q:
    """Return the condition on memories that wait for one of :data:`REASONS`; KeyError for other names.

    New memories were stored or imported by others since the reviewer last looked.
    """
    return _CONDITIONS[reason](reader)


def _new_condition(reader: Reviewer) -> Q:
    created, imported = _new_conditions(reader)
    return (created | imported) & ~Q(author=reader.name) & unapproved_filter()


# Each is built only if it is needed: the subquery of unapproved_filter costs more than counting few rows.
_CONDITIONS: Mapping[str, Callable[[Reviewer], Q]] = {
    NEW: _new_condition,
    UNSURE: lambda reader: Q(confidence__lt=UNSURE_BELOW) & unapproved_filter(),
    FLAGGED: lambda reader: ~Q(flags=[]) & unapproved_filter(),
    OUTDATED: lambda reader: Q(outdated_at__isnull=False),
}


def _new_conditions(reader: Reviewer) -> tuple[Q, Q]:
    """Conditions on memories created, and imported, since the reviewer last looked."""
    return Q(created_at__gt=reader.since), Q(imported_at__gt=reader.since)


def select_queue(live: MemoryQuerySet, reason: str, reader: Reviewer) -> MemoryQuerySet:
    """Return the live memories that wait for this reason, in review order. Lazy."""
    return live.filter(reason_condition(reason, reader)).order_by(*_ORDERS[reason])


def count_by_reason(live: MemoryQuerySet, reader: Reviewer) -> dict[str, int]:
    """Count the live memories of each reason, and of any as :data:`ALL_REASONS`, in one statement.

    Each reason alone has a small index; all of them combined have none.
    """
    new, unsure, flagged, outdated = (reason_condition(reason, reader) for reason in REASONS)
    found = count_each(
        new=live.filter(new),
        unsure=live.filter(unsure),
        flagged=live.filter(flagged),
        outdated=live.filter(outdated),
        unsure_only=live.filter(unsure).exclude(new),
        flagged_only=live.filter(flagged).exclude(new | unsure),
        outdated_only=live.filter(outdated).exclude(new | unsure | flagged),
    )
    return {
        **{reason: found[reason] for reason in REASONS},
        ALL_REASONS: found[NEW] + sum(found[f"{one}_only"] for one in REASONS[1:]),
    }


def count_waiting(
    live: MemoryQuerySet, reader: Reviewer, most: int, for_approval: MemoryQuerySet | None = None
) -> int:
    """Count the live memories that wait for any reason, and those for approval, up to ``most``.

    Each condition alone has a small index; all conditions combined have none.
    """
    created, imported = _new_conditions(reader)
    new = live.filter(reason_condition(NEW, reader))
    each = (
        new.filter(created),
        new.filter(imported),
        select_queue(live, UNSURE, reader),
        select_queue(live, FLAGGED, reader),
        select_queue(live, OUTDATED, reader),
        *([] if for_approval is None else [for_approval]),
    )
    pks = [rows.order_by().values_list("pk", flat=True) for rows in each]
    # Each memory occurs at most once per condition, so these rows are at least ``most`` memories.
    rows = pks[0].union(*pks[1:], all=True)[: most * len(pks)]
    return min(len(set(rows)), most)
