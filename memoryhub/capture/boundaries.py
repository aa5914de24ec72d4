"""Detect where one piece of work ends and the next begins: keyword Jaccard in a sliding window. Pure.

The method follows LetsGo's memory guide: "detects context shifts via keyword Jaccard similarity in a sliding
window". The window contains the keywords of the last tool outputs of the segment. An output that shares too
little with all of them opens a new segment with an empty window. Keywords are stored as whole words, so that
people can read them, and compared by their stems.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memoryhub.core.text import STOP_WORDS, jaccard, stem, words

MAX_KEYWORDS = 40
MAX_WORD_CHARS = 40  # longer "words" are data
_NUMBER_OR_HASH = re.compile(r"\d.*\d|^\d")
MIN_KEYWORDS = 4  # shorter outputs cannot open a segment
MIN_WINDOW = 2  # outputs that a segment needs before it can end


@dataclass(frozen=True)
class BoundaryDecision:
    """``similarity`` to the window (0..1), the window after this output, and the outputs still in doubt."""

    boundary: bool
    similarity: float
    window: tuple[frozenset[str], ...]
    doubt: tuple[frozenset[str], ...] = ()


def extract_keywords(text: str) -> list[str]:
    """Return the keywords of a text, most frequent first, one word for each stem.

    Stop words, numbers, hashes and words of up to two letters are left out.
    """
    found = (
        word
        for word in words(text)
        if 2 < len(word) <= MAX_WORD_CHARS and word not in STOP_WORDS and not _NUMBER_OR_HASH.search(word)
    )
    return _rank_by_stem(found)[:MAX_KEYWORDS]


def most_common_keywords(groups: Iterable[Iterable[str]], limit: int | None = None) -> list[str]:
    """Return the keywords of several outputs, one word for each stem, those of most outputs first."""
    return _rank_by_stem(word for group in groups for word in dict.fromkeys(group))[:limit]


def unique_keywords(found: Iterable[str]) -> list[str]:
    """Return the first word of each stem."""
    first: dict[str, str] = {}
    for word in found:
        first.setdefault(stem(word), word)
    return list(first.values())


def _rank_by_stem(found: Iterable[str]) -> list[str]:
    """Return one word for each stem, most frequent stem first: its most frequent form, then the shortest."""
    forms: dict[str, dict[str, int]] = {}
    totals: Counter[str] = Counter()
    for word, times in Counter(found).items():
        root = stem(word)
        forms.setdefault(root, {})[word] = times
        totals[root] += times
    ranked = sorted(totals, key=lambda root: (-totals[root], root))
    return [min(forms[root], key=lambda word: (-forms[root][word], len(word), word)) for root in ranked]


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
    """Compare the keywords of a new output with the window.

    The similarity is the highest one to a single output of the window or to all of them together: returning
    to the work of two outputs ago is no boundary, and a repeated output never is. One output is enough for a
    boundary if it shares no word with the window or is below ``sure_below``; otherwise it is in doubt until
    the next output is unlike the window too.
    """
    new, own = frozenset(found), _stems(found)
    if len(own) < MIN_KEYWORDS:
        return BoundaryDecision(False, 1.0, tuple(window), tuple(doubt))
    together = frozenset().union(*window)
    similarity = max((jaccard(own, _stems(other)) for other in (*window, together) if other), default=1.0)
    if len(window) < MIN_WINDOW or similarity >= threshold:
        return BoundaryDecision(False, similarity, (*window, *doubt, new)[-size:])
    if doubt or not similarity or similarity < sure_below:
        return BoundaryDecision(True, similarity, (*doubt, new)[-size:])
    return BoundaryDecision(False, similarity, tuple(window), (new,))
