"""Finding by meaning first, by words where that finds nothing, and past misspellings (Mira, pigo).

What is found is ordered by how similar it is to the question, whatever its age, importance or trust.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from memoryhub.models import Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval import scoring
from memoryhub.retrieval.fuzzy import correct
from memoryhub.retrieval.search import search
from memoryhub.retrieval.weighing import LEAST_MATCH, Mode

# The match decides; the rest, which orders what matches equally well, must not push a result over the floor.
SIMILARITY = scoring.Weights(match=0.97, recency=0.01, importance=0.01, trust=0.01)
# By meaning alone the right one of a few short memories may be as far off as this. Of many memories an
# unrelated one is nearer: from MANY on it takes as much as in a search by meaning.
LEAST_SIMILAR = 0.1
FEW, MANY = 10, 1000
LEAST_OF_BEST = 0.4  # a result must be so much of what the best one is


class How(StrEnum):
    """What found a memory."""

    SEMANTIC = "semantic"
    KEYWORD = "keyword"
    FUZZY = "fuzzy"


@dataclass(frozen=True)
class Found:
    """``similarity``: 0..1."""

    memory: Memory
    similarity: float
    how: How


def find(
    memories: MemoryQuerySet,
    typed: str,
    *,
    limit: int,
    known: MemoryQuerySet | None = None,
    now: datetime | None = None,
) -> list[Found]:
    """The most similar of ``memories``, which the caller has gated, filtered and limited to live ones.

    ``known``: all that the gate lets through, unfiltered; a word that stands there is not misspelt.
    """
    found = _search(memories, typed, limit, "hybrid", now)
    if all(one.how is How.SEMANTIC for one in found):
        found += _search(memories, typed, limit, "semantic", now, least_similar(memories[:MANY].count()))
    if not found:
        found = _search(memories, typed, limit, "lexical", now)
    corrected = correct(memories, typed, known)
    if corrected is not None:
        again = _search(memories, corrected.typed, limit, "lexical", now)
        share = corrected.likeness
        found += [replace(one, similarity=round(one.similarity * share, 4), how=How.FUZZY) for one in again]
    return _best(found)[:limit]


def least_similar(memories: int) -> float:
    """The least similarity of a result by meaning alone among so many memories: more of them take more."""
    share = math.log(max(memories, FEW) / FEW) / math.log(MANY / FEW)
    return LEAST_SIMILAR + (LEAST_MATCH["semantic"] - LEAST_SIMILAR) * min(share, 1.0)


def _search(
    memories: MemoryQuerySet,
    typed: str,
    limit: int,
    mode: Mode,
    now: datetime | None,
    least: float | None = None,
) -> list[Found]:
    """What a search finds whose match is the ``least`` of its mode, or that which is given."""
    results = search(
        memories, typed, limit=limit, min_score=0.0, weights=SIMILARITY, now=now, mode=mode, snippets=False
    )
    how = How.KEYWORD if results.mode == "lexical" else How.SEMANTIC
    floor = LEAST_MATCH[results.mode] if least is None or results.mode != mode else least
    hits = [hit for hit in results.hits if hit.components.match >= floor]
    return [Found(hit.memory, hit.components.match, how) for hit in hits]


def _best(found: Iterable[Found]) -> list[Found]:
    """Each memory once, as it was found best; the most similar first, of equal ones the newer; without those
    that are far behind."""
    best: dict[int, Found] = {}
    for one in found:
        known = best.get(one.memory.pk)
        if known is None or one.similarity > known.similarity:
            best[one.memory.pk] = one
    floor = LEAST_OF_BEST * max((one.similarity for one in best.values()), default=0.0)
    kept = [one for one in best.values() if one.similarity >= floor]
    return sorted(kept, key=lambda one: (-one.similarity, -one.memory.pk))
