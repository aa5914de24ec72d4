"""Mark parts of a Markdown text, so that they are marked in its HTML, too.

Characters that no text needs surround the parts while the text is rendered.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from django.utils.html import escape

_FIRST_MARKER, _END_MARKER = 0xFDD0, "\ufdef"
_MAX_KINDS = ord(_END_MARKER) - _FIRST_MARKER  # one start marker each
_MARKER = re.compile("[\ufdd0-\ufdef]")
# Syntax that opens a block, a cell or an emphasis: a marked span starts after it and ends before its end.
_LEADING_SYNTAX = re.compile(r"(?:[\s>#*+\-_~`|]|\d{1,9}[.)]\s)*")
_WORD = re.compile(r"\S+")
_TRAILING_SYNTAX = " \t\r*_~`|#"
_HTML_PART = re.compile("(<[^>]*>)|([\ufdd0-\ufdef])|([^<\ufdd0-\ufdef]+)")
_MARKER_IN_URL = re.compile("%EF%B7%[9A][0-9A-F]|[\ufdd0-\ufdef]")
_BLOCK_END = re.compile(r"</(?:p|h[1-6]|li|pre|tr|blockquote)>")


class MarkedSpan(NamedTuple):
    """A part of a text, and the kind of finding it is."""

    start: int
    end: int
    kind: str


def replace_marker_characters(text: str) -> str:
    """Replace the characters that serve as markers; the length stays the same."""
    return _MARKER.sub("\ufffd", text)


def span_kinds(spans: Iterable[MarkedSpan]) -> list[str]:
    return sorted({span.kind for span in spans})[:_MAX_KINDS]


def insert_markers(text: str, spans: Sequence[MarkedSpan]) -> str:
    """Insert markers around each line of the spans; of two overlapping spans the first wins."""
    kinds = span_kinds(spans)
    pieces, at = [], 0
    for start, end, kind in _marked_lines(text, spans):
        if start >= at and kind in kinds:
            pieces += [text[at:start], chr(_FIRST_MARKER + kinds.index(kind)), text[start:end], _END_MARKER]
            at = end
    return "".join([*pieces, text[at:]])


def _marked_lines(text: str, spans: Sequence[MarkedSpan]) -> Iterator[MarkedSpan]:
    """Yield the spans by line, in order, without Markdown syntax at their edges."""
    urls = [found.span() for found in _WORD.finditer(text) if "://" in found.group()] if spans else []
    starts, ends = [first for first, _ in urls], [last for _, last in urls]
    for start, end, kind in sorted(spans):
        # A marker must not split a URL.
        url = bisect_left(starts, end) - 1
        end = max(end, ends[url]) if url >= 0 else end
        at = start
        for line in text[start:end].splitlines(keepends=True):
            lead = _LEADING_SYNTAX.match(line)
            first = lead.end() if lead else 0
            last = len(line.rstrip().rstrip(_TRAILING_SYNTAX))
            if first < last:
                yield MarkedSpan(at + first, at + last, kind)
            at += len(line)


def markers_to_html(html: str, kinds: Sequence[str]) -> str:
    """Wrap the text between markers in ``mark`` elements and remove the markers."""
    kind, pieces = "", []
    for tag, marker, words in _HTML_PART.findall(html):
        if marker:
            kind = _marker_kind(marker, kinds)
        elif words:
            pieces.append(_wrap_in_mark(words, kind))
        else:
            if markers := _MARKER_IN_URL.findall(tag):
                kind = _marker_kind(unquote(markers[-1]), kinds)
            elif _BLOCK_END.fullmatch(tag):
                kind = ""
            pieces.append(_MARKER_IN_URL.sub("", tag))
    return "".join(pieces)


def split_url_markers(url: str) -> tuple[str, str]:
    """Return a URL without markers, and the markers."""
    return _MARKER_IN_URL.sub("", url), unquote("".join(_MARKER_IN_URL.findall(url)))


def _marker_kind(marker: str, kinds: Sequence[str]) -> str:
    """Return the kind that a start marker opens; empty for an end marker."""
    number = ord(marker) - _FIRST_MARKER
    return kinds[number] if number < len(kinds) else ""


def _wrap_in_mark(words: str, kind: str) -> str:
    """Leave whitespace between elements unmarked: some elements may not contain ``mark``."""
    return f'<mark title="{escape(kind)}">{words}</mark>' if kind and words.strip() else words
