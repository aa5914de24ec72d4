"""Codes of vectors, with two bits for each dimension, from which dot products are estimated.

Each number of a vector becomes one of four levels, and each number of the vector that it is multiplied by
one of eight. The product of the levels is a sum of counts of common bits. For 100,000 vectors, it takes a
quarter of the time of the exact product. An estimated cosine differs from the exact one by 0.03 (standard
deviation). An estimate depends only on the two vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BITS, _OTHER_BITS = 2, 3  # for each number of a coded vector, and of the vector that it is multiplied by
_STEP = 0.6  # between levels of the other vector, relative to the root mean square of its numbers
_WORD_BITS = 64
_BLOCK = 65_536  # rows whose bits are counted at once
_CODING_BLOCK = 4096  # vectors that are coded at once
_EPSILON = 1e-6  # the smallest divisor
Vectors = NDArray[np.float32]


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
    numbers: NDArray[np.uint8] = np.clip(levels, 0, (1 << bits) - 1, out=levels).astype(np.uint8)
    return numbers


def _pack(numbers: NDArray[np.uint8], bits: int) -> NDArray[np.uint64]:
    """Return the bits of numbers in words: by bit, row and word."""
    rows, dimensions = numbers.shape
    words = -(-dimensions // _WORD_BITS)
    packed = np.zeros((bits, rows, words * _WORD_BITS // 8), np.uint8)
    for bit in range(bits):
        packed[bit, :, : -(-dimensions // 8)] = np.packbits(numbers >> bit & 1, axis=1)
    return packed.view(np.uint64)
