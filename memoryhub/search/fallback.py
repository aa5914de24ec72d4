"""Search by meaning, then by words, then with corrected spelling (Mira and pigo toolsets)."""

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
from memoryhub.search.lexical import count_terms

MIN_WORD_LENGTH = 4  # too many shorter words differ by one letter
MIN_SPELLING_SIMILARITY = 78.0  # of 100
MAX_CORRECTED_WORDS = 8
MAX_VOCABULARY_ROWS = 120  # memories whose words are corrections
_MAX_TEXT_CHARS = 20_000
# The other parts only order equal matches; they must not lift a result over the minimum.
SIMILARITY_WEIGHTS = scoring.Weights(match=0.97, recency=0.01, importance=0.01, trust=0.01)
# Minimum of a purely semantic result among few memories. Among more memories unrelated ones are nearer, so
# the minimum rises up to that of a semantic search among many.
MIN_SIMILARITY = 0.1
FEW_MEMORIES, MANY_MEMORIES = 10, 1000
MIN_SHARE_OF_BEST = 0.4  # minimum similarity of a result, relative to the best one


@dataclass(frozen=True)
class Correction:
    """A corrected query; ``similarity``, 0..1, is that of its most changed word."""

    typed: str
    similarity: float


def correct_spelling(
    memories: MemoryQuerySet, typed: str, known: MemoryQuerySet | None = None
) -> Correction | None:
    """Correct unknown words of a query; None if all words are known or no word is similar.

    Corrections come only from ``memories``, which the caller can see. ``known``: more visible memories, whose
    words are spelt correctly.
    """
    query = queries.parse_query(typed)
    long = [one for one in query.words if len(one) >= MIN_WORD_LENGTH and one.isalpha() and one.isascii()]
    frequencies = count_terms(memories if known is None else known, tuple(long))
    unknown = [word for word in long if not frequencies.of(word)][:MAX_CORRECTED_WORDS]
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
    corrected = " ".join(changed[word][0] if word in changed else word for word in words(query.typed))
    return Correction(corrected, min(similarity for _, similarity in changed.values()))


def _vocabulary(memories: MemoryQuerySet, unknown: Iterable[str]) -> list[str]:
    """Return the words of the newest memories that share trigrams with the unknown words."""
    rows = memories.sharing_trigrams(unknown).values_list(*TEXT_COLUMNS)[:MAX_VOCABULARY_ROWS]
    found: set[str] = set()
    for texts in rows:
        for text in texts:
            found.update(word for word in words(text[:_MAX_TEXT_CHARS]) if len(word) >= MIN_WORD_LENGTH)
    return sorted(found)


class MatchKind(StrEnum):
    """The kind of search that found a memory."""

    SEMANTIC = "semantic"
    KEYWORD = "keyword"
    FUZZY = "fuzzy"


@dataclass(frozen=True)
class SimilarMemory:
    """A result. ``similarity``: 0..1."""

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
    """Return the most similar of ``memories``, a queryset of live rows that the caller can see.

    Searches by meaning and words, and again with corrected spelling. ``known``: all visible memories,
    unfiltered; their words are spelt correctly.
    """
    found = _search_mode(memories, typed, limit, "hybrid", now)
    if all(one.how is MatchKind.SEMANTIC for one in found):
        min_match = min_semantic_similarity(memories[:MANY_MEMORIES].count())
        found += _search_mode(memories, typed, limit, "semantic", now, min_match)
    if not found:
        found = _search_mode(memories, typed, limit, "lexical", now)
    correction = correct_spelling(memories, typed, known)
    if correction is not None:
        for one in _search_mode(memories, correction.typed, limit, "lexical", now):
            similarity = round(one.similarity * correction.similarity, 4)
            found.append(replace(one, similarity=similarity, how=MatchKind.FUZZY))
    return _deduplicate(found)[:limit]


def min_semantic_similarity(memories: int) -> float:
    """Return the minimum similarity of a purely semantic result among so many memories."""
    share = math.log(max(memories, FEW_MEMORIES) / FEW_MEMORIES) / math.log(MANY_MEMORIES / FEW_MEMORIES)
    return MIN_SIMILARITY + (MIN_MATCH["semantic"] - MIN_SIMILARITY) * min(share, 1.0)


def _search_mode(
    memories: MemoryQuerySet,
    typed: str,
    limit: int,
    mode: SearchMode,
    now: datetime | None,
    min_match: float | None = None,
) -> list[SimilarMemory]:
    """Search in one mode and return the results with the minimum match of the mode, or ``min_match``."""
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
    if min_match is None or results.mode != mode:
        min_match = MIN_MATCH[results.mode]
    return [
        SimilarMemory(hit.memory, hit.components.match, how)
        for hit in results.hits
        if hit.components.match >= min_match
    ]


def _deduplicate(found: Iterable[SimilarMemory]) -> list[SimilarMemory]:
    """Return each memory with its best similarity, best first, without those far below the best."""
    best: dict[int, SimilarMemory] = {}
    for one in found:
        known = best.get(one.memory.pk)
        if known is None or one.similarity > known.similarity:
            best[one.memory.pk] = one
    least = MIN_SHARE_OF_BEST * max((one.similarity for one in best.values()), default=0.0)
    good = [one for one in best.values() if one.similarity >= least]
    return sorted(good, key=lambda one: (-one.similarity, -one.memory.pk))
