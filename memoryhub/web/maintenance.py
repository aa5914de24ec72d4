"""The maintenance page: health, schedule, and the forms that start operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from memoryhub.accounts.clearance import request_actor, request_clearance
from memoryhub.maintenance import runs
from memoryhub.maintenance.forms import (
    IRREVERSIBLE_OPERATIONS,
    can_start_run,
    can_view_runs,
    count_losses,
    filled_values,
    form_fields,
)
from memoryhub.maintenance.operations import OPERATIONS
from memoryhub.maintenance.operations.base import Operation
from memoryhub.memories import Conflict, Forbidden, NotFound, StoreError
from memoryhub.models import MaintenanceRun
from memoryhub.web import maintenance_status
from memoryhub.web.runs import to_sentence


class RunForm(forms.Form):
    """The parameters of an operation."""

    def __init__(self, operation: Operation[Any], data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, label_suffix="", auto_id=f"{operation.name}_%s")
        self.operation = operation
        self.fields.update(form_fields(operation.Params))
        if "project" in self.fields:
            self.fields["project"].widget.attrs["list"] = "projects"

    def params(self) -> dict[str, Any]:
        """Return the given parameters of a valid form."""
        return filled_values(self.cleaned_data)

    def refuse(self, refusal: StoreError) -> None:
        """Show why a run was refused, next to the field that the refusal names."""
        field = refusal.field if refusal.field in self.fields else None
        self.add_error(field, to_sentence(refusal.message))


@dataclass(frozen=True)
class OperationCard:
    """An operation on the page; ``last`` is its newest run that was not a dry run."""

    operation: Operation[Any]
    form: RunForm
    last: MaintenanceRun | None
    may_dry_run: bool
    may_run: bool
    is_off: bool

    @property
    def is_for_good(self) -> bool:
        return self.operation.name in IRREVERSIBLE_OPERATIONS


MAX_RECENT = 5


@require_safe
def maintenance(request: HttpRequest) -> HttpResponse:
    if not can_view_runs(request.user):
        raise PermissionDenied
    return _render_page(request)


@require_POST
def run_start(request: HttpRequest) -> HttpResponse:
    """Start ``operation`` with its parameters; ``do`` is run or dry_run. Irreversible runs ask first."""
    operation = OPERATIONS.get(request.POST.get("operation", ""))
    mode = request.POST.get("do")
    if operation is None or mode not in ("run", "dry_run"):
        raise BadRequest("unknown operation or do")
    dry_run = mode == "dry_run"
    if not can_start_run(request.user, operation.name, dry_run=dry_run):
        raise PermissionDenied
    form = RunForm(operation, request.POST)
    if not form.is_valid():
        return _render_page(request, form, status=422)
    try:
        is_irreversible = operation.name in IRREVERSIBLE_OPERATIONS and not dry_run
        if is_irreversible and request.POST.get("confirmed") != "yes":
            return _render_confirmation(request, operation, form.params())
        run = runs.enqueue(operation.name, form.params(), request_actor(request), dry_run=dry_run)
    except StoreError as refusal:
        form.refuse(refusal)
        return _render_page(request, form, status=error_status(refusal))
    return redirect("run", run.uid)


def error_status(refusal: StoreError) -> int:
    """Return the HTTP status of a refusal."""
    for kind, status in ((NotFound, 404), (Forbidden, 403), (Conflict, 409)):
        if isinstance(refusal, kind):
            return status
    return 422


def _render_page(request: HttpRequest, wrong: RunForm | None = None, status: int = 200) -> HttpResponse:
    clearance, now = request_clearance(request), timezone.now()
    recent = runs.visible_runs(clearance).select_related("undoes")[:MAX_RECENT]
    context = {
        "health": maintenance_status.status_numbers(clearance, now),
        "schedule": maintenance_status.schedule_status(clearance, now),
        "cards": _operation_cards(request, wrong),
        "wrong": wrong,
        "recent": list(recent),
    }
    return render(request, "maintenance/page.html", context, status=status)


def _operation_cards(request: HttpRequest, wrong: RunForm | None) -> list[OperationCard]:
    last = maintenance_status.last_runs_by_operation(request_clearance(request))
    return [
        OperationCard(
            operation,
            wrong if wrong and wrong.operation is operation else RunForm(operation),
            last.get(operation.name),
            can_start_run(request.user, operation.name, dry_run=True),
            can_start_run(request.user, operation.name, dry_run=False),
            runs.is_switched_off(operation.name),
        )
        for operation in OPERATIONS.values()
    ]


def _render_confirmation(
    request: HttpRequest, operation: Operation[Any], params: dict[str, Any]
) -> HttpResponse:
    """Ask for confirmation, with the number of memories that would be lost."""
    count = count_losses(operation, params, request_actor(request))
    context = {"operation": operation, "fields": params, "count": count}
    return render(request, "maintenance/confirm.html", context)
