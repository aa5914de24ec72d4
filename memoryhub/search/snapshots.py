"""Search of a snapshot: memories as they were at a moment (``as_of``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
from django.conf import settings

from memoryhub.backends.fts_query import parse_query
from memoryhub.memories.replacements import existing_keys
from memoryhub.memories.versions import Snapshot
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.search.hybrid import (
    LEAST_MATCH,
    Hit,
    Ranking,
    SearchMode,
    SearchResults,
    make_snippet,
    search_memories,
)
from memoryhub.search.languages import adapt_to_language
from memoryhub.search.lexical import TermMatches, default_weights, score_parts
from memoryhub.search.scoring import Weights, composite_score
from memoryhub.search.time_words import find_periods


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
