"""``/healthz`` and ``/readyz`` for monitoring. They need no token and show no data of memories."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from ninja import Router
from pydantic import BaseModel

from memoryhub.api.schemas import FieldError
from memoryhub.audit import clock, journal
from memoryhub.backends import release, schema
from memoryhub.core import database, database_errors, disks
from memoryhub.core.database import (
    hanging_write_seconds,
    is_postgres,
    read_timeout,
    store_path,
    write_transaction,
)
from memoryhub.core.database_errors import is_database_busy
from memoryhub.http.problems import RETRY_AFTER, Problem, field_error, json_response

router = Router(tags=["Health"], auth=None)


class ProblemShape(BaseModel):
    """An RFC 9457 problem. ``code`` identifies the kind of error."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldError]
    request_id: str


class Alive(BaseModel):
    status: Literal["ok"]


class StoreWarning(BaseModel):
    field: str
    message: str


class Ready(Alive):
    """``warnings`` is only present if an operator should look into something. The store can be used."""

    warnings: list[StoreWarning] | None = None


@router.get("/healthz", response=Alive, summary="Check liveness")
def healthz(request: HttpRequest) -> HttpResponse:
    """Returns 200 while the process responds."""
    return json_response({"status": "ok"})


@router.get("/readyz", response={200: Ready, 503: ProblemShape}, summary="Check readiness")
def readyz(request: HttpRequest) -> HttpResponse:
    """Returns 200 if the store is intact and can be written to, else 503 with the problems."""
    found = _check_store()
    if found.errors:
        raise Problem(503, "not_ready", "the store is not ready", found.errors, {"Retry-After": RETRY_AFTER})
    return json_response({"status": "ok", **({"warnings": found.warnings} if found.warnings else {})})


def serve_at_root(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Wrap one of the two views for a path outside the API, where ninja does not handle its problem."""

    def answer_or_problem(request: HttpRequest) -> HttpResponse:
        try:
            return view(request)
        except Problem as problem:
            return problem.response(request)

    return csrf_exempt(require_safe(answer_or_problem))  # else a POST is 403 instead of 405


class _Findings(NamedTuple):
    errors: list[dict[str, str]]
    warnings: list[dict[str, str]]


class _Check:
    """When the check that runs in this process began, and what the one before it found."""

    def __init__(self) -> None:
        self.lock, self.began_at = threading.Lock(), math.inf
        self.found = _Findings([field_error("database", "the store is being checked for the first time")], [])


_last_check = _Check()


def _check_store() -> _Findings:
    """Return the errors and warnings of the store.

    One request of a process checks the store. Others return the previous result meanwhile: if the database
    does not answer, the requests of a proxy would soon occupy all threads.
    """
    check = _last_check
    if not check.lock.acquire(blocking=False):
        seconds = time.monotonic() - check.began_at
        if seconds < _READ_SECONDS:
            return check.found
        return _Findings(
            [field_error("database", f"the database has not answered for {seconds:.0f} seconds")], []
        )
    try:
        check.began_at = time.monotonic()
        errors = find_store_errors()
        check.found = _Findings(errors, [] if errors else _find_warnings())
        return check.found
    finally:
        check.began_at = math.inf
        check.lock.release()


def find_store_errors() -> list[dict[str, str]]:
    """Return what prevents the store from working, each with its fix."""
    with read_timeout(_READ_SECONDS):
        return _find_store_errors()


def _find_store_errors() -> list[dict[str, str]]:
    try:
        pending, newer = release.read_state()
        errors = [
            field_error("schema", f"{problem}; run manage.py doctor for the fix")
            for problem in schema.find_problems()
        ]
        if newer:
            errors.append(field_error("release", f"{newer}; install that version again"))
    except DatabaseError as error:
        return [field_error("database", f"{type(error).__name__}: {error}")]
    if pending:
        errors.append(field_error("migrations", f"{len(pending)} not applied; run manage.py migrate"))
    if database.is_damage_recorded():
        errors.append(
            field_error("database", f"{database_errors.DAMAGE_ADVICE}, which also ends this report")
        )
    elif failure := _write_failure():
        errors.append(field_error("database", f"nothing can be written: {failure}; run manage.py doctor"))
    return errors


_BUSY_SECONDS = 0.2
_READ_SECONDS = 5.0  # monitors do not wait for ever
_SECONDS_BETWEEN_WRITES = 1.0  # anyone may ask, and each answer would write
_written_at: dict[str, float] = {}  # when a store could last be written to, on the monotonic clock


def _write_failure() -> str:
    """Return why the store cannot be written to, or an empty string. Another writer proves that it can."""
    name = str(store_path())
    if not is_postgres() and disks.is_full(Path(name).parent):
        return "the disk is full"
    if seconds := hanging_write_seconds():
        return f"a write of this process has lasted {seconds:.0f} seconds"
    if time.monotonic() - _written_at.get(name, -_SECONDS_BETWEEN_WRITES) < _SECONDS_BETWEEN_WRITES:
        return ""
    try:
        with write_transaction(patience=_BUSY_SECONDS):
            release.rewrite_record()
    except DatabaseError as error:
        if not is_database_busy(error):
            return str(error)
    _written_at[name] = time.monotonic()
    return ""


def _find_warnings() -> list[dict[str, str]]:
    """Return what needs a person's attention. Callers are anonymous: it has no numbers and no names."""
    warnings = []
    if journal.has_lost_rows():
        text = "journal rows were lost, and no one has acknowledged it; run manage.py verify_journal"
        warnings.append(field_error("journal", text))
    if clock.current_pause():
        text = "the clock is ahead, so expiry, purge and eviction are paused; run manage.py doctor"
        warnings.append(field_error("clock", text))
    if disks.find_full_folders():
        text = "a disk of this machine is full, so uploads fail or the mirror waits; run manage.py doctor"
        warnings.append(field_error("disk", text))
    return warnings
