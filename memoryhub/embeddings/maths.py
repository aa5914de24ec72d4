"""Arithmetic on rows of vectors. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memoryhub.embeddings.protocol import Vectors

_NOTHING = 1e-12  # a shorter vector points nowhere


def unit(rows: NDArray[np.floating]) -> Vectors:
    """The rows (or the one vector) brought to length 1; what has no length stays zero."""
    exact = rows.astype(np.float32, copy=False)
    lengths = np.linalg.norm(exact, axis=-1, keepdims=True)
    return np.where(lengths > _NOTHING, exact / np.maximum(lengths, _NOTHING), np.float32(0))
