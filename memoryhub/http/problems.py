"""Errors of the agents' doors as ``application/problem+json`` (RFC 9457), whatever layer they come from.

Views raise :class:`Problem`. :class:`ApiProblemMiddleware` stands before every other middleware, so that what
those answer under ``/api`` (a bad host, an unknown path, a body too large) is a problem too and not a page.
It leaves the pages alone.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from memoryhub.accounts.sign_in import client_address
from memoryhub.http import rate_limit

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = "1"  # seconds until a busy database is worth another try
# Errors that say what they have to say: problems, and JSON-RPC's of MCP.
_ERROR_MEDIA_TYPES = (MEDIA_TYPE, "application/json")
_API_PREFIXES = ("/api/", "/mcp/")
_API_PATHS = frozenset({"/api", "/mcp", "/healthz", "/readyz"})
IMPORT_PATH = "/api/v1/import"  # whose body is a file, written down as it comes
_BODY_HEADERS = frozenset({"content-type", "content-length", "content-encoding", "content-disposition"})
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_RATE_LIMIT_DETAILS = {
    "rate_per_token": "this token is used too often",
    "rate_per_address": "too many requests come from this address",
    "refusals_per_minute": "too much was sent from this address that is no token",
}
_UNLIMITED_PATHS = frozenset(
    {"/healthz", "/readyz"}
)  # what watches the hub asks for them, whatever else goes on
# What an answer that is not a problem yet is turned into, by its status.
_PROBLEM_BY_STATUS = {
    400: ("bad_request", "the request cannot be read; look at its headers and its host"),
    403: ("forbidden", "this is not allowed"),
    404: ("not_found", "there is nothing at this path; /api/v1/openapi.json lists what there is"),
    405: ("method_not_allowed", "this method is not served here; Allow names those that are"),
    413: ("body_too_large", "the body is too large"),
    500: ("internal_error", "something went wrong here; the log has the details under this request_id"),
    503: ("unavailable", "the service cannot answer now; try again"),
}


@dataclass
class Problem(Exception):
    """An error to be answered. ``code`` is what clients branch on; no text repeats a value of the request."""

    status: int
    code: str
    detail: str
    errors: list[dict[str, str]] = field(default_factory=list)
    headers: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self, request_id: str) -> dict[str, Any]:
        return {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "errors": self.errors,
            "request_id": request_id,
        }

    def response(self, request: HttpRequest) -> HttpResponse:
        body = json.dumps(self.as_dict(get_request_id(request)), ensure_ascii=False).encode(
            "utf-8", "replace"
        )
        headers = {**self.headers, "Content-Length": str(len(body))}
        return HttpResponse(body, status=self.status, content_type=MEDIA_TYPE, headers=headers)


def get_request_id(request: HttpRequest) -> str:
    """The request's id: the caller's ``X-Request-ID`` if that is one, else one made here."""
    known = getattr(request, "request_id", "")
    if not known:
        brought = request.headers.get("X-Request-ID", "")
        known = brought if _REQUEST_ID.fullmatch(brought) else uuid.uuid4().hex
        request.request_id = known  # type: ignore[attr-defined]
    return str(known)


def field_error(name: str, message: str) -> dict[str, str]:
    return {"field": name, "message": message}


def invalid_fields(errors: list[dict[str, str]], code: str = "invalid") -> Problem:
    """422, naming every bad field."""
    names = ", ".join(dict.fromkeys(error["field"] for error in errors))
    return Problem(422, code, f"these fields cannot be used as they are: {names}", errors)


def pydantic_field_errors(errors: Iterable[Mapping[str, Any]], skip: int = 0) -> list[dict[str, str]]:
    """Pydantic's errors by field, without the values it saw; ``skip`` parts of each location are left out."""
    return [
        field_error(".".join(map(str, error["loc"][skip:])) or "body", _error_message(error))
        for error in errors
    ]


def _error_message(error: Mapping[str, Any]) -> str:
    """Pydantic's own words; it counts "items" of a text whose length it looks at after validation."""
    counted = error.get("ctx", {})
    if error.get("type") == "too_long" and counted.get("field_type") == "Value":
        return f"String should have at most {counted['max_length']} characters"
    return str(error["msg"]).removeprefix("Value error, ")


def unauthenticated() -> Problem:
    return Problem(
        401,
        "unauthenticated",
        "send a token that is valid, as Authorization: Bearer mh_… or X-API-Key: mh_…",
        headers={"WWW-Authenticate": 'Bearer realm="memoryhub"'},
    )


def body_too_large() -> Problem:
    limit = settings.MEMORYHUB.max_body_bytes
    return Problem(413, "body_too_large", f"the body is larger than {limit} bytes; send it in parts")


def too_many_requests(refusal: rate_limit.RateLimitExceeded) -> Problem:
    """429, with the wait and the setting that an operator may change."""
    whose = _RATE_LIMIT_DETAILS[refusal.setting]
    detail = f"{whose}; wait {refusal.seconds} s ({refusal.setting} in the hub's configuration)"
    return Problem(429, "too_many_requests", detail, headers={"Retry-After": str(refusal.seconds)})


def is_api_path(path: str) -> bool:
    """Whether agents and machines, not people, come to this path."""
    return path.startswith(_API_PREFIXES) or path in _API_PATHS


class ApiProblemMiddleware:
    """Gives answers under ``/api`` their request id, forbids caching, and makes every error a problem."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not is_api_path(request.path_info):
            return self.get_response(request)
        try:
            _limit_rate(request)
            _limit_body(request)
            response = self._answer(request)
        except Problem as problem:
            response = problem.response(request)
        if response.status_code >= 400 and response.headers.get("Content-Type") not in _ERROR_MEDIA_TYPES:
            response = _convert_to_problem(request, response)
        response.headers["X-Request-ID"] = get_request_id(request)
        response.headers["Cache-Control"] = "no-store"
        return response

    def _answer(self, request: HttpRequest) -> HttpResponseBase:
        """HEAD is answered like GET, which ninja's paths know alone; the server leaves the body out."""
        if request.method != "HEAD":
            return _allow_head(self.get_response(request))
        request.method = "GET"
        try:
            return _allow_head(self.get_response(request))
        finally:
            request.method = "HEAD"


def _allow_head(response: HttpResponseBase) -> HttpResponseBase:
    """Where ``Allow`` names GET, HEAD is served too."""
    allowed = [method.strip() for method in response.headers.get("Allow", "").split(",")]
    if "GET" in allowed and "HEAD" not in allowed:
        response.headers["Allow"] = ", ".join(sorted([*allowed, "HEAD"]))
    return response


def _limit_rate(request: HttpRequest) -> None:
    if request.path_info in _UNLIMITED_PATHS:
        return
    try:
        rate_limit.count_request_of_address(client_address(request))
    except rate_limit.RateLimitExceeded as refusal:
        raise too_many_requests(refusal) from None


def _limit_body(request: HttpRequest) -> None:
    """413 before a large body is read. One sent in chunks has no length: it is read here, up to the limit."""
    if request.path_info == IMPORT_PATH:
        _limit_upload(request)
        return
    limit = settings.MEMORYHUB.max_body_bytes
    length = request.META.get("CONTENT_LENGTH")
    if length:
        if length.isdecimal() and int(length) > limit:
            raise body_too_large()
    elif request.META.get("wsgi.input_terminated") and request.META.get("HTTP_TRANSFER_ENCODING"):
        try:
            body = request.META["wsgi.input"].read(limit + 1)
        except OSError as error:
            raise Problem(400, "unreadable_body", "the body broke off; send it again") from error
        if len(body) > limit:
            raise body_too_large()
        request._body = body  # where Django keeps a body it has read


def _limit_upload(request: HttpRequest) -> None:
    """413 for a file whose length is told and too much; what is not told is counted as it is written down."""
    length, limit = request.META.get("CONTENT_LENGTH") or "", settings.MEMORYHUB.max_upload_mb
    if length.isdecimal() and int(length) > (limit + 1) * 1024 * 1024:
        detail = f"the file is larger than {limit} MiB; import it with manage.py import_memories"
        raise Problem(413, "body_too_large", detail)


def _convert_to_problem(request: HttpRequest, response: HttpResponseBase) -> HttpResponse:
    """The same status as a problem; the headers that do not speak of the old body are kept."""
    status = response.status_code
    code, detail = _PROBLEM_BY_STATUS.get(status, ("error", HTTPStatus(status).phrase))
    kept = {name: value for name, value in response.items() if name.lower() not in _BODY_HEADERS}
    return Problem(status, code, detail, headers=kept).response(request)
