"""Cache expensive results until the store changes, and answer pages that poll (``static/js/live.js``).

A page describes its content by an ETag. Polled with that ETag, it responds 304 while it would show the same:
after one cheap query while nothing changed anywhere, else after rendering the page for this person again.
No response waits for changes, so polling blocks no worker.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.backends import statements
from memoryhub.backends.statements import ChangeToken

MAX_AGE_SECONDS = 60  # reading a memory does not change the token: counts of reads may be this old
T = TypeVar("T")


def viewer_key(clearance: Clearance, *about: object) -> str:
    """Return a text that is equal for clearances that see the same, with equal values of ``about``."""
    parts = [(sorted(levels), sorted(of) if of is not None else None) for levels, of in clearance.parts()]
    return repr((clearance.owner, clearance.every_owner, parts, *about))


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
    clearance: Clearance,
    make: Callable[[], T],
    *about: object,
    depends_on_events: bool = False,
) -> T:
    """Return the cached result of ``make``, or call it if the store changed or a memory expired since.

    ``name`` identifies the kind of result. ``about`` are the values that it depends on, except the store and
    the clearance. Events and injections count as changes only for results that depend on them: while agents
    work, they arrive all the time.
    """
    token = store_token(request)
    until = token if depends_on_events else token.without_events
    return cached_while(until, name, viewer_key(clearance, *about), make, MAX_AGE_SECONDS)


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


ETAG_TIMEOUT = 3600  # seconds
_ETAG_CHARS = 32


def is_poll(request: HttpRequest) -> bool:
    """Whether a script polls the page. A poll does not show that the person is active."""
    return request.method == "GET" and "If-None-Match" in request.headers


def set_etag(request: HttpRequest, *shown: Any) -> None:
    """Set the ETag of a page from everything on it that can change."""
    request.live_mark = hashlib.sha256(repr(shown).encode()).hexdigest()[:_ETAG_CHARS]  # type: ignore[attr-defined]


def answers_polls(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Decorate a view that calls :func:`set_etag`."""

    @wraps(view)
    def answer(request: HttpRequest, *arguments: Any, **names: Any) -> HttpResponse:
        if not is_poll(request):
            return view(request, *arguments, **names)
        sent = request.headers["If-None-Match"].removeprefix("W/").strip('" ')
        now = store_token(request)  # before rendering: a change meanwhile is found by the next poll
        if cache.get(_poll_key(request, sent)) == now:
            return _not_modified(sent)
        response = view(request, *arguments, **names)
        etag = getattr(request, "live_mark", "")
        if not etag or response.status_code != 200:
            return response
        cache.set(_poll_key(request, etag), now, ETAG_TIMEOUT)
        if etag == sent:
            return _not_modified(etag)
        response["ETag"] = f'"{etag}"'
        return response

    return answer


def _poll_key(request: HttpRequest, etag: str) -> str:
    """Return the key of an ETag, URL and clearance. It is hashed because clients send any ETag."""
    named = repr((etag, request.get_full_path(), request_clearance(request)))
    return f"live-{hashlib.sha256(named.encode()).hexdigest()}"


def _not_modified(etag: str) -> HttpResponse:
    return HttpResponseNotModified(headers={"ETag": f'"{etag}"'})
