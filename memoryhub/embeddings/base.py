"""What every embedding provider shares: the protocol, the embedded text, vector arithmetic."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memoryhub.core.text import collapse_whitespace, first_line

Vectors = NDArray[np.float32]


class EmbeddingError(Exception):
    """The provider cannot be used now; the message is fit for a client: no key, no content, no stack."""


class Embedder(Protocol):
    """Turns texts into vectors of unit length; safe to be used by several threads at once."""

    @property
    def name(self) -> str:
        """What is stored beside each vector: provider, model and dimensions."""

    @property
    def dimensions(self) -> int:
        """Length of a vector; 0 until a remote endpoint has answered for the first time."""

    @property
    def in_process(self) -> bool:
        """True: a store embeds at once, in its own call. False: vectors come in the background."""

    def documents(self, texts: Sequence[str]) -> Vectors:
        """A unit row for each text, in their order; a zero row for a text that holds nothing."""

    def query(self, text: str, weights: Mapping[str, float] | None = None) -> Vectors:
        """The unit vector of a question.

        ``weights`` says how much (0..1) each folded word counts; words that it does not name count whole,
        what is no word counts nothing. None or empty: the question as a document. Only a static model can
        tell words apart; the others leave it alone.
        """


_ZERO_LENGTH = 1e-12  # a shorter vector points nowhere


def normalize_rows(rows: NDArray[np.floating]) -> Vectors:
    """The rows (or the one vector) brought to length 1; what has no length stays zero."""
    exact = rows.astype(np.float32, copy=False)
    lengths = np.linalg.norm(exact, axis=-1, keepdims=True)
    return np.where(lengths > _ZERO_LENGTH, exact / np.maximum(lengths, _ZERO_LENGTH), np.float32(0))


def replace_surrogates(text: str) -> str:
    """The text as UTF-8 can hold it: half a surrogate pair is nothing that a tokenizer takes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def disable_tokenizer_threads() -> None:
    """Before the first use: its own threads would not outlive a fork, and it says so on stderr."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


# About 1500 tokens of English; with one token a character (CJK) still within what endpoints take (8192).
MAX_TEXT_CHARS = 6000


def text_to_embed(title: str, subtitle: str, abstract: str, overview: str, content: str) -> str:
    """The text that stands for a memory, at most ``MOST_CHARS`` characters long.

    The title, unless the content begins with it (one that the hub made does), then the content. A content
    that is too long to be read whole is led by what somebody wrote to sum it up.
    """
    body = content.strip()
    lead = [title, subtitle]
    if len(body) > MAX_TEXT_CHARS:
        lead += [abstract, overview]
    parts = [part.strip() for part in lead if part.strip() and not _starts_with(body, part)]
    return "\n".join([*parts, body])[:MAX_TEXT_CHARS].strip()


def _starts_with(body: str, part: str) -> bool:
    """Whether the text opens with these words, Markdown's marks and an ellipsis aside."""
    opening = part.strip().removesuffix("…").rstrip(" ,;:-")
    head = body[: len(part) * 8 + 1000]
    return collapse_whitespace(first_line(head)).startswith(opening) or collapse_whitespace(head).startswith(
        opening
    )
