"""The signed-in user of a request."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.http import HttpRequest


def signed_in_user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101 the middleware requires sign-in for every page
    return request.user
