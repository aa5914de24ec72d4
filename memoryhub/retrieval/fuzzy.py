"""Misspelt words of a question, put right by the words of what the asker may see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rapidfuzz import fuzz, process

from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval.frequencies import frequencies_of
from memoryhub.search import query as queries
from memoryhub.search.schema import COLUMNS
from memoryhub.text import words

SHORTEST = 4  # letters: of shorter words too many are one letter apart
LEAST_LIKE = 78.0  # of 100
MOST_WORDS = 8  # of a question that are put right
MOST_ROWS = 120  # memories whose words are looked at
_MOST_CHARS = 20_000  # of each


@dataclass(frozen=True)
class Corrected:
    """``typed`` with other words in it; ``likeness``, 0..1, is that of the one that was changed most."""

    typed: str
    likeness: float


def correct(memories: MemoryQuerySet, typed: str, known: MemoryQuerySet | None = None) -> Corrected | None:
    """The question as it may have been meant; None where all its words are known, or none is like another.

    Only words of ``memories`` take part, which the caller has gated: a correction tells of nothing hidden.
    ``known``: more memories behind the same gate; a word of these is no misspelling.
    """
    query = queries.parse(typed)
    asked = [word for word in query.words if len(word) >= SHORTEST and word.isalpha() and word.isascii()]
    counted = frequencies_of(memories if known is None else known, tuple(asked))
    unknown = [word for word in asked if not counted.of(word)][:MOST_WORDS]
    if not unknown:
        return None
    vocabulary = _vocabulary(memories, unknown)
    changed: dict[str, tuple[str, float]] = {}
    for word in unknown:
        best = process.extractOne(word, vocabulary, scorer=fuzz.ratio, score_cutoff=LEAST_LIKE)
        if best is not None:
            changed[word] = (best[0], best[1] / 100)
    if not changed:
        return None
    line = " ".join(changed[word][0] if word in changed else word for word in words(query.typed))
    return Corrected(line, min(likeness for _, likeness in changed.values()))


def _vocabulary(memories: MemoryQuerySet, unknown: Iterable[str]) -> list[str]:
    """The words of the memories that share most trigrams with the unknown ones."""
    rows = memories.sharing_trigrams(unknown).values_list(*COLUMNS)[:MOST_ROWS]
    found: set[str] = set()
    for texts in rows:
        for text in texts:
            found.update(word for word in words(text[:_MOST_CHARS]) if len(word) >= SHORTEST)
    return sorted(found)
