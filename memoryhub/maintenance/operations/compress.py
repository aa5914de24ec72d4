"""Compress: clusters of similar old memories (single linkage over Jaccard) become one each."""

from __future__ import annotations

import math
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from time import sleep
from typing import Any, TypeAlias

from django.conf import settings
from django.db.models import Count
from django.utils import timezone

from memoryhub.access.policy import Actor
from memoryhub.core.vocabulary import SUMMARY_TYPES
from memoryhub.maintenance.operations.base import Change, Operation, Pace, ProjectParams, Step
from memoryhub.maintenance.operations.summaries import (
    SourceText,
    comparison_terms,
    split_evenly,
    summarise_texts,
    summary_draft,
    undo_summaries,
)
from memoryhub.memories import embed_drafts
from memoryhub.memories.maintenance_updates import condense_memories
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet

# Of one text. Where thousands share many words and yet too few (a form that was filled in), only the
# likeliest are compared: those that share the rarest terms. Otherwise time would grow with the square.
MAX_COMPARISONS, MAX_CANDIDATES = 200, 1500
_BITS = 192
_EncodedText: TypeAlias = "array[int]"


def single_linkage(texts: Iterable[Iterable[Hashable]], similarity: float, least: int) -> list[list[int]]:
    """Clusters of at least ``least`` members, as positions in ``texts``, in order of their first member.

    Each text is its distinct terms, as words or as numbers that stand for them.
    """
    coded = _encode_by_rarity(texts)
    clusters = _Clusters(coded, similarity)
    for number in sorted(range(len(coded)), key=lambda one: len(coded[one])):
        clusters.take(number)
        time.sleep(0)  # who else waits for the interpreter goes first
    members: dict[int, list[int]] = defaultdict(list)
    for one in range(len(coded)):
        members[clusters.root(one)].append(one)
    return [cluster for cluster in members.values() if len(cluster) >= least]


def _encode_by_rarity(texts: Iterable[Iterable[Hashable]]) -> list[_EncodedText]:
    """Each text as the numbers of its terms, the rarest first: 4 bytes for a term instead of a set's 64."""
    numbers: dict[Hashable, int] = {}
    coded = [array("I", [numbers.setdefault(term, len(numbers)) for term in text]) for text in texts]
    frequency = Counter(number for text in coded for number in text)
    order = sorted(frequency, key=lambda number: (frequency[number], number))
    place = array("I", bytes(4 * len(order)))
    for position, number in enumerate(order):
        place[number] = position
    return [array("I", sorted(place[number] for number in text)) for text in coded]


def _bitmap(text: _EncodedText) -> int:
    marks = 0
    for term in text:
        marks |= 1 << (term % _BITS)
    return marks


class _Clusters:
    """Grows by one text after another, the shorter first.

    Of two sets with Jaccard at least s, the longer one's rarest ``len - ceil(s * len) + 1`` terms and the
    shorter one's rarest ``len - ceil(2s/(1+s) * len) + 1`` share one (prefix filtering: Chaudhuri, Ganti,
    Kaushik 2006; Xiao et al. 2008).
    """

    def __init__(self, coded: list[_EncodedText], similarity: float) -> None:
        self.coded, self.similarity = coded, similarity
        self.shared = 2 * similarity / (1 + similarity)
        self.parents = list(range(len(coded)))
        self.marks = [_bitmap(text) for text in coded]
        self.same: dict[bytes, int] = {}
        # For each term the texts that have it among their rarest, by cluster.
        self.holders: dict[int, dict[int, list[int]]] = defaultdict(dict)

    def root(self, one: int) -> int:
        parents = self.parents
        while parents[one] != one:
            parents[one] = parents[parents[one]]
            one = parents[one]
        return one

    def join(self, one: int, other: int) -> None:
        one, other = self.root(one), self.root(other)
        self.parents[max(one, other)] = min(one, other)

    def take(self, number: int) -> None:
        """Compare one text with those taken before it."""
        text = self.coded[number]
        if not text:
            return
        twin = self.same.setdefault(text.tobytes(), number)
        if twin != number:
            self.join(twin, number)
            return
        self._link(number)
        for term in text[: self._prefix(len(text), self.shared)]:
            self.holders[term].setdefault(self.root(number), []).append(number)

    @staticmethod
    def _prefix(length: int, share: float) -> int:
        return length - math.ceil(share * length - 1e-9) + 1

    def _link(self, number: int) -> None:
        """Join the clusters that hold a text alike; the likeliest candidates first."""
        text = self.coded[number]
        terms, compared, looked = set(text), set[int](), 0
        for term in text[: self._prefix(len(text), self.similarity)]:
            for root, others in self._current(term).items():
                if self.root(root) == self.root(number):
                    continue
                looked += len(others)
                for other in others:
                    if other not in compared and self._may_be_alike(number, other):
                        compared.add(other)
                        if self._alike(terms, self.coded[other]):
                            self.join(number, other)
                            break
            if len(compared) >= MAX_COMPARISONS or looked >= MAX_CANDIDATES:
                return

    def _may_be_alike(self, one: int, other: int) -> bool:
        """Where the bitmaps differ the sets do, so they bound what is shared (Sandes et al. 2017)."""
        both = len(self.coded[one]) + len(self.coded[other])
        return both - (self.marks[one] ^ self.marks[other]).bit_count() >= self.shared * both

    def _alike(self, terms: set[int], other: _EncodedText) -> bool:
        both = len(terms.intersection(other))
        return both >= self.similarity * (len(terms) + len(other) - both)

    def _current(self, term: int) -> dict[int, list[int]]:
        """The holders of a term, where clusters have grown together since."""
        groups = self.holders.get(term)
        if not groups:
            return {}
        if any(self.parents[root] != root for root in groups):
            merged: dict[int, list[int]] = {}
            for root, members in groups.items():
                merged.setdefault(self.root(root), []).extend(members)
            self.holders[term] = groups = merged
        return groups


_GROUP = ("project", "scope", "owner")
_PAGE = 500
Group = tuple[str, str, str]


class Compress(Operation[ProjectParams]):
    name = "compress"
    label = "Compress"
    help = (
        "Makes one summary of at least compression_min_members old memories of a project that share much of "
        "their wording. The sources go to the trash. Undo takes them out again and moves the summary there."
    )
    undoable = True
    Params = ProjectParams

    def total(self, params: ProjectParams, actor: Actor, now: datetime) -> int:
        return sum(n for _, n in _eligible_groups(params, actor, now))

    def steps(
        self, params: ProjectParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        position = position or {}
        reached: Group = tuple(position.get("group", ("", "", "")))
        for group, _ in _eligible_groups(params, actor, now):
            if group >= reached:
                after = position.get("after", 0) if group == reached else 0
                yield from _group_steps(group, after, actor, now)

    def undo(self, run_uid: str, actor: Actor, now: datetime | None = None) -> Iterator[int]:
        yield from undo_summaries(self.name, run_uid, actor, now or timezone.now())


def _eligible(actor: Actor, now: datetime) -> MemoryQuerySet:
    before = now - timedelta(days=settings.MEMORYHUB.compression_min_age_days)
    live: MemoryQuerySet = Memory.objects.visible_to(actor.clearance).live(now)
    return live.filter(updated_at__lte=before, key="").exclude(type__in=SUMMARY_TYPES)


def _eligible_groups(params: ProjectParams, actor: Actor, now: datetime) -> list[tuple[Group, int]]:
    """Those large enough for a cluster, and how many memories each has."""
    rows = params.within(_eligible(actor, now)).order_by(*_GROUP).values_list(*_GROUP)
    counted = rows.annotate(n=Count("pk")).filter(n__gte=settings.MEMORYHUB.compression_min_members)
    return sorted(((project, scope, owner), n) for project, scope, owner, n in counted)


def _group_steps(group: Group, after: int, actor: Actor, now: datetime) -> Iterator[Step]:
    """First steps without changes, while the texts are read; then one for each cluster, or part of one."""
    config = settings.MEMORYHUB
    eligible = _eligible(actor, now).filter(**dict(zip(_GROUP, group, strict=True)))
    keys, texts, numbers = array("Q"), list["array[int]"](), dict[str, int]()
    for page in _pages(eligible):
        for pk, title, content in page:
            found = comparison_terms(f"{title} {content}")
            keys.append(pk)
            texts.append(array("I", [numbers.setdefault(term, len(numbers)) for term in found]))
            sleep(0)  # who else waits for the interpreter goes first
        yield Step((), {"group": list(group), "after": after}, len(page))
    clusters = single_linkage(texts, config.compression_similarity, config.compression_min_members)
    pace = Pace()
    for members in sorted(chain.from_iterable(map(split_evenly, clusters)), key=lambda part: part[0]):
        if keys[members[0]] > after:
            step = _cluster_step(group, [keys[at] for at in members], eligible, actor, now)
            yield step
            pace.after(step)


def _pages(eligible: MemoryQuerySet) -> Iterator[list[tuple[int, str, str]]]:
    """In short reads: a long one would keep the write-ahead log from being emptied."""
    rows, last = eligible.order_by("pk").values_list("pk", "title", "content"), 0
    while page := list(rows.filter(pk__gt=last)[:_PAGE]):
        last = page[-1][0]
        yield page


def _cluster_step(
    group: Group, keys: Sequence[int], eligible: MemoryQuerySet, actor: Actor, now: datetime
) -> Step:
    memories = list(eligible.filter(pk__in=keys).order_by("created_at", "pk").with_details())
    position = {"group": list(group), "after": keys[0]}
    if len(memories) < len(keys):
        return Step((), position)  # someone was at them since; the next run will see
    told = summarise_texts([SourceText(one.created_at, one.type, one.title, one.content) for one in memories])
    change = Change(
        "merge",
        memories[told.center].uid,
        reason=_reason(memories, told.likeness),
        members=tuple(memory.uid for memory in memories),
    )

    draft = summary_draft(memories, told.title, told.content, now)
    vectors = embed_drafts([draft])

    def commit(run_uid: str) -> tuple[Change, ...]:
        made = condense_memories(eligible, memories, draft, actor, Compress.name, run_uid, now, vectors)
        return (replace(change, into=made.uid),) if made else ()

    return Step((change,), position, 0, commit)


def _reason(memories: Sequence[Memory], likeness: float) -> str:
    first, last = f"{memories[0].created_at:%Y-%m-%d}", f"{memories[-1].created_at:%Y-%m-%d}"
    span = f"on {first}" if first == last else f"from {first} to {last}"
    return f"said {len(memories)} times {span}, with {likeness:.0%} of the words in common"
