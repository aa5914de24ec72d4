"""Pages and the fragments of them that htmx asks for."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django_htmx.http import push_url, replace_url
from django_htmx.middleware import HtmxDetails

VARY_HEADERS = ("HX-Request", "HX-Target", "HX-Boosted")


class HtmxHttpRequest(HttpRequest):
    """A request that has passed :class:`django_htmx.middleware.HtmxMiddleware`."""

    htmx: HtmxDetails


def patch_vary(response: HttpResponseBase) -> None:
    """The same address answers with a page or with a part of it."""
    patch_vary_headers(response, VARY_HEADERS)


def wants_fragment(request: HtmxHttpRequest, target: str) -> bool:
    """Whether htmx will put the answer into the element with this id, and into nothing else."""
    htmx = request.htmx
    return bool(htmx) and not htmx.boosted and not htmx.history_restore_request and htmx.target == target


def page_or_fragment(
    request: HtmxHttpRequest,
    page: str,
    context: dict[str, Any],
    *,
    fragment: str,
    target: str,
    status: int = 200,
) -> HttpResponse:
    """``fragment`` for htmx that fills ``target``, else the whole ``page``, which includes it."""
    name = fragment if wants_fragment(request, target) else page
    response = render(request, name, context, status=status)
    patch_vary(response)
    return response


def update_address_bar(
    request: HtmxHttpRequest, response: HttpResponse, address: str, *, replace: bool
) -> HttpResponse:
    """Let the address line follow a fragment: as a new step in the history, or in place of this one."""
    here = request.htmx and request.htmx.current_url_abs_path == request.get_full_path()
    if not request.htmx or request.htmx.boosted or here:  # the page shows its list anew: no step at all
        return response
    return replace_url(response, address) if replace else push_url(response, address)
