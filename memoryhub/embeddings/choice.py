"""The provider that the configuration names: made at first use, once for each process and configuration."""

from __future__ import annotations

import threading
import time

from memoryhub.embeddings.chosen import Chosen, problems
from memoryhub.embeddings.protocol import Embedder, EmbeddingError
from memoryhub.embeddings.queries import RememberedQueries

RETRY_SECONDS = 30.0  # a provider that could not be loaded is tried again after this


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
            made = make(chosen)
        except EmbeddingError as error:
            self._failure, self._failed_at = error, time.monotonic()
        else:
            self._embedder = made


_loaded = _Loaded()


def configured() -> Embedder | None:
    """See ``memoryhub.embeddings.configured``."""
    return _loaded.get(Chosen.now())


def make(chosen: Chosen) -> Embedder | None:
    """The provider that is asked for; EmbeddingError when it cannot work or be loaded."""
    for problem in problems(chosen):
        raise EmbeddingError(f"{problem.text}. {problem.mend}")
    if chosen.provider == "wordllama":
        from memoryhub.embeddings.static import StaticEmbedder

        return RememberedQueries(StaticEmbedder.load(), weighs=True)
    if chosen.provider == "onnx":
        from memoryhub.embeddings.encoder import OnnxEmbedder

        return RememberedQueries(OnnxEmbedder.load(chosen.path, chosen.batch), weighs=False)
    if chosen.provider == "openai":
        from memoryhub.embeddings.endpoint import EndpointEmbedder

        return RememberedQueries(EndpointEmbedder(chosen), weighs=False)
    return None
