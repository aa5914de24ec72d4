"""Search by meaning, then by words, then with spelling corrections (the Mira and pigo toolsets)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from rapidfuzz import fuzz, process

from memoryhub.backends import fts_query as queries
from memoryhub.backends.schema import COLUMNS
from memoryhub.core.text import words
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import scoring
from memoryhub.search.hybrid import LEAST_MATCH, Mode, search
from memoryhub.search.term_frequencies import frequencies_of

SHORTEST = 4  # letters: of shorter words too many are one letter apart
LEAST_LIKE = 78.0  # of 100
MOST_WORDS = 8  # of a question that are put right
MOST_ROWS = 120  # memories whose words are looked at
_MOST_CHARS = 20_000  # of each


@dataclass(frozen=True)
class Corrected:
    """``typed`` with other words in it; ``likeness``, 0..1, is that of the one that was changed most."""

    typed: str
    likeness: float


def correct(memories: MemoryQuerySet, typed: str, known: MemoryQuerySet | None = None) -> Corrected | None:
    """The question as it may have been meant; None where all its words are known, or none is like another.

    Only words of ``memories`` take part, which the caller has gated: a correction tells of nothing hidden.
    ``known``: more memories behind the same gate; a word of these is no misspelling.
    """
    query = queries.parse(typed)
    asked = [word for word in query.words if len(word) >= SHORTEST and word.isalpha() and word.isascii()]
    counted = frequencies_of(memories if known is None else known, tuple(asked))
    unknown = [word for word in asked if not counted.of(word)][:MOST_WORDS]
    if not unknown:
        return None
    vocabulary = _vocabulary(memories, unknown)
    changed: dict[str, tuple[str, float]] = {}
    for word in unknown:
        best = process.extractOne(word, vocabulary, scorer=fuzz.ratio, score_cutoff=LEAST_LIKE)
        if best is not None:
            changed[word] = (best[0], best[1] / 100)
    if not changed:
        return None
    line = " ".join(changed[word][0] if word in changed else word for word in words(query.typed))
    return Corrected(line, min(likeness for _, likeness in changed.values()))


def _vocabulary(memories: MemoryQuerySet, unknown: Iterable[str]) -> list[str]:
    """The words of the memories that share most trigrams with the unknown ones."""
    rows = memories.sharing_trigrams(unknown).values_list(*COLUMNS)[:MOST_ROWS]
    found: set[str] = set()
    for texts in rows:
        for text in texts:
            found.update(word for word in words(text[:_MOST_CHARS]) if len(word) >= SHORTEST)
    return sorted(found)


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
