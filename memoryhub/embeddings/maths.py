"""Arithmetic on rows of vectors. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memoryhub.embeddings.protocol import Vectors

_NOTHING = 1e-12  # a shorter vector points nowhere


def unit(rows: NDArray[np.floating]) -> Vectors:
    """The rows (or the one vector) brought to length 1; what has no length stays zero."""
    exact = rows.astype(np.float32, copy=False)
    lengths = np.linalg.norm(exact, axis=-1, keepdims=True)
    return np.where(lengths > _NOTHING, exact / np.maximum(lengths, _NOTHING), np.float32(0))


def sums(rows: Vectors, counts: Sequence[int]) -> Vectors:
    """The sum of the first ``counts[0]`` rows, of the next ``counts[1]``, and so on; of none: zeros."""
    found = np.zeros((len(counts), rows.shape[1]), dtype=np.float32)
    sizes = np.asarray(counts, dtype=np.intp)
    filled = sizes > 0
    if filled.any():
        starts = (np.cumsum(sizes) - sizes)[filled]
        found[filled] = np.add.reduceat(rows, starts, axis=0, dtype=np.float32)
    return found
