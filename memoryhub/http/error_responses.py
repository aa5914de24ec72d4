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
from memoryhub.core.pagination import BadCursor
from memoryhub.core.timeouts import was_broken_off
from memoryhub.core.transactions import is_busy
from memoryhub.http.json import answer
from memoryhub.http.problems import (
    RETRY_AFTER,
    Problem,
    field_error,
    from_pydantic,
    id_of,
    invalid,
    too_large,
    unauthenticated,
)
from memoryhub.memories import Conflict, Forbidden, NotFound, StoreError

logger = logging.getLogger(__name__)
_UNFORESEEN = "something went wrong here; the log has the details under this request_id"


def answer_exception(request: HttpRequest, exc: Exception | type[Exception]) -> HttpResponse:
    """Ninja's handler for every exception."""
    assert isinstance(exc, Exception)  # noqa: S101 ninja hands over what was raised
    problem = problem_of(exc)
    if problem.status >= 500:
        logger.error("%s %s %s: %s", id_of(request), request.method, request.path, problem.code, exc_info=exc)
        if request.path_info == claude_code.PATH:
            return answer({})  # an agent at work is not held up by what ails the hub
    return problem.response(request)


@singledispatch
def problem_of(exc: Exception) -> Problem:
    """The problem that an exception means; one that nobody foresaw is ``internal_error``."""
    return Problem(500, "internal_error", _UNFORESEEN)


@problem_of.register
def _(exc: Problem) -> Problem:
    return exc


@problem_of.register
def _(exc: StoreError) -> Problem:
    errors = [field_error(exc.field, exc.message)] if exc.field else []
    if isinstance(exc, NotFound) and exc.field:
        return invalid(errors, exc.code)  # a field names something that is not there
    statuses: dict[type[StoreError], int] = {NotFound: 404, Forbidden: 403, Conflict: 409}
    return Problem(statuses.get(type(exc), 422), exc.code, exc.message, errors)


@problem_of.register
def _(exc: BadCursor) -> Problem:
    return invalid([field_error("cursor", str(exc))])


@problem_of.register
def _(exc: ValidationError) -> Problem:
    """Ninja's locations begin with the source, and for a body with the name of the view's argument."""
    found: list[dict[str, str]] = []
    for error in exc.errors:
        found += from_pydantic([error], skip=2 if error["loc"][0] == "body" else 1)
    return invalid(found)


@problem_of.register
def _(exc: pydantic.ValidationError) -> Problem:
    return invalid(from_pydantic(exc.errors(include_url=False, include_input=False)))


@problem_of.register
def _(exc: AuthenticationError) -> Problem:
    return unauthenticated()


@problem_of.register
def _(exc: HttpError) -> Problem:
    """Ninja wraps what the body's parser raised."""
    if isinstance(exc.__cause__, Exception):
        return problem_of(exc.__cause__)
    return Problem(exc.status_code, "bad_request", exc.message)


@problem_of.register
def _(exc: Http404) -> Problem:
    return Problem(404, "not_found", "there is no such thing, or you may not see it")


@problem_of.register
def _(exc: OperationalError) -> Problem:
    headers = {"Retry-After": RETRY_AFTER}
    if is_busy(exc):
        return Problem(503, "database_busy", "the database is busy; try again", headers=headers)
    if was_broken_off(exc):
        detail = "this took too long and was broken off; ask for less, or try again later"
        return Problem(503, "took_too_long", detail, headers=headers)
    detail = "the database cannot serve this; see /readyz"
    return Problem(503, "database_unavailable", detail, headers=headers)


@problem_of.register
def _(exc: RequestDataTooBig) -> Problem:
    return too_large()


@problem_of.register
def _(exc: UnreadablePostError) -> Problem:
    return Problem(400, "unreadable_body", "the body broke off; send it again")
