"""Lexical search: candidates from the full-text indexes behind the access filter."""

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
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search import scoring
from memoryhub.search.term_frequencies import TermFrequencies

TEXT_FIELDS = ("title", "subtitle", "abstract", "overview", "content")


class CandidateRow(NamedTuple):
    """The columns of a candidate."""

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
    """A candidate: its score, what that is made of, and what of the query it holds."""

    pk: int
    score: float
    parts: scoring.Components
    held: scoring.TextMatch


def score_candidate(
    row: CandidateRow, match: float, held: scoring.TextMatch, weights: scoring.Weights, now: datetime
) -> ScoredCandidate:
    """The composite score of a row that matches so well."""
    age = (now - row.updated_at).total_seconds() / 86_400
    parts = scoring.Components(
        match=round(match, 4),
        recency=round(scoring.recency(age, settings.MEMORYHUB.recency_half_life_days), 4),
        importance=row.importance,
        trust=row.trust,
    )
    return ScoredCandidate(row.pk, round(scoring.composite_score(parts, weights), 4), parts, held)


MAX_TITLE_ROWS = (
    5000  # rows that are looked through for a title; a word in more of them is no title to look for
)
MAX_WORTH_ROWS = 4096  # matching memories of which each one's worth is weighed
UNFILTERED_FACTOR = 1.25  # times the pool: the best of all memories, of which some may be hidden
# Of a query. What holds no more of it is no result, unless the score may be 0.
MAX_SPARED_SHARE = 0.2


@dataclass(frozen=True)
class SearchEffort:
    """How much is looked at.

    ``pool``: about how many candidates are scored. ``spare``: a memory that holds no more than this share of
    the query need not be found. ``posted``: of words that together stand in more memories than this, the
    most common are not looked for by themselves, down to so many as ``fewest`` says. ``weighed``: matching
    memories up to which each one's worth is weighed when they are more than the pool. ``thorough``: titles
    are compared as a whole, and names, and words that stand nowhere, are looked for inside words even where
    the rest of the query is found.
    """

    pool: int
    spare: float = MAX_SPARED_SHARE
    posted: float = math.inf
    fewest: int = 2
    weighed: int = MAX_WORTH_ROWS
    thorough: bool = True


def rank_by_words(
    memories: MemoryQuerySet,
    query: Query,
    weights: scoring.Weights,
    now: datetime,
    *,
    effort: SearchEffort,
    counted: TermFrequencies,
    beside: MemoryQuerySet | None = None,
    clauses: Sequence[Query] = (),
    least: int = 0,
) -> list[ScoredCandidate]:
    """The candidates that hold anything of the query with their scores, in no order.

    ``counted``: the frequencies of its words. ``beside``: more candidates, that were found another way.
    ``clauses``: parts of the query; who answers one of them has answered. ``least``: no term weighs more than
    one that so many memories hold.
    """
    if not query.terms:
        return []
    known = {stem(word): max(counted.of(word), least) for word in query.words}
    matcher = scoring.QueryMatcher(query, scoring.term_weights(query, known, counted.total), clauses)
    rows, _ = find_candidates(memories, query, counted, weights, effort)
    if beside is not None:
        rows |= {row.pk: row for row in read_rows(beside) if row.pk not in rows}
    weighed = ((row, matcher.weigh(row.texts)) for row in rows.values())
    return [
        score_candidate(row, held.match, held, weights, now)
        for row, held in weighed
        if round(held.match, 4) > 0
    ]


def read_rows(memories: MemoryQuerySet) -> list[CandidateRow]:
    """The rows of a queryset as they are scored."""
    return [CandidateRow(*row) for row in memories.values_list(*CandidateRow._fields)]


def find_candidates(
    memories: MemoryQuerySet,
    query: Query,
    counted: TermFrequencies,
    weights: scoring.Weights,
    effort: SearchEffort,
) -> tuple[dict[int, CandidateRow], bool]:
    """The rows worth scoring, by primary key, and whether no row was left out that matches.

    By words; by substring for what is no word; by a scan as a last resort. Where more rows match than are
    scored, those with the best bm25 are joined by those of most worth: a good match that is new, important
    and trusted may beat a better one that is not. Among very many these are the last ones stored, because
    weighing each would cost more than the search.
    """
    # Only the speed depends on this comparison with the whole store: both plans find the same rows.
    found = _CandidatePool(memories, effort.pool, ahead=2 * counted.total > last_memory_key())
    known = [word for word in query.words if counted.of(word)]
    if known:
        _add_indexed_words(found, query, known, counted, weights, effort)
    substrings = query.spellings(_substring_literals(query, known, effort))
    found.take(memories.containing(substrings))
    if not found.rows:  # known words stand in no memory within reach; they may stand inside other words there
        found.take(memories.containing(query.spellings(query.words)))
    for literal in _literals_to_scan(substrings, found.rows.values())[:3]:
        found.take(memories.holding(literal))
    return found.rows, found.exact


class _CandidatePool:
    """Rows within reach, and whether none was left out of what was asked for."""

    def __init__(self, memories: MemoryQuerySet, pool: int, *, ahead: bool) -> None:
        self.memories, self.pool, self.ahead = memories, pool, ahead
        self.rows: dict[int, CandidateRow] = {}
        self.exact = True

    def take(self, memories: MemoryQuerySet, most: int = 0) -> None:
        """The first ``most`` of a queryset, or as many as the pool holds."""
        self._add(read_rows(memories[: most or self.pool]), most or self.pool)

    def best(self, asked: _IndexQuery) -> None:
        """The best that the word index has, as many as the pool holds."""
        self._add(_best_rows(self.memories, asked, self.pool, ahead=self.ahead), self.pool)

    def _add(self, rows: list[CandidateRow], most: int) -> None:
        self.exact = self.exact and len(rows) < most
        for row in rows:
            self.rows.setdefault(row.pk, row)


def _add_indexed_words(
    found: _CandidatePool,
    query: Query,
    known: list[str],
    counted: TermFrequencies,
    weights: scoring.Weights,
    effort: SearchEffort,
) -> None:
    """By words that stand in memories within reach."""
    telling = _selective_words(known, counted, effort)
    for asked in _index_queries(known, telling, counted, effort):
        found.best(asked)
    if not found.exact:
        matching = found.memories.matching(queries.match_any(telling))
        few = sum(map(counted.of, telling)) <= effort.weighed
        worth = (weights.recency, weights.importance, weights.trust)
        found.take(
            matching.worthiest(*worth) if few else matching.order_by("-text_index__pk"), effort.pool // 4
        )
    if effort.thorough and len(found.rows) >= effort.pool and min(map(counted.of, known)) <= MAX_TITLE_ROWS:
        # Among so many the one with this very title may rank too low.
        found.take(found.memories.titled(query.typed))


class _IndexQuery(NamedTuple):
    """What the word index is asked: an expression, and whether for the best by bm25 or for the newest."""

    expression: str
    by: Literal["rank", "rowid"] = "rank"


def _index_queries(
    known: list[str], telling: list[str], counted: TermFrequencies, effort: SearchEffort
) -> list[_IndexQuery]:
    """To order all that hold a common word by bm25 is most of what a search costs, and tells little.

    Where it is too much, they are asked for together with another word of the query; and where the rarest
    word is too common by itself, for the newest that hold all words, and for those with it in the title.
    """
    either = queries.match_any(telling)
    others = [word for word in known if word not in telling]
    if math.isinf(effort.posted) or effort.fewest > 1:
        return [_IndexQuery(either)]
    if sum(map(counted.of, telling)) > effort.posted:
        every = " AND ".join(queries.match_any([word]) for word in known)
        titled = _IndexQuery(f"title : ({either})", "rowid")
        return [_IndexQuery(every, "rowid"), titled] if others else [titled]
    return (
        [_IndexQuery(f"({either}) AND ({queries.match_any(others)})"), _IndexQuery(either)]
        if others
        else [_IndexQuery(either)]
    )


def _best_rows(memories: MemoryQuerySet, asked: _IndexQuery, most: int, *, ahead: bool) -> list[CandidateRow]:
    """The best behind the gate.

    ``ahead``: the index alone names the best of all first, several times faster than together with the
    gate; where too many of them are hidden, both are asked together.
    """
    if ahead:
        wanted = int(UNFILTERED_FACTOR * most)
        first = top_rows(asked.expression, wanted, by=asked.by)
        seen = {row.pk: row for row in read_rows(memories.order_by().filter(pk__in=key_list(first)))}
        best = [seen[pk] for pk in first if pk in seen][:most]
        if len(best) == most or len(first) < wanted:
            return best
    together = memories.matching(asked.expression)
    return read_rows((together if asked.by == "rank" else together.order_by("-text_index__pk"))[:most])


def _substring_literals(query: Query, known: list[str], effort: SearchEffort) -> list[str]:
    """What is looked for inside words: what is no word itself, and what stands nowhere as one."""
    runs = queries.cjk_trigrams(query.text)
    if not effort.thorough:
        return [*(term.literal for term in query.terms if term.literal and not term.stems), *runs]
    return [*query.literals, *runs, *(word for word in query.words if word not in known)]


def _literals_to_scan(substrings: list[str], found: Collection[CandidateRow]) -> list[str]:
    """What is too short for the trigram index and in no candidate yet: a scan is worth its time only then.

    A lone mark beside words that were found (``a -> b``) is not worth it.
    """
    short = [text for text in substrings if len(text) < queries.TRIGRAM_LENGTH]
    if not found or not short:
        return short
    texts = [fold(" ".join(row.texts.values())) for row in found]
    return [one for one in short if any(map(str.isalnum, one)) and not any(one in text for text in texts)]


def _selective_words(words: list[str], counted: TermFrequencies, effort: SearchEffort) -> list[str]:
    """The words without the most common ones, as long as those weigh little together.

    A memory that holds only these would score too low, and reading their long posting lists is most of what
    a search costs.
    """
    weights = {word: scoring.idf(counted.of(word), counted.total) for word in words}
    spare = effort.spare * sum(weights.values())
    kept = sorted(words, key=lambda word: weights[word])
    while len(kept) > 1 and weights[kept[0]] <= spare:
        spare -= weights[kept.pop(0)]
    posted = sum(map(counted.of, kept))
    while len(kept) > effort.fewest and posted > effort.posted:
        posted -= counted.of(kept.pop(0))
    return kept
