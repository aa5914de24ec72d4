"""Many things, some at a time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batched(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of at most ``size`` rows (``itertools.batched`` comes with Python 3.12)."""
    rows = iter(rows)
    while chunk := list(islice(rows, size)):
        yield chunk
