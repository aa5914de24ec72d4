"""``/healthz`` and ``/readyz``: for what watches the process. Open to all; they say nothing of memories."""

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
from memoryhub.http.json import json_response
from memoryhub.http.problems import RETRY_AFTER, Problem, field_error

router = Router(tags=["health"], auth=None)


@router.get("/healthz", response=Alive, summary="Is the process alive?")
def healthz(request: HttpRequest) -> HttpResponse:
    """200 as long as the process can answer."""
    return json_response({"status": "ok"})


@router.get("/readyz", response={200: Alive, 503: ProblemShape}, summary="Is the store sound?")
def readyz(request: HttpRequest) -> HttpResponse:
    """200 when database, tables, triggers and index are sound; else 503 naming what is not."""
    if errors := find_store_errors():
        raise Problem(503, "not_ready", "the store is not sound", errors, {"Retry-After": RETRY_AFTER})
    return json_response({"status": "ok"})


def serve_at_root(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponseBase]:
    """One of the two outside the API, where ninja does not catch its problem."""

    def answer_or_problem(request: HttpRequest) -> HttpResponse:
        try:
            return view(request)
        except Problem as problem:
            return problem.response(request)

    return require_safe(answer_or_problem)


def find_store_errors() -> list[dict[str, str]]:
    """What keeps the store from serving, and its mend."""
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
        found = [
            field_error("schema", f"{problem}; manage.py doctor tells the mend")
            for problem in schema.find_problems()
        ]
    except DatabaseError as error:
        return [field_error("database", f"{type(error).__name__}: {error}")]
    if pending:
        found.append(field_error("migrations", f"{len(pending)} not applied; run manage.py migrate"))
    return found
