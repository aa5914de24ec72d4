"""Headers that every answer has: pages, fragments, errors, redirects, downloads, static files, the API."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

# What pages never use; a script that got in could not either.
_UNUSED = (
    *("accelerometer", "autoplay", "camera", "display-capture", "encrypted-media", "fullscreen"),
    *("geolocation", "gyroscope", "magnetometer", "microphone", "midi", "payment", "picture-in-picture"),
    *("publickey-credentials-get", "screen-wake-lock", "usb", "xr-spatial-tracking"),
)
HEADERS = {
    # Pages have a wider one of their own (settings.CONTENT_SECURITY_POLICY): nothing else loads anything.
    "Content-Security-Policy": "; ".join(
        f"{name} 'none'" for name in ("default-src", "base-uri", "form-action", "frame-ancestors")
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{name}=()" for name in _UNUSED),
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Static files say how long they may be kept; what says nothing may have come out of the store.
    "Cache-Control": "private, no-store",
}


class HeadersMiddleware:
    """Stands before every other, so that what any of those answers passes through here."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response
