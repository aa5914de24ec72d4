"""Search by meaning, by words, by related words and with corrected spelling (Mira and pigo toolsets)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from rapidfuzz import process
from rapidfuzz.distance import OSA

from memoryhub.access import policy
from memoryhub.backends import TEXT_COLUMNS
from memoryhub.backends import fts_query as queries
from memoryhub.core.rule_files import RuleSchema, load_rule_file
from memoryhub.core.text import NEGATIONS, STOP_WORDS, WORD, fold, stem, words
from memoryhub.memories.versions import Snapshot
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import scoring
from memoryhub.search.hybrid import (
    MIN_MATCH,
    MIN_UNKNOWN_MATCH,
    SearchMode,
    SearchResults,
    search_memories,
    search_snapshot,
)
from memoryhub.search.lexical import count_terms

MIN_WORD_LENGTH = 4  # too many shorter words differ by one letter
MIN_SPELLING_SIMILARITY = 0.78  # one typo in five letters
MAX_CORRECTED_WORDS = 4
MAX_VOCABULARY_ROWS = 120  # memories whose words are corrections
_MAX_TEXT_CHARS = 20_000
_NO_NAMES = STOP_WORDS | NEGATIONS
# The other parts only order equal matches; they must not lift a result over the minimum.
SIMILARITY_WEIGHTS = scoring.Weights(match=0.97, recency=0.01, importance=0.01, trust=0.01)
# Minimum of a purely semantic result among few memories. Among more memories unrelated ones are nearer, so
# the minimum rises up to that of a semantic search among many.
MIN_SIMILARITY = 0.1
MIN_UNKNOWN_SIMILARITY = 0.16  # the same for a query of words that no memory contains
FEW_MEMORIES, MANY_MEMORIES = 10, 1000
RELATED_BELOW = 0.7  # related words are tried if the best result is less similar
RELATED_SIMILARITY = 0.7  # of a related word and the word of the query
MAX_RELATED_QUERIES = 4
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
    vocabulary = memories.filter(sensitivity__in=policy.UNREDACTED_LEVELS)
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
    memories: MemoryQuerySet,
    typed: str,
    known: MemoryQuerySet | None = None,
    fields: Sequence[str] = TEXT_COLUMNS,
) -> Correction | None:
    """Correct unknown words of a query; None if all words are known or no word is similar.

    Corrections come only from ``memories``, which the caller can see. ``known``: more visible memories, whose
    words and parts of words are spelt correctly. ``fields``: whose words are corrections.
    """
    known = memories if known is None else known
    query = queries.parse_query(typed)
    long = [one for one in query.words if len(one) >= MIN_WORD_LENGTH and one.isalpha()]
    frequencies = count_terms(known, tuple(long))
    unknown = [word for word in long if not frequencies.of(word)][:MAX_CORRECTED_WORDS]
    misspelt = [word for word in unknown if not known.containing([word]).exists()]
    similar = {word: _most_similar(memories, word, fields) for word in misspelt}
    changed = {word: best for word, best in similar.items() if best is not None}
    if not changed:
        return None
    corrected = WORD.sub(lambda word: changed.get(fold(word[0]), (word[0],))[0], query.typed)
    return Correction(corrected, min(similarity for _, similarity in changed.values()))


def _most_similar(memories: MemoryQuerySet, word: str, fields: Sequence[str]) -> tuple[str, float] | None:
    """Return the most similar word, of equal ones the most frequent, and its similarity; None without one.

    A single typo leaves one half of the word as it is, so memories with a half are read first.
    """
    halves = word[: len(word) // 2], word[len(word) // 2 :]
    for rows in (*(memories.containing([half]) for half in halves), memories.sharing_trigrams([word])):
        counts = _count_words(rows, fields)
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


def _count_words(memories: MemoryQuerySet, fields: Sequence[str]) -> Counter[str]:
    """Count the long words of the newest of these memories. A function word is no correction."""
    counts: Counter[str] = Counter()
    for texts in memories.values_list(*fields)[:MAX_VOCABULARY_ROWS]:
        for text in texts:
            found = words(text[:_MAX_TEXT_CHARS])
            counts.update(word for word in found if len(word) >= MIN_WORD_LENGTH and word not in _NO_NAMES)
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
) -> list[SimilarMemory]:
    """Return the most similar of ``memories``, a queryset of live rows that the caller can see.

    Pinned matches come first. Searches by meaning and words, and again with corrected spelling. ``known``:
    all visible memories, unfiltered; their words are spelt correctly.
    """
    results = _search(memories, typed, limit, "hybrid")
    found = _select(results)
    if all(one.how is MatchKind.SEMANTIC for one in found):
        words = queries.parse_query(typed).words
        is_known = not words or len(results.unknown) < len(words)
        min_match = min_semantic_similarity(memories[:MANY_MEMORIES].count(), is_known=is_known)
        found += _select(_search(memories, typed, limit, "semantic"), min_match)
    if not found:
        found = _select(_search(memories, typed, limit, "lexical"))
    if max((one.similarity for one in found), default=0.0) < RELATED_BELOW:
        for query in _related_queries(memories, typed):
            related = _select(_search(memories, query, limit, "lexical"))
            found += _reduce(related, RELATED_SIMILARITY, MatchKind.SEMANTIC)
    correction = correct_spelling(memories, typed, known)
    if correction is not None:
        corrected = _select(_search(memories, correction.typed, limit, "lexical"))
        found += _reduce(corrected, correction.similarity, MatchKind.FUZZY)
    return _deduplicate(found)[:limit]


def search_earlier(snapshot: Snapshot, typed: str, *, limit: int) -> list[SimilarMemory]:
    """Return the most similar memories of a moment, by meaning and words. Pinned matches come first."""
    options: dict[str, Any] = {"limit": limit, "min_score": 0.0, "snippets": False, "pinned_first": True}
    return _select(search_snapshot(snapshot, typed, order=SIMILARITY_WEIGHTS, **options))


def min_semantic_similarity(memories: int, *, is_known: bool = True) -> float:
    """Return the minimum similarity of a purely semantic result among so many memories.

    ``is_known``: a memory contains a word of the query. Otherwise its words may mean nothing.
    """
    least, most = MIN_SIMILARITY, MIN_MATCH["semantic"]
    if not is_known:
        least, most = MIN_UNKNOWN_SIMILARITY, MIN_UNKNOWN_MATCH
    share = math.log(max(memories, FEW_MEMORIES) / FEW_MEMORIES) / math.log(MANY_MEMORIES / FEW_MEMORIES)
    return least + (most - least) * min(share, 1.0)


def _search(memories: MemoryQuerySet, typed: str, limit: int, mode: SearchMode) -> SearchResults:
    return search_memories(
        memories,
        typed,
        limit=limit,
        min_score=0.0,
        weights=SIMILARITY_WEIGHTS,
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


def _reduce(found: Iterable[SimilarMemory], factor: float, how: MatchKind) -> Iterator[SimilarMemory]:
    return (replace(one, similarity=round(one.similarity * factor, 4), how=how) for one in found)


class Concepts(RuleSchema):
    """Texts that name the same subject, by subject."""

    concepts: dict[str, tuple[str, ...]]


@cache
def _load_concepts() -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return the single words of a text's subjects by the stems of the text."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for texts in load_rule_file(Path(__file__).with_name("concepts.toml"), Concepts).concepts.values():
        single = tuple(text for text in texts if " " not in text)
        for text in texts:
            stems = tuple(map(stem, words(text)))
            found[stems] = tuple(dict.fromkeys((*found.get(stems, ()), *single)))
    return found


def _related_queries(memories: MemoryQuerySet, typed: str) -> list[str]:
    """Return the query with a word replaced by another word of the same subject that a memory contains.

    The rarest words come first: they say most about a memory.
    """
    concepts, query = _load_concepts(), words(typed[: queries.MAX_CHARS])
    stems, longest = list(map(stem, query)), max(map(len, concepts))
    spans = [
        (start, start + length)
        for length in range(longest, 0, -1)
        for start in range(len(stems) - length + 1)
        if tuple(stems[start : start + length]) in concepts
    ]
    if not spans:
        return []
    start, end = spans[0]
    related = [word for word in concepts[tuple(stems[start:end])] if stem(word) not in stems]
    frequencies = count_terms(memories, related)
    known = sorted((word for word in related if frequencies.of(word)), key=frequencies.of)
    return [" ".join([*query[:start], word, *query[end:]]) for word in known[:MAX_RELATED_QUERIES]]


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
