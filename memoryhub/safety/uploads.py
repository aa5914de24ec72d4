"""A large form is read for one page alone, the import, which asks who sends it before it reads."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse

_FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")


class UploadsMiddleware:
    """Answers before the check of forms, which would read all of it, and wait for it, to find the token.

    The doors of agents bound theirs before this.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if _is_large(request) and not _may_upload(request):
            return render(request, "413.html", status=413)
        return self.get_response(request)


def _is_large(request: HttpRequest) -> bool:
    length = request.META.get("CONTENT_LENGTH") or ""
    return (
        request.content_type in _FORMS
        and length.isdecimal()
        and int(length) > settings.MEMORYHUB.max_body_bytes
    )


def _may_upload(request: HttpRequest) -> bool:
    return request.path_info == reverse("import-start") or request.path_info.startswith("/api/")
