"""Middleware: address of the client, security headers, limits of reads and uploads, problems of the API."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from csp.constants import HEADER
from csp.middleware import CSPMiddleware
from csp.utils import build_policy
from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse

from memoryhub.accounts.clearance import full_clearance
from memoryhub.backends.postgres import replica
from memoryhub.core.database import REPLICA, read_timeout, use_primary
from memoryhub.http import authentication
from memoryhub.http.problems import (
    INTERNAL_ERROR_DETAIL,
    MEDIA_TYPE,
    Problem,
    RateLimitExceeded,
    body_too_large,
    get_request_id,
    to_problem,
    unreadable_body,
)

# Browser features that no page uses, denied so that an injected script cannot use them either.
_DENIED_FEATURES = (
    *("accelerometer", "autoplay", "camera", "display-capture", "encrypted-media", "fullscreen"),
    *("geolocation", "gyroscope", "magnetometer", "microphone", "midi", "payment", "picture-in-picture"),
    *("screen-wake-lock", "usb", "xr-spatial-tracking"),
)
# Passkeys, for pages of the hub only.
_OWN_FEATURES = ("publickey-credentials-create", "publickey-credentials-get")
SECURITY_HEADERS = {
    # For responses that load nothing; pages have their own policy (settings.CONTENT_SECURITY_POLICY).
    "Content-Security-Policy": "; ".join(
        f"{name} 'none'" for name in ("default-src", "base-uri", "form-action", "frame-ancestors")
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": ", ".join(
        [f"{name}=()" for name in _DENIED_FEATURES] + [f"{name}=(self)" for name in _OWN_FEATURES]
    ),
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # The default: a response may contain stored data. Static files set their own.
    "Cache-Control": "private, no-store",
}


class _Middleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response


MAX_ADDRESS_CHARS = 45  # of IPv6
# Some proxies add the port, which differs for each connection.
_ADDRESS_WITH_PORT = re.compile(r"(?P<v4>[0-9.]+):\d+|\[(?P<v6>[0-9a-fA-F:.]+)\](?::\d+)?")


class ClientAddressMiddleware(_Middleware):
    """Sets ``REMOTE_ADDR`` to the address of the client: behind a proxy, the one that the nearest reports."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "") if settings.BEHIND_PROXY else ""
        nearest = forwarded.rpartition(",")[2].strip()
        if with_port := _ADDRESS_WITH_PORT.fullmatch(nearest):
            nearest = with_port["v4"] or with_port["v6"]
        request.META["REMOTE_ADDR"] = str(nearest or request.META.get("REMOTE_ADDR", ""))[:MAX_ADDRESS_CHARS]
        return self.get_response(request)


class SecurityHeadersMiddleware(_Middleware):
    """Adds the security headers. Runs first, so that responses of all other middleware get them."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        for name, value in SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        return response


def page_policy() -> str:
    """Return the content security policy of pages, with the directives in the order of the settings.

    django-csp puts them in another order in each process, so that responses of two workers would differ.
    """
    parts = {part.partition(" ")[0]: part for part in build_policy().split("; ")}
    return "; ".join(parts[name] for name in settings.CONTENT_SECURITY_POLICY["DIRECTIVES"] if name in parts)


class PagePolicyMiddleware(CSPMiddleware):
    """Adds the content security policy of pages. Data of the API gets the one in :data:`SECURITY_HEADERS`."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_page = response.headers.get("Content-Type", "").startswith("text/html")  # as are the API's docs
        if is_api_path(request.path_info) and not is_page:
            return response
        response.headers.setdefault(HEADER, page_policy())
        return super().process_response(request, response)


class ReadTimeoutMiddleware(_Middleware):
    """Cancels database reads after ``request_seconds``. A streaming download may take longer."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with read_timeout(settings.MEMORYHUB.request_seconds):
            return self.get_response(request)


_NAMES_OF_TOOLS = ("/api/v1/tools/", "/mcp")  # are not looked up in the database


class PathMiddleware(_Middleware):
    """Answers a path with NUL like an unknown one: PostgreSQL cannot compare a text that contains it."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "\x00" in request.path_info and not request.path_info.startswith(_NAMES_OF_TOOLS):
            raise Http404
        return self.get_response(request)


# Lists, searches and figures can be read from a replica. Everything else uses the primary, as does
# authentication.
_REPLICA_PATHS = tuple(
    f"/api/v1/{name}"
    for name in ("duplicates", "facts", "memories", "search", "sessions", "stats", "timeline")
)
_REPLICA_PAGES = tuple(
    f"memoryhub.web.{name}"
    for name in ("facts", "home", "injections", "memories", "palette", "sessions", "stats")
)


class ReplicaMiddleware(_Middleware):
    """Sends the reads of pages and API requests to the replica, once their caller is known."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        if REPLICA not in settings.DATABASES:
            raise MiddlewareNotUsed
        super().__init__(get_response)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        is_read = request.method in ("GET", "HEAD") and request.path_info.startswith(_REPLICA_PATHS)
        request.choose_replica_for = replica.choose_for if is_read else None  # type: ignore[attr-defined]
        try:
            return self.get_response(request)
        finally:
            use_primary()

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., Any], view_args: Any, view_kwargs: Any
    ) -> None:
        """Choose the server for a page, after the permissions of its viewer are read and cached."""
        is_page = view_func.__module__.startswith(_REPLICA_PAGES) and request.method in ("GET", "HEAD")
        if is_page and request.user.is_authenticated:
            full_clearance(request)
            replica.choose_for(f"user:{request.user.get_username()}")


_FORM_TYPES = ("multipart/form-data", "application/x-www-form-urlencoded")


class UploadLimitMiddleware(_Middleware):
    """Refuses large forms before the CSRF check, which would read the whole body to find its token.

    ``ApiProblemMiddleware`` limits the bodies of API requests.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        is_form, path = request.content_type in _FORM_TYPES, request.path_info
        if is_form and declared_length(request) > settings.MEMORYHUB.max_body_bytes:
            may_upload = path == reverse("import-start") or path.startswith("/api/")
            if not may_upload:
                return render(request, "413.html", status=413)
        return self.get_response(request)


_MAX_LENGTH_DIGITS = 18  # of a Content-Length; more are too large in any case, and int() refuses thousands


def declared_length(request: HttpRequest) -> int:
    """Return the Content-Length of a request; 0 without a valid one."""
    length = request.META.get("CONTENT_LENGTH") or ""
    if not length.isdecimal():
        return 0
    return int(length) if len(length) <= _MAX_LENGTH_DIGITS else sys.maxsize


_HEALTH_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
_API_PATHS = _HEALTH_PATHS | {"/api", "/mcp"}
_IMPORT_PATH = "/api/v1/import"  # its body is a file, stored while it arrives
_ERROR_MEDIA_TYPES = (MEDIA_TYPE, "application/json")  # problems, and the JSON-RPC errors of MCP
_BODY_HEADERS = frozenset({"content-type", "content-length", "content-encoding", "content-disposition"})
_PROBLEM_BY_STATUS = {
    400: ("bad_request", "the request cannot be read; check its headers and its host"),
    403: ("forbidden", "this request is not allowed"),
    404: ("not_found", "unknown path; /api/v1/openapi.json lists all paths"),
    405: ("method_not_allowed", "this method is not allowed here; the header Allow lists those that are"),
    413: ("body_too_large", "the body is too large"),
    500: ("internal_error", INTERNAL_ERROR_DETAIL),
    503: ("unavailable", "the service cannot answer now; try again"),
}


class ApiProblemMiddleware(_Middleware):
    """For API and MCP: limits rate and body size, sets the request id, and turns every error into a problem.

    Runs before Django's own middleware, so that its errors (a bad host, an unknown path) become problems too.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not is_api_path(request.path_info):
            return self.get_response(request)
        try:
            if request.path_info not in _HEALTH_PATHS:  # monitoring is never limited
                authentication.count_request_of_address(request.META.get("REMOTE_ADDR", ""))
            _limit_body(request)
            response = self._get_response(request)
        except (Problem, RateLimitExceeded) as error:
            response = to_problem(error).response(request)
        if response.status_code >= 400 and response.headers.get("Content-Type") not in _ERROR_MEDIA_TYPES:
            response = _convert_to_problem(request, response)
        response.headers["X-Request-ID"] = get_request_id(request)
        response.headers["Cache-Control"] = "no-store"
        return response

    def _get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Answer HEAD like GET, which is the only one that ninja routes; the server drops the body."""
        if request.method != "HEAD":
            return _allow_head(self.get_response(request))
        request.method = "GET"
        try:
            return _allow_head(self.get_response(request))
        finally:
            request.method = "HEAD"


def is_api_path(path: str) -> bool:
    """Whether programs, not people, use this path."""
    return path.startswith(("/api/", "/mcp/", "/.well-known/oauth-")) or path in _API_PATHS


def _allow_head(response: HttpResponseBase) -> HttpResponseBase:
    """Add HEAD to an ``Allow`` header that contains GET."""
    allowed = [method.strip() for method in response.headers.get("Allow", "").split(",")]
    if "GET" in allowed and "HEAD" not in allowed:
        response.headers["Allow"] = ", ".join(sorted([*allowed, "HEAD"]))
    return response


def _limit_body(request: HttpRequest) -> None:
    """Raise 413 before a large body is read. A chunked one has no length: read it here, up to the limit."""
    length = declared_length(request)
    if request.path_info == _IMPORT_PATH:  # without a length, the import counts while it stores the file
        limit = settings.MEMORYHUB.max_upload_mb
        if length > (limit + 1) * 1024 * 1024:
            detail = f"the file is larger than {limit} MiB; import it with manage.py import_memories"
            raise Problem(413, "body_too_large", detail)
        return
    limit = settings.MEMORYHUB.max_body_bytes
    if length > limit:
        raise body_too_large()
    if (
        not request.META.get("CONTENT_LENGTH")
        and request.META.get("wsgi.input_terminated")
        and request.META.get("HTTP_TRANSFER_ENCODING")
    ):
        try:
            body = request.META["wsgi.input"].read(limit + 1)
        except OSError as error:
            raise unreadable_body() from error
        if len(body) > limit:
            raise body_too_large()
        request._body = body  # where Django caches a body that it has read


def _convert_to_problem(request: HttpRequest, response: HttpResponseBase) -> HttpResponse:
    """Return a problem with the same status and the same headers, except those about the body."""
    status = response.status_code
    code, detail = _PROBLEM_BY_STATUS.get(status, ("error", HTTPStatus(status).phrase))
    kept = {name: value for name, value in response.items() if name.lower() not in _BODY_HEADERS}
    return Problem(status, code, detail, headers=kept).response(request)
