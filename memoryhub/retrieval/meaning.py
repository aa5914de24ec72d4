"""What meaning finds: the question's vector by the configured provider, and the memories near to it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from memoryhub import embeddings
from memoryhub.embeddings import EmbeddingError
from memoryhub.embeddings.failures import warn
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval import scoring
from memoryhub.retrieval.frequencies import Frequencies
from memoryhub.retrieval.semantic import Approach, Near
from memoryhub.search import vector_log
from memoryhub.search.query import Query
from memoryhub.text import words

logger = logging.getLogger(__name__)
# Of a question's vector; the rest goes by how rare a word is. A name that half of the store holds, or a
# question word, says little and would lead astray; a question of common words alone still has a direction.
EVERY_WORD = 0.2
BY_WORDS = "searched by words alone"
OTHER_MODEL = "another model is taking over: memories that have no vector of it yet are found by words alone"
NOT_CONFIGURED = "no embeddings are configured; this was found by words alone"


@dataclass(frozen=True)
class Meaning:
    """What is near; where nobody could be asked, ``failure`` says why. ``note``: what is not there yet."""

    approach: Approach | None = None
    model: str = ""
    failure: str = ""
    note: str = ""

    @cached_property
    def near(self) -> Near:
        return self.approach.end() if self.approach else Near()


def meaning(memories: MemoryQuerySet, query: Query, counted: Frequencies, most: int) -> Meaning:
    """The ``most`` memories of the queryset that are nearest to a question; begun, not waited for."""
    try:
        embedder = embeddings.configured()
        if embedder is None:
            return Meaning(failure=NOT_CONFIGURED)
        vector = embedder.query(query.typed, word_weights(query, counted))
    except EmbeddingError as error:
        warn(logger, BY_WORDS, error)
        return Meaning(failure=f"{BY_WORDS}: {error}")
    others = OTHER_MODEL if vector_log.has_others(embedder.name) else ""
    return Meaning(Approach(memories, vector, embedder.name, most), embedder.name, note=others)


def word_weights(query: Query, counted: Frequencies) -> Mapping[str, float]:
    """What each word of the question weighs in its vector, 0..1; stop words weigh least."""
    rarest = scoring.rarity(0, counted.total)
    known = dict.fromkeys(words(query.typed), EVERY_WORD)
    for word in query.words:
        known[word] = EVERY_WORD + (1 - EVERY_WORD) * scoring.rarity(counted.of(word), counted.total) / rarest
    return known
