"""Worker processes that check texts for secrets and compute their vectors ahead of a large import.

Only the importing process writes. A worker loads this module without setting up Django, so nothing here
imports models or reads settings.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, NamedTuple, Self

from memoryhub.embeddings.base import Embedder, EmbeddingError, EmbeddingSettings, Vectors
from memoryhub.embeddings.provider import create_embedder
from memoryhub.security.secrets import compile_rules, may_contain_secrets


class PreparedTexts(NamedTuple):
    """For each checked text, whether it may contain secrets; and the vectors, None if the provider failed."""

    suspect: list[bool]
    vectors: Vectors | None


Task = Future[PreparedTexts]
_TEXTS_WORTH_A_WORKER = 1500  # starting one takes about a second of CPU
_SECONDS_TO_END = 3  # of a pool whose worker was killed


class TextWorkers:
    """A pool of workers. It starts with the second full batch: one batch is stored before a worker is ready.

    Each worker starts as a new interpreter, because a fork would copy the locks that other threads have
    acquired. Until the first worker is ready, the caller does the work.
    """

    def __init__(self, count: int, config: EmbeddingSettings | None) -> None:
        self.count, self._config, self._texts = count, config, 0
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is None:
            return
        if self._pool._broken:
            # Python 3.11.2 waits forever for the thread that sends a task to a killed worker, because it does
            # not close the reading end of the pipe. Later versions close it.
            manager: Any = self._pool._executor_manager_thread
            manager.join(_SECONDS_TO_END)
            if manager.is_alive():
                self._pool._call_queue._reader.close()  # type: ignore[attr-defined]
        self._pool.shutdown(cancel_futures=True)

    def submit(self, checked: Sequence[str], embedded: Sequence[str]) -> Task | None:
        """Submit texts to a worker. Return None if no worker is ready and the caller must do the work."""
        self._texts += len(checked)
        if self._pool is None and self.count and self._texts >= _TEXTS_WORTH_A_WORKER:
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.count, spawn, _initialize_worker, (self._config,))
            self._ready = self._pool.submit(prepare_texts, [], [])
        if self._pool is None or not self._ready.done() or self._ready.exception():
            return None
        try:
            return self._pool.submit(prepare_texts, checked, embedded)
        except BrokenProcessPool:
            return None


def take_result(task: Task | None) -> PreparedTexts | None:
    """Wait for the result of a task. Return None without a task, or if its worker has died."""
    try:
        return task.result() if task else None
    except BrokenProcessPool:
        return None


_embedder: Embedder | None = None  # of a worker


def prepare_texts(checked: Sequence[str], embedded: Sequence[str]) -> PreparedTexts:
    """Check texts for secrets and compute the vectors of others. Runs in a worker."""
    try:
        vectors = _embedder.documents(embedded) if _embedder and embedded else None
    except EmbeddingError:
        vectors = None
    return PreparedTexts([may_contain_secrets(text) for text in checked], vectors)


def _initialize_worker(config: EmbeddingSettings | None) -> None:
    global _embedder
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the importing process stops its workers
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    compile_rules()
    try:
        _embedder = create_embedder(config) if config else None
    except EmbeddingError:
        _embedder = None


def _exit_with_parent() -> None:
    """Exit when the importing process is killed."""
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os._exit(1)
