"""How alike memories are: by the vectors of the configured model, and in words for people."""

from __future__ import annotations

from memoryhub.embeddings import Embedder, EmbeddingError, configured

# From which cosine on this is said of two memories.
_SAID = (
    (0.95, "says nearly the same"),
    (0.8, "says much the same"),
    (0.6, "is about much the same"),
    (0.4, "is about something alike"),
)


def provider() -> tuple[Embedder | None, str]:
    """The provider whose vectors can be compared now, or why there is none."""
    try:
        embedder = configured()
    except EmbeddingError as error:
        return None, str(error)
    if embedder is None:
        return None, "no embeddings are configured"
    if not embedder.dimensions:
        return None, "the provider of embeddings has not answered yet"
    return embedder, ""


def in_words(cosine: float) -> str:
    """What a cosine means."""
    return next((said for least, said in _SAID if cosine >= least), "says something else")
