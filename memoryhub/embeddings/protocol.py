"""What every provider of embeddings is to the rest of the hub. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

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
