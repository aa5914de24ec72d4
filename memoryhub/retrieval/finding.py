"""Finding by meaning first, by words where that finds nothing, and past misspellings (Mira, pigo).

What is found is ordered by how similar it is to the question, whatever its age, importance or trust.
"""

from __future__ import annotations

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
    if not found:
        found = _search(memories, typed, limit, "lexical", now)
    corrected = correct(memories, typed, known)
    if corrected is not None:
        again = _search(memories, corrected.typed, limit, "lexical", now)
        share = corrected.likeness
        found += [replace(one, similarity=round(one.similarity * share, 4), how=How.FUZZY) for one in again]
    return _best(found)[:limit]


def _search(
    memories: MemoryQuerySet, typed: str, limit: int, mode: Mode, now: datetime | None
) -> list[Found]:
    results = search(
        memories, typed, limit=limit, min_score=0.0, weights=SIMILARITY, now=now, mode=mode, snippets=False
    )
    how = How.KEYWORD if results.mode == "lexical" else How.SEMANTIC
    least = LEAST_MATCH[results.mode]
    hits = [hit for hit in results.hits if hit.components.match >= least]
    return [Found(hit.memory, hit.components.match, how) for hit in hits]


def _best(found: Iterable[Found]) -> list[Found]:
    """Each memory once, as it was found best; the most similar first, of equal ones the newer."""
    best: dict[int, Found] = {}
    for one in found:
        known = best.get(one.memory.pk)
        if known is None or one.similarity > known.similarity:
            best[one.memory.pk] = one
    return sorted(best.values(), key=lambda one: (-one.similarity, -one.memory.pk))
