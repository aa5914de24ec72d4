"""``/healthz`` and ``/readyz`` for monitoring. They need no token and show no data of memories."""

from __future__ import annotations

from collections.abc import Callable

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe
from ninja import Router

from memoryhub.api.schemas import Alive, ProblemShape
from memoryhub.backends import schema
from memoryhub.http.problems import RETRY_AFTER, Problem, field_error, json_response

router = Router(tags=["health"], auth=None)


@router.get("/healthz", response=Alive, summary="Check liveness")
def healthz(request: HttpRequest) -> HttpResponse:
    """Returns 200 while the process responds."""
    return json_response({"status": "ok"})


@router.get("/readyz", response={200: Alive, 503: ProblemShape}, summary="Check readiness")
def readyz(request: HttpRequest) -> HttpResponse:
    """Returns 200 if database, tables, triggers and index are intact, else 503 with the problems."""
    if errors := find_store_errors():
        raise Problem(503, "not_ready", "the store is not sound", errors, {"Retry-After": RETRY_AFTER})
    return json_response({"status": "ok"})


def serve_at_root(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Wrap one of the two views for a path outside the API, where ninja does not handle its problem."""

    def answer_or_problem(request: HttpRequest) -> HttpResponse:
        try:
            return view(request)
        except Problem as problem:
            return problem.response(request)

    return require_safe(answer_or_problem)


def find_store_errors() -> list[dict[str, str]]:
    """Return what prevents the store from working, each with its fix."""
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
        errors = [
            field_error("schema", f"{problem}; run manage.py doctor for the fix")
            for problem in schema.find_problems()
        ]
    except DatabaseError as error:
        return [field_error("database", f"{type(error).__name__}: {error}")]
    if pending:
        errors.append(field_error("migrations", f"{len(pending)} not applied; run manage.py migrate"))
    return errors
