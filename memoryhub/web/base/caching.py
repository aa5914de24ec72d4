"""Cache expensive results until the store changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

from django.core.cache import cache
from django.http import HttpRequest

from memoryhub.access.policy import Clearance
from memoryhub.backends import statements
from memoryhub.backends.statements import ChangeToken

MAX_AGE_SECONDS = 60  # reading a memory does not change the token: counts of reads may be this old
T = TypeVar("T")


def clearance_key(clearance: Clearance) -> str:
    """Return a text that is equal for clearances that see the same."""
    parts = [(sorted(levels), sorted(of) if of is not None else None) for levels, of in clearance.parts()]
    return repr((clearance.owner, clearance.every_owner, parts))


def store_token(request: HttpRequest) -> ChangeToken:
    """Return the change token of the store, read once for a request that changes nothing."""
    if request.method not in ("GET", "HEAD"):
        return statements.change_token()
    if not hasattr(request, "store_token"):
        request.store_token = statements.change_token()  # type: ignore[attr-defined]
    token: ChangeToken = request.store_token  # type: ignore[attr-defined]
    return token


def cached_until_change(
    request: HttpRequest,
    name: str,
    about: str,
    make: Callable[[], T],
    *,
    depends_on_events: bool = False,
) -> T:
    """Return the cached result of ``make``, or call it if the store changed or a memory expired since.

    ``name`` is the question, ``about`` everything the result depends on besides the store: at least the
    clearance. Events and injections count as changes only for results that depend on them: while agents work,
    they arrive all the time.
    """
    token = store_token(request)
    until = token if depends_on_events else token.without_events
    return cached_while(until, name, about, make, MAX_AGE_SECONDS)


def cached_while(token: object, name: str, about: str, make: Callable[[], T], max_age: int) -> T:
    """Return the cached result of ``make``, or call it if the token is another one than before."""
    key = _cache_key(name, about)
    cached: tuple[object, T] | None = cache.get(key)
    if cached is not None and cached[0] == token:
        return cached[1]
    result = make()
    cache.set(key, (token, result), max_age)
    return result


def cached_value(name: str, about: str, token: object = None) -> Any:
    """Return the cached result, or None; an outdated one only without a token."""
    cached = cache.get(_cache_key(name, about))
    return None if cached is None or token not in (None, cached[0]) else cached[1]


def _cache_key(name: str, about: str) -> str:
    return f"{name}-{hashlib.sha256(about.encode()).hexdigest()}"
