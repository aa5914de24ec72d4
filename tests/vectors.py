"""Vectors for tests, and plain computations of the expected results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from memoryhub.backends import bulk
from memoryhub.backends.vector_view import PRIOR_VECTORS, Vectors
from memoryhub.memories.rows import encode_vector
from memoryhub.models import Embedding, Memory

MODEL, SIZE = "tests/made-up", 8


def unit(*numbers: float) -> Vectors:
    """Return a unit vector that starts with these numbers."""
    vector = np.zeros(SIZE, np.float32)
    vector[: len(numbers)] = numbers
    return vector / np.linalg.norm(vector)


def random_units(rows: int, seed: int = 0) -> Vectors:
    found = np.random.default_rng(seed).normal(0.3, 1, (rows, SIZE)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def insert_vectors(pairs: Iterable[tuple[Memory | int, Vectors]], model: str = MODEL) -> None:
    """Insert the vectors of memories."""
    rows = [(getattr(one, "pk", one), model, encode_vector(vector)) for one, vector in pairs]
    bulk.insert(Embedding, ("memory_id", "model", "vector"), rows)


def make_memories(count: int, **columns: Any) -> list[Memory]:
    """Insert memories directly, because the services would add vectors."""
    made = [Memory(content=f"made up {n}", content_hash=str(n), **columns) for n in range(count)]
    bulk.insert_objects(made)
    return made


def stored_vectors(model: str = MODEL) -> dict[int, Vectors]:
    """Return the stored vectors of the model, normalised."""
    found = {}
    for row in Embedding.objects.filter(model=model):
        vector = np.frombuffer(row.vector, "<f2").astype(np.float64)
        found[row.memory_id] = vector / np.linalg.norm(vector)
    return found


def cosines(query: Vectors, among: dict[int, Any], mean_of: Sequence[int] | None = None) -> dict[int, float]:
    """Return the cosines of a query. ``mean_of``: subtract the mean of these vectors first."""
    mean = np.zeros(len(query))
    if mean_of is not None:
        mean = sum((among[pk] for pk in mean_of if pk in among), mean) / (len(mean_of) + PRIOR_VECTORS)
    aside = query - mean
    return {
        pk: float(aside @ (vector - mean) / np.linalg.norm(aside) / np.linalg.norm(vector - mean))
        for pk, vector in among.items()
    }
