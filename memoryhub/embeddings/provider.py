"""The configured embedding provider, with a cache of query vectors and rate-limited failure logs."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from logging import Logger

from memoryhub.embeddings.base import MAX_TEXT_CHARS, Embedder, EmbeddingError, Vectors
from memoryhub.embeddings.settings import EmbeddingSettings, find_problems

MAX_CACHED_QUERIES = 256  # questions; 1.5 MB at 1536 dimensions


class CachedQueries:
    """Provider that caches query vectors, because the next page of a search embeds the same question.

    ``weighs``: the provider uses word weights, so they are part of the cache key.
    """

    def __init__(self, embedder: Embedder, *, uses_weights: bool, max_size: int = MAX_CACHED_QUERIES) -> None:
        self._embedder, self._uses_weights = embedder, uses_weights
        self._cached_embed = lru_cache(maxsize=max_size)(self._embed)

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
        """Return the read-only unit vector of the first ``MAX_TEXT_CHARS`` characters of a question."""
        return self._cached_embed(
            text[:MAX_TEXT_CHARS], frozenset(weights.items()) if weights and self._uses_weights else None
        )

    def _embed(self, text: str, weights: frozenset[tuple[str, float]] | None) -> Vectors:
        found = self._embedder.query(text, None if weights is None else dict(weights))
        found.setflags(write=False)
        return found


RETRY_SECONDS = 30.0  # until a provider that failed to load is tried again


class _LoadedProvider:
    """The provider of this process, or its load error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._config: EmbeddingSettings | None = None
        self._embedder: Embedder | None = None
        self._failure: EmbeddingError | None = None
        self._failed_at = 0.0

    def get(self, config: EmbeddingSettings) -> Embedder | None:
        with self._lock:
            retry = self._failure is not None and time.monotonic() - self._failed_at > RETRY_SECONDS
            if config != self._config or retry:
                self._load(config)
            if self._failure is not None:
                raise EmbeddingError(str(self._failure))
            return self._embedder

    def _load(self, config: EmbeddingSettings) -> None:
        self._config, self._embedder, self._failure = config, None, None
        try:
            self._embedder = create_embedder(config)
        except EmbeddingError as error:
            self._failure, self._failed_at = error, time.monotonic()


_loaded = _LoadedProvider()


def configured() -> Embedder | None:
    """Return the provider; see ``memoryhub.embeddings.configured``."""
    return _loaded.get(EmbeddingSettings.now())


def create_embedder(config: EmbeddingSettings) -> Embedder | None:
    """Create the selected provider.

    Raise EmbeddingError if its configuration is invalid or it cannot load.
    """
    for problem in find_problems(config):
        raise EmbeddingError(f"{problem.text}. {problem.fix}")
    if config.provider == "wordllama":
        from memoryhub.embeddings.wordllama import StaticEmbedder

        return CachedQueries(StaticEmbedder.load(), uses_weights=True)
    if config.provider in ("onnx", "minilm"):
        from memoryhub.embeddings.onnx import OnnxEmbedder

        if config.provider == "minilm":
            return CachedQueries(OnnxEmbedder.load_minilm(config.batch), uses_weights=False)
        return CachedQueries(OnnxEmbedder.load(config.path, config.batch), uses_weights=False)
    if config.provider == "openai":
        from memoryhub.embeddings.endpoint import EndpointEmbedder

        return CachedQueries(EndpointEmbedder(config), uses_weights=False)
    return None


SECONDS_BETWEEN_WARNINGS = 60.0
_warned: dict[str, tuple[str, float]] = {}  # consequence: (last logged failure, time)


def log_failure(logger: Logger, consequence: str, error: EmbeddingError) -> None:
    """Log a failure and its consequence, unless the same failure was logged recently."""
    now, words = time.monotonic(), str(error)
    logged, at = _warned.get(consequence, ("", 0.0))
    if words != logged or now - at >= SECONDS_BETWEEN_WARNINGS:
        _warned[consequence] = words, now
        logger.warning("%s: %s", consequence, error)
