"""Pages that poll for changes (``static/js/live.js``).

A page describes its content by an ETag. Polled with that ETag, it responds 304 while it would show the same:
after one cheap query while nothing changed anywhere, else after rendering the page for this person again.
No response waits for changes, so polling blocks no worker.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified

from memoryhub.accounts.clearance import request_clearance
from memoryhub.web.base.caching import store_token

ETAG_TIMEOUT = 3600  # seconds
_ETAG_CHARS = 32


def is_poll(request: HttpRequest) -> bool:
    """Whether a script polls the page, which is no sign that the person is there."""
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
        if cache.get(_cache_key(request, sent)) == now:
            return _not_modified(sent)
        response = view(request, *arguments, **names)
        etag = getattr(request, "live_mark", "")
        if not etag or response.status_code != 200:
            return response
        cache.set(_cache_key(request, etag), now, ETAG_TIMEOUT)
        if etag == sent:
            return _not_modified(etag)
        response["ETag"] = f'"{etag}"'
        return response

    return answer


def _cache_key(request: HttpRequest, etag: str) -> str:
    """Return the key of an ETag, URL and clearance. It is hashed because clients send any ETag."""
    named = repr((etag, request.get_full_path(), request_clearance(request)))
    return f"live-{hashlib.sha256(named.encode()).hexdigest()}"


def _not_modified(etag: str) -> HttpResponse:
    return HttpResponseNotModified(headers={"ETag": f'"{etag}"'})
