"""Temporal scales: how old a memory is, which scale it has proved itself for, and a balanced choice. Pure.

LetsGo's memory guide: immediate < 5 min, task 5-30 min, session 30 min-2 h, project > 2 h; 1 + 2 + 1 + 1
memories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")


class Scale(StrEnum):
    """From working memory to long-term wisdom."""

    IMMEDIATE = "immediate"
    TASK = "task"
    SESSION = "session"
    PROJECT = "project"


SCALES: tuple[Scale, ...] = tuple(Scale)


def scale_of(age: timedelta, limits: Sequence[float], promoted: str = "") -> Scale:
    """The scale of an age, where ``limits`` are the ends in minutes of all but the last.

    A memory that was promoted counts for the higher of the two.
    """
    minutes = age.total_seconds() / 60
    by_age = next(
        (scale for scale, limit in zip(SCALES, limits, strict=False) if minutes < limit), Scale.PROJECT
    )
    if promoted in SCALES:
        return max(by_age, Scale(promoted), key=SCALES.index)
    return by_age


def promoted(scale: Scale, accesses: int, needed: int) -> Scale:
    """The next scale for a memory that was accessed often enough within its own."""
    if accesses < needed or scale is Scale.PROJECT:
        return scale
    return SCALES[SCALES.index(scale) + 1]


def balanced(
    candidates: Sequence[T], scale: Callable[[T], Scale], counts: Mapping[Scale, int], most: int
) -> list[T]:
    """The best of each scale up to its count; places that a scale cannot fill go to the best that are left.

    ``candidates`` come best first, and so does the result.
    """
    left = dict(counts)
    chosen: set[int] = set()
    for number, one in enumerate(candidates):
        of = scale(one)
        if left.get(of, 0) > 0:
            left[of] -= 1
            chosen.add(number)
    for number in range(len(candidates)):
        if len(chosen) >= min(sum(counts.values()), most):
            break
        chosen.add(number)
    return [candidates[number] for number in sorted(chosen)][:most]
