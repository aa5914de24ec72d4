"""Score arithmetic for search: weights of terms, evidence of words, vectors and neighbours, the final score.

No Django imports and no database access.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from memoryhub.backends.fts_query import Query
from memoryhub.core.text import STOP_WORDS, fold, words

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


# Shares that a memory gets from a neighbour, by distance in the session.
NEIGHBOUR_WORD_SHARES = (0.6, 0.3)
NEIGHBOUR_COSINE_SHARES = (0.3, 0.15)
ANSWER_BONUS = 0.2  # larger word share for the memory that follows a question
COSINE_WEIGHT = 0.7  # relative to coverage, which is at most 1
COSINE_WEIGHT_WITHOUT_WORDS = 1.0  # in semantic search
OTHER_SPEAKER_FACTOR = 2 / 3  # for texts of a speaker who is not named in the query
# A long text contains many words by chance.
SHORT_TEXT_CHARS = 240  # in longer texts, words count slowly less
FULL_LENDING_CHARS = 480  # longer texts support their neighbours less
# match = 1 - exp(-MATCH_CURVE * evidence): half of the terms and a fair cosine give 0.5.
MATCH_CURVE = 1.2

# A name of one to three words before a colon.
_SPEAKER_PREFIX = re.compile(r"\s*([^\W\d_][\w.'’-]{0,29}(?: [^\W\d_][\w.'’-]{0,29}){0,2}):\s")
USER_NAMES = frozenset({"user", "human"})
ASSISTANT_NAMES = frozenset({"assistant", "ai", "bot", "model", "system", "tool"})

Values = NDArray[np.floating[Any]]
Lines = NDArray[np.int64]


class Signals(NamedTuple):
    """Evidence in each memory alone. ``terms``: share of each query term (column), 0..1."""

    terms: Values
    cosines: Values
    chars: NDArray[np.int64]
    speakers: Sequence[str]
    asks: NDArray[np.bool_]


class Pairs(NamedTuple):
    """Pairs of memories at one distance in their session. No memory occurs twice on one side."""

    earlier: Lines
    later: Lines


@dataclass(frozen=True)
class Evidence:
    """Evidence for each memory and its neighbours: ``coverage`` 0..1, ``similarity`` from 0 up."""

    coverage: Values
    similarity: Values
    speaker_factor: Values

    @property
    def match(self) -> Values:
        """Match with the query, 0..1."""
        evidence = self.speaker_factor * (self.coverage + self.similarity)
        return np.asarray(1 - np.exp(-MATCH_CURVE * evidence))


@dataclass(frozen=True)
class Question:
    """The weight of each query term, and the words that may name a speaker."""

    weights: Sequence[float]
    words: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, typed: str, weights: Sequence[float]) -> Question:
        return cls(weights, frozenset(words(typed)) - STOP_WORDS)

    def names(self, speaker: str) -> bool:
        """Return whether the question names this speaker."""
        return not self.words.isdisjoint(speaker.split())


def parse_speaker(text: str) -> str:
    """Return the folded speaker of a text like ``Ada: I moved``, or an empty string."""
    found = _SPEAKER_PREFIX.match(text)
    return fold(found.group(1)) if found else ""


class SpeakerNumbers:
    """Numbers of the names of speakers, for arrays. A name may have two if two threads add it at once."""

    def __init__(self) -> None:
        self._numbers, self.names, self._unused = {"": 0}, {0: ""}, count(1)

    def number_of(self, name: str) -> int:
        if name not in self._numbers:
            number = next(self._unused)
            self.names[number] = name
            self._numbers[name] = number
        return self._numbers[name]


def cosine_weight(total_weight: float) -> float:
    """Return the weight of a cosine next to words with this total weight."""
    return COSINE_WEIGHT if total_weight else COSINE_WEIGHT_WITHOUT_WORDS


def length_factor(chars: NDArray[np.int64]) -> Values:
    """Return the factor for the words of texts: less than 1 for a long text."""
    factors = np.ones(len(chars))
    is_long = chars > SHORT_TEXT_CHARS
    factors[is_long] = (SHORT_TEXT_CHARS / chars[is_long]) ** 0.2
    return factors


def combine_evidence(question: Question, signals: Signals, pairs: Sequence[Pairs]) -> Evidence:
    """Return the evidence for each memory. ``pairs``: neighbours at distance 1, 2 and so on."""
    lent = np.sqrt(np.minimum(1.0, FULL_LENDING_CHARS / np.maximum(signals.chars, 1)))
    own_cosines = np.maximum(signals.cosines, 0.0)
    terms = signals.terms * length_factor(signals.chars)[:, None]
    cosines = own_cosines.copy()
    for distance, (earlier, later) in enumerate(pairs):
        bonus = ANSWER_BONUS * signals.asks[earlier] if distance == 0 else 0.0
        for giver, taker, extra in ((earlier, later, bonus), (later, earlier, 0.0)):
            share = (NEIGHBOUR_WORD_SHARES[distance] + extra) * lent[giver]
            terms[taker] = np.maximum(terms[taker], share[:, None] * signals.terms[giver])
            cosines[taker] += NEIGHBOUR_COSINE_SHARES[distance] * lent[giver] * own_cosines[giver]
    total = sum(question.weights)
    coverage = terms @ np.array(question.weights) / total if total else np.zeros(len(terms))
    return Evidence(coverage, cosine_weight(total) * cosines, _speaker_factors(question, signals.speakers))


def add_evidence(match: Values, evidence: Values | float) -> Values:
    """Return the match with more evidence. No match and a match of 1 stay."""
    return np.where(match > 0, 1 - (1 - match) * np.exp(-MATCH_CURVE * np.asarray(evidence)), match)


def _speaker_factors(question: Question, speakers: Sequence[str]) -> Values:
    """Return the weight of each memory by its speaker; texts without a speaker have the full weight.

    If some text is by a user, texts by an assistant count less.
    """
    known = {one for one in speakers if one}
    named = {one for one in known if question.names(one)}
    if named - USER_NAMES - ASSISTANT_NAMES:
        lowered = known - named
    elif known.isdisjoint(USER_NAMES):
        lowered = set()
    else:
        lowered = (known & ASSISTANT_NAMES) - named
    return np.array([OTHER_SPEAKER_FACTOR if one in lowered else 1.0 for one in speakers])
