"""Match a query with the texts of a memory: weights, evidence, the final score, and marked snippets.

No Django imports and no database access.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import count, islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from memoryhub.backends.fts_query import Query, Term
from memoryhub.core.text import STOP_WORDS, WORD, collapse_whitespace, compile_text, fold, stem, words

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


_MAX_CREDIT = {name: min(credit + REPEAT_CREDIT * REPEATS, 1.0) for name, credit in FIELD_CREDIT.items()}
_MAX_COUNTED = REPEATS + 1  # hits in a text; more do not change its credit


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
        lines = "\n".join([text for _, text in texts])
        credits = [
            matcher.credit(texts, is_word=is_word) if matcher.beginning in lines else (0.0, 0)
            for matcher, is_word in zip(self._matchers, present, strict=True)
        ]
        found = [weight for weight, (credit, _) in zip(self._weights, credits, strict=True) if credit]
        if not found:
            return TextMatch(terms=(0.0,) * len(self._matchers))
        match = max([self._match_part(part, credits, lines, title) for part in self._parts])
        shares = tuple(min(credit / FIELD_CREDIT["content"], 1.0) for credit, _ in credits)
        return TextMatch(match, sum(found), shares)

    def _match_part(
        self,
        part: _QueryPart,
        credits: Sequence[tuple[float, int]],
        lines: str,
        title: str,
    ) -> float:
        """Combine the credits of the terms of a part into a match, 0..0.99."""
        covered, earned, in_title = 0.0, 0.0, 0
        for number in part.terms:
            credit, hits = credits[number]
            if credit:
                weight = self._weights[number]
                covered += weight
                earned += weight * credit
                in_title += hits
        if not covered:
            return 0.0
        share = covered / part.weight
        value = word_match(covered, earned, part.weight)
        if len(part.terms) > 1 and part.text in lines:
            value = max(value + PHRASE_BONUS, PHRASE_MATCH)
        if in_title:
            value += FOCUS_BONUS * share * min(in_title / max(len(WORD.findall(title)), 1), 1.0)
        return min(value, 0.99)


class _TermMatcher:
    """Find one term in texts. ``beginning``: a part of all texts that contain it, empty if there is none."""

    def __init__(self, term: Term) -> None:
        self._literal = term.literal
        self._literal_words = len(words(term.literal))
        self._stems = term.stems
        self._words = term.words
        self._is_at_start = term.at_start
        self._variants = [_compile_name(text) for text in term.variants]
        self.beginning = "" if term.literal or term.variants else _beginning(term.stems[0])
        if not term.literal and not term.words[0].startswith(self.beginning):
            self.beginning = ""

    @cached_property
    def _text(self) -> re.Pattern[str]:
        """The pattern of the term inside words. Most searches do not need it."""
        if self._is_at_start:
            return re.compile(rf"(?<![^\W_]){re.escape(self._words[0])}")
        return compile_text(self._literal or self._words[0])

    def credit(self, texts: Sequence[tuple[str, str]], *, is_word: bool = True) -> tuple[float, int]:
        """Return the credit of the best field, 0..1, and the number of hits in the title.

        ``is_word``: false if the term occurs inside words at most. ``texts`` are ordered by field credit, so
        the loop ends when no later field can earn more.
        """
        best, in_title = 0.0, 0
        for name, text in texts:
            if _MAX_CREDIT[name] <= best:
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
            counts = [len(_find_words(text, one, _MAX_COUNTED)) for one in self._stems]
            present = [hits for hits in counts if hits]
            return (min(present), LOOSE_CREDIT * len(present) / self._literal_words) if present else (0, 0.0)
        if is_word and (hits := len(_find_words(text, self._stems[0], _MAX_COUNTED))):
            return hits, 1.0
        if hits := sum(len(pattern.findall(text)) for pattern in self._variants):
            return hits, 1.0
        if self._words[0] not in text:
            return 0, 0.0
        return len(self._text.findall(text)), SUBSTRING_CREDIT


def _compile_name(text: str) -> re.Pattern[str]:
    """Return a pattern for a word, or for words next to each other, with any ending."""
    stems = ((word, stem(word)) for word in words(text))
    starts = (re.escape(one if word.startswith(one) else one[:-1]) for word, one in stems)
    return re.compile(r"(?<![^\W_])" + r"[^\W_]*[\W_]+".join(starts) + r"[^\W_]*")


def _beginning(stem: str) -> str:
    """Return the beginning of words with a stem. Porter changes a final y to i, so it is left open."""
    return stem[:-1] or stem


def _find_words(text: str, wanted: str, limit: int) -> list[tuple[int, int]]:
    """Return the positions of the first words of a folded text with this stem."""
    found: list[tuple[int, int]] = []
    beginning = _beginning(wanted)
    at = text.find(beginning)
    while at >= 0 and len(found) < limit:
        word = WORD.match(text, at)
        # A lookbehind in the pattern would be several times slower.
        if word and not text[at - 1 : at].isalnum() and stem(word[0]) == wanted:
            found.append(word.span())
        at = text.find(beginning, word.end() if word else at + 1)
    return found


SNIPPET_WIDTH = 240
_MAX_HITS = 1000  # of one word in a text; the densest window is one of those with these
_MAX_GRAPHEME = 64  # characters
_JOINER = "\u200d"  # joins emoji: 👩 and 🚀 to 👩\u200d🚀
_MODIFIER = re.compile("[\u200c\u200d\u0e33\u0eb3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_FLAG_LETTER = re.compile("[\U0001f1e6-\U0001f1ff]")  # two of them are one flag
_LAST_FOLDED = 0x2FFFF  # all later characters stay as they are
_LAST_PLAIN = "\u02ff"  # no character up to this one is shown as one with the character before it


def extract_snippet(query: Query, text: str, width: int = SNIPPET_WIDTH) -> str:
    """Return the ``width`` characters of a text with most hits, as safe HTML."""
    line = unicodedata.normalize("NFC", collapse_whitespace(text))
    spans = _find_hits(query, line)
    start = _densest_window(spans, width, len(line))
    end = min(len(line), start + width)
    start, end = _align_to_words(line, start, end)
    graphemes = _Graphemes(line, start, end)
    start, end = graphemes.end(start), graphemes.start(end)
    shown = [(graphemes.start(left), graphemes.end(right)) for left, right in spans if start <= left < end]
    parts = ["…"] if start else []
    position = start
    for left, right in _merge_spans(shown):
        if left < position or right > end:
            continue
        parts += [escape(line[position:left]), "<mark>", escape(line[left:right]), "</mark>"]
        position = right
    parts.append(escape(line[position:end]))
    if end < len(line):
        parts.append("…")
    return "".join(parts)


def snippet_of_first_match(query: Query, texts: Iterable[str]) -> str:
    """Return a snippet of the first text with a hit, or of the first non-empty text."""
    first = ""
    for text in filter(None, texts):
        snippet = extract_snippet(query, text)
        if "<mark>" in snippet:
            return snippet
        first = first or snippet
    return first


def highlight_text(query: Query, text: str) -> str:
    """Return the whole text on one line, as safe HTML with marked hits."""
    return extract_snippet(query, text, width=3 * len(text) + 1)  # a composed form can be three times as long


def _find_hits(query: Query, line: str) -> list[tuple[int, int]]:
    """Return the positions of words with a matching stem and of literals, ordered, without overlaps."""
    # A character for each, so that positions are the same in both.
    folded = line.lower() if line.isascii() else line.translate(_FOLDED)
    stems = {one for term in query.terms for one in term.stems}
    found = [span for one in stems for span in _find_words(folded, one, _MAX_HITS)]
    for pattern in (_compile_name(text) for term in query.terms for text in term.variants):
        found += [hit.span() for hit in islice(pattern.finditer(folded), _MAX_HITS)]
    spans = sorted(found)[:_MAX_HITS]
    literals = [*query.literals, *([query.text] if query.is_literal else [])]
    # Words inside other words are marked only if there is no better hit.
    for text in literals if spans else (*literals, *query.words):
        if text in folded:  # usually not, which saves the compilation
            spans += [hit.span() for hit in islice(compile_text(text).finditer(folded), _MAX_HITS)]
    return _merge_spans(sorted(spans))


class _Folding(dict[int, int | str]):
    """A table for ``str.translate`` that is filled on demand."""

    def __missing__(self, code: int) -> int | str:
        if code > _LAST_FOLDED:
            return code
        character = chr(code)
        folded = fold(character)[:1] or character
        self[code] = code if folded == character else folded  # a number needs less memory
        return self[code]


_FOLDED = _Folding()


class _Graphemes:
    """The positions in a part of a line where a grapheme starts: a character and those shown as one with it.

    Found once, so that the time is linear for runs of marks, joined emoji and flags too. A grapheme that is
    longer than :data:`_MAX_GRAPHEME` may be split.
    """

    def __init__(self, line: str, first: int, last: int) -> None:
        self._first, self._last = max(0, first - _MAX_GRAPHEME), min(len(line), last + _MAX_GRAPHEME)
        part = line[self._first : self._last]
        self._starts = _grapheme_starts(part) if max(part, default="") > _LAST_PLAIN else None

    def start(self, at: int) -> int:
        """Return the position, or the start of the grapheme that it is inside."""
        if self._starts is None or not self._first < at < self._last:
            return at
        return self._first + self._starts[bisect_right(self._starts, at - self._first) - 1]

    def end(self, at: int) -> int:
        """Return the position, or the end of the grapheme that it is inside."""
        if self._starts is None or not self._first < at < self._last:
            return at
        following = bisect_left(self._starts, at - self._first)
        return self._first + self._starts[following] if following < len(self._starts) else self._last


def _grapheme_starts(line: str) -> list[int]:
    starts, before, flag_letters = [0], "", 0
    for at, character in enumerate(line):
        is_second_letter = flag_letters % 2 == 1 and bool(_FLAG_LETTER.match(character))
        if at and not is_second_letter and not _continues_grapheme(before, character):
            starts.append(at)
        flag_letters = flag_letters + 1 if _FLAG_LETTER.match(character) else 0
        before = character
    return starts


def _continues_grapheme(before: str, character: str) -> bool:
    """Return whether a character is shown as one with the character before it."""
    if character <= _LAST_PLAIN:
        return False
    is_mark = unicodedata.category(character).startswith("M")
    return is_mark or before == _JOINER or bool(_MODIFIER.match(character))


def _merge_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for left, right in spans:
        if merged and left <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(right, merged[-1][1]))
        else:
            merged.append((left, right))
    return merged


def _densest_window(spans: list[tuple[int, int]], width: int, length: int) -> int:
    """Return the start of the window with most hits, which includes some text before them."""
    if not spans or length <= width:
        return 0
    lefts, rights = [left for left, _ in spans], [right for _, right in spans]
    starts = [max(0, left - width // 6) for left in lefts]
    best = max(starts, key=lambda s: (bisect_right(rights, s + width) - bisect_left(lefts, s), -s))
    return min(best, max(0, length - width))


def _align_to_words(line: str, start: int, end: int) -> tuple[int, int]:
    """Move the ends to the nearest blank."""
    if start and (blank := line.find(" ", start, start + 20)) != -1:
        start = blank + 1
    if end < len(line) and (blank := line.rfind(" ", end - 20, end)) > start:
        end = blank
    return start, end
