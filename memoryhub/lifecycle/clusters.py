"""True single-linkage clusters over the Jaccard similarity of term sets. Pure.

Two texts are linked when they share enough; a cluster is everything that a chain of links connects. Only
pairs that share a rare enough term are compared, which finds the same links as comparing all pairs.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from memoryhub.text import jaccard


def single_linkage(texts: Sequence[set[str]], similarity: float, least: int) -> list[list[int]]:
    """Clusters of at least ``least`` members, as positions in ``texts``, in order of their first member."""
    parents = list(range(len(texts)))

    def root(one: int) -> int:
        while parents[one] != one:
            parents[one] = parents[parents[one]]
            one = parents[one]
        return one

    for one, other in _candidate_pairs(texts, similarity):
        if root(one) != root(other) and jaccard(texts[one], texts[other]) >= similarity:
            parents[max(root(one), root(other))] = min(root(one), root(other))
    members: dict[int, list[int]] = defaultdict(list)
    for one in range(len(texts)):
        members[root(one)].append(one)
    return [cluster for cluster in members.values() if len(cluster) >= least]


def _candidate_pairs(texts: Sequence[set[str]], similarity: float) -> list[tuple[int, int]]:
    """Pairs that can reach the similarity, by prefix filtering (Chaudhuri, Ganti, Kaushik 2006).

    Of two sets with Jaccard at least s, the rarest ``len - ceil(s * len) + 1`` terms of each share one.
    """
    frequency = Counter(term for text in texts for term in text)
    holders: dict[str, list[int]] = defaultdict(list)
    pairs: set[tuple[int, int]] = set()
    for number, text in enumerate(texts):
        rarest = sorted(text, key=lambda term: (frequency[term], term))
        for term in rarest[: len(rarest) - math.ceil(similarity * len(rarest)) + 1]:
            pairs.update((other, number) for other in holders[term])
            holders[term].append(number)
    return sorted(pairs)
