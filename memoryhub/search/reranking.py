"""Reorder the best results: by the times in their texts, and by their likeness to the first."""

from __future__ import annotations

import numpy as np

from memoryhub.backends.statements import read_memories
from memoryhub.search.lexical import Scores, best_positions
from memoryhub.search.scoring import add_evidence
from memoryhub.search.semantic import SemanticMatches
from memoryhub.search.time_words import names_time
from memoryhub.search.visible_rows import VisibleRows

TIMED_RESULTS = 20  # whose texts are read
TIME_EVIDENCE = 0.15  # of a text that names a time
MAX_TEXT_CHARS = 2000  # of a content in which a time is looked for
LEADERS = 5  # results that show what the query means
FIXED_RESULTS = 5  # which stay where they are
REORDERED_RESULTS = 30
LIKENESS_WEIGHT = 0.6


def prefer_times(rows: VisibleRows, match: Scores) -> Scores:
    """Raise the match of the best rows whose text says when something happened. Return all matches."""
    best = best_positions(match, TIMED_RESULTS)
    texts = dict(read_memories(f"id, substr(content, 1, {MAX_TEXT_CHARS})", rows.pks[best]))
    timed = best[[names_time(texts.get(pk, "")) for pk in rows.pks[best].tolist()]]
    match[timed] = add_evidence(match[timed], TIME_EVIDENCE)
    return match


def prefer_similar(rows: VisibleRows, match: Scores, meaning: SemanticMatches) -> Scores:
    """Order the rows behind the first by their likeness to the first, too. Return the match of every row.

    The reordered rows exchange their values, so about as many rows pass a minimum as before.
    """
    best = best_positions(match, REORDERED_RESULTS)
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
