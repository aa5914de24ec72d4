"""Memories get their vectors with their texts, in the same transaction, where the provider is at hand.

A provider that is missing, fails or is far away never keeps anything from being stored: the vector comes
later, by the operation ``embed``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Exists, OuterRef

from memoryhub import embeddings
from memoryhub.backends import bulk
from memoryhub.backends.schema import TEXT_COLUMNS
from memoryhub.backends.vector_index import encode_vector
from memoryhub.core.chunks import batched
from memoryhub.core.transactions import write_transaction
from memoryhub.embeddings import Embedder, EmbeddingError, Vectors
from memoryhub.embeddings.provider import log_failure
from memoryhub.memories.rows import CHUNK_SIZE
from memoryhub.models import Embedding, Memory
from memoryhub.models.querysets import MemoryQuerySet

logger = logging.getLogger(__name__)
STORED_WITHOUT_VECTORS = "memories are stored without vectors, which come later"


def embedding_text(texts: Any) -> str:
    """What is embedded of a memory, a draft or a patch."""
    return embeddings.text_to_embed(*(getattr(texts, column) or "" for column in TEXT_COLUMNS))


class PreparedVectors:
    """Vectors made before the transaction that writes their texts: nobody waits for them in it."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._embedder = _local_provider()
        self._known: dict[str, Vectors] = {}
        self._embed(texts)

    def write(self, memories: Sequence[Memory]) -> None:
        """For memories just inserted."""
        if self._embedder is None or not memories:
            return
        texts = [embedding_text(memory) for memory in memories]
        self._embed(texts)
        rows = [
            (memory.pk, self._known[text])
            for memory, text in zip(memories, texts, strict=True)
            if text in self._known
        ]
        if rows:
            _insert_vectors(self._embedder.name, rows)

    def renew(self, memory: Memory) -> None:
        """For one that was changed: if its texts were, the database has taken its vector away."""
        if self._embedder is None:
            return
        there = Embedding.objects.filter(memory=memory)
        if there.filter(model=self._embedder.name).exists():
            return
        there.delete()
        self.write([memory])

    def _embed(self, texts: Iterable[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if self._embedder is None or not new:
            return
        try:
            self._known.update(zip(new, self._embedder.documents(new), strict=True))
        except EmbeddingError as error:
            log_failure(logger, STORED_WITHOUT_VECTORS, error)


def _local_provider() -> Embedder | None:
    """The provider, if it works in this process."""
    try:
        embedder = embeddings.configured()
    except EmbeddingError as error:
        log_failure(logger, STORED_WITHOUT_VECTORS, error)
        return None
    return embedder if embedder and embedder.in_process else None


def memories_without_vector(model: str) -> MemoryQuerySet:
    """All memories, in the trash and of any level too, that have no vector of this model."""
    own = Embedding.objects.filter(memory=OuterRef("pk"), model=model)
    found: MemoryQuerySet = Memory.objects.filter(~Exists(own))
    return found


def store_vectors(model: str, passages: dict[int, str], made: Vectors) -> set[int]:
    """Give memories the vectors made of these passages, in step; returns the keys of those that took one.

    Left out are memories whose texts are others by now, that are gone, or that got one meanwhile.
    """
    taken: list[tuple[int, Vectors]] = []
    by_key = dict(zip(passages, made, strict=True))
    with write_transaction():
        for keys in batched(passages, CHUNK_SIZE):
            rows = memories_without_vector(model).filter(pk__in=keys).values_list("pk", *TEXT_COLUMNS)
            still = [pk for pk, *texts in rows if embeddings.text_to_embed(*texts) == passages[pk]]
            Embedding.objects.filter(memory__in=still).delete()
            taken += [(pk, by_key[pk]) for pk in still]
        if taken:
            _insert_vectors(model, taken)
    return {pk for pk, _ in taken}


def _insert_vectors(model: str, rows: Sequence[tuple[int, Vectors]]) -> None:
    values = [(pk, model, encode_vector(vector)) for pk, vector in rows]
    bulk.insert(Embedding, ("memory_id", "model", "vector"), values)
