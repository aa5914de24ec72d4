"""Middleware: response headers, a time limit for database reads, and large uploads."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse

from memoryhub.core.timeouts import read_timeout

# What pages never use; a script that got in could not either.
_DENIED_FEATURES = (
    *("accelerometer", "autoplay", "camera", "display-capture", "encrypted-media", "fullscreen"),
    *("geolocation", "gyroscope", "magnetometer", "microphone", "midi", "payment", "picture-in-picture"),
    *("publickey-credentials-get", "screen-wake-lock", "usb", "xr-spatial-tracking"),
)
SECURITY_HEADERS = {
    # Pages have a wider one of their own (settings.CONTENT_SECURITY_POLICY): nothing else loads anything.
    "Content-Security-Policy": "; ".join(
        f"{name} 'none'" for name in ("default-src", "base-uri", "form-action", "frame-ancestors")
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{name}=()" for name in _DENIED_FEATURES),
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Static files say how long they may be kept; what says nothing may have come out of the store.
    "Cache-Control": "private, no-store",
}


class SecurityHeadersMiddleware:
    """Stands before every other, so that what any of those answers passes through here."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        for name, value in SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        return response


class ReadTimeoutMiddleware:
    """Breaks off reads after ``request_seconds``; downloads, read as they are sent, may take longer."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with read_timeout(settings.MEMORYHUB.request_seconds):
            return self.get_response(request)


_FORM_TYPES = ("multipart/form-data", "application/x-www-form-urlencoded")


class UploadLimitMiddleware:
    """Answers before the check of forms, which would read all of it, and wait for it, to find the token.

    The doors of agents bound theirs before this.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if _is_large_form(request) and not _may_upload(request):
            return render(request, "413.html", status=413)
        return self.get_response(request)


def _is_large_form(request: HttpRequest) -> bool:
    length = request.META.get("CONTENT_LENGTH") or ""
    return (
        request.content_type in _FORM_TYPES
        and length.isdecimal()
        and int(length) > settings.MEMORYHUB.max_body_bytes
    )


def _may_upload(request: HttpRequest) -> bool:
    return request.path_info == reverse("import-start") or request.path_info.startswith("/api/")
