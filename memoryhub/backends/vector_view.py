"""The vectors of one model as a process sees them, and their cosines with another vector.

Cosines are exact. If there are many vectors, only those of the nearest are, and the others are estimated from
codes of the vectors, with two bits for each dimension.

Each number of a coded vector becomes one of four levels, and each number of the vector that it is multiplied
by one of eight. The product of the levels is a sum of counts of common bits. For 100,000 vectors, it takes a
quarter of the time of the exact product. An estimated cosine differs from the exact one by 0.03 (standard
deviation). An estimate depends only on the two vectors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from django.db.models import QuerySet
from numpy.typing import NDArray

from memoryhub.backends.change_log import STORED_TYPE, LogPosition

Vectors: TypeAlias = NDArray[np.float32]
Keys: TypeAlias = NDArray[np.int64]
# Number of zero vectors that each mean includes, because the mean of a few vectors is noise.
PRIOR_VECTORS = 32
MAX_CACHED_MEANS = 4  # means to which the distances of all vectors are cached
MIN_CODED_ROWS = 30_000  # rows from which cosines are estimated: reading fewer vectors takes no longer
MAX_UNCODED_ROWS = 4096  # rows at the end whose products are computed, until they are coded too
MIN_NEAREST = 2000  # of the nearest visible memories, at least so many have exact cosines
_EPSILON = 1e-6  # the smallest divisor


def unit_vectors(stored: Sequence[bytes], dimensions: int) -> tuple[Vectors, NDArray[np.bool_]]:
    """Return stored vectors scaled to length 1, without zero and infinite ones, and which of all are kept."""
    vectors = np.frombuffer(b"".join(stored), STORED_TYPE).astype(np.float32).reshape(-1, dimensions)
    lengths = np.linalg.norm(vectors, axis=1)
    valid = np.isfinite(lengths) & (lengths > 0)
    return vectors[valid] / lengths[valid, None], valid


class Cosines(NamedTuple):
    """Primary keys of memories and their cosines, NaN without a vector, in the same order."""

    pks: Keys
    cosines: Vectors


@dataclass(frozen=True)
class VisibleMemories:
    """The visible memories of a search: a queryset, and their keys, ascending.

    The cosines of the ``limit`` nearest must be exact. If the memories are many, PostgreSQL compares only the
    nearest and those whose keys ``others`` returns.
    """

    memories: QuerySet[Any]
    keys: Keys
    limit: int
    others: Callable[[], list[int]] = list

    @property
    def size(self) -> int:
        return len(self.keys)

    @cached_property
    def _select(self) -> tuple[str, Sequence[Any]]:
        return self.memories.order_by().values("pk").query.sql_with_params()

    @property
    def query(self) -> str:
        return self._select[0]

    @property
    def params(self) -> Sequence[Any]:
        return self._select[1]


@dataclass(frozen=True)
class VectorView:
    """The vectors of a model at one position of the log.

    ``matrix`` is a mapped file: a vector that is deleted later becomes zero in it. ``extra``: rows after it,
    which an open transaction wrote and no other transaction may see. ``distances``: those of all rows to
    means, by the bytes of the mean.
    """

    position: LogPosition
    matrix: Vectors
    ids: Keys  # of the Embedding rows, ascending
    keys: Keys  # of the memories; 0: deleted
    dead: int  # number of deleted rows
    extra: Vectors
    distances: OrderedDict[bytes, Vectors] = field(default_factory=OrderedDict, repr=False)
    codes: VectorCodes | None = field(default=None, repr=False)  # of the first rows

    def __len__(self) -> int:
        return len(self.keys) - self.dead

    @property
    def rows(self) -> int:
        """The number of rows in the file, including deleted ones."""
        return len(self.matrix)

    @property
    def pks(self) -> Keys:
        """The keys of memories with a vector."""
        present: Keys = self.keys[self.keys != 0]
        return present

    def cosines(
        self, query: Vectors, mean: Vectors | None = None, visible: VisibleMemories | None = None
    ) -> Cosines:
        """Return the cosine of each visible memory, or of all, with this unit vector, NaN without a vector.

        ``mean`` is subtracted from both first, ``(q-m)·(x-m) / (|q-m| |x-m|)``, which removes what all texts
        have in common. If there are many vectors, only the nearest of the visible ones have exact cosines.
        The others are estimates that depend only on the vector, ``query`` and ``mean``.
        """
        if not len(self) or not query.any():
            return Cosines(np.empty(0, np.int64), np.empty(0, np.float32))
        keys, limit = (visible.keys, visible.limit) if visible else (self.pks, len(self))
        rows = self._rows_of(keys)
        cosines = self._row_cosines(query, mean)[rows]
        cosines[rows < 0] = -np.inf
        if self.codes is not None:
            nearest = positions_of_highest(cosines, max(2 * limit, MIN_NEAREST))
            nearest = nearest[rows[nearest] >= 0]
            cosines[nearest] = self._row_cosines(query, mean, rows[nearest])
        cosines[rows < 0] = np.nan
        return Cosines(keys, cosines)

    def exact_cosines(self, query: Vectors, mean: Vectors, pks: Keys) -> Vectors:
        """Return the exact cosine of each of these memories, NaN without a vector."""
        rows = self._rows_of(pks)
        cosines = np.full(len(pks), np.nan, np.float32)
        cosines[rows >= 0] = self._row_cosines(query, mean, rows[rows >= 0])
        return cosines

    def of(self, pks: Sequence[int] | Keys) -> dict[int, Vectors]:
        """Return the vectors of these memories, if they have one."""
        rows = self._find_rows(pks)
        return dict(zip(self.keys[rows].tolist(), self._vectors(rows), strict=True))

    def in_order(self, pks: Sequence[int] | Keys) -> tuple[Vectors, NDArray[np.bool_]]:
        """Return the vectors of distinct memories in this order (zeros if missing), and which have one."""
        wanted = np.asarray(pks, np.int64)
        rows, order = self._find_rows(wanted), np.argsort(wanted)
        places = order[np.searchsorted(wanted, self.keys[rows], sorter=order)]
        matrix = np.zeros((len(wanted), self.matrix.shape[1]), np.float32)
        present = np.zeros(len(wanted), bool)
        matrix[places], present[places] = self._vectors(rows), True
        return matrix, present

    def mean(self, pks: Sequence[int] | Keys) -> Vectors:
        """Return the mean vector of these memories, shrunk towards zero (:data:`PRIOR_VECTORS`)."""
        rows = self._find_rows(pks)
        mean: Vectors = self._vectors(rows).sum(axis=0, dtype=np.float64) / (len(rows) + PRIOR_VECTORS)
        return mean.astype(np.float32)

    @cached_property
    def _rows_by_key(self) -> NDArray[np.int32]:
        """The row of each memory, -1 for other keys."""
        present = np.flatnonzero(self.keys)
        rows = np.full(int(self.keys.max(initial=0)) + 2, -1, np.int32)
        rows[self.keys[present]] = present
        return rows

    def _rows_of(self, pks: Sequence[int] | Keys) -> Keys:
        """Return the row of each memory, -1 without a vector."""
        places = np.clip(np.asarray(pks, np.int64), 0, len(self._rows_by_key) - 1)
        return self._rows_by_key[places].astype(np.int64)

    def _find_rows(self, pks: Sequence[int] | Keys) -> Keys:
        """Return the rows of these memories, ascending, without those that have no vector."""
        rows = self._rows_of(np.unique(np.asarray(pks, np.int64)))
        return np.sort(rows[rows >= 0])

    def _vectors(self, rows: Keys) -> Vectors:
        beyond = rows >= self.rows
        if not beyond.any():
            return np.asarray(self.matrix[rows])
        vectors = np.empty((len(rows), self.matrix.shape[1]), np.float32)
        vectors[~beyond], vectors[beyond] = self.matrix[rows[~beyond]], self.extra[rows[beyond] - self.rows]
        return vectors

    def _multiply(self, vector: Vectors) -> Vectors:
        product: Vectors = self.matrix @ vector
        return np.concatenate([product, self.extra @ vector]) if len(self.extra) else product

    def _estimate(self, vector: Vectors) -> Vectors:
        """Multiply all rows by a vector, approximately if there are many."""
        if self.codes is None:
            return self._multiply(vector)
        following: Vectors = self.matrix[len(self.codes) :] @ vector
        beyond: Vectors = self.extra @ vector
        return np.concatenate([self.codes.multiply(vector), following, beyond])

    def _row_cosines(self, query: Vectors, mean: Vectors | None, rows: Keys | None = None) -> Vectors:
        """Return the exact cosines of these rows, or estimates of all.

        With a mean, ``(q-m)·(x-m)`` is ``(q-m)·x`` minus a constant.
        """
        direction: Vectors = query if mean is None else query - mean
        products = self._estimate(direction) if rows is None else self._vectors(rows) @ direction
        if mean is None:
            return products
        length = float(np.sqrt(max(float(direction @ direction), _EPSILON)))
        distances = self._distances_to(mean) if rows is None else self._distances_to(mean)[rows]
        return (products - np.float32(mean @ direction)) / (distances * np.float32(length))

    def _distances_to(self, mean: Vectors) -> Vectors:
        name = mean.tobytes()
        distances = self.distances.get(name)
        if distances is None:
            distances = self.distances[name] = _distances(self._multiply(mean), mean)
            while len(self.distances) > MAX_CACHED_MEANS:
                self.distances.popitem(last=False)
        return distances


def _distances(products: Vectors, mean: Vectors) -> Vectors:
    """Return the distances of vectors to a mean, given their products with it."""
    distances: Vectors = np.sqrt(np.maximum(1 - 2 * products + float(mean @ mean), _EPSILON))
    return distances


def extend_distances(view: VectorView, added: Vectors) -> OrderedDict[bytes, Vectors]:
    """Return the cached distances of a view with those of the vectors that follow."""
    extended = view.distances.copy()
    for name, distances in extended.items():
        mean = np.frombuffer(name, np.float32)
        extended[name] = np.concatenate([distances, _distances(added @ mean, mean)])
    return extended


def extend_codes(codes: VectorCodes | None, matrix: Vectors) -> VectorCodes | None:
    """Return codes of about all vectors, if they are many, given those of the first."""
    if len(matrix) < MIN_CODED_ROWS:
        return None
    if codes is None:
        return VectorCodes.of(matrix)
    added = matrix[len(codes) :]
    return codes.followed_by(added) if len(added) > MAX_UNCODED_ROWS else codes


_BITS, _OTHER_BITS = 2, 3  # for each number of a coded vector, and of the vector that it is multiplied by
_STEP = 0.6  # between levels of the other vector, relative to the root mean square of its numbers
_WORD_BITS = 64
_BLOCK = 65_536  # rows whose bits are counted at once
_CODING_BLOCK = 4096  # vectors that are coded at once


@dataclass(frozen=True)
class VectorCodes:
    """The codes of vectors.

    ``planes``: the bits, by bit, word and row. ``sums``: the sum of the numbers of the levels in each row.
    ``scales``: factors that turn the product of the levels into that of the vector.
    """

    planes: NDArray[np.uint64]
    sums: Vectors
    scales: Vectors
    dimensions: int

    def __len__(self) -> int:
        return len(self.sums)

    @classmethod
    def of(cls, vectors: Vectors) -> VectorCodes:
        """Return the codes of unit vectors. A zero vector has the product 0 with every other."""
        dimensions = vectors.shape[1]
        starts = range(0, len(vectors), _CODING_BLOCK)
        parts = [cls._of_block(vectors[start : start + _CODING_BLOCK]) for start in starts]
        planes, sums, scales = zip(*parts, strict=True)
        return cls(np.concatenate(planes, axis=2), np.concatenate(sums), np.concatenate(scales), dimensions)

    @classmethod
    def _of_block(cls, vectors: Vectors) -> tuple[NDArray[np.uint64], Vectors, Vectors]:
        numbers = _to_numbers(vectors, 1 / np.sqrt(vectors.shape[1]), _BITS)
        levels = numbers - np.float32(_centre(_BITS))
        products = np.einsum("ij,ij->i", vectors, levels)
        squares = np.einsum("ij,ij->i", vectors, vectors)
        planes = np.ascontiguousarray(_pack(numbers, _BITS).swapaxes(1, 2))
        return planes, numbers.sum(axis=1, dtype=np.float32), squares / np.maximum(products, _EPSILON)

    def followed_by(self, vectors: Vectors) -> VectorCodes:
        """Return these codes and those of the vectors that follow."""
        added = VectorCodes.of(vectors)
        return VectorCodes(
            np.concatenate([self.planes, added.planes], axis=2),
            np.concatenate([self.sums, added.sums]),
            np.concatenate([self.scales, added.scales]),
            self.dimensions,
        )

    def erase(self, rows: NDArray[np.int64]) -> None:
        """Overwrite the codes of rows with zeros."""
        rows = rows[rows < len(self)]
        self.planes[:, :, rows] = 0
        self.sums[rows] = self.scales[rows] = 0

    def multiply(self, vector: Vectors) -> Vectors:
        """Estimate the product of each coded vector with this one, which must not be zero."""
        numbers = _to_numbers(vector, _STEP * float(np.sqrt(np.mean(vector**2))), _OTHER_BITS)
        levels = numbers - _centre(_OTHER_BITS)
        scale = float(vector @ vector) / float(vector @ levels)
        products = self._multiply_numbers(_pack(numbers[None], _OTHER_BITS)[:, 0])
        products -= np.float32(_centre(_OTHER_BITS)) * self.sums
        products -= np.float32(_centre(_BITS) * levels.sum())
        products *= self.scales * np.float32(scale)
        return products

    def _multiply_numbers(self, other: NDArray[np.uint64]) -> Vectors:
        """Return the product of the numbers of each row with those of the other vector, given its bits."""
        highest = self.dimensions * (2**_BITS - 1) * (2**_OTHER_BITS - 1)
        counts: NDArray[Any] = np.zeros(len(self), np.uint16 if highest < 2**16 else np.uint32)
        for start in range(0, len(self), _BLOCK):
            planes = self.planes[:, :, start : start + _BLOCK]
            total: NDArray[Any] = counts[start : start + _BLOCK]
            for power in reversed(range(_BITS + _OTHER_BITS - 1)):
                total += total
                for bit in range(max(0, power - _OTHER_BITS + 1), min(power + 1, _BITS)):
                    for common in np.bitwise_count(planes[bit] & other[power - bit][:, None]):
                        total += common
        return counts.astype(np.float32)


def _centre(bits: int) -> float:
    """Return the number at which a level is 0. Half of the levels are below it."""
    return ((1 << bits) - 1) / 2


def _to_numbers(values: Vectors, step: float, bits: int) -> NDArray[np.uint8]:
    """Return the number of the level of each value, from 0. Levels are one step apart."""
    levels = values * np.float32(1 / step) + (1 << bits - 1)
    return np.clip(levels, 0, (1 << bits) - 1, out=levels).astype(np.uint8)


def _pack(numbers: NDArray[np.uint8], bits: int) -> NDArray[np.uint64]:
    """Return the bits of numbers in words: by bit, row and word."""
    rows, dimensions = numbers.shape
    words = -(-dimensions // _WORD_BITS)
    packed = np.zeros((bits, rows, words * _WORD_BITS // 8), np.uint8)
    for bit in range(bits):
        packed[bit, :, : -(-dimensions // 8)] = np.packbits(numbers >> bit & 1, axis=1)
    return packed.view(np.uint64)


_SAMPLE_STEP = 16  # one of at least so many values is in the sample
_MAX_SAMPLE = 10_000  # values in it, about
_SAMPLE_MARGIN = 16  # more values of the sample than needed, because a sample differs from all by chance


def positions_of_highest(
    values: NDArray[np.floating[Any]], count: int, least: float = -np.inf
) -> NDArray[np.int64]:
    """Return the positions of the ``count`` highest values and of their equals, ascending.

    Values below ``least`` do not count. A sample leaves most values out before the exact comparison. There
    must be no NaN.
    """
    limit, step = least, max(_SAMPLE_STEP, len(values) // _MAX_SAMPLE)
    sample = values[::step]
    sample = sample[sample >= least]  # many equal values would slow the partition down
    high_in_sample = 2 * count // step + _SAMPLE_MARGIN
    if high_in_sample < len(sample):
        limit = max(least, np.partition(sample, -high_in_sample)[-high_in_sample])
    candidates = np.flatnonzero(values >= limit)
    if len(candidates) < count and limit > least:
        candidates = np.flatnonzero(values >= least)
    if len(candidates) > count:
        high = values[candidates]
        candidates = candidates[high >= np.partition(high, -count)[-count]]
    return candidates
