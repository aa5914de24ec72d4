"""Operations on NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_STEP = 16  # one of so many values is in the sample
_MARGIN = 16  # more values of the sample than needed, because a sample differs from all by chance


def positions_of_highest(values: NDArray[np.floating[Any]], count: int) -> NDArray[np.int64]:
    """Return the positions of the ``count`` highest values and of their equals, ascending.

    A sample leaves most values out before the exact comparison. There must be no NaN.
    """
    if len(values) <= count:
        return np.arange(len(values))
    candidates = None
    sample = values[::_STEP]
    high_in_sample = 2 * count // _STEP + _MARGIN
    if high_in_sample < len(sample):
        candidates = np.flatnonzero(values >= np.partition(sample, -high_in_sample)[-high_in_sample])
    if candidates is None or len(candidates) < count:
        return np.flatnonzero(values >= np.partition(values, -count)[-count])
    high = values[candidates]
    found: NDArray[np.int64] = candidates[high >= np.partition(high, -count)[-count]]
    return found
