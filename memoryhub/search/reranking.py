"""A second look at the best results, which changes their order."""

from __future__ import annotations

import numpy as np

from memoryhub.backends.statements import read_memories
from memoryhub.search.lexical import Scores
from memoryhub.search.scoring import add_evidence
from memoryhub.search.semantic import SemanticMatches
from memoryhub.search.time_words import names_time
from memoryhub.search.visible_rows import Positions, VisibleRows

TIMED_RESULTS = 20  # whose texts are read
TIME_EVIDENCE = 0.15
MAX_TEXT_CHARS = 2000  # of a content in which a time is looked for
LEADERS = 5  # results that show what the query means
FIXED_RESULTS = 5  # which stay where they are
REORDERED_RESULTS = 30
LIKENESS_WEIGHT = 0.6


def prefer_times(rows: VisibleRows, match: Scores) -> Scores:
    """Return the match of every row with more for the best rows that say when something happened."""
    best = _best(match, TIMED_RESULTS)
    texts = dict(read_memories(f"id, substr(content, 1, {MAX_TEXT_CHARS})", rows.pks[best]))
    timed = best[[names_time(texts.get(pk, "")) for pk in rows.pks[best].tolist()]]
    match[timed] = add_evidence(match[timed], TIME_EVIDENCE)
    return match


def prefer_similar(rows: VisibleRows, match: Scores, meaning: SemanticMatches) -> Scores:
    """Return the match of every row after the rows behind the first were ordered by likeness to the first.

    They exchange their values, so about as many rows pass a minimum as before.
    """
    best = _best(match, REORDERED_RESULTS)
    rest = best[FIXED_RESULTS:]
    if len(rest) < 2:
        return match
    likeness = meaning.likeness(rows, best, LEADERS)[FIXED_RESULTS:]
    raised = np.round(add_evidence(match[rest], LIKENESS_WEIGHT * likeness), 5)
    order = np.argsort(-raised, kind="stable")
    # Equal rows get equal values.
    places = np.searchsorted(-raised[order], -raised[order])
    match[rest[order]] = match[rest][places]
    return match


def _best(match: Scores, limit: int) -> Positions:
    """Return the rows that match best, best first."""
    found = np.flatnonzero(match)
    if len(found) > limit:
        found = found[match[found] >= np.partition(match[found], -limit)[-limit]]
    return found[np.lexsort((-found, -match[found]))][:limit]
