"""Lexical search: candidates from the full-text indexes, limited to rows that the caller can see."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from django.conf import settings

from memoryhub.backends import fts_query as queries
from memoryhub.backends.fts_query import Query
from memoryhub.backends.schema import last_memory_key
from memoryhub.backends.statements import key_list, top_rows
from memoryhub.core.text import fold, stem
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import scoring
from memoryhub.search.term_frequencies import TermFrequencies

TEXT_FIELDS = ("title", "subtitle", "abstract", "overview", "content")
MAX_TITLE_ROWS = 5000  # rows that are compared with a title; a more common word is not searched as a title
MAX_WORTH_ROWS = 4096  # matching rows up to which recency, importance and trust of each are compared
UNFILTERED_FACTOR = 1.25  # oversampling of index results that are filtered by access afterwards
MAX_SPARED_SHARE = 0.2  # share of a query below which a memory need not be found


class CandidateRow(NamedTuple):
    """The columns that scoring needs."""

    pk: int
    updated_at: datetime
    importance: float
    trust: float
    title: str
    subtitle: str
    abstract: str
    overview: str
    content: str

    @property
    def texts(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in TEXT_FIELDS}


@dataclass(frozen=True)
class ScoredCandidate:
    """A candidate with its score, the parts of the score, and its text match."""

    pk: int
    score: float
    parts: scoring.Components
    text_match: scoring.TextMatch


@dataclass(frozen=True)
class SearchEffort:
    """Limits of one search.

    ``pool``: approximate number of scored candidates. ``spare``: a memory that contains at most this share of
    the query need not be found. ``posted``: if the words together occur in more memories than this, the most
    common ones are not looked up alone; at least ``fewest`` words are. ``weighed``: matching memories up to
    which the worth of each is compared when they exceed the pool. ``thorough``: also compare whole titles,
    and look for names and unknown words inside other words even if the rest of the query is found.
    """

    pool: int
    spare: float = MAX_SPARED_SHARE
    posted: float = math.inf
    fewest: int = 2
    weighed: int = MAX_WORTH_ROWS
    thorough: bool = True


def score_parts(memory: CandidateRow | Memory, match: float, now: datetime) -> scoring.Components:
    """Return the parts of the score of a memory with this match."""
    age = (now - memory.updated_at).total_seconds() / 86_400
    return scoring.Components(
        match=round(match, 4),
        recency=round(scoring.recency(age, settings.MEMORYHUB.recency_half_life_days), 4),
        importance=memory.importance,
        trust=memory.trust,
    )


def score_candidate(
    row: CandidateRow, match: float, text_match: scoring.TextMatch, weights: scoring.Weights, now: datetime
) -> ScoredCandidate:
    """Return the composite score of a row with this match."""
    parts = score_parts(row, match, now)
    return ScoredCandidate(row.pk, scoring.composite_score(parts, weights), parts, text_match)


def rank_by_words(
    memories: MemoryQuerySet,
    query: Query,
    weights: scoring.Weights,
    now: datetime,
    *,
    effort: SearchEffort,
    frequencies: TermFrequencies,
    more: MemoryQuerySet | None = None,
    clauses: Sequence[Query] = (),
    min_frequency: int = 0,
) -> list[ScoredCandidate]:
    """Score the candidates that contain part of the query. Unordered.

    ``more``: further candidates that were found in another way. ``clauses``: parts of the query; a memory
    that matches one clause matches. ``min_frequency``: lower limit for the frequency of each word.
    """
    if not query.terms:
        return []
    counts = {stem(word): max(frequencies.of(word), min_frequency) for word in query.words}
    matcher = scoring.QueryMatcher(query, scoring.term_weights(query, counts, frequencies.total), clauses)
    rows, _ = find_candidates(memories, query, frequencies, weights, effort)
    if more is not None:
        rows |= {row.pk: row for row in read_rows(more) if row.pk not in rows}
    matches = ((row, matcher.match(row.texts)) for row in rows.values())
    return [
        score_candidate(row, found.match, found, weights, now)
        for row, found in matches
        if round(found.match, 4) > 0
    ]


def read_rows(memories: MemoryQuerySet) -> list[CandidateRow]:
    """Read the columns of a queryset that scoring needs."""
    return [CandidateRow(*row) for row in memories.values_list(*CandidateRow._fields)]


def find_candidates(
    memories: MemoryQuerySet,
    query: Query,
    frequencies: TermFrequencies,
    weights: scoring.Weights,
    effort: SearchEffort,
) -> tuple[dict[int, CandidateRow], bool]:
    """Return the rows to score by primary key, and whether they are all matching rows.

    Words are looked up in the word index, other literals in the trigram index, and the rest by a scan. If
    more rows match than are scored, the best by bm25 are joined by the rows with the best recency, importance
    and trust, because such a row can beat a better match. If very many match, the newest rows are used
    instead, because comparing all of them costs more than the search.
    """
    # The comparison with the size of the store affects only the speed: both plans find the same rows.
    pool = _CandidatePool(memories, effort.pool, index_first=2 * frequencies.total > last_memory_key())
    known = [word for word in query.words if frequencies.of(word)]
    if known:
        _add_indexed_words(pool, query, known, frequencies, weights, effort)
    substrings = query.spellings(_substring_literals(query, known, effort))
    pool.add(memories.containing(substrings))
    if not pool.rows:  # no visible memory contains the words; they may occur inside other words
        pool.add(memories.containing(query.spellings(query.words)))
    for literal in _literals_to_scan(substrings, pool.rows.values())[:3]:
        pool.add(memories.holding(literal))
    return pool.rows, pool.is_complete


class _CandidatePool:
    """Visible rows found so far, and whether no matching row was left out."""

    def __init__(self, memories: MemoryQuerySet, size: int, *, index_first: bool) -> None:
        self.memories, self.size, self.index_first = memories, size, index_first
        self.rows: dict[int, CandidateRow] = {}
        self.is_complete = True

    def add(self, memories: MemoryQuerySet, limit: int = 0) -> None:
        """Add the first rows of a queryset, up to ``limit`` or the size of the pool."""
        limit = limit or self.size
        self._add_rows(read_rows(memories[:limit]), limit)

    def add_best(self, query: _IndexQuery) -> None:
        """Add the best rows of the word index, up to the size of the pool."""
        rows = _best_rows(self.memories, query, self.size, index_first=self.index_first)
        self._add_rows(rows, self.size)

    def _add_rows(self, rows: list[CandidateRow], limit: int) -> None:
        self.is_complete = self.is_complete and len(rows) < limit
        for row in rows:
            self.rows.setdefault(row.pk, row)


def _add_indexed_words(
    pool: _CandidatePool,
    query: Query,
    known: list[str],
    frequencies: TermFrequencies,
    weights: scoring.Weights,
    effort: SearchEffort,
) -> None:
    """Add rows that contain words of the query that occur in visible memories."""
    selective = _selective_words(known, frequencies, effort)
    for index_query in _index_queries(known, selective, frequencies, effort):
        pool.add_best(index_query)
    if not pool.is_complete:
        matching = pool.memories.matching(queries.match_any(selective))
        if sum(map(frequencies.of, selective)) <= effort.weighed:
            matching = matching.worthiest(weights.recency, weights.importance, weights.trust)
        else:
            matching = matching.order_by("-text_index__pk")
        pool.add(matching, effort.pool // 4)
    is_full = len(pool.rows) >= effort.pool
    if effort.thorough and is_full and min(map(frequencies.of, known)) <= MAX_TITLE_ROWS:
        # Among so many rows, the memory with exactly this title may rank too low.
        pool.add(pool.memories.titled(query.typed))


class _IndexQuery(NamedTuple):
    """An expression for the word index, ordered by bm25 or by row id (newest first)."""

    expression: str
    by: Literal["rank", "rowid"] = "rank"


def _index_queries(
    known: list[str], selective: list[str], frequencies: TermFrequencies, effort: SearchEffort
) -> list[_IndexQuery]:
    """Return the queries for the word index.

    Ordering all rows of a common word by bm25 is the most expensive part of a search and adds little. If it
    is too expensive, the words are combined with the other words of the query. If the rarest word alone is
    too common, the newest rows with all words and those with the word in the title are used.
    """
    any_word = queries.match_any(selective)
    others = [word for word in known if word not in selective]
    if math.isinf(effort.posted) or effort.fewest > 1:
        return [_IndexQuery(any_word)]
    if sum(map(frequencies.of, selective)) > effort.posted:
        all_words = " AND ".join(queries.match_any([word]) for word in known)
        in_title = _IndexQuery(f"title : ({any_word})", "rowid")
        return [_IndexQuery(all_words, "rowid"), in_title] if others else [in_title]
    if others:
        return [_IndexQuery(f"({any_word}) AND ({queries.match_any(others)})"), _IndexQuery(any_word)]
    return [_IndexQuery(any_word)]


def _best_rows(
    memories: MemoryQuerySet, query: _IndexQuery, limit: int, *, index_first: bool
) -> list[CandidateRow]:
    """Return the best visible rows.

    ``index_first``: read the best rows of the index and filter them afterwards, which is several times faster
    than one combined query. If too many of them are hidden, the combined query runs after all.
    """
    if index_first:
        wanted = int(UNFILTERED_FACTOR * limit)
        keys = top_rows(query.expression, wanted, by=query.by)
        visible = {row.pk: row for row in read_rows(memories.order_by().filter(pk__in=key_list(keys)))}
        best = [visible[pk] for pk in keys if pk in visible][:limit]
        if len(best) == limit or len(keys) < wanted:
            return best
    matching = memories.matching(query.expression)
    return read_rows((matching if query.by == "rank" else matching.order_by("-text_index__pk"))[:limit])


def _substring_literals(query: Query, known: list[str], effort: SearchEffort) -> list[str]:
    """Return the texts to look for inside words: literals, CJK runs, and words that no memory contains."""
    runs = queries.cjk_trigrams(query.text)
    if not effort.thorough:
        return [*(term.literal for term in query.terms if term.literal and not term.stems), *runs]
    return [*query.literals, *runs, *(word for word in query.words if word not in known)]


def _literals_to_scan(substrings: list[str], found: Collection[CandidateRow]) -> list[str]:
    """Return the texts that are too short for the trigram index and in no candidate yet.

    Only these are worth a scan. Punctuation (``a -> b``) is not, if other words were found.
    """
    short = [text for text in substrings if len(text) < queries.TRIGRAM_LENGTH]
    if not found or not short:
        return short
    texts = [fold(" ".join(row.texts.values())) for row in found]
    return [one for one in short if any(map(str.isalnum, one)) and not any(one in text for text in texts)]


def _selective_words(words: list[str], frequencies: TermFrequencies, effort: SearchEffort) -> list[str]:
    """Return the words without the most common ones, which together have a small weight.

    A memory that contains only those would score too low, and their long posting lists are expensive to read.
    """
    weights = {word: scoring.idf(frequencies.of(word), frequencies.total) for word in words}
    spare = effort.spare * sum(weights.values())
    selected = sorted(words, key=lambda word: weights[word])
    while len(selected) > 1 and weights[selected[0]] <= spare:
        spare -= weights[selected.pop(0)]
    posted = sum(map(frequencies.of, selected))
    while len(selected) > effort.fewest and posted > effort.posted:
        posted -= frequencies.of(selected.pop(0))
    return selected
