"""Places of a Markdown text that stay marked when it is rendered: each word where it comes to stand.

The places are planted into the text as characters that no text can mean (noncharacters of Unicode), line by
line and inside the signs of the syntax, so that what is parsed is the same. In the HTML they tell which words
to wrap; where one was lost, as in the name of a code block's language, the mark ends with its paragraph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from django.utils.html import escape

_FIRST, _CLOSE = 0xFDD0, "\ufdef"
_KINDS = ord(_CLOSE) - _FIRST  # so many can be told apart
_NONE = re.compile("[\ufdd0-\ufdef]")
# What opens a block, a cell or an emphasis: the mark begins after it, and ends before what closes it.
_LEAD = re.compile(r"(?:[\s>#*+\-_~`|]|\d{1,9}[.)]\s)*")
_RUN = re.compile(r"\S+")
_TRAIL = " \t\r*_~`|#"
_PART = re.compile("(<[^>]*>)|([\ufdd0-\ufdef])|([^<\ufdd0-\ufdef]+)")
_IN_ADDRESS = re.compile("%EF%B7%[9A][0-9A-F]|[\ufdd0-\ufdef]")
_ENDS_BLOCK = re.compile(r"</(?:p|h[1-6]|li|pre|tr|blockquote)>")


class Place(NamedTuple):
    """A stretch of a text, and what it is taken for."""

    start: int
    end: int
    kind: str


def without_signs(text: str) -> str:
    """The text, of the same length, in which none of the characters stands that places are planted with."""
    return _NONE.sub("\ufffd", text)


def kinds_of(places: Iterable[Place]) -> list[str]:
    return sorted({place.kind for place in places})[:_KINDS]


def planted(text: str, places: Sequence[Place]) -> str:
    """The text with signs around each line of these places; of two that overlap the first counts."""
    kinds = kinds_of(places)
    pieces, at = [], 0
    for start, end, kind in _lines(text, places):
        if start >= at and kind in kinds:
            pieces += [text[at:start], chr(_FIRST + kinds.index(kind)), text[start:end], _CLOSE]
            at = end
    return "".join([*pieces, text[at:]])


def _lines(text: str, places: Sequence[Place]) -> Iterator[Place]:
    """What is to be marked, in order, without the signs of the syntax at its edges."""
    addresses = [found.span() for found in _RUN.finditer(text) if "://" in found.group()] if places else []
    for start, end, kind in sorted(places):
        # An address with a sign in it would be another one.
        end = next((last for first, last in addresses if first < end < last), end)
        at = start
        for line in text[start:end].splitlines(keepends=True):
            lead = _LEAD.match(line)
            first = lead.end() if lead else 0
            last = len(line.rstrip().rstrip(_TRAIL))
            if first < last:
                yield Place(at + first, at + last, kind)
            at += len(line)


def with_marks(html: str, kinds: Sequence[str]) -> str:
    """HTML in which the words between planted signs are wrapped, and no sign is left."""
    kind, pieces = "", []
    for tag, sign, words in _PART.findall(html):
        if sign:
            kind = _kind(sign, kinds)
        elif words:
            pieces.append(_wrapped(words, kind))
        else:
            signs = _IN_ADDRESS.findall(tag)
            kind = _kind(unquote(signs[-1]), kinds) if signs else "" if _ENDS_BLOCK.fullmatch(tag) else kind
            pieces.append(_IN_ADDRESS.sub("", tag))
    return "".join(pieces)


def out_of_address(address: str) -> tuple[str, str]:
    """An address as it was before signs were planted in the text, and these signs."""
    return _IN_ADDRESS.sub("", address), unquote("".join(_IN_ADDRESS.findall(address)))


def _kind(sign: str, kinds: Sequence[str]) -> str:
    """What begins with this sign; nothing does with one that closes."""
    number = ord(sign) - _FIRST
    return kinds[number] if number < len(kinds) else ""


def _wrapped(words: str, kind: str) -> str:
    """Blanks between two elements stay as they are: not everywhere may there be something else."""
    return f'<mark title="{escape(kind)}">{words}</mark>' if kind and words.strip() else words
