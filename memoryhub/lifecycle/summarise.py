"""``summarize_old``: old memories of one category become one summary; the trash keeps them, to be restored.

A group shares project, scope, owner and category. Left alone are summaries, so that none is ever summarised
again, and memories with a key, which are found by it and not by search. A summary is as old as its youngest
source, lives as long as the one that would have lived longest, and is as secret as the most secret of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from statistics import fmean
from typing import Any

from django.conf import settings
from django.db.models import Count
from django.utils import timezone

from memoryhub import store
from memoryhub.drafts import MAX_LIST, MemoryDraft
from memoryhub.models import Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.sensitivity import Actor, higher
from memoryhub.store.rows import LISTS, listed
from memoryhub.text import shorten
from memoryhub.transactions import write
from memoryhub.vocabulary import MemoryType, TrashReason

SUMMARIES = (MemoryType.COMPRESSED_SUMMARY.value, MemoryType.SESSION_SUMMARY.value)
# One summary must stay readable, and within the longest content: larger groups become several, by time.
MOST = 100
_LINE = 400
_GROUP = ("project", "scope", "owner", "category")


@dataclass(frozen=True)
class Summarised:
    """``summarised`` memories are in the trash, ``created`` summaries stand for them."""

    summarised: int = 0
    created: int = 0

    def __add__(self, other: Summarised) -> Summarised:
        return Summarised(self.summarised + other.summarised, self.created + other.created)


def summarise_old(
    actor: Actor,
    *,
    older_than_days: float | None = None,
    min_entries: int | None = None,
    now: datetime | None = None,
) -> Summarised:
    """Summarise each group of at least ``min_entries`` memories not touched for ``older_than_days``.

    Both default to the configuration. One transaction for each summary; a second run changes nothing.
    """
    now = now or timezone.now()
    config = settings.MEMORYHUB
    days = config.summarize_older_than_days if older_than_days is None else older_than_days
    least = config.summarize_min_entries if min_entries is None else min_entries
    old = _old(actor, now - timedelta(days=days), now)
    groups = old.order_by(*_GROUP).values(*_GROUP).annotate(n=Count("pk")).filter(n__gte=least)
    done = Summarised()
    for group in list(groups):
        of_group = old.filter(**{name: group[name] for name in _GROUP}).order_by("created_at", "pk")
        for part in _parts(list(of_group.values_list("pk", flat=True))):
            done += _summarise(old.filter(pk__in=part), len(part), actor, now)
    return done


def _old(actor: Actor, before: datetime, now: datetime) -> MemoryQuerySet:
    memories: MemoryQuerySet = Memory.objects.visible_to(actor.clearance).live(now)
    return memories.filter(updated_at__lte=before, key="").exclude(type__in=SUMMARIES)


def _parts(keys: list[int]) -> Iterator[list[int]]:
    """As few parts of at most ``MOST`` as there can be, of nearly the same size."""
    count = -(-len(keys) // MOST)
    for n in range(count):
        yield keys[n * len(keys) // count : (n + 1) * len(keys) // count]


def _summarise(part: MemoryQuerySet, expected: int, actor: Actor, now: datetime) -> Summarised:
    with write():
        memories = list(part.order_by("created_at", "pk").with_details())
        if len(memories) < expected:
            return Summarised()  # someone was at them since they were counted; the next run will see
        # The hub's own upkeep reaches everyone's personal memories, and each stays with its owner.
        owner = replace(actor, clearance=replace(actor.clearance, owner=memories[0].owner or actor.owner))
        [made] = store.remember_many([_draft(memories, now)], owner, now, hold_cap=False, screen=False)
        if isinstance(made, store.StoreError):
            raise made
        gone = store.merge_into(made.memory, [m.uid for m in memories], actor, TrashReason.COMPRESSED, now)
    return Summarised(len(gone), 1)


def _draft(memories: list[Memory], now: datetime) -> MemoryDraft:
    first, last = memories[0], memories[-1]
    span = f"{first.created_at:%Y-%m-%d} to {last.created_at:%Y-%m-%d}"
    title = f"{len(memories)} memories of {first.category}, {span}"
    sessions = {memory.session_id for memory in memories}
    return MemoryDraft(
        title=shorten(title, 200),
        content="\n".join([title, "", *(_line(memory) for memory in memories)]),
        type=MemoryType.COMPRESSED_SUMMARY,
        category=first.category,
        project=first.project,
        scope=first.scope,
        session_id=sessions.pop() if len(sessions) == 1 else "",
        sensitivity=reduce(higher, (memory.sensitivity for memory in memories)),
        importance=max(memory.importance for memory in memories),
        trust=fmean(memory.trust for memory in memories),
        confidence=fmean(memory.confidence for memory in memories),
        discovery_tokens=min(sum(memory.discovery_tokens or 0 for memory in memories), 2_000_000_000) or None,
        created_at=max(memory.updated_at for memory in memories),
        ttl_days=_ttl(memories, now),
        **{name: _union(memories, name) for name in LISTS},
    )


def _line(memory: Memory) -> str:
    """What one source said, on a line."""
    says = memory.abstract if memory.abstract not in ("", memory.title) else ""
    told = f"{memory.title}: {says}" if says else memory.title
    return shorten(f"- {memory.created_at:%Y-%m-%d} {memory.type}: {told}", _LINE)


def _ttl(memories: Iterable[Memory], now: datetime) -> float | None:
    ends = [memory.expires_at for memory in memories]
    known = [end for end in ends if end]
    return (max(known) - now) / timedelta(days=1) if len(known) == len(ends) else None


def _union(memories: Iterable[Memory], name: str) -> list[Any]:
    """All values of a list field, the most frequent first; no more than one memory can hold."""
    values = [value for memory in memories for value in listed(memory, name)]
    if name == "entities":
        pairs = Counter((value["entity"], value["entity_type"]) for value in values)
        return [{"entity": entity, "entity_type": kind} for (entity, kind), _ in pairs.most_common(MAX_LIST)]
    return [value for value, _ in Counter(values).most_common(MAX_LIST)]
