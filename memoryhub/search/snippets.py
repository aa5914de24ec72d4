"""Snippets of a text around the hits of a query, HTML-escaped, with ``<mark>`` around each hit."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import lru_cache
from html import escape
from typing import NamedTuple

from memoryhub.backends.fts_query import Query
from memoryhub.core.text import collapse_whitespace, compile_text, fold, stem

SNIPPET_WIDTH = 240
_JOINER = "\u200d"  # joins emoji: 👩 and 🚀 to 👩\u200d🚀
_MODIFIER = re.compile("[\u200c\u200d\u0e33\u0eb3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_FLAG_LETTERS = re.compile("[\U0001f1e6-\U0001f1ff]+\\Z")  # two of them are one flag


def extract_snippet(query: Query, text: str, width: int = SNIPPET_WIDTH) -> str:
    """Return the ``width`` characters of a text with most hits, as safe HTML."""
    line = unicodedata.normalize("NFC", collapse_whitespace(text))
    spans = _find_hits(query, line)
    start = _densest_window(spans, width, len(line))
    end = min(len(line), start + width)
    start, end = _align_to_words(line, start, end)
    start, end = _grapheme_end(line, start), _grapheme_start(line, end)
    parts = ["…"] if start else []
    position = start
    for left, right in spans:
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
    folded = fold(line)
    if len(folded) != len(line):  # positions must be the same in both
        folded = "".join(fold(char)[:1] for char in line)
    stems, words, literals, parts = _patterns(query)
    spans = [word.span() for word in words.finditer(folded) if stem(word[0]) in stems] if words else []
    # Words inside other words are marked only if there is no better hit.
    for text in literals if spans else (*literals, *parts):
        spans += [found.span() for found in text.finditer(folded)]
    if not line.isascii():
        spans = [(_grapheme_start(line, left), _grapheme_end(line, right)) for left, right in spans]
    return _merge_spans(sorted(spans))


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


def _grapheme_start(line: str, at: int) -> int:
    while 0 < at < len(line) and _continues_grapheme(line, at):
        at -= 1
    return at


def _grapheme_end(line: str, at: int) -> int:
    while 0 < at < len(line) and _continues_grapheme(line, at):
        at += 1
    return at


def _continues_grapheme(line: str, at: int) -> bool:
    """Return whether the character at this position is shown as one with those before it."""
    if line[at] <= "\u02ff":
        return False
    before = line[at - 1]
    if _FLAG_LETTERS.match(line[at]) and _FLAG_LETTERS.match(before):
        letters = _FLAG_LETTERS.search(line[:at])
        return letters is not None and len(letters[0]) % 2 == 1
    is_mark = unicodedata.category(line[at]).startswith("M")
    return is_mark or before == _JOINER or bool(_MODIFIER.match(line[at]))


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
