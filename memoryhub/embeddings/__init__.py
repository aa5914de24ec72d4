"""Texts as vectors, by whichever provider the configuration names."""

from memoryhub.embeddings.passages import passage
from memoryhub.embeddings.protocol import Embedder, EmbeddingError, Vectors

__all__ = ["Embedder", "EmbeddingError", "Vectors", "configured", "passage"]


def configured() -> Embedder | None:
    """The provider in force, None for ``embeddings = "none"``; EmbeddingError when it cannot be loaded."""
    from memoryhub.embeddings import choice  # reads Django's settings, which the package's pure modules do not

    return choice.configured()
