"""Snippets of a text around the hits of a query, HTML-escaped, with ``<mark>`` around each hit."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import lru_cache
from html import escape
from itertools import islice
from typing import NamedTuple

from memoryhub.backends.fts_query import Query
from memoryhub.core.text import collapse_whitespace, compile_text, fold, stem

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
    for text in texts:
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
    folded = line.translate(_FOLDED)  # a character for each, so that positions are the same in both
    stems, words, literals, parts = _patterns(query)
    spans: list[tuple[int, int]] = []
    if words:
        spans += islice((word.span() for word in words.finditer(folded) if stem(word[0]) in stems), _MAX_HITS)
    # Words inside other words are marked only if there is no better hit.
    for text in literals if spans else (*literals, *parts):
        spans += [found.span() for found in islice(text.finditer(folded), _MAX_HITS)]
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


class _Patterns(NamedTuple):
    """What is marked: words with one of these stems, literals, and words of the query inside words."""

    stems: frozenset[str]
    words: re.Pattern[str] | None
    literals: tuple[re.Pattern[str], ...]
    parts: tuple[re.Pattern[str], ...]


@lru_cache(maxsize=128)
def _patterns(query: Query) -> _Patterns:
    stems = frozenset(one for term in query.terms for one in term.stems)
    # Porter changes a final y to i, so the last letter of a stem is left open.
    starts = "|".join(sorted({re.escape(one[:-1] or one) for one in stems}))
    words = re.compile(rf"(?<![^\W_])(?:{starts})[^\W_]*") if stems else None
    literals = [*query.literals, *([query.text] if query.is_literal else [])]
    return _Patterns(stems, words, tuple(map(compile_text, literals)), tuple(map(compile_text, query.words)))


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
