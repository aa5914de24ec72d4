"""What holds for every page: a login, and no copy of it in any cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import patch_cache_control
from django_htmx.http import HttpResponseClientRedirect

from memoryhub.web.htmx import HtmxHttpRequest, patch_vary

_PAGES = "memoryhub.web."


class PageMiddleware(LoginRequiredMiddleware):
    """Asks for a login on every page of :mod:`memoryhub.web`; views elsewhere have doors of their own.

    A page that needs none says so with ``login_not_required``, so that a forgotten decorator opens nothing.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = super().__call__(request)
        if getattr(request, "is_page", False):
            patch_cache_control(response, private=True, no_store=True)
            patch_vary(response)
        return response

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., Any], view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
        if not view_func.__module__.startswith(_PAGES):
            return None
        mark_page(request)
        answer: HttpResponseBase | None = super().process_view(request, view_func, view_args, view_kwargs)
        return answer

    def handle_no_permission(
        self, request: HtmxHttpRequest, view_func: Callable[..., Any]
    ) -> HttpResponseBase:
        """To the login and back; a fragment cannot show a login, so htmx takes the whole page there."""
        back = request.htmx.current_url_abs_path if request.htmx else None
        if request.method in ("GET", "HEAD"):
            back = back or request.get_full_path()
        redirect = redirect_to_login(back or "/", self.get_login_url(view_func))
        return HttpResponseClientRedirect(redirect.url) if request.htmx else redirect


def mark_page(request: HttpRequest) -> None:
    """This request is answered with a page: no cache may keep it."""
    request.is_page = True  # type: ignore[attr-defined]
