"""Search by meaning, then by words, then with spelling corrections (the Mira and pigo toolsets)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from rapidfuzz import fuzz, process

from memoryhub.backends import fts_query as queries
from memoryhub.backends.schema import TEXT_COLUMNS
from memoryhub.core.text import words
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import scoring
from memoryhub.search.hybrid import MIN_MATCH, SearchMode, search_memories
from memoryhub.search.term_frequencies import load_term_frequencies

MIN_WORD_LENGTH = 4  # letters: of shorter words too many are one letter apart
MIN_SPELLING_SIMILARITY = 78.0  # of 100
MAX_CORRECTED_WORDS = 8  # of a question that are put right
MAX_VOCABULARY_ROWS = 120  # memories whose words are looked at
_MAX_TEXT_CHARS = 20_000  # of each


@dataclass(frozen=True)
class Correction:
    """``typed`` with other words in it; ``likeness``, 0..1, is that of the one that was changed most."""

    typed: str
    likeness: float


def correct_spelling(
    memories: MemoryQuerySet, typed: str, known: MemoryQuerySet | None = None
) -> Correction | None:
    """The question as it may have been meant; None where all its words are known, or none is like another.

    Only words of ``memories`` take part, which the caller has gated: a correction tells of nothing hidden.
    ``known``: more memories behind the same gate; a word of these is no misspelling.
    """
    query = queries.parse_query(typed)
    asked = [
        word for word in query.words if len(word) >= MIN_WORD_LENGTH and word.isalpha() and word.isascii()
    ]
    counted = load_term_frequencies(memories if known is None else known, tuple(asked))
    unknown = [word for word in asked if not counted.of(word)][:MAX_CORRECTED_WORDS]
    if not unknown:
        return None
    vocabulary = _vocabulary(memories, unknown)
    changed: dict[str, tuple[str, float]] = {}
    for word in unknown:
        best = process.extractOne(word, vocabulary, scorer=fuzz.ratio, score_cutoff=MIN_SPELLING_SIMILARITY)
        if best is not None:
            changed[word] = (best[0], best[1] / 100)
    if not changed:
        return None
    line = " ".join(changed[word][0] if word in changed else word for word in words(query.typed))
    return Correction(line, min(likeness for _, likeness in changed.values()))


def _vocabulary(memories: MemoryQuerySet, unknown: Iterable[str]) -> list[str]:
    """The words of the memories that share most trigrams with the unknown ones."""
    rows = memories.sharing_trigrams(unknown).values_list(*TEXT_COLUMNS)[:MAX_VOCABULARY_ROWS]
    found: set[str] = set()
    for texts in rows:
        for text in texts:
            found.update(word for word in words(text[:_MAX_TEXT_CHARS]) if len(word) >= MIN_WORD_LENGTH)
    return sorted(found)


# The match decides; the rest, which orders what matches equally well, must not push a result over the floor.
SIMILARITY_WEIGHTS = scoring.Weights(match=0.97, recency=0.01, importance=0.01, trust=0.01)
# By meaning alone the right one of a few short memories may be as far off as this. Of many memories an
# unrelated one is nearer: from MANY on it takes as much as in a search by meaning.
MIN_SIMILARITY = 0.1
FEW_MEMORIES, MANY_MEMORIES = 10, 1000
MIN_SHARE_OF_BEST = 0.4  # a result must be so much of what the best one is


class MatchKind(StrEnum):
    """What found a memory."""

    SEMANTIC = "semantic"
    KEYWORD = "keyword"
    FUZZY = "fuzzy"


@dataclass(frozen=True)
class SimilarMemory:
    """``similarity``: 0..1."""

    memory: Memory
    similarity: float
    how: MatchKind


def search_with_fallback(
    memories: MemoryQuerySet,
    typed: str,
    *,
    limit: int,
    known: MemoryQuerySet | None = None,
    now: datetime | None = None,
) -> list[SimilarMemory]:
    """The most similar of ``memories``, which the caller has gated, filtered and limited to live ones.

    ``known``: all that the gate lets through, unfiltered; a word that stands there is not misspelt.
    """
    found = _search_mode(memories, typed, limit, "hybrid", now)
    if all(one.how is MatchKind.SEMANTIC for one in found):
        found += _search_mode(
            memories, typed, limit, "semantic", now, min_semantic_similarity(memories[:MANY_MEMORIES].count())
        )
    if not found:
        found = _search_mode(memories, typed, limit, "lexical", now)
    corrected = correct_spelling(memories, typed, known)
    if corrected is not None:
        again = _search_mode(memories, corrected.typed, limit, "lexical", now)
        share = corrected.likeness
        found += [
            replace(one, similarity=round(one.similarity * share, 4), how=MatchKind.FUZZY) for one in again
        ]
    return _deduplicate(found)[:limit]


def min_semantic_similarity(memories: int) -> float:
    """The least similarity of a result by meaning alone among so many memories: more of them take more."""
    share = math.log(max(memories, FEW_MEMORIES) / FEW_MEMORIES) / math.log(MANY_MEMORIES / FEW_MEMORIES)
    return MIN_SIMILARITY + (MIN_MATCH["semantic"] - MIN_SIMILARITY) * min(share, 1.0)


def _search_mode(
    memories: MemoryQuerySet,
    typed: str,
    limit: int,
    mode: SearchMode,
    now: datetime | None,
    least: float | None = None,
) -> list[SimilarMemory]:
    """What a search finds whose match is the ``least`` of its mode, or that which is given."""
    results = search_memories(
        memories,
        typed,
        limit=limit,
        min_score=0.0,
        weights=SIMILARITY_WEIGHTS,
        now=now,
        mode=mode,
        snippets=False,
    )
    how = MatchKind.KEYWORD if results.mode == "lexical" else MatchKind.SEMANTIC
    floor = MIN_MATCH[results.mode] if least is None or results.mode != mode else least
    hits = [hit for hit in results.hits if hit.components.match >= floor]
    return [SimilarMemory(hit.memory, hit.components.match, how) for hit in hits]


def _deduplicate(found: Iterable[SimilarMemory]) -> list[SimilarMemory]:
    """Each memory once, as it was found best; the most similar first, of equal ones the newer; without those
    that are far behind."""
    best: dict[int, SimilarMemory] = {}
    for one in found:
        known = best.get(one.memory.pk)
        if known is None or one.similarity > known.similarity:
            best[one.memory.pk] = one
    floor = MIN_SHARE_OF_BEST * max((one.similarity for one in best.values()), default=0.0)
    kept = [one for one in best.values() if one.similarity >= floor]
    return sorted(kept, key=lambda one: (-one.similarity, -one.memory.pk))
