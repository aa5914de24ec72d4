"""Score arithmetic for search: term matches, evidence of session neighbours, and the composite score.

No Django imports and no database access.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from memoryhub.backends.fts_query import Query, Term
from memoryhub.core.text import STOP_WORDS, WORD, compile_text, fold, stem, words

_Number = TypeVar("_Number", float, NDArray[np.float64])
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
    """Return the highest match that terms which add up to ``covered`` of ``total`` can have in any text."""
    return word_match(covered, covered, total) + PHRASE_BONUS + FOCUS_BONUS


class TextMatch(NamedTuple):
    """Match of a query with the texts of a memory, 0..1.

    ``weight``: sum of the weights of the terms that occur. ``terms``: share of each term, 0..1.
    """

    match: float = 0.0
    weight: float = 0.0
    terms: tuple[float, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether all terms occur exactly."""
        return bool(self.terms) and min(self.terms) == 1

    @property
    def found_terms(self) -> int:
        """Number of terms that occur in the texts."""
        return sum(map(bool, self.terms))


@dataclass(frozen=True)
class _QueryPart:
    """A query or one clause of it. ``terms``: positions of its terms in the query."""

    text: str
    terms: tuple[int, ...]
    weight: float


class QueryMatcher:
    """One query, prepared for matching many memories; each match takes some microseconds.

    ``clauses`` are queries made of some terms of the query. The match is that of the best clause.
    """

    def __init__(self, query: Query, weights: Sequence[float], clauses: Sequence[Query] = ()) -> None:
        self._matchers = [_TermMatcher(term) for term in query.terms]
        self._weights = list(weights)
        self._parts = [self._to_part(part, query.terms) for part in (query, *clauses)]

    def _to_part(self, query: Query, terms: Sequence[Term]) -> _QueryPart:
        positions = tuple(terms.index(term) for term in query.terms)
        text = query.text.strip(" .") or query.text
        return _QueryPart(text, positions, sum(self._weights[position] for position in positions))

    def match(self, fields: Mapping[str, str], present: Sequence[bool] | None = None) -> TextMatch:
        """Match the query with the texts of a memory, by field name.

        ``present``: which terms can occur as words, if known; the others are only looked for inside words.
        """
        if not self._matchers:
            return TextMatch()
        texts = [(name, fold(text)) for name in FIELD_CREDIT if (text := fields.get(name))]
        title = " ".join(texts[0][1].split()) if texts and texts[0][0] == "title" else ""
        if (title.strip(" .") or title) == self._parts[0].text:  # only the exact title scores 1
            return TextMatch(1.0, self._parts[0].weight, (1.0,) * len(self._matchers))
        present = present or (True,) * len(self._matchers)
        credits = [
            matcher.credit(texts, is_word=is_word)
            for matcher, is_word in zip(self._matchers, present, strict=True)
        ]
        found = [weight for weight, (credit, _) in zip(self._weights, credits, strict=True) if credit]
        if not found:
            return TextMatch(terms=(0.0,) * len(self._matchers))
        match = max(self._match_part(part, credits, texts, title) for part in self._parts)
        shares = tuple(min(credit / FIELD_CREDIT["content"], 1.0) for credit, _ in credits)
        return TextMatch(match, sum(found), shares)

    def shares_inside_words(self, texts: Sequence[str], shares: Sequence[float]) -> tuple[float, ...]:
        """Add to the shares of words those of words that occur only inside other words."""
        if all(shares):
            return tuple(shares)
        text = fold("\n".join(texts))
        return tuple(
            share or (SUBSTRING_CREDIT if matcher.is_inside(text) else 0.0)
            for share, matcher in zip(shares, self._matchers, strict=True)
        )

    def _match_part(
        self,
        part: _QueryPart,
        credits: Sequence[tuple[float, int]],
        texts: Sequence[tuple[str, str]],
        title: str,
    ) -> float:
        """Combine the credits of the terms of a part into a match, 0..0.99."""
        covered = sum(self._weights[number] for number in part.terms if credits[number][0])
        if not covered:
            return 0.0
        earned = sum(self._weights[number] * credits[number][0] for number in part.terms)
        in_title = sum(credits[number][1] for number in part.terms)
        share = covered / part.weight
        value = word_match(covered, earned, part.weight)
        if len(part.terms) > 1 and any(part.text in text for _, text in texts):
            value = max(value + PHRASE_BONUS, PHRASE_MATCH)
        if in_title:
            value += FOCUS_BONUS * share * min(in_title / max(len(WORD.findall(title)), 1), 1.0)
        return min(value, 0.99)


class _TermMatcher:
    """Find one term in texts. Porter changes a final y to i, so the last letter of a stem is left open."""

    def __init__(self, term: Term) -> None:
        self._literal = term.literal
        self._text = compile_text(term.literal or term.words[0])
        self._literal_words = len(words(term.literal))
        self._stems = term.stems
        self._words = term.words
        self._at_start = re.compile(rf"(?<![^\W_]){re.escape(term.words[0])}") if term.at_start else None
        self._starts = [one[: max(len(one) - 1, 1)] for one in term.stems]
        self._patterns = [re.compile(rf"{re.escape(start)}[^\W_]*") for start in self._starts]

    def is_inside(self, text: str) -> bool:
        """Whether the term is a word that occurs in the text, at least inside a word."""
        return not self._literal and self._words[0] in text and bool(self._text.search(text))

    def credit(self, texts: Sequence[tuple[str, str]], *, is_word: bool = True) -> tuple[float, int]:
        """Return the credit of the best field, 0..1, and the number of hits in the title.

        ``is_word``: false if the term occurs inside words at most. ``texts`` are ordered by field credit, so
        the loop ends when no later field can earn more.
        """
        best, in_title = 0.0, 0
        for name, text in texts:
            if FIELD_CREDIT[name] + REPEAT_CREDIT * REPEATS <= best:
                break
            hits, share = self._count_hits(text, is_word=is_word)
            if hits:
                credit = FIELD_CREDIT[name] + REPEAT_CREDIT * min(hits - 1, REPEATS)
                best = max(best, min(credit, 1.0) * share)
                in_title += hits if name == "title" else 0
        return best, in_title

    def _count_hits(self, text: str, *, is_word: bool) -> tuple[int, float]:
        """Return the number of hits in a text and the share of credit that this kind of hit earns."""
        if self._literal:
            if self._literal in text and (exact := len(self._text.findall(text))):
                return exact, 1.0
            if not is_word:
                return 0, 0.0
            counts = [self._count_words(number, text) for number in range(len(self._stems))]
            present = [hits for hits in counts if hits]
            return (min(present), LOOSE_CREDIT * len(present) / self._literal_words) if present else (0, 0.0)
        if is_word and (hits := self._count_words(0, text)):
            return hits, 1.0
        if self._words[0] not in text:
            return 0, 0.0
        return len((self._at_start or self._text).findall(text)), SUBSTRING_CREDIT

    def _count_words(self, number: int, text: str) -> int:
        """Count the words of the text with this stem, up to the number that changes the credit."""
        if self._starts[number] not in text:
            return 0
        hits, wanted = 0, self._stems[number]
        for found in self._patterns[number].finditer(text):
            start = found.start()
            # A lookbehind in the pattern would be several times slower.
            if (not start or not WORD.match(text[start - 1])) and stem(found[0]) == wanted:
                hits += 1
                if hits > REPEATS:
                    break
        return hits


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
_QUESTION_MARK = re.compile(r"[?？]")
_QUESTION_TAIL_CHARS = 120  # a question mark in these last characters makes the text a question
USER_NAMES = frozenset({"user", "human"})
ASSISTANT_NAMES = frozenset({"assistant", "ai", "bot", "model", "system", "tool"})


@dataclass(frozen=True)
class Signals:
    """Evidence in one memory alone. ``terms``: share of each query term, 0..1."""

    terms: tuple[float, ...]
    cosine: float = 0.0
    chars: int = 0
    speaker: str = ""
    asks: bool = False

    @property
    def lending_share(self) -> float:
        """Share of the words and the cosine that supports neighbours."""
        return math.sqrt(min(1.0, FULL_LENDING_CHARS / max(self.chars, 1)))


@dataclass(frozen=True)
class Neighbours:
    """Ids of the neighbours of a memory in its session, nearest first."""

    before: Sequence[int] = ()
    after: Sequence[int] = ()


@dataclass(frozen=True)
class Evidence:
    """Combined evidence for one memory and its neighbours: ``coverage`` 0..1, ``similarity`` from 0 up."""

    coverage: float
    similarity: float
    speaker_factor: float = 1.0

    @property
    def match(self) -> float:
        """Match with the query, 0..1."""
        return 1 - math.exp(-MATCH_CURVE * self.speaker_factor * (self.coverage + self.similarity))


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


def ends_with_question(text: str) -> bool:
    """Return whether a question mark is at the end of a text or shortly before it."""
    return bool(_QUESTION_MARK.search(text[-_QUESTION_TAIL_CHARS:]))


def cosine_weight(total_weight: float) -> float:
    """Return the weight of a cosine next to words with this total weight."""
    return COSINE_WEIGHT if total_weight else COSINE_WEIGHT_WITHOUT_WORDS


def length_factor(chars: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the factor for the words of texts of at least one character: less than 1 for a long text."""
    return np.asarray(np.minimum(1.0, SHORT_TEXT_CHARS / chars) ** 0.2)


def combine_evidence(
    question: Question, signals: Mapping[int, Signals], neighbours: Mapping[int, Neighbours]
) -> dict[int, Evidence]:
    """Return the evidence for each memory of ``signals``. Neighbours without signals do not count."""
    speakers = {one.speaker for one in signals.values() if one.speaker}
    named = {one for one in speakers if question.names(one)}
    has_users = not speakers.isdisjoint(USER_NAMES)
    total_weight = sum(question.weights)
    evidence = {}
    for key, own in signals.items():
        around = list(_known_neighbours(neighbours.get(key, Neighbours()), signals))
        terms = _combine_terms(own, around)
        coverage = sum(map(float.__mul__, question.weights, terms)) / total_weight if total_weight else 0.0
        cosine = max(own.cosine, 0.0) + sum(
            NEIGHBOUR_COSINE_SHARES[distance] * one.lending_share * max(one.cosine, 0.0)
            for one, distance, _ in around
        )
        factor = _speaker_factor(own.speaker, named, has_users=has_users)
        evidence[key] = Evidence(coverage, cosine_weight(total_weight) * cosine, factor)
    return evidence


def link_both_ways(neighbours: Mapping[int, Neighbours]) -> dict[int, Neighbours]:
    """Add the reverse of each link: if A precedes B, then B follows A."""
    links = {key: (list(one.before), list(one.after)) for key, one in neighbours.items()}
    for key, one in neighbours.items():
        for distance, other in enumerate(one.before):
            _set_neighbour(links.setdefault(other, ([], []))[1], distance, key)
        for distance, other in enumerate(one.after):
            _set_neighbour(links.setdefault(other, ([], []))[0], distance, key)
    return {key: Neighbours(before, after) for key, (before, after) in links.items()}


def _set_neighbour(keys: list[int], distance: int, key: int) -> None:
    """Store a neighbour at its distance; 0 marks an unknown neighbour."""
    keys.extend([0] * (distance + 1 - len(keys)))
    keys[distance] = key


def _known_neighbours(
    neighbours: Neighbours, signals: Mapping[int, Signals]
) -> Iterable[tuple[Signals, int, bool]]:
    """Yield the signals of each neighbour, its distance, and whether it is an earlier memory."""
    for keys, is_earlier in ((neighbours.before, True), (neighbours.after, False)):
        for distance, key in enumerate(keys[: len(NEIGHBOUR_WORD_SHARES)]):
            if key in signals:
                yield signals[key], distance, is_earlier


def _combine_terms(own: Signals, around: Sequence[tuple[Signals, int, bool]]) -> list[float]:
    """Return the share of each term: the memory's own, or a part of a neighbour's if that is larger."""
    factor = min(1.0, SHORT_TEXT_CHARS / max(own.chars, 1)) ** 0.2
    best = [share * factor for share in own.terms]
    for one, distance, is_earlier in around:
        bonus = ANSWER_BONUS if is_earlier and distance == 0 and one.asks else 0.0
        share = (NEIGHBOUR_WORD_SHARES[distance] + bonus) * one.lending_share
        best = [max(mine, share * lent) for mine, lent in zip(best, one.terms, strict=True)]
    return best


def _speaker_factor(speaker: str, named: set[str], *, has_users: bool) -> float:
    """Return the weight of a speaker; texts without a speaker have the full weight.

    ``has_users``: some text is by a user. Then texts by an assistant count less.
    """
    if not speaker or speaker in named:
        return 1.0
    if named - USER_NAMES - ASSISTANT_NAMES:
        return OTHER_SPEAKER_FACTOR
    return OTHER_SPEAKER_FACTOR if has_users and speaker in ASSISTANT_NAMES else 1.0
