"""Text embeddings by the configured provider (:mod:`memoryhub.embeddings.provider`)."""

from memoryhub.embeddings.base import Embedder, EmbeddingError, Vectors, text_to_embed

__all__ = ["Embedder", "EmbeddingError", "Vectors", "text_to_embed"]
