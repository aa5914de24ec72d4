"""Matching of a query with the texts of one memory, and snippets of a text with ``<mark>`` around each hit.

No Django imports and no database access.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import islice
from typing import NamedTuple

from memoryhub.backends.fts_query import Query, Term
from memoryhub.core.text import WORD, collapse_whitespace, compile_text, fold, stem, words
from memoryhub.search import scoring
from memoryhub.search.scoring import (
    FIELD_CREDIT,
    FOCUS_BONUS,
    LOOSE_CREDIT,
    PHRASE_BONUS,
    PHRASE_MATCH,
    REPEAT_CREDIT,
    REPEATS,
    SUBSTRING_CREDIT,
)

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
        value = scoring.word_match(covered, earned, part.weight)
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
