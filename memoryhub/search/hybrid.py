"""Hybrid search: candidates by words and by meaning, weighed with their session neighbours, best first."""

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
from memoryhub.core.text import stem
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import lexical, scoring
from memoryhub.search.lexical import TEXT_FIELDS, CandidateRow, ScoredCandidate, SearchEffort, score_candidate
from memoryhub.search.scoring import NEIGHBOUR_WORD_SHARES, Evidence, Neighbours, Question, Signals
from memoryhub.search.semantic import SemanticSearch, start_semantic_search
from memoryhub.search.snippets import snippet_of_first_match
from memoryhub.search.term_frequencies import TermFrequencies, load_term_frequencies

MAX_DISTANCE = len(NEIGHBOUR_WORD_SHARES)


def find_neighbours(memories: MemoryQuerySet, pks: Collection[int]) -> dict[int, Neighbours]:
    """For those that lie in a session, its neighbours of the queryset, the nearest first. One query."""
    columns = memories.order_by().values("id", "session_id", "project", "created_at")
    try:
        sql, params = columns.query.sql_with_params()
    except EmptyResultSet:
        return {}
    return {
        pk: Neighbours(
            [one for one in around[:MAX_DISTANCE] if one], [one for one in around[MAX_DISTANCE:] if one]
        )
        for pk, *around in session_neighbours(sql, params, pks, MAX_DISTANCE)
    }


SearchMode: TypeAlias = Literal["hybrid", "lexical", "semantic"]
# Where both sides look, words that are in more memories than this together are left to the vectors.
MAX_POSTINGS = 5_000
POOL_DIVISOR = 5  # of the pool a fifth each is found by words and by meaning; neighbours come beside them
MAX_CANDIDATES = 1000  # candidates of each side, whatever is asked for
MAX_WORTH_ROWS = 1000  # matching memories of which each one's worth is weighed, where both sides look
MAX_LEADERS = 24  # the best by themselves, whose neighbours are looked at
# Below this a memory is no result, unless the score may be 0: common words were shared and nothing more, or
# the vectors point about the same way, as those of any two texts of one store do.
MIN_MATCH: dict[SearchMode, float] = {"lexical": 0.2, "semantic": 0.35, "hybrid": 0.4}


@dataclass(frozen=True)
class RankedCandidates:
    """The candidates in no order, whether they are all that match, and how they were found.

    ``failure``: why vectors could not be used, though they were asked for; ``note``: what they lack yet.
    """

    scored: list[ScoredCandidate]
    exact: bool
    mode: SearchMode
    model: str = ""
    failure: str = ""
    note: str = ""


@dataclass(frozen=True)
class _Candidate:
    row: CandidateRow
    words: scoring.TextMatch
    held: Signals


def rank_candidates(
    memories: MemoryQuerySet,
    query: Query,
    weights: scoring.Weights,
    now: datetime,
    mode: SearchMode,
    wanted: int = 0,
) -> RankedCandidates:
    """Weigh what answers a query: so many as are ``wanted``, at least, where so many match.

    The number of queries does not depend on the results.
    """
    counted = load_term_frequencies(memories, query.words)
    pool = settings.MEMORYHUB.search_pool
    each = max(pool // POOL_DIVISOR, min(wanted, MAX_CANDIDATES))
    near = SemanticSearch() if mode == "lexical" else start_semantic_search(memories, query, counted, each)
    if near.failure:
        mode = "lexical"
    weighing = _HybridRanking(memories, query, counted, near, mode)
    light = SearchEffort(each, posted=MAX_POSTINGS, fewest=1, weighed=MAX_WORTH_ROWS)
    exact = weighing.take_both(weights, SearchEffort(max(pool, each)) if mode == "lexical" else light, each)
    found = weighing.with_neighbours()
    scored = [
        score_candidate(one.row, match, one.words, weights, now)
        for one in weighing.candidates.values()
        if (match := weighing.match(one, found[one.row.pk])) >= 0.00005
    ]
    return RankedCandidates(scored, exact, mode, near.model, near.failure, near.note)


class _HybridRanking:
    """One query at work."""

    def __init__(
        self,
        memories: MemoryQuerySet,
        query: Query,
        counted: TermFrequencies,
        near: SemanticSearch,
        mode: SearchMode,
    ) -> None:
        self.memories, self.query, self.counted, self.mode = memories, query, counted, mode
        self.meaning = near
        frequencies = {stem(word): counted.of(word) for word in query.words}
        term_weights = scoring.term_weights(query, frequencies, counted.total)
        self.matcher = scoring.QueryMatcher(query, term_weights)
        # By meaning alone no word counts.
        self.asked = Question.of(
            query.typed, [0.0] * len(term_weights) if mode == "semantic" else term_weights
        )
        self.known = any(counted.of_stems.values())
        self.candidates: dict[int, _Candidate] = {}

    def take_both(self, weights: scoring.Weights, effort: SearchEffort, most: int) -> bool:
        """Take what words and (``most`` at most) what vectors found; whether no more would match."""
        exact = True
        if self.mode != "semantic":  # the vectors are being compared meanwhile
            rows, exact = lexical.find_candidates(self.memories, self.query, self.counted, weights, effort)
            self._take(rows.values())
        best = self.meaning.near.best
        self._take_keys(pk for pk, _ in best)
        if len(best) >= most:
            exact = exact and self._alone(best[-1][1]) < MIN_MATCH[self.mode]
        return exact

    def with_neighbours(self) -> dict[int, Evidence]:
        """The evidence for each candidate; the neighbours of the best become candidates too."""
        first = self._evidence({})
        leaders = sorted(first, key=lambda pk: (-first[pk].match, -pk))[:MAX_LEADERS]
        around = find_neighbours(self.memories, leaders) if leaders else {}
        self._take_keys(pk for one in around.values() for pk in (*one.before, *one.after))
        links = scoring.link_both_ways(around)
        return self._evidence(links)

    def match(self, one: _Candidate, found: Evidence) -> float:
        """0..1: what the evidence says, or what the words say by themselves if that is more."""
        if self.mode == "semantic":
            return found.match
        own = one.words.match if one.words.match >= 1 else one.words.match * found.voice
        if self.mode == "lexical":
            return max(own, found.match)
        if not self.known and not found.coverage and found.match < MIN_MATCH[self.mode]:
            return 0.0  # of words that nobody used a vector says next to nothing
        return max(own, found.match)

    def _take_keys(self, pks: Iterable[int]) -> None:
        """Of memories that were found behind the gate."""
        new = {pk for pk in pks if pk not in self.candidates}
        if new:
            self._take(lexical.read_rows(Memory.objects.filter(pk__in=key_list(new))))

    def _take(self, rows: Iterable[CandidateRow]) -> None:
        rows = list(rows)
        cosines = self.meaning.near.cosines([row.pk for row in rows])
        for row in rows:
            words = self.matcher.weigh(row.texts)
            held = Signals(
                terms=words.terms,
                cosine=cosines.get(row.pk, 0.0),
                chars=len(row.content),
                speaker=scoring.parse_speaker(row.content),
                asks=scoring.ends_with_question(row.content),
            )
            self.candidates[row.pk] = _Candidate(row, words, held)

    def _evidence(self, around: dict[int, scoring.Neighbours]) -> dict[int, Evidence]:
        held = {pk: one.held for pk, one in self.candidates.items()}
        return scoring.combine_evidence(self.asked, held, around)

    def _alone(self, cosine: float) -> float:
        """The match of a memory that is near and nothing else."""
        return scoring.combine_evidence(
            self.asked, {0: Signals((0.0,) * len(self.asked.weights), cosine)}, {}
        )[0].match


@dataclass(frozen=True)
class Hit:
    """One result; ``score`` is explained by ``components``; ``snippet`` is safe HTML."""

    memory: Memory
    score: float
    components: scoring.Components
    snippet: str


@dataclass(frozen=True)
class SearchResults:
    """Best first. ``total`` counts the candidates that passed ``min_score``; ``ids`` are all of them.

    A query that many memories match has more of them than are scored: then ``total`` is not ``exact``.
    ``mode`` is what was done; it is lexical where vectors could not be used, and ``failure`` says why.
    ``note``: what the vectors lack yet. ``model``: what made them.
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
    """Search within ``memories``, which the caller has gated, filtered and limited to live ones.

    ``limit`` and ``min_score`` default to the configuration. Without ``snippets`` those of the hits are empty
    and the lists of their memories (labels, files, entities) are not read. The number of queries does not
    depend on the results.
    """
    began = time.perf_counter()
    config = settings.MEMORYHUB
    limit = config.search_limit if limit is None else limit
    floor = config.min_score if min_score is None else min_score
    query = queries.parse_query(typed)
    if not query.terms:
        return SearchResults(mode=mode)
    found = rank_candidates(
        memories, query, weights or default_weights(), now or timezone.now(), mode, offset + limit
    )
    least = MIN_MATCH[found.mode] if floor else 0.0
    scored = [one for one in found.scored if one.score >= floor and one.parts.match >= least]
    scored.sort(key=lambda one: (-one.score, -one.parts.match, -one.pk))
    return SearchResults(
        _load_hits(scored[offset : offset + limit], query if snippets else None),
        len(scored),
        [one.pk for one in scored],
        mode=found.mode,
        exact=found.exact,
        took_ms=round((time.perf_counter() - began) * 1000, 3),
        model=found.model,
        failure=found.failure,
        note=found.note,
    )


def default_weights() -> scoring.Weights:
    """LetsGo's ranking, as configured."""
    config = settings.MEMORYHUB
    return scoring.Weights(
        config.match_weight, config.recency_weight, config.importance_weight, config.trust_weight
    )


def _load_hits(page: list[ScoredCandidate], query: Query | None) -> list[Hit]:
    """With snippets and all that belongs to a memory if the query is given, else bare."""
    rows = Memory.objects.with_details() if query is not None else Memory.objects.all()
    memories = rows.in_bulk([one.pk for one in page])
    return [
        Hit(memory, one.score, one.parts, _make_snippet(query, memory) if query is not None else "")
        for one in page
        if (memory := memories.get(one.pk))
    ]


def _make_snippet(query: Query, memory: Memory) -> str:
    """Of the content; of the first other text that holds what was looked for when the content does not."""
    return snippet_of_first_match(query, (getattr(memory, name) for name in reversed(TEXT_FIELDS)))
