"""The temporal scale of a memory, and its rise to the next one when it is accessed again and again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from memoryhub import store
from memoryhub.capabilities import TEMPORAL, is_on
from memoryhub.models import Memory
from memoryhub.retrieval.temporal import Scale, promoted, scale_of


def scale_at(memory: Memory, now: datetime) -> Scale:
    """The scale of a memory's age, or the higher one that it was promoted to."""
    config = settings.MEMORYHUB
    limits = (config.immediate_minutes, config.task_minutes, config.session_minutes)
    return scale_of(max(now - memory.created_at, timedelta()), limits, memory.scale)


def count_access(memories: Iterable[Memory], now: datetime | None = None) -> None:
    """Count one access of each memory, in one statement, and promote those that were accessed often enough.

    Every ``promotion_accesses``-th access promotes a memory, if the access before found it in the same scale:
    so accesses on both sides of a scale's end do not add up to a promotion at that end.
    """
    now = now or timezone.now()
    memories = list(memories)
    above = _above(memories, now) if is_on(TEMPORAL) else {}
    store.touch_all(memories, now, promotions=above, every=settings.MEMORYHUB.promotion_accesses)


def _above(memories: Iterable[Memory], now: datetime) -> dict[int, str]:
    """The next scale for each memory that this access, and the one before, find in the same one."""
    found: dict[int, str] = {}
    for memory in memories:
        scale, before = scale_at(memory, now), memory.last_accessed_at
        again = settings.MEMORYHUB.promotion_accesses == 1 or (
            before is not None and scale_at(memory, before) is scale
        )
        if again and (following := promoted(scale, 1, 1)) is not scale:
            found[memory.pk] = following.value
    return found
