"""What an embeddings endpoint answered, taken only if it is what was asked for. Pure."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from memoryhub.embeddings.protocol import EmbeddingError, Vectors

_LARGEST = 1e15  # the sum of such squares is still a float32


def read(body: bytes, count: int) -> Vectors:
    """The vectors of a body in the order of the texts, not yet of unit length; EmbeddingError if unfit."""
    try:
        data = json.loads(body)["data"]
        rows = _in_order([(item.get("index", at), item["embedding"]) for at, item in enumerate(data)], count)
        found = np.array(rows, dtype=np.float64)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        raise EmbeddingError(
            "the embeddings endpoint's answer is not one vector of numbers for each text, all of one length"
        ) from None
    if found.ndim != 2 or not found.size:
        raise EmbeddingError("the embeddings endpoint's vectors are empty or no lists of numbers")
    if not (np.abs(found) < _LARGEST).all():  # NaN is not
        raise EmbeddingError("the embeddings endpoint's vectors hold numbers that are not finite")
    return found.astype(np.float32)


def _in_order(items: list[tuple[Any, Any]], count: int) -> list[Any]:
    by_index = dict(items)
    if len(items) != count or set(by_index) != set(range(count)):
        raise ValueError
    for row in by_index.values():
        if not all(type(number) in (int, float) for number in row):
            raise TypeError
    return [by_index[at] for at in range(count)]
