"""The composite score of a search result and the ``match`` in it. No Django."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from memoryhub.backends.fts_query import Query, Term
from memoryhub.core.text import STOP_WORDS, WORD, fold, stem, words

# How much a hit counts by the best place it stands in: title and one-line texts say what a memory is about.
FIELD_CREDIT = {"title": 1.0, "subtitle": 0.95, "abstract": 0.9, "overview": 0.85, "content": 0.75}
REPEAT_CREDIT = 0.05  # for each further occurrence, up to REPEATS
REPEATS = 3
LOOSE_CREDIT = 0.6  # share of a phrase's or dotted name's credit when only its words are there
SUBSTRING_CREDIT = (
    0.65  # share for a word found only inside another word; an old memory still passes min_score
)
# Half of the evidence is worth much less than half: the missing half is usually what the query was about.
COVERAGE_POWER = 2.0
FULL_MATCH = 0.88  # every term in the title of a memory that is about more than that
PHRASE_BONUS = 0.06  # the whole query stands in the text as typed
PHRASE_MATCH = 0.6  # and is then worth at least this, even where its ends are parts of words
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


def composite_score(parts: Components, weights: Weights) -> float:
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


def idf(frequency: int, total: int) -> float:
    """Inverse document frequency, > 0 (Robertson & Spärck Jones, +1 inside the logarithm)."""
    total = max(total, frequency, 1)
    return math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))


def term_weights(query: Query, frequencies: Mapping[str, int], total: int) -> list[float]:
    """The rarity of each term: of a phrase its rarest word's, of a literal without words a middling one."""
    unknown = idf(0, total)
    weights = []
    for term in query.terms:
        of_words = [idf(frequencies.get(one, 0), total) for one in term.stems]
        weights.append(max(of_words, default=unknown / 2))
    return weights


def match_score(query: Query, weights: Sequence[float], fields: Mapping[str, str]) -> float:
    """How well a memory's texts answer the query, 0..1."""
    return QueryMatcher(query, weights)(fields)


class TextMatch(NamedTuple):
    """How well texts answer a query, 0..1; the weight of its terms that stand in them; of each its share."""

    match: float = 0.0
    weight: float = 0.0
    terms: tuple[float, ...] = ()

    @property
    def held(self) -> int:
        """How many terms stand in the texts."""
        return sum(map(bool, self.terms))


@dataclass(frozen=True)
class _QueryPart:
    """A query, or a clause of one: its text, its terms by their numbers, and their weight."""

    text: str
    terms: tuple[int, ...]
    weight: float


class QueryMatcher:
    """One query, prepared to be held against many memories: each costs some microseconds.

    ``clauses``: queries made of some of its terms; a memory that answers one of them has answered.
    """

    def __init__(self, query: Query, weights: Sequence[float], clauses: Sequence[Query] = ()) -> None:
        self._needles = [_TermMatcher(term) for term in query.terms]
        self._weights = list(weights)
        self._ways = [self._way(query, query.terms), *(self._way(one, query.terms) for one in clauses)]

    def _way(self, query: Query, terms: Sequence[Term]) -> _QueryPart:
        numbers = tuple(terms.index(term) for term in query.terms)
        text = query.text.strip(" .") or query.text
        return _QueryPart(text, numbers, sum(self._weights[number] for number in numbers))

    def __call__(self, fields: Mapping[str, str]) -> float:
        """How well these texts answer the query, 0..1."""
        return self.weigh(fields).match

    def weigh(self, fields: Mapping[str, str]) -> TextMatch:
        """How well these texts answer the query, and with which part of it."""
        if not self._needles:
            return TextMatch()
        texts = [(name, fold(text)) for name in FIELD_CREDIT if (text := fields.get(name))]
        title = " ".join(texts[0][1].split()) if texts and texts[0][0] == "title" else ""
        if (title.strip(" .") or title) == self._ways[0].text:
            whole = (1.0,) * len(self._needles)
            return TextMatch(1.0, self._ways[0].weight, whole)  # 1 is kept for the exact title
        credits = [needle.credit(texts) for needle in self._needles]
        held = [weight for weight, (credit, _) in zip(self._weights, credits, strict=True) if credit]
        if not held:
            return TextMatch(terms=(0.0,) * len(self._needles))
        match = max(self._match(way, credits, texts, title) for way in self._ways)
        shares = tuple(min(credit / FIELD_CREDIT["content"], 1.0) for credit, _ in credits)
        return TextMatch(match, sum(held), shares)

    def _match(
        self,
        way: _QueryPart,
        credits: Sequence[tuple[float, int]],
        texts: Sequence[tuple[str, str]],
        title: str,
    ) -> float:
        """From the credit of each term to 0..1."""
        covered = sum(self._weights[number] for number in way.terms if credits[number][0])
        if not covered:
            return 0.0
        earned = sum(self._weights[number] * credits[number][0] for number in way.terms)
        in_title = sum(credits[number][1] for number in way.terms)
        share = covered / way.weight
        value: float = FULL_MATCH * share**COVERAGE_POWER * earned / covered
        if len(way.terms) > 1 and any(way.text in text for _, text in texts):
            value = max(value + PHRASE_BONUS, PHRASE_MATCH)
        if in_title:
            value += FOCUS_BONUS * share * min(in_title / max(len(WORD.findall(title)), 1), 1.0)
        return min(value, 0.99)


class _TermMatcher:
    """One term, ready to be looked for. Porter changes a final y to i: a stem's last letter is left open."""

    def __init__(self, term: Term) -> None:
        self._literal = term.literal
        self._stems = term.stems
        self._words = term.words
        self._at_start = re.compile(rf"(?<![^\W_]){re.escape(term.words[0])}") if term.at_start else None
        self._starts = [one[: max(len(one) - 1, 1)] for one in term.stems]
        self._patterns = [re.compile(rf"(?<![^\W_]){re.escape(start)}[^\W_]*") for start in self._starts]

    def credit(self, texts: Sequence[tuple[str, str]]) -> tuple[float, int]:
        """What the best place of the term is worth, 0..1, and how often it stands in the title.

        ``texts`` come with the most telling field first, so the search ends where no later field can be worth
        more.
        """
        best, in_title = 0.0, 0
        for name, text in texts:
            if FIELD_CREDIT[name] + REPEAT_CREDIT * REPEATS <= best:
                break
            hits, share = self._hits(text)
            if hits:
                place = FIELD_CREDIT[name] + REPEAT_CREDIT * min(hits - 1, REPEATS)
                best = max(best, min(place, 1.0) * share)
                in_title += hits if name == "title" else 0
        return best, in_title

    def _hits(self, text: str) -> tuple[int, float]:
        """How often the term stands in a text, and the share of credit that this kind of hit earns."""
        if self._literal:
            if exact := text.count(self._literal):
                return exact, 1.0
            found = [self._count(number, text) for number in range(len(self._stems))]
            present = [hits for hits in found if hits]
            return (min(present), LOOSE_CREDIT * len(present) / len(found)) if present else (0, 0.0)
        if found_as_word := self._count(0, text):
            return found_as_word, 1.0
        inside = text.count(self._words[0])
        if inside and self._at_start:
            inside = len(self._at_start.findall(text))
        return inside, SUBSTRING_CREDIT

    def _count(self, number: int, text: str) -> int:
        """How many words of the text have this stem."""
        if self._starts[number] not in text:
            return 0
        wanted = self._stems[number]
        found = (1 for word in self._patterns[number].finditer(text) if stem(word.group()) == wanted)
        return sum(islice(found, REPEATS + 1))  # more add nothing


# What a neighbour lends, by its distance in the session.
NEIGHBOUR_WORD_SHARES = (0.6, 0.3)
NEIGHBOUR_COSINE_SHARES = (0.3, 0.15)
ANSWER_BONUS = 0.2  # more words for the memory right after one that asks something
COSINE_WEIGHT = 0.7  # weight of nearness beside coverage, which is at most 1
COSINE_WEIGHT_WITHOUT_WORDS = 1.0  # weight of nearness where words are not asked for
OTHER_SPEAKER_FACTOR = 2 / 3  # what the words of somebody else are worth
# Many words stand in a long text by chance.
SHORT_TEXT_CHARS = 240  # characters; a longer text's own words count less, slowly
FULL_LENDING_CHARS = 480  # characters; a longer text lends less
MATCH_CURVE = (
    1.2  # match = 1 - exp(-CURVE * evidence): half of the coverage and a fair nearness make one half
)

# A name of one to three words before a colon.
_SPEAKER_PREFIX = re.compile(r"\s*([^\W\d_][\w.'’-]{0,29}(?: [^\W\d_][\w.'’-]{0,29}){0,2}):\s")
_QUESTION_MARK = re.compile(r"[?？]")
_QUESTION_TAIL_CHARS = 120  # characters in which a question at the end of a text stands
USER_NAMES = frozenset({"user", "human"})
ASSISTANT_NAMES = frozenset({"assistant", "ai", "bot", "model", "system", "tool"})


@dataclass(frozen=True)
class Signals:
    """What one memory holds by itself: of each term its share, 0..1, and its cosine with the question."""

    terms: tuple[float, ...]
    cosine: float = 0.0
    chars: int = 0
    speaker: str = ""
    asks: bool = False

    @property
    def lends(self) -> float:
        """Which share of its words and its nearness may help its neighbours."""
        return math.sqrt(min(1.0, FULL_LENDING_CHARS / max(self.chars, 1)))


@dataclass(frozen=True)
class Neighbours:
    """The neighbours of a memory in its session, the nearest first."""

    before: Sequence[int] = ()
    after: Sequence[int] = ()


@dataclass(frozen=True)
class Evidence:
    """What speaks for one memory: coverage 0..1, nearness from 0 up, weighed, and whose words it is."""

    coverage: float
    nearness: float
    voice: float = 1.0

    @property
    def match(self) -> float:
        """How well it answers the question, 0..1."""
        return 1 - math.exp(-MATCH_CURVE * self.voice * (self.coverage + self.nearness))


@dataclass(frozen=True)
class Question:
    """The question: the weight of each term, and whom it is about."""

    weights: Sequence[float]
    words: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, typed: str, weights: Sequence[float]) -> Question:
        return cls(weights, frozenset(words(typed)) - STOP_WORDS)

    def names(self, speaker: str) -> bool:
        """Whether it names this speaker."""
        return not self.words.isdisjoint(speaker.split())


def parse_speaker(text: str) -> str:
    """Who speaks in a text of the form ``Ada: I moved``, folded; empty for any other text."""
    found = _SPEAKER_PREFIX.match(text)
    return fold(found.group(1)) if found else ""


def ends_with_question(text: str) -> bool:
    """Whether a text ends with a question, or nearly."""
    return bool(_QUESTION_MARK.search(text[-_QUESTION_TAIL_CHARS:]))


def combine_evidence(
    asked: Question, held: Mapping[int, Signals], beside: Mapping[int, Neighbours]
) -> dict[int, Evidence]:
    """The evidence for each memory of ``held``; ``beside`` names neighbours, which count where held too."""
    speakers = {one.speaker for one in held.values() if one.speaker}
    named = {one for one in speakers if asked.names(one)}
    users = not speakers.isdisjoint(USER_NAMES)
    whole = sum(asked.weights)
    nearness = COSINE_WEIGHT if whole else COSINE_WEIGHT_WITHOUT_WORDS
    found = {}
    for key, own in held.items():
        around = list(_known_neighbours(beside.get(key, Neighbours()), held))
        terms = _combine_terms(own, around)
        coverage = sum(map(float.__mul__, asked.weights, terms)) / whole if whole else 0.0
        near = max(own.cosine, 0.0) + sum(
            NEIGHBOUR_COSINE_SHARES[far] * one.lends * max(one.cosine, 0.0) for one, far, _ in around
        )
        found[key] = Evidence(coverage, nearness * near, _speaker_factor(own.speaker, named, users=users))
    return found


def link_both_ways(around: Mapping[int, Neighbours]) -> dict[int, Neighbours]:
    """Who has a neighbour is its neighbour: of those named here, too."""
    links = {key: (list(one.before), list(one.after)) for key, one in around.items()}
    for key, one in around.items():
        for far, other in enumerate(one.before):
            _set_neighbour(links.setdefault(other, ([], []))[1], far, key)
        for far, other in enumerate(one.after):
            _set_neighbour(links.setdefault(other, ([], []))[0], far, key)
    return {key: Neighbours(before, after) for key, (before, after) in links.items()}


def _set_neighbour(places: list[int], far: int, key: int) -> None:
    """Put a neighbour at its distance; 0 stands for one that is not known."""
    places.extend([0] * (far + 1 - len(places)))
    places[far] = key


def _known_neighbours(beside: Neighbours, held: Mapping[int, Signals]) -> Iterable[tuple[Signals, int, bool]]:
    """The neighbours that are held, how far away each is, and whether it comes before."""
    for keys, earlier in ((beside.before, True), (beside.after, False)):
        for far, key in enumerate(keys[: len(NEIGHBOUR_WORD_SHARES)]):
            if key in held:
                yield held[key], far, earlier


def _combine_terms(own: Signals, around: Sequence[tuple[Signals, int, bool]]) -> list[float]:
    """Of each term what the memory holds of it, or its neighbours lend, whichever is more."""
    kept = min(1.0, SHORT_TEXT_CHARS / max(own.chars, 1)) ** 0.2
    best = [share * kept for share in own.terms]
    for one, far, earlier in around:
        answered = ANSWER_BONUS if earlier and far == 0 and one.asks else 0.0
        share = (NEIGHBOUR_WORD_SHARES[far] + answered) * one.lends
        best = [max(mine, share * lent) for mine, lent in zip(best, one.terms, strict=True)]
    return best


def _speaker_factor(speaking: str, named: set[str], *, users: bool) -> float:
    """What it is worth who speaks; texts that nobody speaks count whole.

    ``users``: there are words of a user, beside which those of an assistant count less.
    """
    if not speaking or speaking in named:
        return 1.0
    if named - USER_NAMES - ASSISTANT_NAMES:
        return OTHER_SPEAKER_FACTOR
    return OTHER_SPEAKER_FACTOR if users and speaking in ASSISTANT_NAMES else 1.0
