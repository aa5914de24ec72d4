"""The provider that the configuration names: made at first use, once for each process and configuration."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from django.conf import settings

from memoryhub.embeddings.protocol import Embedder, EmbeddingError
from memoryhub.embeddings.queries import RememberedQueries

RETRY_SECONDS = 30.0  # a provider that could not be loaded is tried again after this


@dataclass(frozen=True)
class Chosen:
    """What decides which vectors come out."""

    provider: str
    folder: str
    url: str
    model: str
    timeout_seconds: float
    batch: int
    key: str

    @classmethod
    def now(cls) -> Chosen:
        """As the settings stand."""
        config = settings.MEMORYHUB
        return cls(
            config.embeddings,
            config.embeddings_folder,
            config.embeddings_url,
            config.embeddings_model,
            config.embeddings_timeout_seconds,
            config.embeddings_batch,
            settings.EMBEDDINGS_KEY,
        )


class _Loaded:
    """The one provider of this process, or why there is none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._chosen: Chosen | None = None
        self._embedder: Embedder | None = None
        self._failure: EmbeddingError | None = None
        self._failed_at = 0.0

    def get(self, chosen: Chosen) -> Embedder | None:
        with self._lock:
            if chosen != self._chosen or self._may_try_again():
                self._load(chosen)
            if self._failure is not None:
                raise EmbeddingError(str(self._failure))
            return self._embedder

    def _may_try_again(self) -> bool:
        return self._failure is not None and time.monotonic() - self._failed_at > RETRY_SECONDS

    def _load(self, chosen: Chosen) -> None:
        self._chosen, self._embedder, self._failure = chosen, None, None
        try:
            made = _make(chosen)
        except EmbeddingError as error:
            self._failure, self._failed_at = error, time.monotonic()
        else:
            self._embedder = RememberedQueries(made) if made else None


_loaded = _Loaded()


def configured() -> Embedder | None:
    """The provider in force, None for ``embeddings = "none"``; EmbeddingError when it cannot be loaded."""
    return _loaded.get(Chosen.now())


def _make(chosen: Chosen) -> Embedder | None:
    if chosen.provider == "wordllama":
        from memoryhub.embeddings.static import StaticEmbedder

        return StaticEmbedder.load()
    return None
