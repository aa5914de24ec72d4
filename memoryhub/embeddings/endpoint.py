"""Embeddings from an OpenAI-compatible endpoint (``POST {url}/embeddings``)."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import numpy as np

from memoryhub.core import network
from memoryhub.core.network import (
    CircuitBreaker,
    RequestFailed,
    retry_request,
    to_request_failed,
    with_path,
)
from memoryhub.core.text import replace_surrogates
from memoryhub.embeddings.base import EmbeddingError, EmbeddingSettings, Vectors, normalize_rows

_MAX_VALUE = 1e15  # the sum of the squares of such values fits a float32


def parse_vectors(body: bytes, count: int) -> Vectors:
    """Return the vectors of a response in the order of the texts, not normalized.

    Raise EmbeddingError if invalid.
    """
    try:
        data = json.loads(body)["data"]
        rows = _sort_by_index(
            [(item.get("index", at), item["embedding"]) for at, item in enumerate(data)], count
        )
        found = np.array(rows, dtype=np.float64)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        raise EmbeddingError(
            "the embeddings endpoint's answer is not one vector of numbers for each text, all of one length"
        ) from None
    if found.ndim != 2 or not found.size:
        raise EmbeddingError("the embeddings endpoint's vectors are empty or no lists of numbers")
    if not (np.abs(found) < _MAX_VALUE).all():  # also false for NaN
        raise EmbeddingError("the embeddings endpoint's vectors contain numbers that are not finite")
    return found.astype(np.float32)


def _sort_by_index(items: list[tuple[Any, Any]], count: int) -> list[Any]:
    by_index = dict(items)
    if len(items) != count or set(by_index) != set(range(count)):
        raise ValueError
    for row in by_index.values():
        if not all(type(number) in (int, float) for number in row):
            raise TypeError
    return [by_index[at] for at in range(count)]


QUERY_SECONDS = 2.0  # a person waits; full-text results alone are better than a slow endpoint
MIN_TEXT_CHARS = 400  # no model rejects a text this short
_TOO_LARGE = {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}
_ENDPOINT_LABEL = "the embeddings endpoint"
_BASE_RESPONSE_BYTES, _BYTES_PER_VECTOR = 1_000_000, 200_000  # 8192 numbers of 24 characters


class _RequestRefused(Exception):
    """The endpoint refuses this request; a smaller one may succeed."""


class EndpointEmbedder:
    """Sends batches, with retries for documents and without retries for queries."""

    in_process = False

    def __init__(self, config: EmbeddingSettings) -> None:
        self._config = config
        self._url = with_path(config.url, "/embeddings")
        self._pause = CircuitBreaker()
        self._dimensions_lock = threading.Lock()
        # Without the dimensions: they are unknown until the first response, and the name must not change.
        self.name = f"openai/{config.model}"
        self.dimensions = 0

    def documents(self, texts: Sequence[str]) -> Vectors:
        filled = [at for at, text in enumerate(texts) if text.strip()]
        size = self._config.batch
        batches = [filled[start : start + size] for start in range(0, len(filled), size)]
        rows = [self._embed_batch([replace_surrogates(texts[at]) for at in places]) for places in batches]
        found = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for places, vectors in zip(batches, rows, strict=True):
            found[places] = vectors
        return found

    def query(self, text: str, weights: Mapping[str, float] | None = None) -> Vectors:
        if not text.strip():
            return np.zeros(self.dimensions, dtype=np.float32)
        seconds = min(QUERY_SECONDS, self._config.timeout_seconds)
        self._raise_if_paused(seconds)
        try:
            rows = self._ask([replace_surrogates(text)], seconds)
        except (RequestFailed, _RequestRefused) as error:
            raise self._start_pause(error) from None
        self._pause.end()
        row: Vectors = rows[0]
        return row

    def _embed_batch(self, texts: list[str]) -> Vectors:
        """Return the vectors of one batch, with retries until the time is up."""
        self._raise_if_paused(self._config.timeout_seconds)
        until = time.monotonic() + self._config.timeout_seconds
        try:
            rows = self._embed_or_split(texts, until)
        except (RequestFailed, _RequestRefused) as error:
            raise self._start_pause(error) from None
        self._pause.end()
        return rows

    def _embed_or_split(self, texts: list[str], until: float) -> Vectors:
        """Split a refused request: first the batch, then a text that is too long for the model."""
        try:
            return retry_request(lambda seconds: self._ask(texts, seconds), until)
        except _RequestRefused:
            if len(texts) > 1:
                half = len(texts) // 2
                return np.vstack(
                    [self._embed_or_split(texts[:half], until), self._embed_or_split(texts[half:], until)]
                )
            if len(texts[0]) <= MIN_TEXT_CHARS:
                raise
            return self._embed_or_split([texts[0][: len(texts[0]) // 2]], until)

    def _ask(self, texts: list[str], seconds: float) -> Vectors:
        """Send one request. Raise Failed if a retry may help, _RequestRefused for a smaller one."""
        max_bytes = _BASE_RESPONSE_BYTES + len(texts) * _BYTES_PER_VECTOR
        payload = {"model": self._config.model, "input": texts}
        try:
            answer = network.post_json(
                self._url,
                payload,
                self._config.key,
                seconds,
                max_bytes,
                private_names=self._config.private_names,
            )
        except network.Unreachable as error:
            raise RequestFailed(f"{_ENDPOINT_LABEL} {error}", passes=error.passes) from None
        if answer.status != HTTPStatus.OK:
            raise _to_error(answer)
        try:
            rows = normalize_rows(parse_vectors(answer.body, len(texts)))
        except EmbeddingError as error:
            raise RequestFailed(str(error)) from None
        self._check_dimensions(rows.shape[1])
        return rows

    def _check_dimensions(self, dimensions: int) -> None:
        with self._dimensions_lock:
            if self.dimensions not in (0, dimensions):
                raise RequestFailed(
                    f"the embeddings endpoint's vectors have {dimensions} numbers, and had {self.dimensions};"
                    " if its model changed, restart the hub"
                )
            self.dimensions = dimensions

    def _raise_if_paused(self, seconds: float) -> None:
        if left := self._pause.left(seconds):
            raise EmbeddingError(
                f"the embeddings endpoint failed recently; the next try is in {math.ceil(left)} seconds"
            )

    def _start_pause(self, error: RequestFailed | _RequestRefused) -> EmbeddingError:
        if isinstance(error, RequestFailed):
            self._pause.begin(error.pause)
        return EmbeddingError(str(error))


def _to_error(answer: network.HttpAnswer) -> RequestFailed | _RequestRefused:
    if answer.status in _TOO_LARGE:
        return _RequestRefused(f"{_ENDPOINT_LABEL} rejects the texts (status {answer.status})")
    return to_request_failed(answer, _ENDPOINT_LABEL, "embeddings")
