"""The memories most like a text, by the few rarest of its words: cheap enough for every tool call.

Nothing here counts as an access.
"""

from __future__ import annotations

from memoryhub.querysets import MemoryQuerySet
from memoryhub.search.query import any_of
from memoryhub.search.schema import document_frequencies
from memoryhub.text import STOP_WORDS, stem, terms, words

MOST_WORDS = 6
MOST_POSTINGS = 600  # memories that hold one of the words asked for, all words together
MOST_NEIGHBOURS = 12
_LOOKED_UP = 60  # words of a text whose rarity is asked for
_TEXT = 4000  # characters of a text that are compared


def nearest(memories: MemoryQuerySet, text: str) -> list[set[str]]:
    """The terms of the memories that share most rare words with a text, at most :data:`MOST_NEIGHBOURS`.

    ``memories`` are gated by the caller. Three queries at most, whatever the store holds.
    """
    telling = _telling(text)
    if not telling:
        return []
    rows = memories.matching(any_of(telling)).values_list("title", "content")[:MOST_NEIGHBOURS]
    return [terms(content[:_TEXT]) | terms(title) for title, content in rows]


def _telling(text: str) -> list[str]:
    """The rarest words of a text that stand in the store at all, within the bounds above."""
    useful = [word for word in dict.fromkeys(words(text)) if len(word) > 2 and word not in STOP_WORDS]
    by_stem = {stem(word): word for word in reversed(useful[:_LOOKED_UP])}
    if not by_stem:
        return []
    counted, _ = document_frequencies(list(by_stem))
    chosen: list[str] = []
    room = MOST_POSTINGS
    for one in sorted(counted, key=lambda found: (counted[found], found))[:MOST_WORDS]:
        room -= counted[one]
        if room < 0 and chosen:
            break
        chosen.append(by_stem[one])
    return chosen
