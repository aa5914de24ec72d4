"""Texts as vectors, by whichever provider the configuration names."""

from memoryhub.embeddings.choice import configured
from memoryhub.embeddings.passages import passage
from memoryhub.embeddings.protocol import Embedder, EmbeddingError, Vectors

__all__ = ["Embedder", "EmbeddingError", "Vectors", "configured", "passage"]
