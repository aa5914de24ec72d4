"""Where one piece of work ends and the next begins: keyword Jaccard in a sliding window. Pure.

LetsGo's memory guide: "detects context shifts via keyword Jaccard similarity in a sliding window". The window
holds the keywords of the last tool outputs of the segment; one that shares too little with all of them opens
a new segment, and a new segment starts with a fresh window. Keywords are whole words, for people to read, and
are compared by their stems.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memoryhub.core.text import STOP_WORDS, jaccard, stem, words

MAX_KEYWORDS = 40
MAX_WORD_CHARS = 40  # a longer "word" is data
_NUMBER_OR_HASH = re.compile(r"\d.*\d|^\d")  # a number, a date, a hash
MIN_KEYWORDS = 4  # a shorter output says too little to be a shift
MIN_WINDOW = 2  # outputs that a segment needs before it can end


@dataclass(frozen=True)
class BoundaryDecision:
    """``similarity`` to the window, 0..1; the window after this output; the outputs that are in doubt."""

    boundary: bool
    similarity: float
    window: tuple[frozenset[str], ...]
    doubt: tuple[frozenset[str], ...] = ()


def extract_keywords(text: str, most: int = MAX_KEYWORDS) -> list[str]:
    """The words that stand for a text, most frequent first; numbers, hashes and letters say nothing.

    Words of one stem count as one, and are told in their commonest form.
    """
    telling = (
        word
        for word in words(text)
        if 2 < len(word) <= MAX_WORD_CHARS and word not in STOP_WORDS and not _NUMBER_OR_HASH.search(word)
    )
    return _rank_by_stem(telling, most)


def most_common_keywords(groups: Iterable[Iterable[str]], most: int | None = None) -> list[str]:
    """The keywords of several outputs, each stem once: those of most outputs first."""
    return _rank_by_stem((word for group in groups for word in dict.fromkeys(group)), most)


def unique_keywords(found: Iterable[str]) -> list[str]:
    """Each stem once, in the form that came first."""
    first: dict[str, str] = {}
    for word in found:
        first.setdefault(stem(word), word)
    return list(first.values())


def _rank_by_stem(found: Iterable[str], most: int | None) -> list[str]:
    """A word for each stem, the most frequent first: its form found most often, the shortest of several."""
    forms: dict[str, dict[str, int]] = {}
    totals: Counter[str] = Counter()
    for word, times in Counter(found).items():
        root = stem(word)
        forms.setdefault(root, {})[word] = times
        totals[root] += times
    ranked = sorted(totals, key=lambda one: (-totals[one], one))[:most]
    return [min(forms[one], key=lambda word: (-forms[one][word], len(word), word)) for one in ranked]


def _stems(found: Iterable[str]) -> set[str]:
    return set(map(stem, found))


def detect_boundary(
    found: Sequence[str],
    window: Sequence[frozenset[str]],
    threshold: float,
    size: int,
    doubt: Sequence[frozenset[str]] = (),
    sure_below: float = 1.0,
) -> BoundaryDecision:
    """Hold the keywords of a new output against the window.

    The similarity is that to the nearest of the outputs in the window or to all of them together,
    whichever is higher: going back to what was done two outputs ago is no shift, and a repeat never is.
    Below ``sure_below`` one output is believed; otherwise it is in doubt until the next one is unlike the
    window too.
    """
    new, own = frozenset(found), _stems(found)
    if len(own) < MIN_KEYWORDS:
        return BoundaryDecision(False, 1.0, tuple(window), tuple(doubt))
    together = frozenset().union(*window)
    similarity = max((jaccard(own, _stems(one)) for one in (*window, together) if one), default=1.0)
    if len(window) < MIN_WINDOW or similarity >= threshold:
        return BoundaryDecision(False, similarity, (*window, *doubt, new)[-size:])
    if doubt or similarity < sure_below:
        return BoundaryDecision(True, similarity, (*doubt, new)[-size:])
    return BoundaryDecision(False, similarity, tuple(window), (new,))
