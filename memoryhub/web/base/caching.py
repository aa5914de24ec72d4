"""Answers that take a while are kept for a moment: until the store changes, and longer the more they cost."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from django.core.cache import cache
from django.db.models import Min
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.backends import statements
from memoryhub.models import JournalEntry, Memory

CHEAP_SECONDS = 0.05  # seconds of processor time: what costs less is made anew after every change
REST_FACTOR = 60  # so many times what it cost, an answer is told again although the store has changed
MAX_AGE_SECONDS = 300.0  # seconds
UNCHANGED_SECONDS = (
    60.0  # seconds that an answer holds while nothing happens; what was only read is told by then
)
T = TypeVar("T")


def clearance_key(clearance: Clearance) -> str:
    """What a clearance opens, in a form that two equal ones share."""
    parts = [(sorted(levels), sorted(of) if of is not None else None) for levels, of in clearance.parts()]
    return repr((clearance.owner, clearance.every_owner, parts))


def cached(name: str, about: str, make: Callable[[], T]) -> T:
    """What ``make`` answers now, or answered a moment ago.

    ``name`` is of the question, ``about`` all that its answer depends on beside the store: whose eyes above
    all. At most :data:`LONGEST` seconds old, and never older than a change where it is :data:`CHEAP`.
    """
    key, state = _key(name, about), _journal_state()
    found: tuple[str, float, Any] | None = cache.get(key)
    if found is not None and (found[0] == state or time.monotonic() < found[1]):
        answer: T = found[2]
        return answer
    began = time.thread_time()
    answer = make()
    cost = time.thread_time() - began
    rest = min(REST_FACTOR * cost, MAX_AGE_SECONDS) if cost > CHEAP_SECONDS else 0.0
    cache.set(key, (state, time.monotonic() + rest, answer), MAX_AGE_SECONDS)
    return answer


def cached_until_change(name: str, about: str, make: Callable[[], T]) -> T:
    """As :func:`kept`, but never older than anything that happened: a write, an event, an end."""
    key = _key(name, f"{about} {statements.change_token()}")
    now = timezone.now()
    found: tuple[T, datetime | None] | None = cache.get(key)
    if found is not None and (found[1] is None or now < found[1]):
        return found[0]
    began = time.thread_time()
    answer = make()
    if time.thread_time() - began > CHEAP_SECONDS:
        ends = Memory.objects.filter(expires_at__gt=now).aggregate(next=Min("expires_at"))["next"]
        cache.set(key, (answer, ends), UNCHANGED_SECONDS)
    return answer


def cached_value(name: str, about: str) -> Any:
    """What was answered lately, whether the store has changed since or not; None where nothing was."""
    found = cache.get(_key(name, about))
    return None if found is None else found[2]


def _key(name: str, about: str) -> str:
    return f"{name}-{hashlib.sha256(about.encode()).hexdigest()}"


def _journal_state() -> str:
    """The newest row of the journal, by its hash: every change of the store leaves another."""
    return JournalEntry.objects.order_by("-seq").values_list("hash", flat=True).first() or ""
