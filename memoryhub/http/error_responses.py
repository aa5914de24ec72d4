"""From the exceptions of the layers below to problems."""

from __future__ import annotations

import logging
from functools import singledispatch

import pydantic
from django.core.exceptions import RequestDataTooBig
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from ninja.errors import AuthenticationError, HttpError, ValidationError

from memoryhub.core import claude_code
from memoryhub.core.pagination import InvalidCursor
from memoryhub.core.timeouts import is_interrupted
from memoryhub.core.transactions import is_database_busy
from memoryhub.http.json import json_response
from memoryhub.http.problems import (
    RETRY_AFTER,
    Problem,
    body_too_large,
    field_error,
    get_request_id,
    invalid_fields,
    pydantic_field_errors,
    unauthenticated,
)
from memoryhub.memories import Conflict, Forbidden, NotFound, StoreError

logger = logging.getLogger(__name__)
_INTERNAL_ERROR_DETAIL = "something went wrong here; the log has the details under this request_id"


def handle_exception(request: HttpRequest, exc: Exception | type[Exception]) -> HttpResponse:
    """Ninja's handler for every exception."""
    assert isinstance(exc, Exception)  # noqa: S101 ninja hands over what was raised
    problem = to_problem(exc)
    if problem.status >= 500:
        logger.error(
            "%s %s %s: %s", get_request_id(request), request.method, request.path, problem.code, exc_info=exc
        )
        if request.path_info == claude_code.HOOK_PATH:
            return json_response({})  # an agent at work is not held up by what ails the hub
    return problem.response(request)


@singledispatch
def to_problem(exc: Exception) -> Problem:
    """The problem that an exception means; one that nobody foresaw is ``internal_error``."""
    return Problem(500, "internal_error", _INTERNAL_ERROR_DETAIL)


@to_problem.register
def _(exc: Problem) -> Problem:
    return exc


@to_problem.register
def _(exc: StoreError) -> Problem:
    errors = [field_error(exc.field, exc.message)] if exc.field else []
    if isinstance(exc, NotFound) and exc.field:
        return invalid_fields(errors, exc.code)  # a field names something that is not there
    statuses: dict[type[StoreError], int] = {NotFound: 404, Forbidden: 403, Conflict: 409}
    return Problem(statuses.get(type(exc), 422), exc.code, exc.message, errors)


@to_problem.register
def _(exc: InvalidCursor) -> Problem:
    return invalid_fields([field_error("cursor", str(exc))])


@to_problem.register
def _(exc: ValidationError) -> Problem:
    """Ninja's locations begin with the source, and for a body with the name of the view's argument."""
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
    """Ninja wraps what the body's parser raised."""
    if isinstance(exc.__cause__, Exception):
        return to_problem(exc.__cause__)
    return Problem(exc.status_code, "bad_request", exc.message)


@to_problem.register
def _(exc: Http404) -> Problem:
    return Problem(404, "not_found", "there is no such thing, or you may not see it")


@to_problem.register
def _(exc: OperationalError) -> Problem:
    headers = {"Retry-After": RETRY_AFTER}
    if is_database_busy(exc):
        return Problem(503, "database_busy", "the database is busy; try again", headers=headers)
    if is_interrupted(exc):
        detail = "this took too long and was broken off; ask for less, or try again later"
        return Problem(503, "took_too_long", detail, headers=headers)
    detail = "the database cannot serve this; see /readyz"
    return Problem(503, "database_unavailable", detail, headers=headers)


@to_problem.register
def _(exc: RequestDataTooBig) -> Problem:
    return body_too_large()


@to_problem.register
def _(exc: UnreadablePostError) -> Problem:
    return Problem(400, "unreadable_body", "the body broke off; send it again")
