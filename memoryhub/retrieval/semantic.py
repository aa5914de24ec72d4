"""The memories of a queryset that are nearest to a vector: gate and filters come before the cut."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval.frequencies import count_of
from memoryhub.retrieval.within import key_of
from memoryhub.search import vectors
from memoryhub.search.keys import any_of
from memoryhub.search.vectors import Keys, Scores, Vectors, View

SAMPLE = 500  # memories of a queryset from which its mean is computed, at least
TELLING = 25  # of a sample must have a vector, or the queryset is read whole
MOST_ASKED = 20_000  # ids in one question
KEPT_SECONDS = 10.0  # a sample is good for; a memory that is hidden meanwhile counts in the mean until then
MOST_DRAWN = 64  # querysets whose samples are kept
_NONE = Scores(np.empty(0, np.int64), np.empty(0, np.float32))
_ODD = np.uint64(0x9E3779B97F4A7C15)  # multiplying by it mixes the bits

_others = ThreadPoolExecutor(max_workers=2, thread_name_prefix="vectors")  # for arithmetic alone


@dataclass(frozen=True)
class Near:
    """The nearest memories of a queryset, the nearest first, and how near others are."""

    best: list[tuple[int, float]] = field(default_factory=list)
    scores: Scores = field(default=_NONE, repr=False)

    def cosines(self, pks: Collection[int]) -> dict[int, float]:
        """Of memories that the caller found behind the gate; those without a vector are left out."""
        places = self._places
        return {
            pk: float(self.scores.cosines[places[pk]]) for pk in pks if pk < len(places) and places[pk] >= 0
        }

    @cached_property
    def _places(self) -> Keys:
        """Where each memory's cosine lies; -1 where it has none."""
        places: Keys = np.full(int(self.scores.pks.max(initial=0)) + 1, -1)
        places[self.scores.pks] = np.arange(len(self.scores.pks))
        return places


def nearest(
    memories: MemoryQuerySet, query: Vectors, model: str, most: int, *, centred: bool = True
) -> list[tuple[int, float]]:
    """Primary keys and cosines of the ``most`` nearest of the queryset: see :class:`Approach`."""
    return Approach(memories, query, model, most, centred=centred).end().best


class Approach:
    """The ``most`` nearest of a queryset, exact: begun, it compares all vectors on another processor.

    Memories without a vector of the model are left out. ``centred`` takes the mean of the queryset's vectors
    off (of a sample where they are many), so that what a reader may not see leaves no trace in the scores.
    Of equal ones the newer comes first. Three queries at most, and those that refresh the index.
    """

    def __init__(
        self, memories: MemoryQuerySet, query: Vectors, model: str, most: int, *, centred: bool = True
    ) -> None:
        self._memories, self._most = memories, most
        held = vectors.index(model, len(query)).view()
        pks = held.pks
        self._drawn: _Drawn | None = None
        self._scores: Scores | Future[Scores] = _NONE
        if not len(pks) or most < 1 or not query.any():
            return
        few = len(pks) <= 2 * SAMPLE
        self._drawn = _whole(held, _within(memories, pks)) if few else _drawn(held, memories, pks)
        compare = partial(held.scores, query, centred=centred, mean=self._drawn.mean if centred else None)
        self._scores = compare() if few else _others.submit(compare)

    def end(self) -> Near:
        """Wait for the rest of it."""
        scores = self._scores.result() if isinstance(self._scores, Future) else self._scores
        if self._drawn is None:
            return Near()
        if self._drawn.own is not None:
            return Near(_best(_only(scores, self._drawn.own), self._most), scores)
        top = _top(scores, int(1.5 * self._most / self._drawn.share) + TELLING)
        if len(top.pks) <= MOST_ASKED:
            found = _only(top, _within(self._memories, top.pks))
            if len(found.pks) >= self._most or len(top.pks) == len(scores.pks):
                return Near(_best(found, self._most), scores)
        return Near(_best(_only(scores, _all(self._memories)), self._most), scores)


@dataclass(frozen=True)
class _Drawn:
    """What a sample tells of a queryset: which share of the vectors it holds, and their mean.

    ``own``: all of a queryset that holds so little that it was read whole.
    """

    share: float
    mean: Vectors
    at: float
    own: Keys | None = None


def _whole(held: View, own: Keys) -> _Drawn:
    return _Drawn(1.0, held.mean(_sample(own, len(own))), 0.0, own)


def _drawn(held: View, memories: MemoryQuerySet, pks: Keys) -> _Drawn:
    """Drawn anew when vectors have come or gone, and every few seconds.

    Kept for every queryset with the same gate and filters: the moment of asking alone may differ.
    """
    key = key_of(memories)
    if key is None:
        return _whole(held, np.empty(0, np.int64))
    kept: _Drawn | None = held.drawn.get(key)
    if kept is not None and time.monotonic() - kept.at < KEPT_SECONDS:
        return kept
    total = count_of(memories)
    drawn = _sample(pks, total)
    # Only the speed depends on this comparison with the whole store: the sample is the same either way.
    sparse = total * SAMPLE < TELLING * len(pks)
    among = np.empty(0, np.int64) if sparse else _within(memories, drawn)
    if len(among) < TELLING:
        own = _all(memories)
        return _Drawn(1.0, held.mean(_sample(own, total)), 0.0, own)
    if len(held.drawn) >= MOST_DRAWN:
        held.drawn.clear()
    found = _Drawn(len(among) / len(drawn), held.mean(among), time.monotonic())
    held.drawn[key] = found
    return found


def _sample(pks: Keys, visible: int) -> Keys:
    """Return those keys that are in the sample of a queryset with so many rows.

    Whether a key is in it depends on nothing else, so hidden rows do not change the mean.
    """
    mixed = (pks.astype(np.uint64) * _ODD) >> np.uint64(32)
    step = 1 << max((visible // SAMPLE).bit_length() - 1, 0)
    drawn: Keys = pks[mixed % np.uint64(step) == 0]
    return drawn


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
