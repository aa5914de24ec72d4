"""Middleware for pages: login, cache headers, error pages, date preferences; static files."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.contrib.sessions.backends.base import UpdateError
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http import HttpResponseRedirect as Redirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import Resolver404, resolve
from django.utils import timezone
from django.utils.cache import get_conditional_response, patch_cache_control, patch_vary_headers
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails
from whitenoise.compress import Compressor
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from memoryhub.core import dates
from memoryhub.core.database import is_damage_recorded, side_write
from memoryhub.core.database_errors import (
    is_damage,
    is_database_busy,
    is_interrupted,
    is_outcome_unknown,
    is_store_unavailable,
)
from memoryhub.core.disks import is_disk_error
from memoryhub.core.pagination import InvalidCursor
from memoryhub.http.problems import refusal_status
from memoryhub.memories.errors import Forbidden, NotFound
from memoryhub.web.base.requests import apply_scope, is_poll, referring_page, submitted_texts
from memoryhub.web.base.static_files import Bundle, file_digest, find_bundle

ZONE_COOKIE = "zone"  # written by theme.js: the browser's time zone, used if the person chose none
TOUCH_INTERVAL = timedelta(minutes=5)
_PAGES = "memoryhub.web."
_VARY_HEADERS = ("HX-Request", "HX-Target", "HX-Boosted")


class PageMiddleware(LoginRequiredMiddleware):
    """Require a login for every view of :mod:`memoryhub.web`; other views authenticate on their own.

    A public page is marked with ``login_not_required``, so a forgotten decorator exposes nothing.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if (
            response.status_code == 404
            and request.method in ("GET", "HEAD")
            and _is_missing_slash(request.path)
        ):
            return Redirect(request.get_full_path(force_append_slash=True))
        if isinstance(response, HttpResponseNotAllowed) and _is_page_or_admin(request):
            mark_as_page(request)
            page = render(request, "405.html", status=405)
            page.headers["Allow"] = response["Allow"]
            response = page
        if getattr(request, "is_page", False):
            patch_cache_control(response, private=True, no_store=True)
            # The same URL returns a page or a fragment of it.
            patch_vary_headers(response, _VARY_HEADERS)
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponseBase | None:
        """Respond 503 if the store cannot serve this now, here and in the admin.

        Respond 400 if a cursor from the address does not fit the list. Respond 404 and 403 to a refusal of
        the store that a page does not handle itself.
        """
        if isinstance(exception, InvalidCursor):
            return render(request, "400.html", status=400)
        if isinstance(exception, NotFound | Forbidden) and getattr(request, "is_page", False):
            status = refusal_status(exception)
            return render(request, f"{status}.html", {"submitted": submitted_texts(request)}, status=status)
        return store_error_page(exception)

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., Any], view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
        if not view_func.__module__.startswith(_PAGES):
            return None
        mark_as_page(request)
        answer: HttpResponseBase | None = super().process_view(request, view_func, view_args, view_kwargs)
        if request.user.is_authenticated:
            apply_scope(request)
        return answer

    def handle_no_permission(self, request: HttpRequest, view_func: Callable[..., Any]) -> Redirect:
        """Redirect to the login, but show the text of a form first, which the redirect would lose.

        A fragment cannot show a login, so htmx redirects the whole page. A form with a text stays in
        its page, where hub.js reports the status 401.
        """
        htmx = HtmxDetails(request)
        if texts := submitted_texts(request):
            if htmx:
                return HttpResponse(status=401)  # type: ignore[return-value]
            context = {"submitted": texts, "signed_out": True, "form_url": referring_page(request, "/login/")}
            return render(request, "403_csrf.html", context, status=403)  # type: ignore[return-value]
        back = htmx.current_url_abs_path if htmx else None
        if request.method in ("GET", "HEAD"):
            back = back or request.get_full_path()
        redirect = redirect_to_login(back or "/", self.get_login_url(view_func))
        return HttpResponseClientRedirect(redirect.url) if htmx else redirect  # type: ignore[return-value]


class PersonMiddleware:
    """Apply a person's date preferences to pages and the admin, and record that the session was active."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        try:
            return self.get_response(request)
        finally:
            timezone.deactivate()

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., Any], view_args: Any, view_kwargs: Any
    ) -> None:
        if not _is_page_or_admin(request) or not request.user.is_authenticated:
            return
        if not is_poll(request):
            touch_session(request)
        dates.activate(getattr(request.user, "profile", None), request.COOKIES.get(ZONE_COOKIE, ""))


def touch_session(request: HttpRequest) -> None:
    """Record that the session is in use, at most every five minutes: a read must not always write.

    Sessions created by scripts are ignored. Failure is logged, not raised: the page can be shown.
    """
    now = timezone.now()
    if not request.session.get("device"):
        return
    seen = dates.parse_moment(request.session.get("seen"))
    if seen is None or now - seen >= TOUCH_INTERVAL:
        is_modified = request.session.modified
        request.session["seen"] = now.isoformat(timespec="seconds")
        with suppress(UpdateError):  # raised by Django if the row cannot be written
            side_write("use of a session was not recorded", request.session.save)
        request.session.modified = is_modified


def store_error_page(exception: BaseException) -> HttpResponse | None:
    """Return the page for an error of the store, or None for another error.

    Rendered without the request context, which may ask the database.
    """
    reasons = {
        "unknown": is_outcome_unknown(exception),
        "slow": is_interrupted(exception),
        "busy": is_database_busy(exception),
        "damaged": is_damage(exception) or is_damage_recorded(),
        "unavailable": is_store_unavailable(exception),
        "full": is_disk_error(exception),
    }
    reason = next((name for name, applies in reasons.items() if applies), None)
    if reason is None:
        return None
    headers = {"Retry-After": "5"} if reason in ("slow", "busy") else None
    return HttpResponse(render_to_string("503.html", {"reason": reason}), status=503, headers=headers)


def _is_page_or_admin(request: HttpRequest) -> bool:
    """Whether the URL is one of a page or of the admin; the API responds with problem details instead."""
    match = request.resolver_match
    return getattr(request, "is_page", False) or (match is not None and match.app_name == "admin")


def _is_missing_slash(path: str) -> bool:
    """Whether adding a slash makes this the URL of a page; URLs of the API have none."""
    try:
        return not path.endswith("/") and resolve(f"{path}/").func.__module__.startswith(_PAGES)
    except Resolver404:
        return False


def mark_as_page(request: HttpRequest) -> None:
    """Mark the response as a page, which no cache may store."""
    request.is_page = True  # type: ignore[attr-defined]


_FOREVER = f"max-age={WhiteNoiseMiddleware.FOREVER}, public, immutable"
_ACCEPTS_GZIP = re.compile(r"\bgzip\b")
_COMPRESSOR = Compressor(use_brotli=False, quiet=True)


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """WhiteNoise without a folder of compressed copies, and with bundles."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        path = request.path_info.removeprefix(self.static_prefix)
        if path != request.path_info and (bundle := find_bundle(path)):
            return _serve_bundle(request, path, bundle)
        response: HttpResponseBase = super().__call__(request)
        return response

    def serve(self, static_file: StaticFile, request: HttpRequest) -> FileResponse:
        response: FileResponse = super().serve(static_file, request)
        if response.status_code in (200, 304) and (version := request.GET.get("v")):
            digest = file_digest(request.path_info.removeprefix(self.static_prefix))
            response["Cache-Control"] = _cache_control(version, digest)
        if response.status_code != 200 or not _COMPRESSOR.should_compress(request.path_info):
            return response
        patch_vary_headers(response, ["Accept-Encoding"])
        if request.method != "GET" or not _ACCEPTS_GZIP.search(request.META.get("HTTP_ACCEPT_ENCODING", "")):
            return response
        if body := _gzip(static_file.alternatives[0][1], static_file.etag):
            response.streaming_content = [body]  # the file is closed with the response
            response["Content-Encoding"] = "gzip"
            response["Content-Length"] = str(len(body))
        return response


def _cache_control(version: str, digest: str) -> str:
    """Return how long a browser may cache bytes with this digest for a URL that names a version.

    During an upgrade, the node that answers may have other bytes than the one that rendered the page.
    """
    return _FOREVER if version == digest else "no-cache"


def _serve_bundle(request: HttpRequest, path: str, bundle: Bundle) -> HttpResponseBase:
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    is_compressed = _ACCEPTS_GZIP.search(request.META.get("HTTP_ACCEPT_ENCODING", ""))
    response = HttpResponse(
        _compress(bundle.body) if is_compressed else bundle.body,
        content_type="text/css; charset=utf-8" if path.endswith(".css") else "text/javascript; charset=utf-8",
    )
    if is_compressed:
        response["Content-Encoding"] = "gzip"
    patch_vary_headers(response, ["Accept-Encoding"])
    unversioned, version = f"max-age={settings.WHITENOISE_MAX_AGE}, public", request.GET.get("v")
    response["Cache-Control"] = _cache_control(version, bundle.digest) if version else unversioned
    response["ETag"] = f'W/"{bundle.digest}"'
    answer = get_conditional_response(request, etag=response["ETag"], response=response)
    return cast(HttpResponseBase, answer)


@lru_cache(maxsize=256)
def _compress(body: bytes) -> bytes:
    compressed: bytes = _COMPRESSOR.compress_gzip(body)
    return compressed


@lru_cache(maxsize=1024)
def _gzip(path: str, etag: str) -> bytes | None:
    """Compress a file once per process; None if that does not make it smaller."""
    data = Path(path).read_bytes()
    body: bytes = _COMPRESSOR.compress_gzip(data)
    return body if _COMPRESSOR.is_compressed_effectively("gzip", path, len(data), body) else None
