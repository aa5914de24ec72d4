"""The vectors of memories, written in the transaction that writes the texts if the provider is local.

A missing, failing or remote provider never prevents storing: the ``embed`` operation adds the vector later.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.db.models import Exists, OuterRef

from memoryhub import embeddings
from memoryhub.backends import EMBEDDED_COLUMNS, bulk
from memoryhub.backends.change_log import STORED_TYPE
from memoryhub.core.database import batched, write_transaction
from memoryhub.embeddings import Embedder, EmbeddingError, Vectors, provider
from memoryhub.embeddings.base import EmbeddingSettings
from memoryhub.embeddings.provider import current_settings, log_failure
from memoryhub.memories.rows import CHUNK_SIZE
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Embedding, Memory
from memoryhub.models.querysets import MemoryQuerySet

logger = logging.getLogger(__name__)
STORED_WITHOUT_VECTORS = "memories are stored without vectors, which come later"


def embedding_text(texts: Any) -> str:
    """Return the text to embed for a memory, a draft or a patch."""
    return embeddings.text_to_embed(*(getattr(texts, column) or "" for column in EMBEDDED_COLUMNS))


class PreparedVectors:
    """Vectors that are computed before the transaction that writes their texts, so that it stays short.

    ``made``: the vectors of these texts (without repeats), if another process has computed them.
    """

    def __init__(self, texts: Iterable[str] = (), made: Vectors | None = None) -> None:
        self._embedder = _local_provider()
        self._known: dict[str, Vectors] = {}
        if self._embedder is not None and made is not None:
            self._known.update(zip(dict.fromkeys(texts), made, strict=True))
        else:
            self._embed(texts)

    def insert(self, memories: Sequence[Memory]) -> None:
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

    def refresh(self, memory: Memory) -> None:
        """Insert the vector of a changed memory. A trigger has deleted it if a text changed."""
        if self._embedder is None:
            return
        stored = Embedding.objects.filter(memory=memory)
        if stored.filter(model=self._embedder.name).exists():
            return
        stored.delete()
        self.insert([memory])

    def _embed(self, texts: Iterable[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if self._embedder is None or not new:
            return
        try:
            self._known.update(zip(new, self._embedder.documents(new), strict=True))
        except EmbeddingError as error:
            log_failure(logger, STORED_WITHOUT_VECTORS, error)


_left_out: ContextVar[bool] = ContextVar("left_out", default=False)


@contextmanager
def without_vectors() -> Iterator[None]:
    """Write no vectors in this context: for changes that are rolled back, so that they take less time."""
    token = _left_out.set(True)
    try:
        yield
    finally:
        _left_out.reset(token)


def _local_provider() -> Embedder | None:
    """Return the provider if it runs in this process."""
    if _left_out.get():
        return None
    try:
        embedder = provider.configured()
    except EmbeddingError as error:
        log_failure(logger, STORED_WITHOUT_VECTORS, error)
        return None
    return embedder if embedder and embedder.in_process else None


def local_settings() -> EmbeddingSettings | None:
    """Return the settings of the provider if it runs in this process."""
    return current_settings() if _local_provider() else None


def memories_without_vector(model: str) -> MemoryQuerySet:
    """Return all memories without a vector of this model, including trashed ones, of every level."""
    own = Embedding.objects.filter(memory=OuterRef("pk"), model=model)
    return Memory.objects.filter(~Exists(own))


def store_vectors(model: str, passages: dict[int, str], made: Vectors) -> set[int]:
    """Store the vectors that were made of these passages. Return the keys of memories that got one.

    Skips memories whose texts changed, that were deleted, or that got a vector in the meantime.
    """
    taken: list[tuple[int, Vectors]] = []
    by_key = dict(zip(passages, made, strict=True))
    with write_transaction():
        for keys in batched(passages, CHUNK_SIZE):
            rows = memories_without_vector(model).filter(pk__in=keys).values_list("pk", *EMBEDDED_COLUMNS)
            still = [pk for pk, *texts in rows if embeddings.text_to_embed(*texts) == passages[pk]]
            Embedding.objects.filter(memory__in=still).delete()
            taken += [(pk, by_key[pk]) for pk in still]
        if taken:
            _insert_vectors(model, taken)
    return {pk for pk, _ in taken}


def _insert_vectors(model: str, rows: Sequence[tuple[int, Vectors]]) -> None:
    values = [(pk, model, encode_vector(vector)) for pk, vector in rows]
    bulk.insert(Embedding, ("memory_id", "model", "vector"), values)


def encode_vector(vector: Vectors) -> bytes:
    """Return a vector as the table stores it."""
    return vector.astype(STORED_TYPE).tobytes()


def embed_drafts(drafts: Iterable[MemoryDraft]) -> PreparedVectors:
    """Compute the drafts' vectors before a transaction is opened, if the provider runs in this process."""
    return PreparedVectors(map(embedding_text, drafts))
