"""Pages that ask from time to time whether they are still true (``static/js/live.js``).

A page says by a mark what it showed. Asked again with that mark, it answers 304 while it would show the same:
after four cheap look-ups while nothing changed anywhere, else after looking what this person would see now.
No answer waits for news, so that no worker is held.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified

from memoryhub.accounts.clearance import request_clearance
from memoryhub.backends import statements

ETAG_TIMEOUT = 3600  # seconds that a mark is known to be true while nothing changes
_ETAG_CHARS = 32


def is_poll(request: HttpRequest) -> bool:
    """Whether a page asks by itself; nobody need be there."""
    return request.method == "GET" and "If-None-Match" in request.headers


def set_etag(request: HttpRequest, *shown: Any) -> None:
    """Say what of a page can change; its texts have to name every row and every number that is live."""
    mark = hashlib.sha256(repr(shown).encode()).hexdigest()[:_ETAG_CHARS]
    request.live_mark = mark  # type: ignore[attr-defined]


def answers_polls(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """For a view that calls :func:`shows`."""

    @wraps(view)
    def answer(request: HttpRequest, *arguments: Any, **names: Any) -> HttpResponse:
        if not is_poll(request):
            return view(request, *arguments, **names)
        asked = request.headers["If-None-Match"].removeprefix("W/").strip('" ')
        now = statements.change_token()  # before looking: what happens meanwhile is found the next time
        if cache.get(_cache_key(request, asked)) == now:
            return _not_modified(asked)
        response = view(request, *arguments, **names)
        mark = getattr(request, "live_mark", "")
        if not mark or response.status_code != 200:
            return response
        cache.set(_cache_key(request, mark), now, ETAG_TIMEOUT)
        if mark == asked:
            return _not_modified(mark)
        response["ETag"] = f'"{mark}"'
        return response

    return answer


def _cache_key(request: HttpRequest, mark: str) -> str:
    """Of one mark, address and clearance; a mark as it was sent may be anything."""
    named = repr((mark, request.get_full_path(), request_clearance(request)))
    return f"live-{hashlib.sha256(named.encode()).hexdigest()}"


def _not_modified(mark: str) -> HttpResponse:
    response = HttpResponseNotModified()
    response["ETag"] = f'"{mark}"'
    return response
