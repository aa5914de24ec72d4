"""Text embeddings by the configured provider."""

from memoryhub.embeddings.base import Embedder, EmbeddingError, Vectors, text_to_embed


def configured() -> Embedder | None:
    """Return the configured provider, or None for ``embeddings = "none"``.

    Raise EmbeddingError if it cannot load.
    """
    # Import late: the provider needs Django's settings, the protocol in this package does not.
    from memoryhub.embeddings import provider

    return provider.configured()
