"""The memories most like a text, by the few rarest of its words: cheap enough for every tool call.

Nothing here counts as an access.
"""

from __future__ import annotations

from memoryhub.querysets import MemoryQuerySet
from memoryhub.search.query import any_of
from memoryhub.search.rarity import rare_words
from memoryhub.text import STOP_WORDS, terms, words

MOST_WORDS = 6
MOST_POSTINGS = 600  # memories that hold one of the words asked for; a word in more of them is not rare
MOST_NEIGHBOURS = 12
# Words of a text whose rarity is asked for: names and long words are the rare ones as a rule.
_LOOKED_UP = 30
_TOGETHER = 4  # common words that a memory has to hold all of
_TEXT = 4000  # characters of a text that are compared


def nearest(memories: MemoryQuerySet, text: str) -> list[set[str]]:
    """The terms of the memories that share most rare words with a text, at most :data:`MOST_NEIGHBOURS`.

    Of a text that has only common words, the latest memories that hold several of them together. ``memories``
    are gated by the caller. Two queries, whatever the store holds.
    """
    useful = [word for word in dict.fromkeys(words(text)) if len(word) > 2 and word not in STOP_WORDS]
    likely = sorted(useful, key=lambda word: (-any(map(str.isdigit, word)), -len(word)))[:_LOOKED_UP]
    if not likely:
        return []
    counted = rare_words(likely, MOST_POSTINGS)
    rare = sorted(counted, key=lambda word: (counted[word], word))[:MOST_WORDS]
    if rare:
        found = memories.matching(any_of(rare))
    else:
        together = " AND ".join(any_of([word]) for word in likely[:_TOGETHER])
        found = memories.matching(together).order_by("-text_index__pk")
    rows = found.values_list("title", "content")[:MOST_NEIGHBOURS]
    return [terms(content[:_TEXT]) | terms(title) for title, content in rows]
