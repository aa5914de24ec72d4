"""The composite score of a search result, and the ``match`` in it. Pure.

``score = 0.55 match + 0.20 recency + 0.15 importance + 0.10 trust`` (LetsGo's memory store document).

SQLite's bm25 is negative, unbounded and moves with the size of the corpus, so it orders candidates and nothing more.
``match`` is computed from what a memory covers of the query: each term weighs by its rarity, rare words more.
A memory that shares one common word with a long query covers almost nothing of it and scores near 0; one whose
title is the query scores 1.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from memoryhub.search.query import Query, Term
from memoryhub.text import WORD, fold, stem

# How much a hit counts by the best place it stands in: title and one-line texts say what a memory is about.
FIELD_CREDIT = {"title": 1.0, "subtitle": 0.95, "abstract": 0.9, "overview": 0.85, "content": 0.75}
REPEAT_CREDIT = 0.05  # for each further occurrence, up to REPEATS
REPEATS = 3
LOOSE_CREDIT = 0.6  # share of a phrase's or dotted name's credit when only its words are there
SUBSTRING_CREDIT = 0.6  # share for a word found only inside another word
# Half of the evidence is worth much less than half: the missing half is usually what the query was about.
COVERAGE_POWER = 2.0
FULL_MATCH = 0.88  # every term in the title of a memory that is about more than that
PHRASE_BONUS = 0.06  # the whole query stands in the text as typed
FOCUS_BONUS = 0.05  # the title says little else


@dataclass(frozen=True)
class Components:
    """The four parts of a score, each 0..1."""

    match: float
    recency: float
    importance: float
    trust: float


@dataclass(frozen=True)
class Weights:
    """The share of each part; they add up to 1."""

    match: float = 0.55
    recency: float = 0.20
    importance: float = 0.15
    trust: float = 0.10


def composite(parts: Components, weights: Weights) -> float:
    """The weighted sum, 0..1."""
    return (
        weights.match * parts.match
        + weights.recency * parts.recency
        + weights.importance * parts.importance
        + weights.trust * parts.trust
    )


def recency(age_days: float, half_life_days: float = 21.0) -> float:
    """1 for now, halved every half-life; a future date counts as now."""
    return float(0.5 ** (max(age_days, 0.0) / half_life_days))


def rarity(frequency: int, total: int) -> float:
    """Inverse document frequency, > 0: what one term's presence says (Robertson & Spärck Jones, +1 inside the log)."""
    total = max(total, frequency, 1)
    return math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))


def term_weights(query: Query, frequencies: Mapping[str, int], total: int) -> list[float]:
    """The rarity of each term: of a phrase its rarest word's, of a literal that no word stands for the middle one's."""
    unknown = rarity(0, total)
    weights = []
    for term in query.terms:
        of_words = [rarity(frequencies.get(one, 0), total) for one in term.stems]
        weights.append(max(of_words, default=unknown / 2))
    return weights


def match(query: Query, weights: Sequence[float], fields: Mapping[str, str]) -> float:
    """How well a memory's texts answer the query, 0..1."""
    if not query.terms:
        return 0.0
    folded = {name: fold(text) for name, text in fields.items() if text}
    if folded.get("title", "").strip(" .") == query.text.strip(" ."):
        return 1.0  # kept for the exact title alone
    look = _reader(tuple(query.words))
    counts = {name: look(text) for name, text in folded.items()}
    credits = [_credit(term, folded, counts) for term in query.terms]
    whole = sum(weights)
    covered = sum(weight for weight, credit in zip(weights, credits, strict=True) if credit) / whole
    earned = sum(weight * credit for weight, credit in zip(weights, credits, strict=True)) / whole
    quality = earned / covered if covered else 0.0
    value = FULL_MATCH * covered**COVERAGE_POWER * quality
    if len(query.terms) > 1 and any(query.text in text for text in folded.values()):
        value += PHRASE_BONUS
    if "title" in folded:
        value += FOCUS_BONUS * covered * min(sum(counts["title"].values()) / max(len(WORD.findall(folded["title"])), 1), 1.0)
    return min(value, 0.99)


def _credit(term: Term, texts: Mapping[str, str], counts: Mapping[str, Counter[str]]) -> float:
    """What the best place of one term is worth, 0..1; 0 where it is nowhere."""
    best = 0.0
    for name, text in texts.items():
        hits, share = _hits(term, text, counts[name])
        if hits:
            place = FIELD_CREDIT[name] + REPEAT_CREDIT * min(hits - 1, REPEATS)
            best = max(best, min(place, 1.0) * share)
    return best


def _hits(term: Term, text: str, counts: Counter[str]) -> tuple[int, float]:
    """How often a term stands in a text, and the share of credit that this kind of hit earns."""
    if term.literal and (exact := text.count(term.literal)):
        return exact, 1.0
    found = [counts[one] for one in term.stems]
    if not term.literal:
        if found[0]:
            return found[0], 1.0
        return text.count(term.words[0]), SUBSTRING_CREDIT
    present = sum(1 for hits in found if hits)
    return (min(h for h in found if h), LOOSE_CREDIT * present / len(found)) if present else (0, 0.0)


@lru_cache(maxsize=64)
def _reader(wanted: tuple[str, ...]) -> Callable[[str], Counter[str]]:
    """A function that counts the stems of these words in a text, looking only at words that begin like them."""
    stems = {stem(word) for word in wanted}
    # Porter changes a final y to i, so the last letter of a stem may differ in the text.
    starts = sorted({one[: max(len(one) - 1, 1)] for one in stems})
    if not starts:
        return lambda text: Counter()
    pattern = re.compile(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, starts))})[^\W_]*")
    assert WORD.pattern == r"[^\W_]+", "the pattern above repeats what a word is"  # noqa: S101

    def count(text: str) -> Counter[str]:
        return Counter(found for word in pattern.findall(text) if (found := stem(word)) in stems)

    return count
