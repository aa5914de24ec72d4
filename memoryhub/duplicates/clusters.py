"""Clusters of near-duplicate memories, each around the memory that is worth keeping.

Live memories of one project, scope, owner and category are compared by the cosine of their vectors, in
block-wise matrix products of at most :data:`MAX_PAIRS` pairs: all of 10,000 memories in a group, and the
newest 500 of 100,000 with all others. Measured: 0.1 s of CPU for 3,000 memories, 1.2 s for 100,000 (256
dimensions), with 2 kB per memory. Identical texts are found among all memories.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from django.conf import settings
from django.db.models import TextField
from django.db.models.functions import Cast, Length, Substr
from numpy.typing import NDArray

from memoryhub.access.policy import Clearance
from memoryhub.backends import change_log, vector_index
from memoryhub.backends.vector_index import Vectors, VectorView
from memoryhub.core.text import decisive_words
from memoryhub.core.vocabulary import ALWAYS_MERGED, NEVER_MERGED, SUMMARY_TYPES
from memoryhub.memories.pair_decisions import dismissed_pairs
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.semantic import available_embedder

MAX_PAIRS = 50_000_000  # compared pairs per call
MAX_TEXTS, _MAX_CHARS = 10_000, 4000  # texts that are compared for contradictions, and characters of each
MAX_LINKS = 200_000  # near pairs per call
MAX_MEMBERS = 20  # of one cluster, so it stays readable
# If several memories could lead a cluster, a memory joins the one that is clearly nearer.
_SIMILARITY_STEPS = (0.95, 0.9, 0.8)
_MAX_LINKS_PER_ROW = 100
_MAX_BLOCK_ROWS, _MAX_BLOCK_CELLS = 500, 10_000_000  # of one matrix product

GroupKey = tuple[str, str, str, str]  # project, scope, owner, category


class MemoryRow(NamedTuple):
    """The columns that clustering needs."""

    pk: int
    uid: str
    project: str
    scope: str
    owner: str
    category: str
    key: str
    accessed_count: int
    length: int
    changed: str  # stored text in UTC, which sorts like the time
    content_hash: str

    @property
    def worth(self) -> tuple[bool, int, int, str, int]:
        """Sort key; the memory with the highest one is kept.

        A memory with a key is found by it. The most accessed memory has proved useful; the longest of equally
        accessed ones loses least; the newest of equally long ones is most likely correct.
        """
        return bool(self.key), self.accessed_count, self.length, self.changed, self.pk


@dataclass(frozen=True)
class Cluster:
    """Near-duplicate memories; each of ``others`` with its similarity (0..1) to ``keep``.

    ``why``: why that memory would be kept. ``differs``: their numbers or negations differ, so they hardly
    mean the same. ``by_rule``: parts of one profile, which become one text although they are not similar.
    """

    keep: int
    others: tuple[tuple[int, float], ...]
    why: str
    differs: bool = False
    by_rule: bool = False

    @property
    def likeness(self) -> float:
        """Similarity of the member that is least similar to the kept one."""
        return min(likeness for _, likeness in self.others)


@dataclass(frozen=True)
class DuplicateClusters:
    """Clusters, most certain first, parts of a profile last.

    ``compared`` of ``total`` memories were compared with all others. ``notes``: why there may be more
    clusters.
    """

    clusters: list[Cluster]
    compared: int
    total: int
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.notes

    @property
    def near(self) -> list[Cluster]:
        """Clusters of near-duplicates."""
        return [one for one in self.clusters if not one.by_rule]

    @property
    def pieces(self) -> list[Cluster]:
        """Clusters of profile parts with different content."""
        return [one for one in self.clusters if one.by_rule]


def find_clusters(
    memories: MemoryQuerySet, clearance: Clearance, *, similarity: float | None = None
) -> DuplicateClusters:
    """Find clusters among live memories that the caller can see.

    ``similarity`` defaults to ``near_duplicate_similarity``. Never clustered are events and cases, summaries
    and checkpoints, two memories with keys, and pairs marked as not duplicates; profiles always are. Clusters
    with equal numbers come first, then by similarity; profile parts last. Three queries, and those that
    refresh the vectors.
    """
    if similarity is None:
        similarity = settings.MEMORYHUB.near_duplicate_similarity
    rows = read_rows(memories.exclude(category__in=NEVER_MERGED).exclude(type__in=SUMMARY_TYPES))
    search = _ClusterSearch(similarity, dismissed_pairs(clearance))
    for group in sorted(
        _group_rows(rows), key=lambda group: (len(group), group[0].pk)
    ):  # small groups are cheap
        search.add_group(group)
    clusters = _mark_differences(
        memories, sorted(search.clusters, key=lambda one: (-one.likeness, -one.keep))
    )
    return DuplicateClusters(clusters, search.compared, len(rows), tuple(search.notes()))


def vectors_token() -> str:
    """Return a token that changes with any vector in the store. Internal only: never expose it."""
    return repr(change_log.current_position())


def _mark_differences(memories: MemoryQuerySet, clusters: Sequence[Cluster]) -> list[Cluster]:
    """Set ``differs`` of each cluster, and order the most certain first. Only the first texts are read."""
    members = [pk for one in clusters for pk in (one.keep, *(pk for pk, _ in one.others))][:MAX_TEXTS]
    texts = memories.filter(pk__in=members).values_list("pk", "title", Substr("content", 1, _MAX_CHARS))
    decisive = {pk: decisive_words(f"{title} {content}") for pk, title, content in texts}
    marked = [
        replace(one, differs=any(decisive.get(one.keep) != decisive.get(pk) for pk, _ in one.others))
        for one in clusters
    ]
    return sorted(marked, key=lambda one: (one.by_rule, one.differs))


def choose_kept(
    members: Sequence[MemoryRow], keep: int | None = None
) -> tuple[MemoryRow, list[MemoryRow], str]:
    """Return the memory to keep (the given or the most valuable one), the others, and the reason."""
    ranked = sorted(members, key=lambda row: row.worth, reverse=True)
    best = next((row for row in ranked if row.pk == keep), ranked[0])
    others = [row for row in ranked if row is not best]
    return best, others, _explain_choice(best, others) if best is ranked[0] else "chosen by you"


def read_rows(memories: MemoryQuerySet) -> list[MemoryRow]:
    """Read the columns that :func:`choose_kept` needs; newest first."""
    # Parsing each timestamp would take as long as everything else.
    computed = {"length": Length("content"), "changed": Cast("updated_at", TextField())}
    rows = memories.order_by("-pk").annotate(**computed).values_list(*MemoryRow._fields)
    return list(map(MemoryRow._make, rows))


def similarities_to(keep: int, others: Sequence[int]) -> dict[int, float]:
    """Return the cosine of each memory to the kept one, where both have vectors."""
    embedder, _ = available_embedder()
    if embedder is None:
        return {}
    known = vector_index.get_index(embedder.name, embedder.dimensions).of([keep, *others])
    if keep not in known:
        return {}
    return {pk: round(float(known[keep] @ known[pk]), 4) for pk in others if pk in known}


def _group_rows(rows: Sequence[MemoryRow]) -> list[list[MemoryRow]]:
    """Return the groups with more than one row."""
    groups: dict[GroupKey, list[MemoryRow]] = defaultdict(list)
    for row in rows:
        groups[(row.project, row.scope, row.owner, row.category)].append(row)
    return [group for group in groups.values() if len(group) > 1]


def _explain_choice(best: MemoryRow, others: Sequence[MemoryRow]) -> str:
    if best.key and not any(other.key for other in others):
        return "it is found by its key"
    if best.accessed_count > max(other.accessed_count for other in others):
        times = "once" if best.accessed_count == 1 else f"{best.accessed_count} times"
        return f"it was read most often: {times}"
    if best.length > max(other.length for other in others):
        return "it says the most"
    return "it is the newest"


class _ClusterSearch:
    """Cluster group by group, up to the maximum number of compared pairs."""

    def __init__(self, min_similarity: float, dismissed: set[frozenset[str]]) -> None:
        self.min_similarity, self.dismissed = min_similarity, dismissed
        self.embedder, self.no_vectors = available_embedder()
        self.view: VectorView | None = None
        if self.embedder:
            self.view = vector_index.get_index(self.embedder.name, self.embedder.dimensions).view()
        self.clusters: list[Cluster] = []
        self.pairs, self.links = MAX_PAIRS, MAX_LINKS
        self.compared = self.not_compared = self.without_vector = 0

    def add_group(self, rows: list[MemoryRow]) -> None:
        """Cluster one group, newest rows first."""
        links = _identical_links(rows)
        if self.view:
            links += self._near(rows, self.view)
        joined = [link for link in links if self._may_join(rows, link)]
        linked = {position for link in joined for position in (link.one, link.other)}
        ranked = sorted((rows[position] for position in linked), key=lambda row: row.worth, reverse=True)
        rank = {row.pk: number for number, row in enumerate(ranked)}
        by_rule = rows[0].category == ALWAYS_MERGED
        self.clusters += (
            replace(one, by_rule=by_rule and one.likeness < self.min_similarity)
            for one in _build_clusters(rows, rank, joined)
        )

    def notes(self) -> Iterator[str]:
        if self.no_vectors:
            yield f"only identical words are found: {self.no_vectors}"
        if self.without_vector and not self.no_vectors:
            bare = "1 memory has" if self.without_vector == 1 else f"{self.without_vector} memories have"
            yield f"{bare} no vector yet; of these only identical words are found"
        if self.not_compared:
            yield (
                "there are too many memories to compare all with all: the oldest "
                f"{self.not_compared} were compared with newer ones alone; narrow down to one project"
            )
        if self.links <= 0:
            yield "so many are alike that not all of them were looked at; merge some and look again"

    def _may_join(self, rows: Sequence[MemoryRow], link: _Link) -> bool:
        one, other = rows[link.one], rows[link.other]
        return not (one.key and other.key) and frozenset((one.uid, other.uid)) not in self.dismissed

    def _near(self, rows: Sequence[MemoryRow], view: VectorView) -> list[_Link]:
        """Return the near pairs of the newest rows with all older ones."""
        min_similarity = -1.0 if rows[0].category == ALWAYS_MERGED else self.min_similarity
        matrix, has_vector = view.in_order([row.pk for row in rows])
        self.without_vector += len(rows) - int(has_vector.sum())
        links: list[_Link] = []
        start = 0
        while start < len(rows):
            size = min(_MAX_BLOCK_ROWS, len(rows) - start, max(_MAX_BLOCK_CELLS // len(rows), 1))
            pairs = size * (len(rows) - start)
            if self.pairs < pairs or self.links <= 0:
                break
            self.pairs -= pairs
            found = _similar_links(matrix, has_vector, start, size, min_similarity)[: self.links]
            self.links -= len(found)
            links += found
            start += size
        self.compared += start
        self.not_compared += len(rows) - start
        return links


class _Link(NamedTuple):
    """Two rows of a group, by position, and their cosine."""

    one: int
    other: int
    likeness: float


def _identical_links(rows: Sequence[MemoryRow]) -> list[_Link]:
    """Link rows with identical content to the most valuable of them."""
    counts = Counter(row.content_hash for row in rows)
    same: dict[str, list[int]] = defaultdict(list)
    for position, row in enumerate(rows):
        if counts[row.content_hash] > 1:
            same[row.content_hash].append(position)
    links = []
    for positions in same.values():
        best = max(positions, key=lambda position: rows[position].worth)
        links += [_Link(best, position, 1.0) for position in positions if position != best]
    return links


def _similar_links(
    matrix: Vectors, has_vector: NDArray[np.bool_], start: int, size: int, min_similarity: float
) -> list[_Link]:
    """Return the pairs of a block of rows with all later rows, most similar first."""
    cosines = matrix[start : start + size] @ matrix[start:].T
    near = np.triu(cosines >= min_similarity, 1)
    near &= has_vector[start : start + size, None] & has_vector[None, start:]
    for row in np.flatnonzero(near.sum(axis=1) > _MAX_LINKS_PER_ROW):
        columns = np.flatnonzero(near[row])
        near[
            row, columns[np.argpartition(cosines[row, columns], -_MAX_LINKS_PER_ROW)[:-_MAX_LINKS_PER_ROW]]
        ] = False
    ones, others = np.nonzero(near)
    likeness = np.clip(cosines[ones, others], 0, 1)
    order = np.argsort(-likeness, kind="stable")
    found = (ones[order] + start, others[order] + start, likeness[order])
    return [_Link(*link) for link in zip(*(values.tolist() for values in found), strict=True)]


def _build_clusters(
    rows: Sequence[MemoryRow], rank: dict[int, int], links: Sequence[_Link]
) -> Iterator[Cluster]:
    """Yield clusters in which every member is linked directly to the kept one."""

    def leader_first(link: _Link) -> tuple[int, int]:
        one, other = link.one, link.other
        return (one, other) if rank[rows[one].pk] < rank[rows[other].pk] else (other, one)

    def order(link: _Link) -> tuple[float, int, float]:
        step = next((step for step in _SIMILARITY_STEPS if link.likeness >= step), 0.0)
        return -step, rank[rows[leader_first(link)[0]].pk], -link.likeness

    clusters: dict[int, list[tuple[int, float]]] = defaultdict(list)
    members: set[int] = set()
    for link in sorted(links, key=order):
        leader, other = leader_first(link)
        if leader in members or other in members or other in clusters:
            continue
        if len(clusters.get(leader, ())) + 1 >= MAX_MEMBERS:
            continue
        clusters[leader].append((other, link.likeness))
        members.add(other)
    for leader, found in clusters.items():
        others = tuple((rows[position].pk, round(likeness, 4)) for position, likeness in found)
        why = _explain_choice(rows[leader], [rows[position] for position, _ in found])
        yield Cluster(rows[leader].pk, others, why)
