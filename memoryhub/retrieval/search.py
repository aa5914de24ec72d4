"""Search: candidates from the indexes behind gate and filters, ordered by the composite score."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.utils import timezone

from memoryhub.models import Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval import scoring
from memoryhub.retrieval.snippets import snippet
from memoryhub.search import query as queries
from memoryhub.search.query import Query
from memoryhub.search.schema import document_frequencies
from memoryhub.text import fold, stem

TEXTS = ("title", "subtitle", "abstract", "overview", "content")
_SCORED = ("pk", "updated_at", "importance", "trust", *TEXTS)
# Below this a common word was shared and nothing more; such a memory is a result only for min_score 0.
RELEVANT_MATCH = 0.05
MOST_TITLES = 5000  # rows that are looked through for a title; a word in more of them is no title to look for
RARE = 64  # memories; a word in more of them is common
MOST_WEIGHED = 4096  # matching memories of which each one's worth is weighed
FEWEST = 2  # words that are looked for, however common
COMMON_SHARE = 0.2  # of a query; squared and times the best quality this is less than RELEVANT_MATCH


@dataclass(frozen=True)
class Hit:
    """One result; ``score`` is explained by ``components``; ``snippet`` is safe HTML."""

    memory: Memory
    score: float
    components: scoring.Components
    snippet: str


@dataclass(frozen=True)
class Results:
    """Best first. ``total`` counts the candidates that passed ``min_score``; ``ids`` are all of them.

    A query that many memories match has more of them than are scored: then ``total`` is not ``exact``.
    """

    hits: list[Hit] = field(default_factory=list)
    total: int = 0
    ids: list[int] = field(default_factory=list)
    mode: str = "lexical"
    exact: bool = True
    took_ms: float = 0.0


@dataclass(frozen=True)
class Scored:
    """A candidate: its score, what that is made of, and what of the query it holds."""

    pk: int
    score: float
    parts: scoring.Components
    held: scoring.Weighed


@dataclass(frozen=True)
class Effort:
    """How much is looked at.

    ``pool``: about how many candidates are scored. ``spare``: a memory that holds no more than this share of
    the query need not be found. ``posted``: of words that together stand in more memories than this, the
    most common are not looked for, down to two. ``weighed``: matching memories up to which each one's worth
    is weighed when they are more than the pool. ``thorough``: titles are compared as a whole, and names, and
    words that stand nowhere, are looked for inside words even where the rest of the query is found.
    """

    pool: int
    spare: float = COMMON_SHARE
    posted: float = math.inf
    weighed: int = MOST_WEIGHED
    thorough: bool = True


def search(
    memories: MemoryQuerySet,
    typed: str,
    *,
    limit: int | None = None,
    offset: int = 0,
    min_score: float | None = None,
    weights: scoring.Weights | None = None,
    now: datetime | None = None,
) -> Results:
    """Search within ``memories``, which the caller has gated, filtered and limited to live ones.

    ``limit`` and ``min_score`` default to the configuration. The number of queries does not depend on the
    results.
    """
    began = time.perf_counter()
    config = settings.MEMORYHUB
    limit = config.search_limit if limit is None else limit
    floor = config.min_score if min_score is None else min_score
    query = queries.parse(typed)
    ranking = weights or default_weights()
    found, exact = rank(memories, query, ranking, now or timezone.now())
    scored = [
        one for one in found if one.score >= floor and (floor == 0 or one.parts.match >= RELEVANT_MATCH)
    ]
    scored.sort(key=lambda one: (-one.score, -one.parts.match, -one.pk))
    hits = _hits(scored[offset : offset + limit], query)
    took = round((time.perf_counter() - began) * 1000, 3)
    return Results(hits, len(scored), [one.pk for one in scored], exact=exact, took_ms=took)


def default_weights() -> scoring.Weights:
    """LetsGo's ranking, as configured."""
    config = settings.MEMORYHUB
    return scoring.Weights(
        config.match_weight, config.recency_weight, config.importance_weight, config.trust_weight
    )


def rank(
    memories: MemoryQuerySet,
    query: Query,
    weights: scoring.Weights,
    now: datetime,
    *,
    effort: Effort | None = None,
    beside: MemoryQuerySet | None = None,
    clauses: Sequence[Query] = (),
    counted: tuple[dict[str, int], int] | None = None,
    least: int = 0,
) -> tuple[list[Scored], bool]:
    """The candidates with their scores, in no order, and whether they are all that match.

    ``beside``: more of them, that were found another way. ``clauses``: parts of the query; who answers one
    of them has answered.
    ``counted``: what :func:`frequencies_of` said of its words, if that is known already. ``least``: no term
    weighs more than one that so many memories hold.
    """
    if not query.terms:
        return [], True
    frequencies, total = counted or frequencies_of(memories, query.words)
    weighed = {stem(word): max(frequencies.get(stem(word), 0), least) for word in query.words}
    matcher = scoring.Matcher(query, scoring.term_weights(query, weighed, total), clauses)
    effort = effort or Effort(settings.MEMORYHUB.search_pool)
    rows, exact = _candidates(memories, query, frequencies, total, weights, effort)
    if beside is not None:
        known = {row[0] for row in rows}
        rows += [row for row in beside.values_list(*_SCORED) if row[0] not in known]
    half_life = settings.MEMORYHUB.recency_half_life_days
    scored = []
    for row in rows:
        pk, updated_at, importance, trust, *texts = row
        held = matcher.weigh(dict(zip(TEXTS, texts, strict=True)))
        parts = scoring.Components(
            match=round(held.match, 4),
            recency=round(scoring.recency((now - updated_at).total_seconds() / 86_400, half_life), 4),
            importance=importance,
            trust=trust,
        )
        if parts.match > 0:
            scored.append(Scored(pk, round(scoring.composite(parts, weights), 4), parts, held))
    return scored, exact


def frequencies_of(memories: MemoryQuerySet, words: Collection[str]) -> tuple[dict[str, int], int]:
    """For each stem about how many memories hold it, and about how many memories there are.

    The index counts all of them, and a score must not show that a word stands in a memory one may not
    see. So a rare word is counted again among those within reach, and a common one is told to the next
    power of two.
    """
    counted, total = document_frequencies([stem(word) for word in words]) if words else ({}, 0)
    rare = [word for word in words if 0 < counted.get(stem(word), 0) <= RARE]
    recounted = dict(zip(rare, _counts(memories, rare), strict=True))
    frequencies = {
        stem(word): recounted[word] if word in recounted else _rounded(counted.get(stem(word), 0))
        for word in words
    }
    return frequencies, _rounded(total)


def _counts(memories: MemoryQuerySet, words: list[str]) -> list[int]:
    """How many of the memories hold each word, in one statement for all of them."""
    if not words:
        return []
    stand_in = queries.any_of(["any word"])
    try:
        sql, params = memories.matching(stand_in).order_by().values("pk").query.sql_with_params()
    except EmptyResultSet:  # nothing is within reach
        return [0] * len(words)
    expressions = [queries.any_of([word]) for word in words]
    filled = [[one if value == stand_in else value for value in params] for one in expressions]
    statement = " UNION ALL ".join(f"SELECT {n}, count(*) FROM ({sql})" for n in range(len(words)))  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(statement, [value for values in filled for value in values])
        found = dict(cursor.fetchall())
    return [found[n] for n in range(len(words))]


def _rounded(number: int) -> int:
    """The next power of two, 0 for 0."""
    return 1 << (number - 1).bit_length() if number else 0


def _candidates(
    memories: MemoryQuerySet,
    query: Query,
    frequencies: dict[str, int],
    total: int,
    weights: scoring.Weights,
    effort: Effort,
) -> tuple[list[tuple[Any, ...]], bool]:
    """The rows worth scoring, and whether no row was left out that matches.

    By words; by substring for what is no word; by a scan as a last resort. Where more rows match than are
    scored, those with the best bm25 are joined by those of most worth: a good match that is new, important
    and trusted may beat a better one that is not. Among very many these are the last ones stored, because
    weighing each would cost more than the search.
    """
    found: dict[int, tuple[Any, ...]] = {}
    exact, pool = True, effort.pool

    def take(rows: MemoryQuerySet, most: int = pool) -> None:
        nonlocal exact
        taken = list(rows.values_list(*_SCORED)[:most])
        exact = exact and len(taken) < most
        for row in taken:
            found.setdefault(row[0], row)

    known = [word for word in query.words if frequencies.get(stem(word))]
    if known:
        telling = _telling(known, frequencies, total, effort)
        matching = memories.matching(queries.any_of(telling))
        take(matching)
        if not exact:
            few = sum(frequencies[stem(word)] for word in telling) <= effort.weighed
            worth = (weights.recency, weights.importance, weights.trust)
            take(matching.worthiest(*worth) if few else matching.order_by("-text_index__pk"), pool // 4)
    if (
        effort.thorough
        and len(found) >= pool
        and min(frequencies[stem(word)] for word in known) <= MOST_TITLES
    ):
        take(memories.titled(query.typed))  # among so many the one with this very title may rank too low
    substrings = query.spellings(_inside(query, known, effort))
    take(memories.containing(substrings))
    if not found:  # known words stand in no memory within reach; they may stand inside other words there
        take(memories.containing(query.spellings(query.words)))
    for literal in _unseen(substrings, found.values())[:3]:
        take(memories.holding(literal))
    return list(found.values()), exact


def _inside(query: Query, known: list[str], effort: Effort) -> list[str]:
    """What is looked for inside words: what is no word itself, and what stands nowhere as one."""
    runs = queries.cjk_runs(query.text)
    if not effort.thorough:
        return [*(term.literal for term in query.terms if term.literal and not term.stems), *runs]
    return [*query.literals, *runs, *(word for word in query.words if word not in known)]


def _unseen(substrings: list[str], found: Collection[tuple[Any, ...]]) -> list[str]:
    """What is too short for the trigram index and in no candidate yet: a scan is worth its time only then.

    A lone mark beside words that were found (``a -> b``) is not worth it.
    """
    short = [text for text in substrings if len(text) < queries.TRIGRAM]
    if not found or not short:
        return short
    texts = [fold(" ".join(row[-len(TEXTS) :])) for row in found]
    return [one for one in short if any(map(str.isalnum, one)) and not any(one in text for text in texts)]


def _telling(words: list[str], frequencies: dict[str, int], total: int, effort: Effort) -> list[str]:
    """The words without the most common ones, as long as those weigh little together.

    A memory that holds only these would score too low, and reading their long posting
    lists is most of what a search costs.
    """
    weights = {word: scoring.rarity(frequencies[stem(word)], total) for word in words}
    spare = effort.spare * sum(weights.values())
    kept = sorted(words, key=lambda word: weights[word])
    while len(kept) > 1 and weights[kept[0]] <= spare:
        spare -= weights[kept.pop(0)]
    posted = sum(frequencies[stem(word)] for word in kept)
    while len(kept) > FEWEST and posted > effort.posted:
        posted -= frequencies[stem(kept.pop(0))]
    return kept


def _hits(page: list[Scored], query: Query) -> list[Hit]:
    memories = Memory.objects.with_details().in_bulk([one.pk for one in page])
    return [
        Hit(memory, one.score, one.parts, _extract(query, memory))
        for one in page
        if (memory := memories.get(one.pk))
    ]


def _extract(query: Query, memory: Memory) -> str:
    """Of the content; of the first other text that holds what was looked for when the content does not."""
    first = ""
    for name in reversed(TEXTS):
        shown = snippet(query, getattr(memory, name))
        if "<mark>" in shown:
            return shown
        first = first or shown
    return first
