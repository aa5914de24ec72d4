"""Search: what words and meaning find behind gate and filters, ordered by the composite score."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from memoryhub.models import Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval import scoring
from memoryhub.retrieval.rows import TEXTS, Scored
from memoryhub.retrieval.snippets import first_hit
from memoryhub.retrieval.weighing import LEAST_MATCH, Mode, weigh
from memoryhub.search import query as queries
from memoryhub.search.query import Query


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
    ``mode`` is what was done; it is lexical where vectors could not be used, and ``failure`` says why.
    ``note``: what the vectors lack yet. ``model``: what made them.
    """

    hits: list[Hit] = field(default_factory=list)
    total: int = 0
    ids: list[int] = field(default_factory=list)
    mode: Mode = "lexical"
    exact: bool = True
    took_ms: float = 0.0
    model: str = ""
    failure: str = ""
    note: str = ""


def search(
    memories: MemoryQuerySet,
    typed: str,
    *,
    limit: int | None = None,
    offset: int = 0,
    min_score: float | None = None,
    weights: scoring.Weights | None = None,
    now: datetime | None = None,
    mode: Mode = "hybrid",
    snippets: bool = True,
) -> Results:
    """Search within ``memories``, which the caller has gated, filtered and limited to live ones.

    ``limit`` and ``min_score`` default to the configuration. Without ``snippets`` those of the hits are empty
    and the lists of their memories (labels, files, entities) are not read. The number of queries does not
    depend on the results.
    """
    began = time.perf_counter()
    config = settings.MEMORYHUB
    limit = config.search_limit if limit is None else limit
    floor = config.min_score if min_score is None else min_score
    query = queries.parse(typed)
    if not query.terms:
        return Results(mode=mode)
    found = weigh(memories, query, weights or default_weights(), now or timezone.now(), mode, offset + limit)
    least = LEAST_MATCH[found.mode] if floor else 0.0
    scored = [one for one in found.scored if one.score >= floor and one.parts.match >= least]
    scored.sort(key=lambda one: (-one.score, -one.parts.match, -one.pk))
    return Results(
        _hits(scored[offset : offset + limit], query if snippets else None),
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


def _hits(page: list[Scored], query: Query | None) -> list[Hit]:
    """With snippets and all that belongs to a memory if the query is given, else bare."""
    rows = Memory.objects.with_details() if query is not None else Memory.objects.all()
    memories = rows.in_bulk([one.pk for one in page])
    return [
        Hit(memory, one.score, one.parts, _extract(query, memory) if query is not None else "")
        for one in page
        if (memory := memories.get(one.pk))
    ]


def _extract(query: Query, memory: Memory) -> str:
    """Of the content; of the first other text that holds what was looked for when the content does not."""
    return first_hit(query, (getattr(memory, name) for name in reversed(TEXTS)))
