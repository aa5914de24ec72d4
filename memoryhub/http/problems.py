"""JSON bodies and errors as ``application/problem+json`` (RFC 9457)."""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from http import HTTPStatus
from typing import Any, NoReturn
from urllib.parse import quote

import pydantic
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.parser import Parser

from memoryhub.core import agent_hooks, database, database_errors, disks
from memoryhub.core.database_errors import (
    OUTCOME_UNKNOWN,
    STORE_UNAVAILABLE,
    is_database_busy,
    is_interrupted,
    is_outcome_unknown,
)
from memoryhub.core.pagination import InvalidCursor
from memoryhub.memories import Conflict, Forbidden, NotFound, StoreError

logger = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = "1"  # seconds until a busy database is worth another try
RETRY_AFTER_DAMAGE = "60"  # seconds; a person has to act first
INTERNAL_ERROR_DETAIL = "internal error; the log has the details under this request_id"
DAMAGED = "store_damaged"
# The response to a hook: Claude Code shows it to its user.
DAMAGED_HOOK = {"systemMessage": f"memoryhub: {database_errors.DAMAGE_ADVICE}"}
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_RATE_LIMIT_DETAILS = {
    "rate_per_token": "too many requests with this token",
    "rate_per_address": "too many requests come from this address",
    "oauth_registration": "too many apps register from this address",
    "refusals_per_minute": "too many invalid tokens were sent from this address",
}
# Later versions of Python have other phrases for these.
_TITLES = {413: "Request Entity Too Large", 414: "Request-URI Too Long", 422: "Unprocessable Entity"}


@dataclass(frozen=True)
class RateLimitExceeded(Exception):
    """``seconds`` until the next request is accepted; ``setting``: the tunable that sets the limit."""

    seconds: int
    setting: str


@dataclass
class Problem(Exception):
    """An error response. Clients branch on ``code``; no text repeats a value of the request."""

    status: int
    code: str
    detail: str
    errors: list[dict[str, str]] = field(default_factory=list)
    headers: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self, request_id: str) -> dict[str, Any]:
        return {
            "type": "about:blank",
            "title": _TITLES.get(self.status) or HTTPStatus(self.status).phrase,
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
    """Return the id of a request: a valid ``X-Request-ID`` of the caller, otherwise a new one."""
    request_id = getattr(request, "request_id", "")
    if not request_id:
        sent = request.headers.get("X-Request-ID", "")
        request_id = sent if _REQUEST_ID.fullmatch(sent) else uuid.uuid4().hex
        request.request_id = request_id  # type: ignore[attr-defined]
    return str(request_id)


def field_error(name: str, message: str) -> dict[str, str]:
    return {"field": name, "message": message}


def invalid_fields(errors: list[dict[str, str]], code: str = "invalid") -> Problem:
    """Return a 422 that names every bad field."""
    names = ", ".join(dict.fromkeys(error["field"] for error in errors))
    return Problem(422, code, f"these fields are not valid: {names}", errors)


def pydantic_field_errors(errors: Iterable[Mapping[str, Any]], skip: int = 0) -> list[dict[str, str]]:
    """Return pydantic's errors by field, without input values.

    ``skip``: number of leading parts of a location to drop.
    """
    return [
        field_error(".".join(map(str, error["loc"][skip:])) or "body", _error_message(error))
        for error in errors
    ]


def _error_message(error: Mapping[str, Any]) -> str:
    """Return pydantic's message. For a text checked after validation, it says "items" for characters."""
    context = error.get("ctx", {})
    if error.get("type") == "too_long" and context.get("field_type") == "Value":
        return f"String should have at most {context['max_length']} characters"
    return str(error["msg"]).removeprefix("Value error, ")


def unauthenticated() -> Problem:
    return Problem(
        401,
        "unauthenticated",
        "the token is missing or not valid; send it as Authorization: Bearer mh_… or X-API-Key: mh_…",
        headers={"WWW-Authenticate": 'Bearer realm="memoryhub"'},
    )


def body_too_large() -> Problem:
    limit = settings.MEMORYHUB.max_body_bytes
    return Problem(413, "body_too_large", f"the body is larger than {limit:,} bytes; send it in parts")


def unreadable_body() -> Problem:
    return Problem(400, "unreadable_body", "the request body is incomplete; send it again")


def store_damaged() -> Problem:
    return Problem(503, DAMAGED, database_errors.DAMAGE_ADVICE, headers={"Retry-After": RETRY_AFTER_DAMAGE})


def handle_exception(request: HttpRequest, exc: Exception | type[Exception]) -> HttpResponse:
    """Answer any exception of a view (Ninja's exception handler)."""
    assert isinstance(exc, Exception)  # noqa: S101 ninja passes instances
    problem = to_problem(exc)
    if problem.status >= 500:
        # Quoted: a line break in the path would begin another line of the log.
        about = (get_request_id(request), request.method, quote(request.path), problem.code)
        logger.error("%s %s %s: %s", *about, exc_info=exc)
        is_kept = "event_id" in request.GET and problem.code != DAMAGED  # its sender delivers it again
        if request.path_info == agent_hooks.HOOK_PATH and not is_kept:
            # An error never blocks the agent.
            return json_response(DAMAGED_HOOK if problem.code == DAMAGED else {})
    return problem.response(request)


def refusal_status(refusal: StoreError) -> int:
    """Return the HTTP status of a refusal, in the API and on pages."""
    statuses: dict[type[StoreError], int] = {NotFound: 404, Forbidden: 403, Conflict: 409}
    return statuses.get(type(refusal), 422)


@singledispatch
def to_problem(exc: Exception) -> Problem:
    """Return the problem for an exception; ``internal_error`` for an unexpected one."""
    if database.is_caused_by_damage(exc):
        return store_damaged()
    if disks.is_disk_error(exc):
        return Problem(503, "disk_full", disks.FULL_DISK, headers={"Retry-After": RETRY_AFTER_DAMAGE})
    return Problem(500, "internal_error", INTERNAL_ERROR_DETAIL)


@to_problem.register
def _(exc: Problem) -> Problem:
    return exc


@to_problem.register
def _(exc: RateLimitExceeded) -> Problem:
    """Return a 429 with the wait, and with the setting that an operator can change."""
    reason = _RATE_LIMIT_DETAILS[exc.setting]
    detail = f"{reason}; wait {exc.seconds} s ({exc.setting} in the hub's configuration)"
    return Problem(429, "too_many_requests", detail, headers={"Retry-After": str(exc.seconds)})


@to_problem.register
def _(exc: StoreError) -> Problem:
    errors = [field_error(exc.field, exc.message)] if exc.field else []
    if isinstance(exc, NotFound) and exc.field:
        return invalid_fields(errors, exc.code)  # a field refers to a row that does not exist
    return Problem(refusal_status(exc), exc.code, exc.message, errors)


@to_problem.register
def _(exc: InvalidCursor) -> Problem:
    return invalid_fields([field_error("cursor", str(exc))])


@to_problem.register
def _(exc: ValidationError) -> Problem:
    """Ninja's locations begin with the source; those of a body also with the name of the view's argument."""
    found: list[dict[str, str]] = []
    for error in exc.errors:
        found += pydantic_field_errors([error], skip=2 if error["loc"][0] == "body" else 1)
    return invalid_fields(found)


@to_problem.register
def _(exc: pydantic.ValidationError) -> Problem:
    return invalid_fields(pydantic_field_errors(exc.errors(include_url=False, include_input=False)))


@to_problem.register
def _(exc: AuthenticationError) -> Problem:
    return unauthenticated()


@to_problem.register
def _(exc: HttpError) -> Problem:
    """Ninja wraps exceptions of the body parser."""
    if isinstance(exc.__cause__, Exception):
        return to_problem(exc.__cause__)
    return Problem(exc.status_code, "bad_request", exc.message)


@to_problem.register
def _(exc: Http404) -> Problem:
    return Problem(404, "not_found", "not found; it may not exist, or you may not have access")


@to_problem.register
def _(exc: OperationalError) -> Problem:
    code, detail = "database_unavailable", STORE_UNAVAILABLE
    if database_errors.is_damage(exc):
        return store_damaged()
    if is_outcome_unknown(exc):
        code, detail = "outcome_unknown", OUTCOME_UNKNOWN
    elif is_database_busy(exc):
        code, detail = "database_busy", "the database is busy; try again"
    elif is_interrupted(exc):
        code, detail = (
            "took_too_long",
            "the request took too long and was cancelled; ask for less, or try again later",
        )
    return Problem(503, code, detail, headers={"Retry-After": RETRY_AFTER})


@to_problem.register
def _(exc: RequestDataTooBig) -> Problem:
    return body_too_large()


@to_problem.register
def _(exc: UnreadablePostError) -> Problem:
    return unreadable_body()


_JSON_TYPE = re.compile(r"application/(?:[\w.!#$&^-]+\+)?json")
# Half of a UTF-16 surrogate pair: JSON can contain one alone, valid text cannot.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SESSION_PATHS = tuple(f"/api/v1/{name}" for name in ("hooks/", "events", "extract", "backfill"))


class InvalidJson(ValueError):
    """The body is not JSON, or contains text that is not valid Unicode."""


class StrictParser(Parser):
    """Accepts UTF-8 JSON only: no NaN, duplicate names, lone surrogates or excessive nesting.

    Agents truncate long outputs in the middle of a surrogate pair, so what they report of their sessions
    gets U+FFFD instead of an error.
    """

    def parse_body(self, request: HttpRequest) -> Any:
        require_json(request)
        try:
            is_of_session = request.path_info.startswith(_SESSION_PATHS)
            return parse_json(request.body, replace_surrogates=is_of_session)
        except InvalidJson as error:
            raise Problem(400, "not_json", str(error)) from None


def parse_json(body: bytes, *, replace_surrogates: bool = False) -> Any:
    """Decode a body. :class:`InvalidJson` gives the position of an error, never the content.

    ``replace_surrogates``: replace half of a surrogate pair instead of refusing it.
    """
    try:
        text = body.decode("utf-8")
        data = _DECODER.decode(text)
        if _SURROGATE.search(text):
            decoded = json.dumps(data, ensure_ascii=False)
            if replace_surrogates:
                return json.loads(decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
            decoded.encode("utf-8")
    except InvalidJson:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise InvalidJson(f"the body is not JSON: {error.msg} at {where}") from None
    except UnicodeDecodeError as error:
        raise InvalidJson(f"the body is not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise InvalidJson("the body contains an unpaired surrogate, which is not a character") from None
    except RecursionError:
        raise InvalidJson("the body is nested too deep") from None
    except ValueError:
        raise InvalidJson("the body contains a number with too many digits") from None
    return data


def require_json(request: HttpRequest) -> None:
    """Raise 415 unless the body is declared as JSON in UTF-8 and not compressed.

    The size of a compressed body is not known before it is unpacked.
    """
    if request.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise Problem(415, "unsupported_encoding", "send the body as it is, without Content-Encoding")
    charset = (request.content_params or {}).get("charset", "utf-8").lower()
    if not _JSON_TYPE.fullmatch(request.content_type or "") or charset not in ("utf-8", "utf8"):
        detail = "send the body as JSON in UTF-8, with Content-Type: application/json"
        raise Problem(415, "unsupported_media_type", detail)


def _reject_constant(_: str) -> NoReturn:
    raise InvalidJson("the body is not JSON: JSON has no NaN or Infinity")


def _reject_duplicate_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise InvalidJson("the body has an object with the same name twice, so its value is ambiguous")
    return result


_DECODER = json.JSONDecoder(object_pairs_hook=_reject_duplicate_names, parse_constant=_reject_constant)


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return HttpResponse(body, status=status, content_type="application/json", headers=dict(headers or {}))


def list_response(
    items: Iterable[Any], total: int | None = None, next_cursor: str | None = None, **more: Any
) -> HttpResponse:
    """Return a page of a list, by default all of it. ``total``: the number of rows on all pages."""
    items = list(items)
    total = len(items) if total is None else total
    return json_response({"items": items, "next_cursor": next_cursor, "total": total, **more})
