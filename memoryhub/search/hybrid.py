"""Hybrid search: score visible memories by words and vectors, and the best also by text and neighbours.

Three steps: the words and the vectors score every visible row in NumPy arrays; the texts of the best rows
and of their neighbours in the session are read and compared closely; the details of one page are loaded.
:func:`search_snapshot` searches the memories of an earlier moment.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from django.conf import settings
from django.utils import timezone
from numpy.typing import NDArray

from memoryhub.backends import TEXT_COLUMNS
from memoryhub.backends import fts_query as queries
from memoryhub.backends.fts_query import Query, parse_query
from memoryhub.backends.vector_view import Keys, positions_of_highest
from memoryhub.memories.replacements import existing_keys
from memoryhub.memories.rows import embedding_text, load_memories
from memoryhub.memories.versions import Snapshot
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import lexical, scoring
from memoryhub.search.lexical import (
    RowScorer,
    Scores,
    TermMatches,
    best_positions,
    default_weights,
    match_texts,
    score_parts,
)
from memoryhub.search.prompts import clean_prompt, match_prompt, without_actions
from memoryhub.search.query_words import adapt_to_language, asks_for_time, find_periods
from memoryhub.search.scoring import Weights, composite_score
from memoryhub.search.semantic import SemanticMatches, match_meaning, prefer_similar, prefer_times
from memoryhub.search.text_matching import QueryMatcher, snippet_of_first_match
from memoryhub.search.visible_rows import Positions, VisibleRows

SearchMode: TypeAlias = Literal["hybrid", "lexical", "semantic"]
MAX_DISTANCE = len(scoring.NEIGHBOUR_WORD_SHARES)
POOL_DIVISOR = 5  # each measure finds this part of the pool
MAX_TITLES = 8  # memories with all words in the title that are candidates in any case
MAX_LEADERS = 60  # best candidates whose neighbours are read
# A weaker match is no result unless min_score is 0: it shares only common words, or its vector points in
# about the same direction, as the vectors of any two texts of one store do.
MIN_MATCH: dict[SearchMode, float] = {"lexical": 0.2, "semantic": 0.35, "hybrid": 0.4}
MIN_UNKNOWN_MATCH = 0.45  # by meaning alone, if no memory contains a word of the query: it may mean nothing
LEAST_MATCH = 0.00005  # a smaller one is 0.0000 in the answer
MAX_REORDERED = 1000


@dataclass(frozen=True)
class Hit:
    """One search result. ``components`` explain ``score``; ``snippet`` is safe HTML."""

    memory: Memory
    score: float
    components: scoring.Components
    snippet: str


@dataclass(frozen=True)
class SearchResults:
    """A page of results, best first. ``keys`` are all ``total`` candidates that passed ``min_score``.

    Of the keys, only the first ``MAX_REORDERED`` are certainly in order.
    If more memories match than are scored, ``total`` is not ``exact``. ``mode`` is the mode that ran: lexical
    if vectors could not be used, with the reason in ``failure``. ``note``: the vectors are incomplete.
    ``min_match``: the least match of a pin that comes first. ``model``: the embedding model. ``unknown``:
    words of the query that no row contains. ``suggestions``: corrected queries; if ``is_corrected``, the
    results are those of the first one.
    """

    hits: list[Hit] = field(default_factory=list)
    total: int = 0
    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64), compare=False)
    mode: SearchMode = "lexical"
    exact: bool = True
    took_ms: float = 0.0
    min_match: float = 0.0
    model: str = ""
    failure: str = ""
    note: str = ""
    unknown: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    is_corrected: bool = False

    @property
    def ids(self) -> list[int]:
        ids: list[int] = self.keys.tolist()
        return ids


def search_memories(
    memories: MemoryQuerySet,
    typed: str,
    *,
    limit: int | None = None,
    offset: int = 0,
    min_score: float | None = None,
    weights: scoring.Weights | None = None,
    order: scoring.Weights | None = None,
    now: datetime | None = None,
    mode: SearchMode = "hybrid",
    snippets: bool = True,
    is_prompt: bool = False,
    include_superseded: bool = False,
    pinned_first: bool = False,
) -> SearchResults:
    """Search ``memories``, a queryset of live rows that the caller can see.

    ``limit`` and ``min_score`` default to the configuration. ``weights`` decide what is found; ``order``, if
    given, are the weights by which the best ``MAX_REORDERED`` results are ordered and scored. ``is_prompt``:
    memories whose subject the text names match, however much else it says, and coincidences do not. Unless
    ``include_superseded``, a memory that another one replaces is not found, and its words find the
    replacement. ``pinned_first``: pinned results come before the others. Without ``snippets``, the hits have
    none. The number of queries does not depend on the results.
    """
    began = time.perf_counter()
    config = settings.MEMORYHUB
    limit = config.search_limit if limit is None else limit
    min_score = config.min_score if min_score is None else min_score
    query = queries.parse_query(clean_prompt(typed) if is_prompt else typed)
    query = adapt_to_language(without_actions(query) if is_prompt else query)
    if not query.terms:
        return SearchResults(mode=mode)
    now = now or timezone.now()
    words = TermMatches.load(memories, query, find_periods(query.text, now))
    ranking = Ranking(memories, words, mode)
    scorer = RowScorer(words.rows, weights or default_weights(), now)
    match = ranking.match_rows(scorer)
    if is_prompt:
        match = match_prompt(words, typed, match)
    if not include_superseded:
        match = words.rows.move_to_replacements(match)
    scores = scorer.scores(match)
    least_match, count = ranking.min_match if min_score else LEAST_MATCH, max(offset + limit, MAX_REORDERED)
    pinned = words.rows.pinned if pinned_first else None
    found = _best_first(scores, match, min_score, least_match, count, pinned)
    if order is not None:
        found, scores = _reorder(RowScorer(words.rows, order, now), found, match)
    if pinned_first:
        found = _pinned_first(found, words.rows, match, ranking.min_match)
    page = found[offset : offset + limit]
    return SearchResults(
        _load_hits(memories, page, scorer, scores, match, words.query if snippets else None),
        len(found),
        words.rows.pks[found],
        mode=ranking.mode,
        exact=ranking.is_exact,
        took_ms=round((time.perf_counter() - began) * 1000, 3),
        min_match=ranking.min_match,
        model=ranking.meaning.model,
        failure=ranking.meaning.failure,
        note=ranking.meaning.note,
        unknown=ranking.unknown_words,
    )


def _best_first(
    scores: Scores,
    match: Scores,
    min_score: float,
    min_match: float,
    count: int,
    pinned: NDArray[np.bool_] | None,
) -> Positions:
    """Return the rows with at least this score and match.

    The best ``count`` come first, in order, and those that are ``pinned``.
    """
    found = np.flatnonzero((scores >= min_score) & (np.round(match, 4) >= min_match))
    is_best = np.zeros(len(found), np.bool_) if pinned is None else pinned[found]
    is_best[positions_of_highest(scores[found], count)] = True
    return np.concatenate([_sort(found[is_best], scores, match), found[~is_best]])


def _sort(found: Positions, scores: Scores, match: Scores) -> Positions:
    """Sort rows by score, then match. The newest of equals is first."""
    return found[np.lexsort((-found, -match[found], -scores[found]))]


def _pinned_first(found: Positions, rows: VisibleRows, match: Scores, min_match: float) -> Positions:
    """Move the pinned rows with at least this match to the front."""
    first = rows.pinned[found] & (match[found] >= min_match)
    return found[np.argsort(~first, kind="stable")]


def _reorder(scorer: RowScorer, found: Positions, match: Scores) -> tuple[Positions, Scores]:
    """Order the best results by the weights of another scorer, and return the scores of all rows by them."""
    best = found[:MAX_REORDERED]
    scores = scorer.scores(match, best)
    return np.concatenate([_sort(best, scores, match), found[MAX_REORDERED:]]), scores


def _load_hits(
    memories: MemoryQuerySet,
    page: Positions,
    scorer: RowScorer,
    scores: Scores,
    match: Scores,
    query: Query | None,
) -> list[Hit]:
    """Load the memories at these positions, with snippets if a query is given."""
    pks = scorer.rows.pks[page].tolist()
    loaded = load_memories(pks, memories)
    return [
        Hit(memory, round(score, 4), parts, make_snippet(query, memory) if query is not None else "")
        for pk, score, parts in zip(pks, scores[page].tolist(), scorer.parts(page, match), strict=True)
        if (memory := loaded.get(pk))
    ]


def make_snippet(query: Query, memory: Memory) -> str:
    """Return a snippet of the content, or of another field if only that one matches."""
    return snippet_of_first_match(query, (getattr(memory, name) for name in reversed(TEXT_COLUMNS)))


class Ranking:
    """The match of every visible row with one query.

    ``mode`` becomes lexical if vectors cannot be used. ``is_exact``: every matching row was a candidate.
    """

    def __init__(self, memories: MemoryQuerySet, words: TermMatches, mode: SearchMode) -> None:
        self._memories, self._words = memories, words
        self._rows, self._query = rows, query = words.rows, words.query
        frequencies, phrases = words.frequencies, words.phrase_frequencies
        self._weights = scoring.term_weights(query, frequencies.of_stems, frequencies.total, phrases)
        self.meaning = SemanticMatches()
        if mode != "lexical":
            self.meaning = match_meaning(
                memories, rows, query, frequencies, self._best_by_words, self._is_known
            )
        self.mode: SearchMode = "lexical" if self.meaning.failure else mode
        # In semantic mode words do not count.
        weights = [0.0] * len(self._weights) if self.mode == "semantic" else self._weights
        self._question = scoring.Question.of(query.typed, weights)
        cosines = self.meaning.cosines
        # fmax ignores NaN: rows without a vector have 0.
        self._cosines = np.zeros(len(rows), np.float32) if cosines is None else np.fmax(cosines, 0)
        self.is_exact = True
        self._exact_positions: list[int] = []

    @property
    def unknown_words(self) -> tuple[str, ...]:
        known = set(self._words.known_words)
        return tuple(word for word in self._query.words if word not in known)

    @property
    def min_match(self) -> float:
        is_unknown = self._query.words and not self._words.known_words
        return MIN_UNKNOWN_MATCH if self.mode == "semantic" and is_unknown else MIN_MATCH[self.mode]

    def _is_known(self) -> bool:
        """Return whether a row contains a word of the query, or a term without words such as two kanji.

        So long a text in a script without spaces that it is not searched for completely counts as known.
        """
        literals = [term.literal for term in self._query.terms if not term.words]
        if self._words.known_words or len(literals) > lexical.MAX_SCANNED_LITERALS:
            return True
        return bool(literals) and len(self._substrings) > 0

    @cached_property
    def _scores_by_words(self) -> lexical.WordScores:
        return self._words.add_up(list(enumerate(self._weights)))

    def _best_by_words(self) -> list[int]:
        """Return the keys of the rows that match best by words, with the neighbours of the first."""
        match = self._scores_by_words.match
        best, _ = self._add_neighbours(best_positions(match, settings.MEMORYHUB.search_pool), match)
        keys: list[int] = self._rows.pks[best].tolist()
        return keys

    def _add_neighbours(self, candidates: Positions, match: Scores) -> tuple[Positions, list[scoring.Pairs]]:
        """Return the candidates with the session neighbours of the best ones, and the pairs of neighbours."""
        leaders = candidates[np.argsort(-match[candidates], kind="stable")][:MAX_LEADERS]
        pairs = self._rows.session_pairs(leaders, MAX_DISTANCE)
        return np.unique(np.concatenate([candidates, *(one for pair in pairs for one in pair)])), pairs

    def match_rows(self, scorer: RowScorer) -> Scores:
        """Return the match of every row: an estimate, replaced by a close comparison for the best rows."""
        words = self._scores_by_words
        if self.mode == "semantic":
            words = self._words.add_up(list(enumerate(self._question.weights)))
        by_words = words.match
        match = self._estimate(words, by_words)
        if self.mode == "semantic":
            by_words = match
        candidates = self._select_candidates(match, by_words, scorer)
        closely = self._select_texts(candidates, match, words)
        candidates, pairs = self._add_neighbours(np.union1d(candidates, closely), match)
        self.is_exact = len(candidates) >= int(np.count_nonzero(match >= MIN_MATCH[self.mode]))
        match[candidates] = self._compare(candidates, closely, by_words, pairs)
        if self._exact_positions:
            exact = np.maximum(match[self._exact_positions], scoring.EXACT_MATCH)
            match = np.minimum(match, scoring.LOOSE_MATCH)
            match[self._exact_positions] = exact
        if asks_for_time(self._query.text):
            match = prefer_times(self._rows, match)
        if self.mode == "hybrid" and self.meaning.cosines is not None and not self._exact_positions:
            match = prefer_similar(self._rows, match, self.meaning)
        return match

    def _estimate(self, words: lexical.WordScores, words_alone: Scores) -> Scores:
        """Return the match by words and vectors, without phrases, parts of words and neighbours."""
        total = sum(self._question.weights)
        coverage = words.shared / total * self._rows.length_factors if total else words.shared
        evidence = coverage + scoring.cosine_weight(total) * self._cosines
        by_evidence = 1 - np.exp(-scoring.MATCH_CURVE * evidence)
        match = np.maximum(by_evidence, words_alone)
        self._drop_weak_meaning(match, coverage)
        return np.asarray(match)

    def _drop_weak_meaning(self, match: Scores, coverage: Scores) -> None:
        """Set weak matches by meaning alone to 0 if no memory contains a word of the query.

        The vector of such words is hardly evidence.
        """
        if self.mode == "hybrid" and not self._words.known_words:
            match[(coverage == 0) & (match < MIN_MATCH["hybrid"])] = 0.0

    def _select_candidates(self, match: Scores, by_words: Scores, scorer: RowScorer) -> Positions:
        """Return the rows whose texts are compared: the best by each measure, and by parts of words."""
        size = settings.MEMORYHUB.search_pool // POOL_DIVISOR
        found = [best_positions(scorer.scores(match) * (match > 0), size)]
        found += [best_positions(by_words, size), best_positions(self._cosines, size)]
        # A memory with exactly this title can rank too low among many similar ones.
        return np.unique(np.concatenate([*found, self._words.best_titles(MAX_TITLES)]))

    def _select_texts(self, candidates: Positions, match: Scores, words: lexical.WordScores) -> Positions:
        """Return the rows whose texts are read: only those whose words can match better than the estimate."""
        if self.mode == "semantic":
            return np.empty(0, np.int64)
        highest = scoring.max_word_match(words.covered[candidates], words.total)
        improvable = (highest > match[candidates]) | bool(self._query.literals)
        return np.union1d(candidates[improvable], self._substrings)

    @cached_property
    def _substrings(self) -> Positions:
        """Rows that contain terms of the query inside words, or terms without words."""
        return lexical.find_substrings(self._memories, self._words, settings.MEMORYHUB.search_pool)

    def _compare(
        self, candidates: Positions, closely: Positions, by_words: Scores, pairs: Sequence[scoring.Pairs]
    ) -> Scores:
        """Return the match of each candidate by its words, its vector and its neighbours.

        Only the texts of the rows ``closely`` are read.
        """
        compared = match_texts(self._words, closely, self._weights)
        lines = np.searchsorted(candidates, closely)
        terms, by_words = self._words.shares(candidates), by_words[candidates]
        if compared:
            terms[lines] = np.maximum(
                [found.terms for found in compared], terms[lines] * self._words.is_dated
            )
            by_words[lines] = [found.match for found in compared]
        columns = self._rows.columns[candidates]
        speakers = self._rows.speakers(candidates)
        exact = self.meaning.exact(self._rows, candidates)
        cosines = self._cosines[candidates] if exact is None else np.fmax(exact, 0)
        signals = scoring.Signals(terms, cosines, columns["chars"], speakers, columns["asks"])
        links = [scoring.Pairs(*(np.searchsorted(candidates, side) for side in pair)) for pair in pairs]
        evidence = scoring.combine_evidence(self._question, signals, links)
        if self._query.is_literal and self.mode != "semantic":
            self._exact_positions = closely[[found.is_exact for found in compared]].tolist()
        return self._combine(by_words, evidence)

    def match_versions(self, versions: Sequence[Memory]) -> Scores:
        """Return the match of earlier versions of memories, which no index contains, without neighbours."""
        matcher = QueryMatcher(self._query, self._weights)
        found = [matcher.match({name: getattr(one, name) for name in TEXT_COLUMNS}) for one in versions]
        contents = [one.content for one in versions]
        signals = scoring.Signals(
            np.array([one.terms for one in found]),
            self.meaning.compare(self._rows, [embedding_text(one) for one in versions]),
            np.array([len(text) for text in contents]),
            [scoring.parse_speaker(text) for text in contents],
            np.zeros(len(versions), np.bool_),  # only neighbours of a question have a use for it
        )
        evidence = scoring.combine_evidence(self._question, signals, [])
        return self._combine(np.array([one.match for one in found]), evidence)

    def _combine(self, by_words: Scores, evidence: scoring.Evidence) -> Scores:
        """Return the match, 0..1: that of the evidence, or of the words alone if that is higher."""
        match = evidence.match
        if self.mode == "semantic":
            return match
        self._drop_weak_meaning(match, evidence.coverage)
        by_words = np.where(by_words < 1, by_words * evidence.speaker_factor, by_words)
        return np.maximum(by_words, match)


def search_snapshot(
    snapshot: Snapshot,
    typed: str,
    *,
    limit: int,
    offset: int = 0,
    min_score: float | None = None,
    mode: SearchMode = "hybrid",
    snippets: bool = True,
    include_superseded: bool = False,
    order: Weights | None = None,
    pinned_first: bool = False,
    now: datetime | None = None,
    **options: Any,
) -> SearchResults:
    """Search the memories of a moment. The options are those of :func:`search_memories`; ``now`` is not used.

    Rows that did not change since are found by the indexes. Earlier versions of the others are compared one
    by one, by the same formulas but without the neighbours in their session.
    """
    min_score = settings.MEMORYHUB.min_score if min_score is None else min_score
    versions, rows = snapshot.versions, snapshot.rows
    if not include_superseded:
        rows, versions = _without_replaced(rows, versions)
    found = search_memories(
        rows,
        typed,
        limit=offset + limit,
        now=snapshot.moment,
        min_score=min_score,
        mode=mode,
        snippets=snippets,
        include_superseded=include_superseded,
        order=order,
        pinned_first=pinned_first,
        **options,
    )
    snapshot = replace(snapshot, rows=rows, versions=versions)
    hits = found.hits + _find_versions(snapshot, typed, mode, min_score, order, snippets=snippets)
    _sort_hits(hits, found.min_match if pinned_first else None)
    return replace(
        found,
        hits=hits[offset : offset + limit],
        total=found.total + len(hits) - len(found.hits),
        keys=np.union1d(found.keys, np.array([hit.memory.pk for hit in hits], np.int64)),
        exact=found.exact and snapshot.is_complete,
    )


def _without_replaced(
    rows: MemoryQuerySet, versions: Sequence[Memory]
) -> tuple[MemoryQuerySet, list[Memory]]:
    """Return the rows and versions without those that another one of them replaces.

    A replacement that is hidden or did not exist at the moment is not one of them.
    """
    keys = [one.pk for one in versions]
    replacements = existing_keys(rows, (one.superseded_by_id for one in versions)).union(keys)
    kept = [one for one in versions if one.superseded_by_id not in replacements]
    return rows.exclude(superseded_by__in=keys), kept


def _sort_hits(hits: list[Hit], min_pin_match: float | None) -> None:
    """Sort by score, after the pinned hits with at least the match, if there is one."""

    def comes_first(hit: Hit) -> bool:
        return min_pin_match is not None and hit.memory.pinned and hit.components.match >= min_pin_match

    hits.sort(key=lambda hit: (not comes_first(hit), -hit.score, -hit.memory.pk))


def _find_versions(
    snapshot: Snapshot,
    typed: str,
    mode: SearchMode,
    min_score: float,
    order: Weights | None,
    *,
    snippets: bool,
) -> list[Hit]:
    """Return the versions that match, with scores in the order's weights."""
    query = adapt_to_language(parse_query(typed))
    if not snapshot.versions or not query.terms:
        return []
    periods = find_periods(query.text, snapshot.moment)
    ranking = Ranking(snapshot.rows, TermMatches.load(snapshot.rows, query, periods), mode)
    hits = []
    for version, match in zip(
        snapshot.versions, ranking.match_versions(snapshot.versions).tolist(), strict=True
    ):
        parts = score_parts(version, match, snapshot.moment)
        if parts.match < (ranking.min_match if min_score else LEAST_MATCH):
            continue
        if composite_score(parts, default_weights()) < min_score:
            continue
        score = composite_score(parts, order or default_weights(), version.accessed_count)
        hits.append(Hit(version, score, parts, make_snippet(query, version) if snippets else ""))
    return hits
