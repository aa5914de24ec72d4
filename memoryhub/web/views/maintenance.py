"""Maintenance: how healthy the memory is, what can be done about it, when that happens by itself."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import BadRequest, PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from memoryhub.lifecycle import runs
from memoryhub.lifecycle.asking import FOR_GOOD, loss, may_look, may_run
from memoryhub.lifecycle.operations import OPERATIONS, Operation
from memoryhub.store import Conflict, Forbidden, NotFound, StoreError
from memoryhub.web import health
from memoryhub.web.access import actor_of, clearance_of
from memoryhub.web.maintenance import Card, RunForm

RECENT = 5


@require_safe
def maintenance(request: HttpRequest) -> HttpResponse:
    if not may_look(request.user):
        raise PermissionDenied
    return _page(request)


@require_POST
def run_start(request: HttpRequest) -> HttpResponse:
    """``operation``, its parameters, and ``do``: dry_run or run. What loses memories for good asks first."""
    operation = OPERATIONS.get(request.POST.get("operation", ""))
    doing = request.POST.get("do")
    if operation is None or doing not in ("run", "dry_run"):
        raise BadRequest("operation and do name what is to be done; take them as the page gives them")
    dry_run = doing == "dry_run"
    if not may_run(request.user, operation.name, dry_run=dry_run):
        raise PermissionDenied
    form = RunForm(operation, request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    try:
        if operation.name in FOR_GOOD and not dry_run and request.POST.get("confirmed") != "yes":
            return _ask(request, operation, form.params())
        run = runs.start(operation.name, form.params(), actor_of(request), dry_run=dry_run)
    except StoreError as refusal:
        form.refuse(refusal)
        return _page(request, form, status=refused(refusal))
    return redirect("run", run.uid)


def refused(refusal: StoreError) -> int:
    """The status that tells a refusal."""
    for kind, status in ((NotFound, 404), (Forbidden, 403), (Conflict, 409)):
        if isinstance(refusal, kind):
            return status
    return 422


def _page(request: HttpRequest, wrong: RunForm | None = None, status: int = 200) -> HttpResponse:
    clearance, now = clearance_of(request), timezone.now()
    recent = runs.visible_runs(clearance).select_related("undoes")[:RECENT]
    context = {
        "health": health.numbers(clearance, now),
        "schedule": health.schedule(clearance, now),
        "cards": _cards(request, wrong),
        "wrong": wrong,
        "recent": list(recent),
    }
    return render(request, "maintenance/page.html", context, status=status)


def _cards(request: HttpRequest, wrong: RunForm | None) -> list[Card]:
    last = health.last_runs(clearance_of(request))
    return [
        Card(
            operation,
            wrong if wrong and wrong.operation is operation else RunForm(operation),
            last.get(operation.name),
            may_run(request.user, operation.name, dry_run=True),
            may_run(request.user, operation.name, dry_run=False),
            runs.switched_off(operation.name),
        )
        for operation in OPERATIONS.values()
    ]


def _ask(request: HttpRequest, operation: Operation[Any], params: dict[str, Any]) -> HttpResponse:
    """The confirmation: how many memories will be gone."""
    count = loss(operation, params, actor_of(request))
    context = {"operation": operation, "fields": params, "count": count}
    return render(request, "maintenance/confirm.html", context)
