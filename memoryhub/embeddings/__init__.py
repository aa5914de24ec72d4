"""Texts as vectors, by whichever provider the configuration names."""

from memoryhub.embeddings.base import Embedder, EmbeddingError, Vectors, text_to_embed

__all__ = ["Embedder", "EmbeddingError", "Vectors", "configured", "text_to_embed"]


def configured() -> Embedder | None:
    """The provider in force, None for ``embeddings = "none"``; EmbeddingError when it cannot be loaded."""
    # It reads Django's settings, and the pure modules of this package are to be had without Django.
    from memoryhub.embeddings import provider

    return provider.configured()
