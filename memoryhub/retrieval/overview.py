"""Counts over what one clearance may see: facets, statistics, memories over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Exists, OuterRef
from django.utils import timezone

from memoryhub import embeddings
from memoryhub.embeddings import EmbeddingError
from memoryhub.models import Embedding, Fact, Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.quotas import Quota, count_by_quota, fullest
from memoryhub.retrieval import local_days
from memoryhub.retrieval.standing import FACETS as COUNTED
from memoryhub.retrieval.standing import standing
from memoryhub.search import schema, vector_log
from memoryhub.sensitivity import Clearance

FACETS = ("type", "category", "project", "sensitivity")
EXPIRING_DAYS = 7


def counts(memories: MemoryQuerySet, column: str, most: int | None = None) -> dict[str, int]:
    """How many memories there are of each value, most first."""
    rows = memories.order_by().values_list(column).annotate(n=Count("pk")).order_by("-n", column)
    return dict(rows[:most] if most else rows)


def tallies(memories: MemoryQuerySet) -> dict[str, dict[str, int]]:
    """For each facet :func:`counts`, in one query and one pass over the index."""
    rows = memories.order_by().values_list(*COUNTED).annotate(n=Count("pk"))
    return _by_facet({tuple(values): n for *values, n in rows})


def _by_facet(counted: Mapping[tuple[str, ...], int]) -> dict[str, dict[str, int]]:
    """For each facet :func:`counts`, out of numbers by all values of :data:`COUNTED`."""
    whole: dict[str, Counter[str]] = {column: Counter() for column in COUNTED}
    for values, count in counted.items():
        for column, value in zip(COUNTED, values, strict=True):
            whole[column][value] += count
    return {column: dict(sorted(whole[column].items(), key=_most_first)) for column in FACETS}


def facets(memories: MemoryQuerySet, most: int = 20) -> dict[str, dict[str, int]]:
    """The commonest values of each facet within a gated, filtered queryset."""
    return {column: dict(list(found.items())[:most]) for column, found in tallies(memories).items()}


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def statistics(clearance: Clearance, now: datetime | None = None) -> dict[str, Any]:
    """The numbers of ``GET /stats``, all of them behind the gate; :func:`sizes` go with them."""
    return numbers_and_days(clearance, now)[0]


def numbers_and_days(
    clearance: Clearance, now: datetime | None = None
) -> tuple[dict[str, Any], local_days.Dated]:
    """:func:`statistics`, and how many memories of each type were made on each day of the reader's zone."""
    now = now or timezone.now()
    visible: MemoryQuerySet = Memory.objects.visible_to(clearance)
    live = visible.live(now)
    stands = standing(clearance, now)
    found = _by_facet(stands.facets)
    numbers = {
        "total": sum(found["sensitivity"].values()),
        **{f"by_{column}": values for column, values in found.items()},
        "expiring": live.filter(expires_at__lte=now + timedelta(days=EXPIRING_DAYS)).count(),
        "expired": visible.expired(now).count(),
        "trashed": visible.trashed().count(),
        "facts": Fact.objects.visible_to(clearance).count(),
        "sessions": stands.sessions,
        "max_memories": settings.MEMORYHUB.max_memories,
        "near_cap": _near_cap(stands.quotas),
    }
    return numbers, stands.days


def sizes(clearance: Clearance) -> dict[str, int | None]:
    """Bytes of the database file, of what is free in it and of the indexes.

    They tell how much there is in every project: ``None`` each for who is confined to some.
    """
    if clearance.projects is not None:
        return dict.fromkeys(("database_bytes", "free_bytes", "index_bytes"))
    return {**schema.sizes(), "index_bytes": schema.index_bytes()}


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
    return sum(size for _, size in vector_log.census().values())


def near_cap(live: MemoryQuerySet) -> dict[str, int]:
    """Return projects where one owner has ``cap_warning_share`` of ``max_memories`` or more, and how many."""
    return _near_cap(count_by_quota(live))


def _near_cap(quotas: Mapping[Quota, int]) -> dict[str, int]:
    config = settings.MEMORYHUB
    if not config.max_memories:
        return {}
    limit = config.max_memories * config.cap_warning_share
    return {project: n for project, n in fullest(quotas).items() if n >= limit}


def per_day(memories: MemoryQuerySet) -> list[tuple[date, str, int]]:
    """``(day, type, count)`` of when memories were made, oldest first; days of the reader's time zone."""
    return local_days.counted(memories, "created_at", "type")
