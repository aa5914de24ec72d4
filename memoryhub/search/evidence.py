"""Evidence that memories answer a query: words, vectors, speakers, and the neighbours in their session.

Works on arrays with one line for each candidate. No Django imports and no database access.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoryhub.core.text import STOP_WORDS, fold, words

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
