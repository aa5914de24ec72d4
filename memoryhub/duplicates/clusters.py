"""Memories that nearly say the same, in clusters around the one that is worth keeping.

Compared are live memories of one project, scope, owner and category, by the plain cosine of their vectors.
Each row is held against all older ones of its group by block-wise matrix products, as many pairs as
:data:`MOST_PAIRS`: a group of 10 000 memories is compared whole, of 100 000 the newest 500 are with all the
others. Measured: 0.1 s of CPU for 3 000 memories, 1.2 s for 100 000 (256 dimensions), and 2 kB of memory for
each while it lasts. Identical words are found among all of them.
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
from memoryhub.backends import vector_index, vector_log
from memoryhub.backends.vector_index import Vectors, VectorView
from memoryhub.core.text import decisive_words
from memoryhub.core.vocabulary import ALWAYS_MERGED, NEVER_MERGED, SUMMARY_TYPES
from memoryhub.memories.pair_decisions import dismissed_pairs
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.semantic import available_embedder

MAX_PAIRS = 50_000_000  # pairs of memories that one call compares
MAX_TEXTS, _MAX_CHARS = 10_000, 4000  # members whose texts are read, and characters of each
MAX_LINKS = 200_000  # pairs that are near each other; more are not looked through
MAX_MEMBERS = 20  # of one cluster: it must stay readable
# Where several could lead a cluster, a memory goes to one that it is clearly nearer to.
_SIMILARITY_STEPS = (0.95, 0.9, 0.8)
_MAX_LINKS_PER_ROW = 100  # pairs of one row that are looked at
_MAX_BLOCK_ROWS, _MAX_BLOCK_CELLS = 500, 10_000_000  # most rows of one matrix product, and most results of it

GroupKey = tuple[str, str, str, str]  # project, scope, owner, category


class MemoryRow(NamedTuple):
    """What is read of a memory to find its place."""

    pk: int
    uid: str
    project: str
    scope: str
    owner: str
    category: str
    key: str
    accessed_count: int
    length: int
    changed: str  # as the database writes moments, all in UTC: they sort like the moments themselves
    content_hash: str

    @property
    def worth(self) -> tuple[bool, int, int, str, int]:
        """What is worth keeping most is the highest.

        A memory with a key is found by it. The one that was read most has proved itself; of those equally
        read (most are not read at all) the longest loses least; of equally long ones the newest is right.
        """
        return bool(self.key), self.accessed_count, self.length, self.changed, self.pk


@dataclass(frozen=True)
class Cluster:
    """Memories that nearly say the same; each of the ``others`` with its likeness (0..1) to ``keep``.

    ``why``: in words, why that one would be kept. ``differs``: they have other numbers, or one of them denies
    something; then they are of one mould and hardly say the same. ``by_rule``: they are pieces of one
    profile, to be one text whatever they say, and not all near the one that is kept: no near-duplicates.
    """

    keep: int
    others: tuple[tuple[int, float], ...]
    why: str
    differs: bool = False
    by_rule: bool = False

    @property
    def likeness(self) -> float:
        """Of the one that is least like the kept one."""
        return min(likeness for _, likeness in self.others)


@dataclass(frozen=True)
class DuplicateClusters:
    """Clusters, the surest first, pieces of a profile last.

    ``compared`` of ``total`` memories were held against all others. ``notes``: in words, why there may be
    more.
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
        """Those whose memories nearly say the same."""
        return [one for one in self.clusters if not one.by_rule]

    @property
    def pieces(self) -> list[Cluster]:
        """Those that are to be one profile, though they say different things."""
        return [one for one in self.clusters if one.by_rule]


def find_clusters(
    memories: MemoryQuerySet, clearance: Clearance, *, similarity: float | None = None
) -> DuplicateClusters:
    """Clusters among live memories that the caller has gated and filtered.

    ``similarity`` defaults to ``near_duplicate_similarity``. Never together are events and cases, summaries
    and checkpoints, two memories with keys, and what somebody said are no duplicates; profiles always are.
    Those whose numbers agree come first, then those most alike; pieces of a profile last. Three queries, and
    those that refresh the vectors.
    """
    least = settings.MEMORYHUB.near_duplicate_similarity if similarity is None else similarity
    rows = read_rows(memories.exclude(category__in=NEVER_MERGED).exclude(type__in=SUMMARY_TYPES))
    search = _ClusterSearch(least, dismissed_pairs(clearance))
    for group in sorted(
        _group_rows(rows), key=lambda group: (len(group), group[0].pk)
    ):  # small ones are cheap
        search.take(group)
    clusters = _mark_differences(
        memories, sorted(search.clusters, key=lambda one: (-one.likeness, -one.keep))
    )
    return DuplicateClusters(clusters, search.compared, len(rows), tuple(search.notes()))


def change_token() -> str:
    """Another text after each vector that came or went, whoever's it is: nothing shown may be made of it."""
    return repr(vector_log.current_position())


def _mark_differences(memories: MemoryQuerySet, clusters: Sequence[Cluster]) -> list[Cluster]:
    """With what their texts tell, the surest first; of very many the first ones alone are read."""
    members = [pk for one in clusters for pk in (one.keep, *(pk for pk, _ in one.others))][:MAX_TEXTS]
    texts = memories.filter(pk__in=members).values_list("pk", "title", Substr("content", 1, _MAX_CHARS))
    told = {pk: decisive_words(f"{title} {content}") for pk, title, content in texts}
    known = [
        replace(one, differs=any(told.get(one.keep) != told.get(pk) for pk, _ in one.others))
        for one in clusters
    ]
    return sorted(known, key=lambda one: (one.by_rule, one.differs))


def choose_kept(
    members: Sequence[MemoryRow], keep: int | None = None
) -> tuple[MemoryRow, list[MemoryRow], str]:
    """Of some memories the one to keep (the given one, or that of most worth), the others, and why."""
    ranked = sorted(members, key=lambda row: row.worth, reverse=True)
    best = next((row for row in ranked if row.pk == keep), ranked[0])
    others = [row for row in ranked if row is not best]
    return best, others, _explain_choice(best, others) if best is ranked[0] else "chosen by you"


def read_rows(memories: MemoryQuerySet) -> list[MemoryRow]:
    """What :func:`arrange` looks at; newest first."""
    # To make a moment of each text would take as long as all the rest together.
    computed = {"length": Length("content"), "changed": Cast("updated_at", TextField())}
    rows = memories.order_by("-pk").annotate(**computed).values_list(*MemoryRow._fields)
    return list(map(MemoryRow._make, rows))


def similarities_to(keep: int, others: Sequence[int]) -> dict[int, float]:
    """The cosine of each to the one that is kept, as far as both have vectors."""
    embedder, _ = available_embedder()
    if embedder is None:
        return {}
    known = vector_index.get_index(embedder.name, embedder.dimensions).of([keep, *others])
    if keep not in known:
        return {}
    return {pk: round(float(known[keep] @ known[pk]), 4) for pk in others if pk in known}


def _group_rows(rows: Sequence[MemoryRow]) -> list[list[MemoryRow]]:
    """The rows of each place that has more than one."""
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
    """Group by group, until as many pairs are compared as one call may."""

    def __init__(self, least: float, pairs_apart: set[frozenset[str]]) -> None:
        self.least, self.apart = least, pairs_apart
        self.embedder, self.without = available_embedder()
        self.view: VectorView | None = None
        if self.embedder:
            self.view = vector_index.get_index(self.embedder.name, self.embedder.dimensions).view()
        self.clusters: list[Cluster] = []
        self.pairs, self.links = MAX_PAIRS, MAX_LINKS
        self.compared = self.left = self.bare = 0

    def take(self, rows: list[MemoryRow]) -> None:
        """One group, newest first."""
        links = _identical_links(rows)
        if self.view:
            links += self._near(rows, self.view)
        joined = [link for link in links if self._may_join(rows, link)]
        linked = {at for link in joined for at in (link.one, link.other)}
        ranked = sorted((rows[at] for at in linked), key=lambda row: row.worth, reverse=True)
        rank = {row.pk: at for at, row in enumerate(ranked)}
        by_rule = rows[0].category == ALWAYS_MERGED
        self.clusters += (
            replace(one, by_rule=by_rule and one.likeness < self.least)
            for one in _build_clusters(rows, rank, joined)
        )

    def notes(self) -> Iterator[str]:
        if self.without:
            yield f"only identical words are found: {self.without}"
        if self.bare and not self.without:
            bare = "1 memory has" if self.bare == 1 else f"{self.bare} memories have"
            yield f"{bare} no vector yet; of these only identical words are found"
        if self.left:
            yield (
                f"there are too many memories to compare all with all: the oldest {self.left} were compared "
                "with newer ones alone; narrow down to one project"
            )
        if self.links <= 0:
            yield "so many are alike that not all of them were looked at; merge some and look again"

    def _may_join(self, rows: Sequence[MemoryRow], link: _Link) -> bool:
        one, other = rows[link.one], rows[link.other]
        return not (one.key and other.key) and frozenset((one.uid, other.uid)) not in self.apart

    def _near(self, rows: Sequence[MemoryRow], view: VectorView) -> list[_Link]:
        """Pairs that are near each other, of the newest rows with all older ones."""
        least = -1.0 if rows[0].category == ALWAYS_MERGED else self.least
        matrix, there = view.in_order([row.pk for row in rows])
        self.bare += len(rows) - int(there.sum())
        found: list[_Link] = []
        done = 0
        while done < len(rows):
            block = min(_MAX_BLOCK_ROWS, len(rows) - done, max(_MAX_BLOCK_CELLS // len(rows), 1))
            if self.pairs < block * (len(rows) - done) or self.links <= 0:
                break
            self.pairs -= block * (len(rows) - done)
            near = _similar_links(matrix, there, done, block, least)[: self.links]
            self.links -= len(near)
            found += near
            done += block
        self.compared += done
        self.left += len(rows) - done if done < len(rows) else 0
        return found


class _Link(NamedTuple):
    """Two rows of a group, by their places in it, and their cosine."""

    one: int
    other: int
    likeness: float


def _identical_links(rows: Sequence[MemoryRow]) -> list[_Link]:
    """Rows with the same words, each with the one of them that is worth most."""
    found = Counter(row.content_hash for row in rows)
    same: dict[str, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        if found[row.content_hash] > 1:
            same[row.content_hash].append(at)
    links = []
    for places in same.values():
        best = max(places, key=lambda at: rows[at].worth)
        links += [_Link(best, at, 1.0) for at in places if at != best]
    return links


def _similar_links(
    matrix: Vectors, there: NDArray[np.bool_], start: int, size: int, least: float
) -> list[_Link]:
    """The pairs of a block of rows with all rows behind each; the most alike first."""
    cosines = matrix[start : start + size] @ matrix[start:].T
    near = np.triu(cosines >= least, 1) & there[start : start + size, None] & there[None, start:]
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
    """Clusters in which every member is linked to the one that is kept, and none by way of another."""

    def leader_first(link: _Link) -> tuple[int, int]:
        places = (link.one, link.other)
        return (places[0], places[1]) if rank[rows[link.one].pk] < rank[rows[link.other].pk] else places[::-1]

    def order(link: _Link) -> tuple[float, int, float]:
        step = next((step for step in _SIMILARITY_STEPS if link.likeness >= step), 0.0)
        return -step, rank[rows[leader_first(link)[0]].pk], -link.likeness

    members: dict[int, list[tuple[int, float]]] = defaultdict(list)
    taken: set[int] = set()
    for link in sorted(links, key=order):
        leader, other = leader_first(link)
        if leader in taken or other in taken or other in members:
            continue
        if len(members.get(leader, ())) + 1 >= MAX_MEMBERS:
            continue
        members[leader].append((other, link.likeness))
        taken.add(other)
    for leader, found in members.items():
        near = tuple((rows[at].pk, round(likeness, 4)) for at, likeness in found)
        yield Cluster(rows[leader].pk, near, _explain_choice(rows[leader], [rows[at] for at, _ in found]))
