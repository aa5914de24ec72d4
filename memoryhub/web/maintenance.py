"""Maintenance pages: health, operations, schedule, and the runs with their progress and changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import reswap, retarget

from memoryhub.access.policy import Actor
from memoryhub.accounts.clearance import request_actor, request_clearance
from memoryhub.core import pagination
from memoryhub.maintenance import results, run_scope, runs
from memoryhub.maintenance.forms import (
    ADD_RUN,
    IRREVERSIBLE_OPERATIONS,
    can_start_run,
    can_view_runs,
    count_losses,
    filled_values,
    form_fields,
)
from memoryhub.maintenance.operations.base import Operation
from memoryhub.maintenance.registry import OPERATIONS
from memoryhub.memories import Conflict, Forbidden, NotFound, StoreError
from memoryhub.models import MaintenanceRun
from memoryhub.web import maintenance_status
from memoryhub.web.base.fields import parse_whole_number
from memoryhub.web.base.filters import ListFilter


class RunForm(forms.Form):
    """What an operation may be told."""

    def __init__(self, operation: Operation[Any], data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, label_suffix="", auto_id=f"{operation.name}_%s")
        self.operation = operation
        self.fields.update(form_fields(operation.Params))
        if "project" in self.fields:
            self.fields["project"].widget.attrs["list"] = "projects"

    def params(self) -> dict[str, Any]:
        """What was filled in; of a valid form."""
        return filled_values(self.cleaned_data)

    def refuse(self, refusal: StoreError) -> None:
        """Show why a run was refused, beside the field that it names."""
        text = refusal.message[:1].upper() + refusal.message[1:]
        text = text if text.endswith(".") else f"{text}."
        self.add_error(refusal.field if refusal.field in self.fields else None, text)


class RunFilter(ListFilter):
    """What a list of runs may be narrowed to."""

    operation = forms.ChoiceField(
        required=False,
        choices=lambda: [("", "Any"), *((one.name, one.label) for one in OPERATIONS.values())],
    )
    status = forms.ChoiceField(
        required=False,
        choices=[("", "Any"), *((one, one) for one in MaintenanceRun.Status.values)],
    )

    def select(self, rows: QuerySet[MaintenanceRun]) -> QuerySet[MaintenanceRun]:
        wanted = {name: self.value(name) for name in ("operation", "status") if self.value(name)}
        return rows.filter(**wanted)


@dataclass(frozen=True)
class OperationCard:
    """An operation on the page; ``last`` is its newest real run."""

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
    """``operation``, its parameters, and ``do``: dry_run or run. What loses memories for good asks first."""
    operation = OPERATIONS.get(request.POST.get("operation", ""))
    doing = request.POST.get("do")
    if operation is None or doing not in ("run", "dry_run"):
        raise BadRequest("operation and do name what is to be done; take them as the page gives them")
    dry_run = doing == "dry_run"
    if not can_start_run(request.user, operation.name, dry_run=dry_run):
        raise PermissionDenied
    form = RunForm(operation, request.POST)
    if not form.is_valid():
        return _render_page(request, form, status=422)
    try:
        if (
            operation.name in IRREVERSIBLE_OPERATIONS
            and not dry_run
            and request.POST.get("confirmed") != "yes"
        ):
            return _render_confirmation(request, operation, form.params())
        run = runs.enqueue(operation.name, form.params(), request_actor(request), dry_run=dry_run)
    except StoreError as refusal:
        form.refuse(refusal)
        return _render_page(request, form, status=error_status(refusal))
    return redirect("run", run.uid)


def error_status(refusal: StoreError) -> int:
    """The status that tells a refusal."""
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
    """The confirmation: how many memories will be gone."""
    count = count_losses(operation, params, request_actor(request))
    context = {"operation": operation, "fields": params, "count": count}
    return render(request, "maintenance/confirm.html", context)


RUNS_PER_PAGE = 30
CHANGES_PER_PAGE = 50


@require_safe
def run_list(request: HttpRequest) -> HttpResponse:
    """Newest first."""
    _require_view_permission(request)
    form = RunFilter(request.GET)
    rows = runs.visible_runs(request_clearance(request)).select_related("undoes")
    rows = form.select(rows) if form.is_valid() else rows.none()
    cursor = request.GET.get("cursor")
    try:
        page = pagination.paginate(rows, "created_at", RUNS_PER_PAGE, cursor)
    except pagination.InvalidCursor as error:
        raise BadRequest(str(error)) from None
    params = results.visible_params(page.items, request_clearance(request))
    told = [
        (one, runs.visible_result(one, request_clearance(request), counted=False), params[one.pk])
        for one in page.items
    ]
    context = {"form": form, "page": page, "told": told, "first": not cursor}
    return render(request, "maintenance/runs.html", context, status=200 if form.is_valid() else 422)


@require_safe
def run(request: HttpRequest, uid: str) -> HttpResponse:
    """One run, and a page of what it changed."""
    found = _find_run(request, uid)
    return render(request, "maintenance/run.html", _run_context(request, found))


@require_safe
def run_progress(request: HttpRequest, uid: str) -> HttpResponse:
    """The state of a run, for htmx to ask for again and again; everything about it, once it has ended."""
    found = _find_run(request, uid)
    if results.is_active(found):
        return render(request, "maintenance/progress.html", _progress_context(request, found))
    whole = render(request, "maintenance/run_body.html", _run_context(request, found) | {"is_news": True})
    return reswap(retarget(whole, "#run"), "outerHTML")


@require_POST
def run_stop(request: HttpRequest, uid: str) -> HttpResponse:
    return _control_run(request, uid, runs.stop)


@require_POST
def run_resume(request: HttpRequest, uid: str) -> HttpResponse:
    return _control_run(request, uid, runs.resume)


@require_http_methods(["GET", "HEAD", "POST"])
def run_undo(request: HttpRequest, uid: str) -> HttpResponse:
    """GET asks, POST takes back: a run of its own, which this leads to."""
    if request.method == "POST":
        return _control_run(request, uid, runs.undo)
    found = _find_run(request, uid)
    if not (_may_control(request, found) and runs.is_undoable(found)):
        raise Http404
    return render(request, "maintenance/undo.html", _run_context(request, found))


def _find_run(request: HttpRequest, uid: str) -> MaintenanceRun:
    """A run that this person may know of. One whose worker has died is marked, for nobody else might."""
    _require_view_permission(request)
    runs.mark_interrupted()
    try:
        return runs.get_run(uid, request_actor(request))
    except NotFound:
        raise Http404 from None


def _require_view_permission(request: HttpRequest) -> None:
    if not can_view_runs(request.user):
        raise PermissionDenied


def _may_control(request: HttpRequest, found: MaintenanceRun) -> bool:
    return request.user.has_perm(ADD_RUN) and run_scope.can_control(request_clearance(request), found)


def _is_control_withheld(request: HttpRequest, found: MaintenanceRun) -> bool:
    """Whether there is something to stop, resume or undo for one who may maintain, but not see all of it."""
    if not request.user.has_perm(ADD_RUN) or _may_control(request, found):
        return False
    is_open = results.is_active(found) or runs.is_resumable(found)
    return is_open or runs.is_undoable(found)


def _control_run(request: HttpRequest, uid: str, do: Callable[[str, Actor], MaintenanceRun]) -> HttpResponse:
    if not request.user.has_perm(ADD_RUN):
        raise PermissionDenied
    found = _find_run(request, uid)
    try:
        found = do(uid, request_actor(request))
    except StoreError as refusal:
        messages.error(request, f"{refusal.message[:1].upper()}{refusal.message[1:]}.")
    return redirect("run", found.uid)


def _progress_context(request: HttpRequest, found: MaintenanceRun) -> dict[str, Any]:
    told = runs.visible_result(found, request_clearance(request), counted=False)
    percent = results.progress_percent(found, told)
    # What a screen reader is told: each quarter once, not every second.
    step = f"{found.status}-{percent // 25}-{found.stop_requested:d}"
    return {
        "run": found,
        "told": told,
        "percent": percent,
        "step": step,
        "is_news": request.GET.get("told") != step,
        "is_polling": True,
    }


def _run_context(request: HttpRequest, found: MaintenanceRun) -> dict[str, Any]:
    clearance = request_clearance(request)
    params = results.visible_params([found], clearance)[found.pk]
    may_steer = _may_control(request, found)
    always = {"params": params, "may_steer": may_steer, "out_of_reach": _is_control_withheld(request, found)}
    if results.is_active(found):
        return {**_progress_context(request, found), **always}
    told = runs.visible_result(found, clearance)
    listed = min(told.changes, found.result.get("listed", told.changes)) if told.whole else told.changes
    last = max(1, -(-listed // CHANGES_PER_PAGE))
    number = _page_number(request, last)
    return {
        **always,
        "run": found,
        "told": told,
        "percent": results.progress_percent(found, told),
        "results": results.result_lines(found, told),
        "changes": runs.list_changes(found, clearance, (number - 1) * CHANGES_PER_PAGE, CHANGES_PER_PAGE),
        "unlisted": told.changes - listed,
        "number": number,
        "last": last,
        "may_undo": runs.is_undoable(found),
        "may_do": _may_run_for_real(request, found, params),
        "is_for_good": found.operation in IRREVERSIBLE_OPERATIONS,
    }


def _may_run_for_real(request: HttpRequest, found: MaintenanceRun, params: list[tuple[str, Any]]) -> bool:
    """Whether the button under a dry run does the same in earnest: not where a parameter is hidden."""
    if not found.dry_run or found.operation not in OPERATIONS or found.status != MaintenanceRun.Status.DONE:
        return False
    is_whole = len(params) == sum(value is not None for value in found.params.values())
    return is_whole and can_start_run(request.user, found.operation, dry_run=False)


def _page_number(request: HttpRequest, last: int) -> int:
    """The page of changes that was asked for."""
    found = parse_whole_number(request.GET.get("page", "1"), 7)
    if found is None:
        raise BadRequest("page is not the number of a page")
    return min(max(found, 1), last)
