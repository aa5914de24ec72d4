"""Compress: merge each cluster of similar old memories (single linkage over Jaccard) into one summary."""

from __future__ import annotations

import math
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias

from django.conf import settings
from django.db.models import Count

from memoryhub.access.policy import Actor
from memoryhub.core.pagination import row_pages
from memoryhub.maintenance.operations.base import Change, Operation, Pace, ProjectParams, Step
from memoryhub.maintenance.operations.summarize_old import (
    comparison_terms,
    split_evenly,
    summarisable_memories,
    summarise_texts,
    summary_draft,
    summary_step,
)
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet

# Limits for one text. Thousands of texts may share many words without being similar, like filled-in forms.
# Only those that share the rarest terms are compared, or the time would be quadratic.
MAX_COMPARISONS, MAX_CANDIDATES = 200, 1500
_BITMAP_BITS = 192
_EncodedText: TypeAlias = "array[int]"


def single_linkage(
    texts: Iterable[Iterable[Hashable]], similarity: float, min_members: int
) -> list[list[int]]:
    """Return clusters of at least ``min_members`` as positions in ``texts``, ordered by first member.

    Each text is given as its distinct terms (words, or numbers for them).
    """
    coded = _encode_by_rarity(texts)
    clusters = _Clusters(coded, similarity)
    for index in sorted(range(len(coded)), key=lambda index: len(coded[index])):
        clusters.add(index)
        time.sleep(0)  # let other threads run
    members: dict[int, list[int]] = defaultdict(list)
    for index in range(len(coded)):
        members[clusters.root(index)].append(index)
    return [cluster for cluster in members.values() if len(cluster) >= min_members]


def _encode_by_rarity(texts: Iterable[Iterable[Hashable]]) -> list[_EncodedText]:
    """Return each text as the numbers of its terms, rarest first: 4 bytes per term instead of 64 in a set."""
    numbers: dict[Hashable, int] = {}
    coded = [array("I", [numbers.setdefault(term, len(numbers)) for term in text]) for text in texts]
    frequency = Counter(number for text in coded for number in text)
    order = sorted(frequency, key=lambda number: (frequency[number], number))
    ranks = array("I", bytes(4 * len(order)))
    for rank, number in enumerate(order):
        ranks[number] = rank
    return [array("I", sorted(ranks[number] for number in text)) for text in coded]


def _bitmap(text: _EncodedText) -> int:
    bits = 0
    for term in text:
        bits |= 1 << (term % _BITMAP_BITS)
    return bits


class _Clusters:
    """Clusters that grow as texts are added, shorter ones first.

    Of two sets with Jaccard at least s, the longer one's rarest ``len - ceil(s * len) + 1`` terms and the
    shorter one's rarest ``len - ceil(2s/(1+s) * len) + 1`` share one (prefix filtering: Chaudhuri, Ganti,
    Kaushik 2006; Xiao et al. 2008).
    """

    def __init__(self, coded: list[_EncodedText], similarity: float) -> None:
        self.coded, self.similarity = coded, similarity
        self.dice = 2 * similarity / (1 + similarity)  # the same limit as a Dice coefficient
        self.parents = list(range(len(coded)))
        self.bitmaps = [_bitmap(text) for text in coded]
        self.identical: dict[bytes, int] = {}
        # For each term, the texts that have it among their rarest terms, by cluster.
        self.texts_by_term: dict[int, dict[int, list[int]]] = defaultdict(dict)

    def root(self, index: int) -> int:
        """Return the text that identifies the cluster of a text."""
        parents = self.parents
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    def join(self, index: int, other: int) -> None:
        root, other_root = self.root(index), self.root(other)
        self.parents[max(root, other_root)] = min(root, other_root)

    def add(self, index: int) -> None:
        """Add a text to the clusters of similar texts that were added before it."""
        text = self.coded[index]
        if not text:
            return
        identical = self.identical.setdefault(text.tobytes(), index)
        if identical != index:
            self.join(identical, index)
            return
        self._join_similar(index)
        for term in text[: self._prefix_length(len(text), self.dice)]:
            self.texts_by_term[term].setdefault(self.root(index), []).append(index)

    @staticmethod
    def _prefix_length(length: int, share: float) -> int:
        return length - math.ceil(share * length - 1e-9) + 1

    def _join_similar(self, index: int) -> None:
        """Join the clusters that contain a similar text, the most likely ones first."""
        text = self.coded[index]
        terms, compared, seen = set(text), set[int](), 0
        for term in text[: self._prefix_length(len(text), self.similarity)]:
            for root, others in self._texts_by_cluster(term).items():
                if self.root(root) == self.root(index):
                    continue
                seen += len(others)
                for other in others:
                    if other not in compared and self._may_be_similar(index, other):
                        compared.add(other)
                        if self._is_similar(terms, self.coded[other]):
                            self.join(index, other)
                            break
            if len(compared) >= MAX_COMPARISONS or seen >= MAX_CANDIDATES:
                return

    def _may_be_similar(self, index: int, other: int) -> bool:
        """Bound the shared terms by the bitmaps: where these differ, the sets differ (Sandes et al. 2017)."""
        total = len(self.coded[index]) + len(self.coded[other])
        return total - (self.bitmaps[index] ^ self.bitmaps[other]).bit_count() >= self.dice * total

    def _is_similar(self, terms: set[int], other: _EncodedText) -> bool:
        shared = len(terms.intersection(other))
        return shared >= self.similarity * (len(terms) + len(other) - shared)

    def _texts_by_cluster(self, term: int) -> dict[int, list[int]]:
        """Return the texts of a term by cluster, regrouped if clusters were joined meanwhile."""
        groups = self.texts_by_term.get(term)
        if not groups:
            return {}
        if any(self.parents[root] != root for root in groups):
            merged: dict[int, list[int]] = {}
            for root, members in groups.items():
                merged.setdefault(self.root(root), []).extend(members)
            self.texts_by_term[term] = groups = merged
        return groups


_GROUP_COLUMNS = ("project", "scope", "owner")
_PAGE_SIZE = 500  # rows of one query; a long one would prevent a checkpoint of the write-ahead log
Group = tuple[str, str, str]


class Compress(Operation[ProjectParams]):
    name = "compress"
    label = "Compress"
    depends_on_age = True
    help = (
        "Replaces old memories of a project with similar wording by one summary. It takes at least "
        "compression_min_members. The sources go to the trash. Undo restores them and moves the "
        "summary to the trash."
    )
    inverse_records = ("compress",)
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
                group_position = position if group == reached else {}
                yield from _group_steps(group, group_position, params, actor, now)


def _eligible(params: ProjectParams, actor: Actor, now: datetime) -> MemoryQuerySet:
    return summarisable_memories(params, actor, now, settings.MEMORYHUB.compression_min_age_days)


def _eligible_groups(params: ProjectParams, actor: Actor, now: datetime) -> list[tuple[Group, int]]:
    """Return the groups that are large enough for a cluster, with their sizes."""
    rows = _eligible(params, actor, now).order_by(*_GROUP_COLUMNS).values_list(*_GROUP_COLUMNS)
    groups = rows.annotate(n=Count("pk")).filter(n__gte=settings.MEMORYHUB.compression_min_members)
    return sorted(((project, scope, owner), n) for project, scope, owner, n in groups)


def _group_steps(
    group: Group, position: dict[str, Any], params: ProjectParams, actor: Actor, now: datetime
) -> Iterator[Step]:
    """Yield steps without changes while reading the texts, then one for each cluster or part of one.

    A resumed run reads the texts again, but does not count them twice.
    """
    config, after, counted = settings.MEMORYHUB, position.get("after", 0), position.get("counted", 0)
    eligible = _eligible(params, actor, now).filter(**dict(zip(_GROUP_COLUMNS, group, strict=True)))
    keys, texts, numbers = array("Q"), list["array[int]"](), dict[str, int]()
    for page in row_pages(eligible.values_list("pk", "title", "content"), _PAGE_SIZE, itemgetter(0)):
        for pk, title, content in page:
            terms = comparison_terms(f"{title} {content}")
            keys.append(pk)
            texts.append(array("I", [numbers.setdefault(term, len(numbers)) for term in terms]))
            time.sleep(0)  # let other threads run
        seen = max(len(keys) - counted, 0)
        counted += seen
        yield Step((), {"group": list(group), "after": after, "counted": counted}, seen)
    clusters = single_linkage(texts, config.compression_similarity, config.compression_min_members)
    pace = Pace()
    for members in sorted(chain.from_iterable(map(split_evenly, clusters)), key=lambda part: part[0]):
        if keys[members[0]] > after:
            member_keys = [keys[index] for index in members]
            reached = {"group": list(group), "after": member_keys[0], "counted": counted}
            step = _cluster_step(member_keys, eligible, reached, actor, now)
            yield step
            pace.after(step)


def _cluster_step(
    keys: Sequence[int], eligible: MemoryQuerySet, position: dict[str, Any], actor: Actor, now: datetime
) -> Step:
    memories = list(eligible.filter(pk__in=keys).order_by("created_at", "pk").with_details())
    if len(memories) < len(keys):
        return Step((), position)  # some have changed; the next run decides again
    summary = summarise_texts(memories)
    draft = summary_draft(memories, summary.title, summary.content, now)
    change = Change(
        "merge",
        memories[summary.center].uid,
        reason=_reason(memories, summary.likeness),
        members=tuple(memory.uid for memory in memories),
    )
    return summary_step(Compress.name, change, draft, memories, eligible, position, 0, actor, now)


def _reason(memories: Sequence[Memory], likeness: float) -> str:
    first, last = f"{memories[0].created_at:%Y-%m-%d}", f"{memories[-1].created_at:%Y-%m-%d}"
    span = f"on {first}" if first == last else f"from {first} to {last}"
    return f"stated {len(memories)} times {span}, with {likeness:.0%} of the words in common"
