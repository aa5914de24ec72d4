"""Split an iterable in chunks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batched(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most ``size`` rows. Replace by ``itertools.batched`` with Python 3.12."""
    rows = iter(rows)
    while chunk := list(islice(rows, size)):
        yield chunk
