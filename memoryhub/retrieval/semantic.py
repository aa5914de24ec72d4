"""The memories of a queryset that are nearest to a vector: gate and filters come before the cut."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np

from memoryhub.querysets import MemoryQuerySet
from memoryhub.search import vectors
from memoryhub.search.keys import any_of
from memoryhub.search.vectors import Keys, Scores, Vectors, View

SAMPLE = 1000  # memories that tell how much of the store a queryset holds, and what its mean is
TELLING = 50  # of these must be in it, or it is small enough to be read whole
MOST_ASKED = 20_000  # ids in one question
_ODD = np.uint64(0x9E3779B97F4A7C15)  # multiplying by it mixes the bits


@dataclass(frozen=True)
class Near:
    """The nearest memories of a queryset, the nearest first, and how near others are."""

    best: list[tuple[int, float]] = field(default_factory=list)
    scores: Scores = field(default=Scores(np.empty(0, np.int64), np.empty(0, np.float32)), repr=False)

    def cosines(self, pks: Collection[int]) -> dict[int, float]:
        """Of memories that the caller found behind the gate; those without a vector are left out."""
        some = _only(self.scores, np.fromiter(pks, np.int64))
        return dict(zip(some.pks.tolist(), some.cosines.tolist(), strict=True))


def nearest(
    memories: MemoryQuerySet, query: Vectors, model: str, most: int, *, centred: bool = True
) -> list[tuple[int, float]]:
    """Primary keys and cosines of the ``most`` nearest of the queryset: see :func:`near`."""
    return near(memories, query, model, most, centred=centred).best


def near(memories: MemoryQuerySet, query: Vectors, model: str, most: int, *, centred: bool = True) -> Near:
    """The ``most`` nearest of the queryset, exact.

    Memories without a vector of the model are left out. ``centred`` takes the mean of the queryset's vectors
    off (of a sample where they are many), so that what a reader may not see leaves no trace in the scores.
    Of equal ones the newer comes first. Three queries at most, and those that refresh the index.
    """
    held = vectors.index(model, len(query)).view()
    pks = held.pks
    if not len(pks) or most < 1 or not query.any():
        return Near()
    drawn = _sample(pks)
    among = _within(memories, drawn)
    if len(drawn) < len(pks) and len(among) < TELLING:
        own = _all(memories)
        scores = _scored(held, query, own[:: len(own) // SAMPLE + 1], centred)
        return Near(_best(_only(scores, own), most), scores)
    scores = _scored(held, query, among, centred)
    if len(drawn) == len(pks):
        return Near(_best(_only(scores, among), most), scores)
    top = _top(scores, int(1.5 * most * len(drawn) / len(among)) + TELLING)
    if len(top.pks) <= MOST_ASKED:
        found = _only(top, _within(memories, top.pks))
        if len(found.pks) >= most or len(top.pks) == len(scores.pks):
            return Near(_best(found, most), scores)
    return Near(_best(_only(scores, _all(memories)), most), scores)


def _scored(held: View, query: Vectors, among: Keys, centred: bool) -> Scores:
    return held.scores(query, centred=centred, mean=held.mean(among) if centred else None)


def _sample(pks: Keys) -> Keys:
    """About :data:`SAMPLE` of them, the same ones from one call to the next; all where they are few."""
    if len(pks) <= 2 * SAMPLE:
        return pks
    mixed = (pks.astype(np.uint64) * _ODD) >> np.uint64(32)
    share = 2 ** int(np.log2(len(pks) / SAMPLE))
    drawn: Keys = pks[mixed % np.uint64(share) == 0]
    return drawn[:MOST_ASKED]


def _within(memories: MemoryQuerySet, pks: Keys) -> Keys:
    """Those that the queryset holds."""
    return _keys(memories.order_by().filter(pk__in=any_of(pks.tolist())).values_list("pk", flat=True))


def _all(memories: MemoryQuerySet) -> Keys:
    return np.sort(_keys(memories.order_by().values_list("pk", flat=True)))


def _keys(found: Iterable[int]) -> Keys:
    return np.fromiter(found, np.int64)


def _only(scores: Scores, pks: Keys) -> Scores:
    among = np.isin(scores.pks, pks)
    return Scores(scores.pks[among], scores.cosines[among])


def _top(scores: Scores, most: int) -> Scores:
    """The best, and all that are as good as the last of them."""
    if most >= len(scores.pks):
        return scores
    least = np.partition(scores.cosines, -most)[-most]
    good = scores.cosines >= least
    return Scores(scores.pks[good], scores.cosines[good])


def _best(scores: Scores, most: int) -> list[tuple[int, float]]:
    top = _top(scores, most)
    order = np.lexsort((-top.pks, -top.cosines))[:most]
    return [(int(top.pks[at]), float(top.cosines[at])) for at in order]
