"""Hybrid search: find candidates by words and by vectors, score them with their session neighbours."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from django.conf import settings
from django.core.exceptions import EmptyResultSet
from django.utils import timezone

from memoryhub.backends import fts_query as queries
from memoryhub.backends.fts_query import Query
from memoryhub.backends.statements import key_list, session_neighbours
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import lexical, scoring
from memoryhub.search.lexical import TEXT_FIELDS, CandidateRow, ScoredCandidate, SearchEffort, score_candidate
from memoryhub.search.scoring import NEIGHBOUR_WORD_SHARES, Evidence, Neighbours, Question, Signals
from memoryhub.search.semantic import SemanticSearch, start_semantic_search
from memoryhub.search.snippets import snippet_of_first_match
from memoryhub.search.term_frequencies import load_term_frequencies

SearchMode: TypeAlias = Literal["hybrid", "lexical", "semantic"]
MAX_DISTANCE = len(NEIGHBOUR_WORD_SHARES)
MAX_POSTINGS = 5_000  # in hybrid mode, words that occur in more memories together are left to the vectors
POOL_DIVISOR = 5  # words and vectors each find a fifth of the pool; neighbours come on top
MAX_CANDIDATES = 1000  # by words and by vectors each, for any limit
MAX_WORTH_ROWS = 1000  # in hybrid mode, matching memories up to which the worth of each is compared
MAX_LEADERS = 24  # best candidates whose neighbours are read
# A weaker match is no result unless min_score is 0: it shares only common words, or its vector points in
# about the same direction, as the vectors of any two texts of one store do.
MIN_MATCH: dict[SearchMode, float] = {"lexical": 0.2, "semantic": 0.35, "hybrid": 0.4}


@dataclass(frozen=True)
class Hit:
    """One search result. ``components`` explain ``score``; ``snippet`` is safe HTML."""

    memory: Memory
    score: float
    components: scoring.Components
    snippet: str


@dataclass(frozen=True)
class SearchResults:
    """A page of results, best first. ``ids`` are all ``total`` candidates that passed ``min_score``.

    If more memories match than are scored, ``total`` is not ``exact``. ``mode`` is the mode that ran: lexical
    if vectors could not be used, with the reason in ``failure``. ``note``: the vectors are incomplete.
    ``model``: the embedding model.
    """

    hits: list[Hit] = field(default_factory=list)
    total: int = 0
    ids: list[int] = field(default_factory=list)
    mode: SearchMode = "lexical"
    exact: bool = True
    took_ms: float = 0.0
    model: str = ""
    failure: str = ""
    note: str = ""


def search_memories(
    memories: MemoryQuerySet,
    typed: str,
    *,
    limit: int | None = None,
    offset: int = 0,
    min_score: float | None = None,
    weights: scoring.Weights | None = None,
    now: datetime | None = None,
    mode: SearchMode = "hybrid",
    snippets: bool = True,
) -> SearchResults:
    """Search ``memories``, a queryset of live rows that the caller can see.

    ``limit`` and ``min_score`` default to the configuration. Without ``snippets``, the labels, files and
    entities of the hits are not read either. The number of queries does not depend on the results.
    """
    began = time.perf_counter()
    config = settings.MEMORYHUB
    limit = config.search_limit if limit is None else limit
    min_score = config.min_score if min_score is None else min_score
    query = queries.parse_query(typed)
    if not query.terms:
        return SearchResults(mode=mode)
    ranking = _HybridRanking(memories, query, mode, offset + limit)
    min_match = MIN_MATCH[ranking.mode] if min_score else 0.0
    scored = [
        one
        for one in ranking.score(weights or default_weights(), now or timezone.now())
        if one.score >= min_score and one.parts.match >= min_match
    ]
    scored.sort(key=lambda one: (-one.score, -one.parts.match, -one.pk))
    return SearchResults(
        _load_hits(scored[offset : offset + limit], query if snippets else None),
        len(scored),
        [one.pk for one in scored],
        mode=ranking.mode,
        exact=ranking.is_complete,
        took_ms=round((time.perf_counter() - began) * 1000, 3),
        model=ranking.semantic.model,
        failure=ranking.semantic.failure,
        note=ranking.semantic.note,
    )


def default_weights() -> scoring.Weights:
    """Return the configured weights of LetsGo's ranking."""
    config = settings.MEMORYHUB
    return scoring.Weights(
        config.match_weight, config.recency_weight, config.importance_weight, config.trust_weight
    )


def _load_hits(page: list[ScoredCandidate], query: Query | None) -> list[Hit]:
    """Load the memories of a page, with snippets and details if the query is given."""
    rows = Memory.objects.with_details() if query is not None else Memory.objects.all()
    memories = rows.in_bulk([one.pk for one in page])
    return [
        Hit(memory, one.score, one.parts, _make_snippet(query, memory) if query is not None else "")
        for one in page
        if (memory := memories.get(one.pk))
    ]


def _make_snippet(query: Query, memory: Memory) -> str:
    """Return a snippet of the content, or of another field if only that one matches."""
    return snippet_of_first_match(query, (getattr(memory, name) for name in reversed(TEXT_FIELDS)))


def find_neighbours(memories: MemoryQuerySet, pks: Collection[int]) -> dict[int, Neighbours]:
    """Return the session neighbours, within the queryset, of memories that belong to a session. One query."""
    columns = memories.order_by().values("id", "session_id", "project", "created_at")
    try:
        sql, params = columns.query.sql_with_params()
    except EmptyResultSet:
        return {}
    return {
        pk: Neighbours(list(filter(None, keys[:MAX_DISTANCE])), list(filter(None, keys[MAX_DISTANCE:])))
        for pk, *keys in session_neighbours(sql, params, pks, MAX_DISTANCE)
    }


@dataclass(frozen=True)
class _Candidate:
    row: CandidateRow
    text_match: scoring.TextMatch
    signals: Signals


class _HybridRanking:
    """The candidates of one query, at least ``wanted`` if so many match, and the evidence for them.

    ``mode`` becomes lexical if vectors cannot be used. ``is_complete``: all matching memories are candidates.
    """

    def __init__(self, memories: MemoryQuerySet, query: Query, mode: SearchMode, wanted: int) -> None:
        self.memories, self.query = memories, query
        self.frequencies = load_term_frequencies(memories, query.words)
        self.pool = settings.MEMORYHUB.search_pool
        self.size = max(self.pool // POOL_DIVISOR, min(wanted, MAX_CANDIDATES))  # of each side
        self.semantic = SemanticSearch()
        if mode != "lexical":
            self.semantic = start_semantic_search(memories, query, self.frequencies, self.size)
        self.mode: SearchMode = "lexical" if self.semantic.failure else mode
        weights = scoring.term_weights(query, self.frequencies.of_stems, self.frequencies.total)
        self.matcher = scoring.QueryMatcher(query, weights)
        # In semantic mode words do not count.
        self.question = Question.of(query.typed, [0.0] * len(weights) if self.mode == "semantic" else weights)
        self.has_known_words = any(self.frequencies.of_stems.values())
        self.candidates: dict[int, _Candidate] = {}
        self.is_complete = True

    def score(self, weights: scoring.Weights, now: datetime) -> list[ScoredCandidate]:
        """Find and score candidates. The number of queries does not depend on the results."""
        self._add_candidates(weights)
        evidence = self._combine_with_neighbours()
        return [
            score_candidate(one.row, match, one.text_match, weights, now)
            for one in self.candidates.values()
            if (match := self._match(one, evidence[one.row.pk])) >= 0.00005
        ]

    def _add_candidates(self, weights: scoring.Weights) -> None:
        """Add candidates by words, and by vectors, which are compared in another thread meanwhile."""
        if self.mode != "semantic":
            effort = SearchEffort(max(self.pool, self.size))
            if self.mode == "hybrid":
                effort = SearchEffort(self.size, posted=MAX_POSTINGS, fewest=1, weighed=MAX_WORTH_ROWS)
            rows, self.is_complete = lexical.find_candidates(
                self.memories, self.query, self.frequencies, weights, effort
            )
            self._add_rows(rows.values())
        nearest = self.semantic.nearest.best
        self._add_keys(pk for pk, _ in nearest)
        if len(nearest) >= self.size and self._match_of_cosine(nearest[-1][1]) >= MIN_MATCH[self.mode]:
            self.is_complete = False

    def _combine_with_neighbours(self) -> dict[int, Evidence]:
        """Return the evidence for each candidate. Neighbours of the best become candidates too."""
        first = self._combine({})
        leaders = sorted(first, key=lambda pk: (-first[pk].match, -pk))[:MAX_LEADERS]
        neighbours = find_neighbours(self.memories, leaders) if leaders else {}
        self._add_keys(pk for one in neighbours.values() for pk in (*one.before, *one.after))
        return self._combine(scoring.link_both_ways(neighbours))

    def _match(self, candidate: _Candidate, evidence: Evidence) -> float:
        """Return the match, 0..1: that of the evidence, or of the words alone if that is higher."""
        if self.mode == "semantic":
            return evidence.match
        by_words = candidate.text_match.match
        if by_words < 1:
            by_words *= evidence.speaker_factor
        no_words = self.mode == "hybrid" and not self.has_known_words and not evidence.coverage
        if no_words and evidence.match < MIN_MATCH["hybrid"]:
            return 0.0  # the vector of words that no memory contains is hardly evidence
        return max(by_words, evidence.match)

    def _add_keys(self, pks: Iterable[int]) -> None:
        """Add memories by primary key, which the caller has limited to visible ones."""
        new = {pk for pk in pks if pk not in self.candidates}
        if new:
            self._add_rows(lexical.read_rows(Memory.objects.filter(pk__in=key_list(new))))

    def _add_rows(self, rows: Iterable[CandidateRow]) -> None:
        rows = list(rows)
        cosines = self.semantic.nearest.cosines([row.pk for row in rows])
        for row in rows:
            text_match = self.matcher.match(row.texts)
            signals = Signals(
                terms=text_match.terms,
                cosine=cosines.get(row.pk, 0.0),
                chars=len(row.content),
                speaker=scoring.parse_speaker(row.content),
                asks=scoring.ends_with_question(row.content),
            )
            self.candidates[row.pk] = _Candidate(row, text_match, signals)

    def _combine(self, neighbours: dict[int, Neighbours]) -> dict[int, Evidence]:
        signals = {pk: one.signals for pk, one in self.candidates.items()}
        return scoring.combine_evidence(self.question, signals, neighbours)

    def _match_of_cosine(self, cosine: float) -> float:
        """Return the match of a memory with this cosine, no matching words and no neighbours."""
        signals = {0: Signals((0.0,) * len(self.question.weights), cosine)}
        return scoring.combine_evidence(self.question, signals, {})[0].match
