"""Cache expensive results until the store changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from django.core.cache import cache
from django.db.models import Min
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.backends import statements
from memoryhub.models import Memory

MAX_AGE_SECONDS = 60  # reading a memory does not change the token: counts of reads may be this old
T = TypeVar("T")


def clearance_key(clearance: Clearance) -> str:
    """Return a text that is equal for clearances that see the same."""
    parts = [(sorted(levels), sorted(of) if of is not None else None) for levels, of in clearance.parts()]
    return repr((clearance.owner, clearance.every_owner, parts))


def cached_until_change(name: str, about: str, make: Callable[[], T], max_age: int = MAX_AGE_SECONDS) -> T:
    """Return the cached result of ``make``, or call it if anything in the store changed or expired since.

    ``name`` is the question, ``about`` everything the result depends on besides the store: at least the
    clearance.
    """
    key, token, now = _cache_key(name, about), statements.change_token(), timezone.now()
    cached: tuple[str, datetime | None, T] | None = cache.get(key)
    if cached is not None and cached[0] == token and (cached[1] is None or now < cached[1]):
        return cached[2]
    result = make()
    next_expiry = Memory.objects.filter(expires_at__gt=now).aggregate(next=Min("expires_at"))["next"]
    cache.set(key, (token, next_expiry, result), max_age)
    return result


def cached_value(name: str, about: str) -> Any:
    """Return the cached result even if the store has changed since; None if there is none."""
    cached = cache.get(_cache_key(name, about))
    return None if cached is None else cached[2]


def _cache_key(name: str, about: str) -> str:
    return f"{name}-{hashlib.sha256(about.encode()).hexdigest()}"
