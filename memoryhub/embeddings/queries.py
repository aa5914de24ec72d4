"""Vectors of questions that were asked lately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from memoryhub.embeddings.passages import MOST_CHARS
from memoryhub.embeddings.protocol import Embedder, Vectors

KEPT = 256  # questions; with 1536 dimensions 1.5 MB


class RememberedQueries:
    """A provider that need not embed the same question twice: the next page of a search asks it again.

    ``weighs``: the provider heeds the weights of words, so that other weights make another question.
    """

    def __init__(self, embedder: Embedder, *, weighs: bool, kept: int = KEPT) -> None:
        self._embedder, self._weighs = embedder, weighs
        self._recall = lru_cache(maxsize=kept)(self._ask)

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    @property
    def in_process(self) -> bool:
        return self._embedder.in_process

    def documents(self, texts: Sequence[str]) -> Vectors:
        return self._embedder.documents(texts)

    def query(self, text: str, weights: Mapping[str, float] | None = None) -> Vectors:
        """The unit vector of the first ``MOST_CHARS`` characters of a question; it cannot be written to."""
        return self._recall(
            text[:MOST_CHARS], frozenset(weights.items()) if weights and self._weighs else None
        )

    def _ask(self, text: str, weights: frozenset[tuple[str, float]] | None) -> Vectors:
        found = self._embedder.query(text, None if weights is None else dict(weights))
        found.setflags(write=False)
        return found
