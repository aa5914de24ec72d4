"""Search by meaning, then by words, then with corrected spelling (Mira and pigo toolsets)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from rapidfuzz import process
from rapidfuzz.distance import OSA

from memoryhub.access import redaction
from memoryhub.backends import fts_query as queries
from memoryhub.backends.schema import TEXT_COLUMNS
from memoryhub.core.text import WORD, fold, words
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import scoring
from memoryhub.search.hybrid import (
    MIN_MATCH,
    MIN_UNKNOWN_MATCH,
    SearchMode,
    SearchResults,
    search_memories,
)
from memoryhub.search.lexical import count_terms

MIN_WORD_LENGTH = 4  # too many shorter words differ by one letter
MIN_SPELLING_SIMILARITY = 0.78  # one typo in five letters
MAX_CORRECTED_WORDS = 4
MAX_VOCABULARY_ROWS = 120  # memories whose words are corrections
_MAX_TEXT_CHARS = 20_000
# The other parts only order equal matches; they must not lift a result over the minimum.
SIMILARITY_WEIGHTS = scoring.Weights(match=0.97, recency=0.01, importance=0.01, trust=0.01)
# Minimum of a purely semantic result among few memories. Among more memories unrelated ones are nearer, so
# the minimum rises up to that of a semantic search among many.
MIN_SIMILARITY = 0.1
MIN_UNKNOWN_SIMILARITY = 0.16  # the same for a query of words that no memory contains
FEW_MEMORIES, MANY_MEMORIES = 10, 1000
MIN_SHARE_OF_BEST = 0.4  # minimum similarity of a result, relative to the best one


@dataclass(frozen=True)
class Correction:
    """A corrected query; ``similarity``, 0..1, is that of its most changed word."""

    typed: str
    similarity: float


def search_or_correct(
    memories: MemoryQuerySet,
    typed: str,
    *,
    known: Callable[[], MemoryQuerySet] | None = None,
    **options: Any,
) -> SearchResults:
    """Search, and suggest a corrected query if a word of this one is misspelt.

    If nothing is found, the results are those of the corrected query. ``known`` returns the memories that
    :func:`correct_spelling` calls so; the other options are those of :func:`search_memories`.
    """
    found = search_memories(memories, typed, **options)
    if not found.unknown:
        return found
    vocabulary = memories.filter(sensitivity__in=redaction.UNREDACTED_LEVELS)
    correction = correct_spelling(vocabulary, typed, memories if known is None else known())
    if correction is None:
        return found
    if found.total:
        return replace(found, suggestions=(correction.typed,))
    corrected = search_memories(memories, correction.typed, **options)
    if not corrected.total:
        return found
    return replace(corrected, suggestions=(correction.typed,), is_corrected=True)


def correct_spelling(
    memories: MemoryQuerySet, typed: str, known: MemoryQuerySet | None = None
) -> Correction | None:
    """Correct unknown words of a query; None if all words are known or no word is similar.

    Corrections come only from ``memories``, which the caller can see. ``known``: more visible memories, whose
    words and parts of words are spelt correctly.
    """
    known = memories if known is None else known
    query = queries.parse_query(typed)
    long = [one for one in query.words if len(one) >= MIN_WORD_LENGTH and one.isalpha()]
    frequencies = count_terms(known, tuple(long))
    unknown = [word for word in long if not frequencies.of(word)][:MAX_CORRECTED_WORDS]
    misspelt = [word for word in unknown if not known.containing([word]).exists()]
    similar = {word: _most_similar(memories, word) for word in misspelt}
    changed = {word: best for word, best in similar.items() if best is not None}
    if not changed:
        return None
    corrected = WORD.sub(lambda word: changed.get(fold(word[0]), (word[0],))[0], query.typed)
    return Correction(corrected, min(similarity for _, similarity in changed.values()))


def _most_similar(memories: MemoryQuerySet, word: str) -> tuple[str, float] | None:
    """Return the most similar word, of equal ones the most frequent, and its similarity; None without one.

    A single typo leaves one half of the word as it is, so memories with a half are read first.
    """
    halves = word[: len(word) // 2], word[len(word) // 2 :]
    for rows in (*(memories.containing([half]) for half in halves), memories.sharing_trigrams([word])):
        counts = _count_words(rows)
        found = process.extract(
            word,
            list(counts),
            scorer=OSA.normalized_similarity,
            score_cutoff=MIN_SPELLING_SIMILARITY,
            limit=None,
        )
        if found:
            best, similarity, _ = max(found, key=lambda one: (one[1], counts[one[0]], one[0]))
            return best, similarity
    return None


def _count_words(memories: MemoryQuerySet) -> Counter[str]:
    """Count the long words of the newest of these memories."""
    counts: Counter[str] = Counter()
    for texts in memories.values_list(*TEXT_COLUMNS)[:MAX_VOCABULARY_ROWS]:
        for text in texts:
            counts.update(word for word in words(text[:_MAX_TEXT_CHARS]) if len(word) >= MIN_WORD_LENGTH)
    return counts


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

    Pinned matches come first. Searches by meaning and words, and again with corrected spelling. ``known``:
    all visible memories, unfiltered; their words are spelt correctly.
    """
    results = _search(memories, typed, limit, "hybrid", now)
    found = _select(results)
    if all(one.how is MatchKind.SEMANTIC for one in found):
        words = queries.parse_query(typed).words
        is_known = not words or len(results.unknown) < len(words)
        min_match = min_semantic_similarity(memories[:MANY_MEMORIES].count(), is_known=is_known)
        found += _select(_search(memories, typed, limit, "semantic", now), min_match)
    if not found:
        found = _select(_search(memories, typed, limit, "lexical", now))
    correction = correct_spelling(memories, typed, known)
    if correction is not None:
        for one in _select(_search(memories, correction.typed, limit, "lexical", now)):
            similarity = round(one.similarity * correction.similarity, 4)
            found.append(replace(one, similarity=similarity, how=MatchKind.FUZZY))
    return _deduplicate(found)[:limit]


def min_semantic_similarity(memories: int, *, is_known: bool = True) -> float:
    """Return the minimum similarity of a purely semantic result among so many memories.

    ``is_known``: a memory contains a word of the query. Otherwise its words may mean nothing.
    """
    least, most = MIN_SIMILARITY, MIN_MATCH["semantic"]
    if not is_known:
        least, most = MIN_UNKNOWN_SIMILARITY, MIN_UNKNOWN_MATCH
    share = math.log(max(memories, FEW_MEMORIES) / FEW_MEMORIES) / math.log(MANY_MEMORIES / FEW_MEMORIES)
    return least + (most - least) * min(share, 1.0)


def _search(
    memories: MemoryQuerySet, typed: str, limit: int, mode: SearchMode, now: datetime | None
) -> SearchResults:
    return search_memories(
        memories,
        typed,
        limit=limit,
        min_score=0.0,
        weights=SIMILARITY_WEIGHTS,
        now=now,
        mode=mode,
        snippets=False,
        pinned_first=True,
    )


def _select(results: SearchResults, min_match: float | None = None) -> list[SimilarMemory]:
    """Return the results with the minimum match of the mode that ran, or ``min_match`` by meaning."""
    how = MatchKind.KEYWORD if results.mode == "lexical" else MatchKind.SEMANTIC
    if min_match is None or results.mode == "lexical":
        min_match = MIN_MATCH[results.mode]
    return [
        SimilarMemory(hit.memory, hit.components.match, how)
        for hit in results.hits
        if hit.components.match >= min_match
    ]


def _deduplicate(found: Iterable[SimilarMemory]) -> list[SimilarMemory]:
    """Return each memory with its best similarity, without those far below the best.

    Pinned ones come first, then the best.
    """
    best: dict[int, SimilarMemory] = {}
    for one in found:
        known = best.get(one.memory.pk)
        if known is None or one.similarity > known.similarity:
            best[one.memory.pk] = one
    least = MIN_SHARE_OF_BEST * max((one.similarity for one in best.values()), default=0.0)
    good = [one for one in best.values() if one.similarity >= least]
    return sorted(good, key=lambda one: (not one.memory.pinned, -one.similarity, -one.memory.pk))
