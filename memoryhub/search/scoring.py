"""Score arithmetic for search: weights of terms, match by words, and the composite score.

No Django imports and no database access.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from memoryhub.backends.fts_query import Query

_Number = TypeVar("_Number", float, NDArray[np.floating[Any]])
# Credit of a hit by its best field: title and one-line texts summarise the memory.
FIELD_CREDIT = {
    "title": 1.0,
    "alias_text": 1.0,
    "subtitle": 0.95,
    "abstract": 0.9,
    "overview": 0.85,
    "content": 0.75,
}
REPEAT_CREDIT = 0.05  # per further occurrence, up to REPEATS
REPEATS = 3
LOOSE_CREDIT = 0.6  # share of the credit if only the words of a phrase or dotted name occur
# Share of the credit of a word that occurs only inside another word. Old memories still pass min_score.
SUBSTRING_CREDIT = 0.65
# Half of the terms are worth much less than half: the missing terms are often the topic of the query.
COVERAGE_POWER = 2.0
FULL_MATCH = 0.88  # all terms are in the title, next to other words
PHRASE_BONUS = 0.06  # the text contains the whole query as typed
PHRASE_MATCH = 0.6  # minimum match in that case, also if the query starts or ends inside a word
ACCESSES_FOR_HALF = 5  # number of accesses with a frequency of 0.5
FOCUS_BONUS = 0.05  # the title contains few other words
# Of the factor by which memories that helped come earlier in an injection (:func:`helpfulness`).
MAX_HELP_CHANGE = 0.1
USUAL_HELP = 0.3  # share of the injections in which a memory helps, before it is known
HELP_PRIOR = 8
# If the query is a name, path or piece of code, texts that contain it come before those with its words,
# whatever their age.
EXACT_MATCH, LOOSE_MATCH = 0.92, 0.55


@dataclass(frozen=True)
class Components:
    """Parts of a score, each 0..1."""

    match: float
    recency: float
    importance: float
    trust: float


@dataclass(frozen=True)
class Weights:
    """Share of each part; the shares add up to 1."""

    match: float = 0.55
    recency: float = 0.20
    importance: float = 0.15
    trust: float = 0.10
    frequency: float = 0.0


def composite_score(parts: Components, weights: Weights, accesses: int = 0) -> float:
    """Return the weighted sum of the parts, 0..1."""
    total = (
        weights.match * parts.match
        + weights.recency * parts.recency
        + weights.importance * parts.importance
        + weights.trust * parts.trust
        + weights.frequency * access_frequency(accesses)
    )
    return round(total, 4)


def helpfulness(shown: int, helped: int) -> float:
    """Return the factor of how often a memory helped when it was shown, around 1 and within the bounds.

    The share is smoothed as if ``HELP_PRIOR`` injections of the usual share came before, so that it moves
    slowly.
    """
    share = (helped + HELP_PRIOR * USUAL_HELP) / (shown + HELP_PRIOR)
    distance = share - USUAL_HELP
    room = 1 - USUAL_HELP if distance > 0 else USUAL_HELP
    return round(1 + MAX_HELP_CHANGE * distance / room, 3)


def access_frequency(accesses: int) -> float:
    """Map a number of accesses to 0..1: 5 accesses are 0.5, 20 are 0.8, none reaches 1."""
    return accesses / (accesses + ACCESSES_FOR_HALF) if accesses > 0 else 0.0


def recency(age_days: float, half_life_days: float = 21.0) -> float:
    """Return 1 for now, halved every half-life. A future date counts as now."""
    return float(0.5 ** (max(age_days, 0.0) / half_life_days))


def idf(frequency: int, total: int) -> float:
    """Return the inverse document frequency, > 0 (Robertson & Spärck Jones, +1 inside the logarithm)."""
    total = max(total, frequency, 1)
    return math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))


def term_weights(
    query: Query, frequencies: Mapping[str, int], total: int, phrases: Mapping[str, int] | None = None
) -> list[float]:
    """Return the idf of each term.

    A phrase has its own idf if it occurs (``phrases``: the frequency of each literal), or else that of its
    rarest word, a literal without words half of the maximum.
    """
    default = idf(0, total) / 2
    weights = []
    for term in query.terms:
        counts = [frequencies.get(one, 0) for one in term.stems]
        counts += filter(None, [phrases.get(term.literal)] if phrases else [])
        weights.append(max((idf(count, total) for count in counts), default=default))
    return weights


def word_match(covered: _Number, earned: _Number, total: float) -> _Number:
    """Return the match, 0..1, of terms that add up to ``covered`` of ``total`` and earn ``earned`` credit."""
    return FULL_MATCH * (covered / total) ** (COVERAGE_POWER - 1) * (earned / total) if total else 0 * covered


def max_word_match(covered: _Number, total: float) -> _Number:
    """Return the highest match by whole words of terms that add up to ``covered`` of ``total``.

    Only a phrase of common words, or a part of a word, can match better.
    """
    return word_match(covered, covered, total) + PHRASE_BONUS + FOCUS_BONUS
