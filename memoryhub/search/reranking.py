"""Reorder the best results: by the times in their texts, and by their likeness to the first."""

from __future__ import annotations

import numpy as np

from memoryhub.backends.statements import read_memories
from memoryhub.search.lexical import Scores, best_positions
from memoryhub.search.scoring import add_evidence
from memoryhub.search.semantic import SemanticMatches
from memoryhub.search.time_words import names_time
from memoryhub.search.visible_rows import VisibleRows

TIMED_RESULTS = 20  # best results in which a time is looked for
TIME_EVIDENCE = 0.15  # added if there is one
MAX_TEXT_CHARS = 2000  # the part of a content that is read for it
LEADERS = 5  # the first results, which the others are compared with
FIXED_RESULTS = 5  # the first results, which are not reordered
REORDERED_RESULTS = 30  # the last of them is the last one that is reordered
LIKENESS_WEIGHT = 0.6  # of the cosine with the leaders, as evidence


def prefer_times(rows: VisibleRows, match: Scores) -> Scores:
    """Raise the match of the best rows whose text says when something happened. Return all matches."""
    best = best_positions(match, TIMED_RESULTS)
    texts = dict(read_memories(f"id, substr(content, 1, {MAX_TEXT_CHARS})", rows.pks[best]))
    timed = best[[names_time(texts.get(pk, "")) for pk in rows.pks[best].tolist()]]
    match[timed] = add_evidence(match[timed], TIME_EVIDENCE)
    return match


def prefer_similar(rows: VisibleRows, match: Scores, meaning: SemanticMatches) -> Scores:
    """Order the rows behind the first by their likeness to the first, too. Return the match of every row.

    They exchange their values, so about as many rows pass a minimum as before. Rows that match as well as one
    that stays in its place stay, too: equal rows have equal scores.
    """
    best = best_positions(match, REORDERED_RESULTS + 1)
    if len(best) < FIXED_RESULTS + 2:
        return match
    values = match[best]
    least = values[-1] if len(best) > REORDERED_RESULTS else 0.0
    moved = np.flatnonzero((values < values[FIXED_RESULTS - 1]) & (values > least))
    if len(moved) < 2:
        return match
    rest = best[moved]
    likeness = meaning.likeness(rows, best[:REORDERED_RESULTS], LEADERS)[moved]
    raised = np.round(add_evidence(match[rest], LIKENESS_WEIGHT * likeness), 5)
    order = np.argsort(-raised, kind="stable")
    # Each row gets the value at its new rank; equal rows get that of the first of them.
    ranks = np.searchsorted(-raised[order], -raised[order])
    match[rest[order]] = match[rest][ranks]
    return match
