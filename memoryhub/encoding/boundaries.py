"""Where one piece of work ends and the next begins: keyword Jaccard in a sliding window. Pure.

LetsGo's memory guide: "detects context shifts via keyword Jaccard similarity in a sliding window". The window
holds the keywords of the last tool outputs of the segment; one that shares too little with all of them opens
a new segment, and a new segment starts with a fresh window.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memoryhub.text import STOP_WORDS, jaccard, stem, words

MAX_KEYWORDS = 40
MAX_LETTERS = 40  # a longer "word" is data
_DATA = re.compile(r"\d.*\d|^\d")  # a number, a date, a hash
MIN_KEYWORDS = 4  # a shorter output says too little to be a shift
MIN_WINDOW = 2  # outputs that a segment needs before it can end


@dataclass(frozen=True)
class Judgement:
    """``similarity`` to the window, 0..1; the window after this output; the outputs that are in doubt."""

    boundary: bool
    similarity: float
    window: tuple[frozenset[str], ...]
    doubt: tuple[frozenset[str], ...] = ()


def keywords(text: str, most: int = MAX_KEYWORDS) -> list[str]:
    """The stems that stand for a text, most frequent first; numbers, hashes and letters say nothing."""
    counted: dict[str, int] = {}
    for word in words(text):
        if 2 < len(word) <= MAX_LETTERS and word not in STOP_WORDS and not _DATA.search(word):
            one = stem(word)
            counted[one] = counted.get(one, 0) + 1
    return sorted(counted, key=lambda one: (-counted[one], one))[:most]


def judge(
    found: Sequence[str],
    window: Sequence[frozenset[str]],
    threshold: float,
    size: int,
    doubt: Sequence[frozenset[str]] = (),
    sure_below: float = 1.0,
) -> Judgement:
    """Hold the keywords of a new output against the window.

    The similarity is that to the nearest of the outputs in the window or to all of them together,
    whichever is higher: going back to what was done two outputs ago is no shift, and a repeat never is.
    Below ``sure_below`` one output is believed; otherwise it is in doubt until the next one is unlike the
    window too.
    """
    new = frozenset(found)
    if len(new) < MIN_KEYWORDS:
        return Judgement(False, 1.0, tuple(window), tuple(doubt))
    together = frozenset().union(*window)
    similarity = max((jaccard(set(new), set(one)) for one in (*window, together) if one), default=1.0)
    if len(window) < MIN_WINDOW or similarity >= threshold:
        return Judgement(False, similarity, (*window, *doubt, new)[-size:])
    if doubt or similarity < sure_below:
        return Judgement(True, similarity, (*doubt, new)[-size:])
    return Judgement(False, similarity, tuple(window), (new,))
