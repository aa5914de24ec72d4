"""The pages of maintenance runs, the forms that start one, and controls that imports share with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import reswap, retarget
from pydantic import BaseModel

from memoryhub.access.policy import Actor
from memoryhub.accounts.clearance import request_actor, request_clearance
from memoryhub.accounts.permissions import ADD_RUN, ERASE_MEMORY
from memoryhub.core.form_fields import to_sentence
from memoryhub.maintenance import executor, results, runs
from memoryhub.maintenance.operations import OPERATIONS
from memoryhub.maintenance.operations.base import UNCHANGED, Operation
from memoryhub.memories import StoreError
from memoryhub.models import MaintenanceRun
from memoryhub.transfer import jobs
from memoryhub.web.base.forms import ListFilter
from memoryhub.web.base.navigation import can_view_runs
from memoryhub.web.base.requests import cursor_page, numbered_page, require
from memoryhub.web.memories.bulk_actions import OPERATION_NAME, is_allowed, list_page

RUNS_PER_PAGE = 30
CHANGES_PER_PAGE = 25


def progress_context(request: HttpRequest, run: MaintenanceRun, percent: int) -> dict[str, Any]:
    """Return the state of a run; ``is_news`` if it differs from the one in the address (``announced``)."""
    # A screen reader announces each quarter once instead of every second.
    step = f"{run.status}-{percent // 25}-{run.stop_requested:d}"
    return {
        "run": run,
        "percent": percent,
        "step": step,
        "is_news": request.GET.get("announced") != step,
        "is_polling": results.is_active(run),
    }


def render_progress(
    request: HttpRequest, context: dict[str, Any], progress: str, body: str, target: str
) -> HttpResponse:
    """Answer a poll: the progress of an active run, or the whole body of a finished one at ``target``."""
    if context["is_polling"]:
        return render(request, progress, context)
    response = render(request, body, context | {"is_news": True})
    return reswap(retarget(response, target), "outerHTML")


def control(
    request: HttpRequest, page: str, run: MaintenanceRun, action: Callable[[], MaintenanceRun]
) -> HttpResponse:
    """Stop, resume, undo or repeat a run and go to the page of the resulting run, or show the refusal."""
    try:
        run = action()
    except StoreError as refusal:
        messages.error(request, to_sentence(refusal.message))
    return redirect(page, run.uid)


class RunFilter(ListFilter):
    operation = forms.ChoiceField(
        required=False,
        choices=lambda: [
            ("", "Any"),
            *((operation.name, operation.label) for operation in OPERATIONS.values()),
        ],
    )
    status = forms.ChoiceField(
        required=False,
        choices=[("", "Any"), *((status, status.capitalize()) for status in MaintenanceRun.Status.values)],
    )

    def select(self, rows: QuerySet[MaintenanceRun]) -> QuerySet[MaintenanceRun]:
        return rows.filter(**self.given("operation", "status"))


@require_safe
@require(can_view_runs)
def run_list(request: HttpRequest) -> HttpResponse:
    """List the visible runs, newest first."""
    form, clearance = RunFilter(request.GET), request_clearance(request)
    rows = results.visible_runs(clearance).select_related("undoes")
    rows = form.select(rows) if form.is_valid() else rows.none()
    listed = cursor_page(request, rows, "created_at", RUNS_PER_PAGE)
    items = listed["page"].items
    params = results.visible_params(items, clearance)
    rows_shown = [
        (run, results.visible_result(run, clearance, counted=False), params[run.pk]) for run in items
    ]
    # Only the person who imported a file sees its name.
    context = {"form": form, "rows": rows_shown, "own": request_actor(request).name, **listed}
    return render(request, "maintenance/runs.html", context, status=form.http_status)


@require_safe
def run(request: HttpRequest, uid: str) -> HttpResponse:
    """Show one run and a page of its changes. An import has a page of its own, with its report."""
    found = _find_run(request, uid)
    if found.operation == jobs.OPERATION_NAME and jobs.can_see_report(found, request_actor(request)):
        return redirect("import", uid)
    return render(request, "maintenance/run.html", _run_context(request, found))


@require_safe
def run_progress(request: HttpRequest, uid: str) -> HttpResponse:
    """Answer the page's polls while a run is active."""
    context = _run_context(request, _find_run(request, uid))
    return render_progress(
        request, context, "maintenance/run.html#progress", "maintenance/run.html#run_body", "#run"
    )


@require_POST
def run_stop(request: HttpRequest, uid: str) -> HttpResponse:
    return _control_run(request, uid, runs.stop)


@require_POST
def run_resume(request: HttpRequest, uid: str) -> HttpResponse:
    return _control_run(request, uid, runs.resume)


@require_http_methods(["GET", "HEAD", "POST"])
def run_undo(request: HttpRequest, uid: str) -> HttpResponse:
    """Ask whether to undo a run. POST starts the run that undoes it, and leads to its page."""
    if request.method == "POST":
        return _control_run(request, uid, runs.undo)
    found = _find_run(request, uid)
    if not (_may_control(request, found) and runs.is_undoable(found)):
        raise Http404
    return render(request, "maintenance/undo.html", _run_context(request, found))


def _find_run(request: HttpRequest, uid: str) -> MaintenanceRun:
    """Return a visible run or raise 404. Marks runs as interrupted whose worker has died."""
    is_own = _is_own_action(request, MaintenanceRun.objects.filter(uid=uid).first())
    if not is_own and not can_view_runs(request.user):
        raise PermissionDenied
    executor.mark_interrupted()
    return runs.get_run(uid, request_actor(request))


def _may_control(request: HttpRequest, found: MaintenanceRun) -> bool:
    return _may_steer(request, found) and results.can_control(request_clearance(request), found)


def _may_steer(request: HttpRequest, found: MaintenanceRun) -> bool:
    """Return whether someone may stop, resume and undo a run if they see all that it covers."""
    return request.user.has_perm(ADD_RUN) or _is_own_action(request, found)


def _is_own_action(request: HttpRequest, found: MaintenanceRun | None) -> bool:
    """Return whether a run is a bulk action of this person, or its undo, which they may still do."""
    if found is None or found.operation != OPERATION_NAME or found.actor != request_actor(request).name:
        return False
    return is_allowed(request, (found.undoes or found).params["kind"])


def _is_control_withheld(request: HttpRequest, found: MaintenanceRun) -> bool:
    """Return whether only hidden levels or projects keep a maintainer from stopping, resuming or undoing."""
    if not _may_steer(request, found) or _may_control(request, found):
        return False
    is_open = results.is_active(found) or runs.is_resumable(found)
    return is_open or runs.is_undoable(found)


def _list_above(request: HttpRequest, found: MaintenanceRun) -> dict[str, str]:
    """Return the link to the page above a run: the list of a person's own bulk action, or all runs."""
    if _is_own_action(request, found) and (page := list_page((found.undoes or found).params["address"])):
        return page
    return {"back_url": reverse("runs"), "back_name": "Runs"}


def _control_run(request: HttpRequest, uid: str, do: Callable[[str, Actor], MaintenanceRun]) -> HttpResponse:
    found = _find_run(request, uid)
    if not _may_steer(request, found):
        raise PermissionDenied
    return control(request, "run", found, lambda: do(uid, request_actor(request)))


def _run_context(request: HttpRequest, found: MaintenanceRun) -> dict[str, Any]:
    clearance = request_clearance(request)
    params = results.visible_params([found], clearance)[found.pk]
    is_active = results.is_active(found)
    result = results.visible_result(found, clearance, counted=not is_active)
    context = {
        **progress_context(request, found, results.progress_percent(found, result)),
        "result": result,
        "params": params,
        "may_steer": _may_control(request, found),
        "is_control_withheld": _is_control_withheld(request, found),
        **_list_above(request, found),
    }
    if is_active:
        return context
    # An undo lists only the memories that it left unchanged.
    changes = result.counts.get(UNCHANGED, 0) if found.undoes_id else result.changes
    listed = min(changes, found.result.get("listed", changes)) if result.whole else changes
    places, numbers = numbered_page(request, range(listed), CHANGES_PER_PAGE)
    return context | {
        "results": results.result_lines(found, result),
        "changes": results.list_changes(found, clearance, places.start, CHANGES_PER_PAGE),
        "unlisted": changes - listed,
        **numbers,
        "may_undo": runs.is_undoable(found),
        "may_resume": runs.is_resumable(found),
        "may_do": _may_run_for_real(request, found, params),
        "loses_data": found.operation in LOSING_OPERATIONS,
    }


def _may_run_for_real(request: HttpRequest, found: MaintenanceRun, params: list[tuple[str, Any]]) -> bool:
    """Return whether a dry run can be started as a real run: not if a parameter is hidden."""
    if not found.dry_run or found.operation not in OPERATIONS or found.status != MaintenanceRun.Status.DONE:
        return False
    is_whole = len(params) == sum(value is not None for value in found.params.values())
    return is_whole and can_start_run(request.user, found.operation, dry_run=False)


# They delete memories permanently, past the trash and without undo.
IRREVERSIBLE_OPERATIONS = frozenset({"purge_expired", "empty_trash"})
# Nothing brings back what they delete.
LOSING_OPERATIONS = IRREVERSIBLE_OPERATIONS | {"prune_events"}
MAX_PREVIEWED = 5000  # memories that a page looks at; a dry run counts the changes of more


def can_start_run(user: Any, operation: str, *, dry_run: bool) -> bool:
    """Whether a user may start a run. Irreversible ones also need the permission to erase memories."""
    needs_erase = operation in IRREVERSIBLE_OPERATIONS and not dry_run
    return bool(user.has_perm(ADD_RUN) and (not needs_erase or user.has_perm(ERASE_MEMORY)))


def count_losses(operation: Operation[Any], params: dict[str, Any], actor: Actor) -> int:
    """Count the rows that a run would delete permanently now. StoreError names an invalid parameter."""
    valid = runs.validate_params(operation, params)
    return operation.total(operation.Params(**valid), actor, timezone.now())


def asks_first(operation: Operation[Any]) -> bool:
    """Whether a page shows the consequences of a run before it starts."""
    return operation.undoable or operation.name in LOSING_OPERATIONS


def count_changes(operation: Operation[Any], params: dict[str, Any], actor: Actor) -> dict[str, int] | None:
    """Count what a run would change now, by action; None if that takes too long for a page.

    StoreError names an invalid parameter.
    """
    valid, now = operation.Params(**runs.validate_params(operation, params)), timezone.now()
    if operation.total(valid, actor, now) > MAX_PREVIEWED:
        return None
    counts: Counter[str] = Counter()
    for step in operation.steps(valid, actor, now):
        for change in step.changes:
            counts[change.action] += change.count
    return dict(counts)


def form_fields(params: type[BaseModel]) -> dict[str, forms.Field]:
    """Return an optional field for each parameter."""
    properties = params.model_json_schema()["properties"]
    return {name: _form_field(name, _unwrap_optional(spec)) for name, spec in properties.items()}


def _unwrap_optional(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of ``T`` for that of ``T | None``."""
    [variant] = [variant for variant in spec.get("anyOf", [spec]) if variant.get("type") != "null"]
    return {**spec, **variant}


def _form_field(name: str, spec: dict[str, Any]) -> forms.Field:
    options: dict[str, Any] = {
        "required": False,
        "label": name.replace("_", " ").capitalize(),
        "help_text": spec.get("description", ""),
    }
    if spec["type"] == "boolean":
        return forms.BooleanField(**options)
    limits: dict[str, Any] = {"min_value": spec.get("minimum"), "max_value": spec.get("maximum")}
    if spec["type"] == "integer":
        return forms.IntegerField(**options, **limits)
    if spec["type"] == "number":
        return forms.FloatField(**options, **limits)
    return forms.CharField(**options, max_length=spec.get("maxLength"))
