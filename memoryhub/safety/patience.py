"""No request may hold a thread of the server with one endless read of the database."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from memoryhub.retrieval.deadline import patient_for


class PatienceMiddleware:
    """Breaks off reads after ``request_seconds``; downloads, read as they are sent, may take longer."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with patient_for(settings.MEMORYHUB.request_seconds):
            return self.get_response(request)
