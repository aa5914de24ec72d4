"""The exceptions of the client. Each problem response (RFC 9457) of a hub becomes an :class:`ApiError`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import httpx2

from memoryhub.core.http_client import seconds_to_wait


class MemoryhubError(Exception):
    """The base class of all errors of the client."""


class ConfigurationError(MemoryhubError):
    """The client lacks a valid address or a token."""


class UnusableConfig(MemoryhubError):
    """A configuration file that cannot be parsed, or has a conflicting entry."""


class UnexpectedAnswer(MemoryhubError):
    """The server answered, but not as a hub of this version does."""


class ConnectionFailed(MemoryhubError):
    """No answer arrived. ``sent``: the request may have reached the hub."""

    def __init__(self, message: str, *, sent: bool) -> None:
        self.sent = sent
        super().__init__(message)


class FieldProblem(NamedTuple):
    field: str
    message: str


class ApiError(MemoryhubError):
    """The hub refused the request. Branch on ``status`` and ``code``; ``errors`` names each invalid field.

    ``retry_after``: the seconds to wait before a retry, if the hub named them.
    """

    def __init__(self, status: int, problem: dict[str, Any], retry_after: float | None = None) -> None:
        self.status = status
        self.title = str(problem.get("title", ""))
        self.code = str(problem.get("code", ""))
        self.detail = str(problem.get("detail", ""))
        self.request_id = str(problem.get("request_id", ""))
        self.errors = _field_problems(problem.get("errors"))
        self.retry_after = retry_after
        super().__init__(self._text())

    def _text(self) -> str:
        fields = "; ".join(f"{name}: {text}" for name, text in self.errors if text not in self.detail)
        reason = ": ".join(part for part in (self.detail or self.title, fields) if part)
        return f"{self.status} {self.code}: {reason}"


class InvalidRequest(ApiError):
    """400, 413, 415 or 422: the request cannot be used as it is."""


class AuthenticationFailed(ApiError):
    """401: the token is missing, wrong, revoked or expired."""


class PermissionDenied(ApiError):
    """403: the token lacks a right, or may not write to the project."""


class NotFound(ApiError):
    """404: it does not exist, or the token may not see it."""


class Conflict(ApiError):
    """409 or 412: something else has the same text or key, or has changed in the meantime."""


class RateLimited(ApiError):
    """429: too many requests."""


class ServerError(ApiError):
    """5xx: the hub is busy, not ready or failed."""


_CLASSES: dict[int, type[ApiError]] = {
    **dict.fromkeys((400, 413, 415, 422), InvalidRequest),
    401: AuthenticationFailed,
    403: PermissionDenied,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    429: RateLimited,
}


def to_error(response: httpx2.Response) -> MemoryhubError:
    """Return the exception for a response whose status is not 2xx."""
    status = response.status_code
    problem = _problem(response)
    if problem is None and status < 500:
        return UnexpectedAnswer(_describe_other_server(response))
    retry_after = seconds_to_wait(response.headers.get("Retry-After", ""), datetime.now(UTC))
    error = ServerError if status >= 500 else _CLASSES.get(status, ApiError)
    return error(status, problem or {"title": response.reason_phrase}, retry_after)


def _problem(response: httpx2.Response) -> dict[str, Any] | None:
    if not response.headers.get("Content-Type", "").startswith("application/problem+json"):
        return None
    try:
        problem = response.json()
    except ValueError:
        return None
    return problem if isinstance(problem, dict) else None


def _describe_other_server(response: httpx2.Response) -> str:
    if response.is_redirect:
        target = response.headers.get("Location", "")
        return f"{response.url} redirects to {target}. Use the address of the hub itself."
    return f"{response.url} returned status {response.status_code}. It is not a memoryhub. Check the address."


def _field_problems(errors: Any) -> Sequence[FieldProblem]:
    items = errors if isinstance(errors, list) else []
    return tuple(
        FieldProblem(str(item.get("field", "")), str(item.get("message", "")))
        for item in items
        if isinstance(item, dict)
    )
