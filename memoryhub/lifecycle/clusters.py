"""True single-linkage clusters over the Jaccard similarity of term sets. Pure.

Two texts are linked when they share enough; a cluster is everything that a chain of links connects. Only
texts that share a rare enough term are compared, which finds the same links as comparing all pairs, and none
is compared with a cluster that it belongs to already. It holds about as many bytes as the texts have terms
times eight.
"""

from __future__ import annotations

import math
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from typing import TypeAlias

# Of one text. Where thousands share many words and yet too few (a form that was filled in), only the
# likeliest are compared: those that share the rarest terms. Otherwise time would grow with the square.
MOST_COMPARED, MOST_LOOKED_AT = 200, 1500
_BITS = 192
_Coded: TypeAlias = "array[int]"


def single_linkage(texts: Iterable[Iterable[Hashable]], similarity: float, least: int) -> list[list[int]]:
    """Clusters of at least ``least`` members, as positions in ``texts``, in order of their first member.

    Each text is its distinct terms, as words or as numbers that stand for them.
    """
    coded = _by_rarity(texts)
    clusters = _Clusters(coded, similarity)
    for number in sorted(range(len(coded)), key=lambda one: len(coded[one])):
        clusters.take(number)
        time.sleep(0)  # who else waits for the interpreter goes first
    members: dict[int, list[int]] = defaultdict(list)
    for one in range(len(coded)):
        members[clusters.root(one)].append(one)
    return [cluster for cluster in members.values() if len(cluster) >= least]


def _by_rarity(texts: Iterable[Iterable[Hashable]]) -> list[_Coded]:
    """Each text as the numbers of its terms, the rarest first: 4 bytes for a term instead of a set's 64."""
    numbers: dict[Hashable, int] = {}
    coded = [array("I", [numbers.setdefault(term, len(numbers)) for term in text]) for text in texts]
    frequency = Counter(number for text in coded for number in text)
    order = sorted(frequency, key=lambda number: (frequency[number], number))
    place = array("I", bytes(4 * len(order)))
    for position, number in enumerate(order):
        place[number] = position
    return [array("I", sorted(place[number] for number in text)) for text in coded]


def _marks(text: _Coded) -> int:
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

    def __init__(self, coded: list[_Coded], similarity: float) -> None:
        self.coded, self.similarity = coded, similarity
        self.shared = 2 * similarity / (1 + similarity)
        self.parents = list(range(len(coded)))
        self.marks = [_marks(text) for text in coded]
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
            if len(compared) >= MOST_COMPARED or looked >= MOST_LOOKED_AT:
                return

    def _may_be_alike(self, one: int, other: int) -> bool:
        """Where the bitmaps differ the sets do, so they bound what is shared (Sandes et al. 2017)."""
        both = len(self.coded[one]) + len(self.coded[other])
        return both - (self.marks[one] ^ self.marks[other]).bit_count() >= self.shared * both

    def _alike(self, terms: set[int], other: _Coded) -> bool:
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
