"""Temporal scales: age classes of memories, and promotion by repeated access."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TypeVar

from django.conf import settings
from django.utils import timezone

from memoryhub.backends import statements
from memoryhub.capabilities import TEMPORAL, is_enabled
from memoryhub.core.database import side_write
from memoryhub.models import Memory

T = TypeVar("T")


class Scale(StrEnum):
    """Age classes, from working memory to long-term memory."""

    IMMEDIATE = "immediate"
    TASK = "task"
    SESSION = "session"
    PROJECT = "project"


SCALES: tuple[Scale, ...] = tuple(Scale)


def scale_for_age(age: timedelta, limits: Sequence[float], promoted: str = "") -> Scale:
    """Return the scale of an age, or the scale that the memory was promoted to if that is higher.

    ``limits``: the ends in minutes of all scales but the last.
    """
    minutes = age.total_seconds() / 60
    by_age = next(
        (scale for scale, limit in zip(SCALES, limits, strict=False) if minutes < limit), Scale.PROJECT
    )
    if promoted in SCALES:
        return max(by_age, Scale(promoted), key=SCALES.index)
    return by_age


def next_scale(scale: Scale) -> Scale:
    """Return the scale above this one; the highest has none."""
    return SCALES[min(SCALES.index(scale) + 1, len(SCALES) - 1)]


def balance_scales(
    candidates: Sequence[T], scale: Callable[[T], Scale], counts: Mapping[Scale, int], most: int
) -> list[T]:
    """Select the best candidates of each scale, up to its count. Unused places go to the best of the rest.

    ``candidates`` and the result are sorted, the best first.
    """
    left = dict(counts)
    chosen: set[int] = set()
    for number, candidate in enumerate(candidates):
        its_scale = scale(candidate)
        if left.get(its_scale, 0) > 0:
            left[its_scale] -= 1
            chosen.add(number)
    for number in range(len(candidates)):
        if len(chosen) >= min(sum(counts.values()), most):
            break
        chosen.add(number)
    return [candidates[number] for number in sorted(chosen)][:most]


def memory_scale(memory: Memory, now: datetime) -> Scale:
    """Return the scale of a memory at this time."""
    config = settings.MEMORYHUB
    limits = (config.immediate_minutes, config.task_minutes, config.session_minutes)
    return scale_for_age(max(now - memory.created_at, timedelta()), limits, memory.scale)


def count_accesses_and_promote(memories: Iterable[Memory], now: datetime | None = None) -> None:
    """Count one access of each memory, in one statement, and promote memories that are accessed often.

    Every ``promotion_accesses``-th access promotes a memory if its previous access was in the same scale.
    Accesses in two different scales do not add up to a promotion. A store that cannot be written to is
    logged, not raised, because the memories were read.
    """
    now = now or timezone.now()
    memories = list(memories)
    above = _find_promotions(memories, now) if is_enabled(TEMPORAL) else {}
    every = settings.MEMORYHUB.promotion_accesses
    count = partial(count_accesses, memories, now, promotions=above, every=every)
    side_write("accesses were not counted", count)


def _find_promotions(memories: Iterable[Memory], now: datetime) -> dict[int, str]:
    """Return the next scale of each memory whose previous access was in its current scale."""
    found: dict[int, str] = {}
    for memory in memories:
        scale, before = memory_scale(memory, now), memory.last_accessed_at
        again = settings.MEMORYHUB.promotion_accesses == 1 or (
            before is not None and memory_scale(memory, before) is scale
        )
        if again and (following := next_scale(scale)) is not scale:
            found[memory.pk] = following.value
    return found


def count_access(memory: Memory, now: datetime | None = None) -> None:
    """Count one access. See :func:`count_accesses`."""
    count_accesses([memory], now)


def count_accesses(
    memories: Collection[Memory],
    now: datetime | None = None,
    *,
    promotions: Mapping[int, str] | None = None,
    every: int = 1,
) -> None:
    """Count one access of each memory, in one statement. Not journaled; ``updated_at`` does not change.

    ``promotions``: by primary key, the temporal scale that a memory gets with every ``every``-th access.
    """
    now = now or timezone.now()
    if not memories:
        return
    statements.count_accesses([memory.pk for memory in memories], now, promotions or {}, every)
    for memory in memories:
        memory.accessed_count += 1
        memory.last_accessed_at = now
