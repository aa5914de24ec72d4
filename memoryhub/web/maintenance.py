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
from memoryhub.accounts.clearance import actor_of, clearance_of
from memoryhub.core import pagination
from memoryhub.maintenance import results, run_scope, runs
from memoryhub.maintenance.plan import Operation
from memoryhub.maintenance.registry import OPERATIONS
from memoryhub.maintenance.run_forms import FOR_GOOD, MAINTAIN, form_fields, given, loss, may_look, may_run
from memoryhub.memories import Conflict, Forbidden, NotFound, StoreError
from memoryhub.models import MaintenanceRun
from memoryhub.web.base.fields import whole
from memoryhub.web.base.filters import ListFilter
from memoryhub.web.home import health


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
        return given(self.cleaned_data)

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
class Card:
    """An operation on the page; ``last`` is its newest real run."""

    operation: Operation[Any]
    form: RunForm
    last: MaintenanceRun | None
    may_dry_run: bool
    may_run: bool
    is_off: bool

    @property
    def is_for_good(self) -> bool:
        return self.operation.name in FOR_GOOD


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


PAGE = 30
CHANGES = 50


@require_safe
def run_list(request: HttpRequest) -> HttpResponse:
    """Newest first."""
    _require_look(request)
    form = RunFilter(request.GET)
    rows = runs.visible_runs(clearance_of(request)).select_related("undoes")
    rows = form.select(rows) if form.is_valid() else rows.none()
    cursor = request.GET.get("cursor")
    try:
        page = pagination.page(rows, "created_at", PAGE, cursor)
    except pagination.BadCursor as error:
        raise BadRequest(str(error)) from None
    params = results.params(page.items, clearance_of(request))
    told = [(one, runs.told(one, clearance_of(request), counted=False), params[one.pk]) for one in page.items]
    context = {"form": form, "page": page, "told": told, "first": not cursor}
    return render(request, "maintenance/runs.html", context, status=200 if form.is_valid() else 422)


@require_safe
def run(request: HttpRequest, uid: str) -> HttpResponse:
    """One run, and a page of what it changed."""
    found = _find(request, uid)
    return render(request, "maintenance/run.html", _run(request, found))


@require_safe
def run_progress(request: HttpRequest, uid: str) -> HttpResponse:
    """The state of a run, for htmx to ask for again and again; everything about it, once it has ended."""
    found = _find(request, uid)
    if results.is_under_way(found):
        return render(request, "maintenance/progress.html", _progress(request, found))
    whole = render(request, "maintenance/run_body.html", _run(request, found) | {"is_news": True})
    return reswap(retarget(whole, "#run"), "outerHTML")


@require_POST
def run_stop(request: HttpRequest, uid: str) -> HttpResponse:
    return _steer(request, uid, runs.stop)


@require_POST
def run_resume(request: HttpRequest, uid: str) -> HttpResponse:
    return _steer(request, uid, runs.resume)


@require_http_methods(["GET", "HEAD", "POST"])
def run_undo(request: HttpRequest, uid: str) -> HttpResponse:
    """GET asks, POST takes back: a run of its own, which this leads to."""
    if request.method == "POST":
        return _steer(request, uid, runs.undo)
    found = _find(request, uid)
    if not (_may_steer(request, found) and runs.is_undoable(found)):
        raise Http404
    return render(request, "maintenance/undo.html", _run(request, found))


def _find(request: HttpRequest, uid: str) -> MaintenanceRun:
    """A run that this person may know of. One whose worker has died is marked, for nobody else might."""
    _require_look(request)
    runs.mark_interrupted()
    try:
        return runs.find(uid, actor_of(request))
    except NotFound:
        raise Http404 from None


def _require_look(request: HttpRequest) -> None:
    if not may_look(request.user):
        raise PermissionDenied


def _may_steer(request: HttpRequest, found: MaintenanceRun) -> bool:
    return request.user.has_perm(MAINTAIN) and run_scope.steers(clearance_of(request), found)


def _is_out_of_reach(request: HttpRequest, found: MaintenanceRun) -> bool:
    """Whether there is something to stop, resume or undo for one who may maintain, but not see all of it."""
    if not request.user.has_perm(MAINTAIN) or _may_steer(request, found):
        return False
    is_open = results.is_under_way(found) or runs.is_resumable(found)
    return is_open or runs.is_undoable(found)


def _steer(request: HttpRequest, uid: str, do: Callable[[str, Actor], MaintenanceRun]) -> HttpResponse:
    if not request.user.has_perm(MAINTAIN):
        raise PermissionDenied
    found = _find(request, uid)
    try:
        found = do(uid, actor_of(request))
    except StoreError as refusal:
        messages.error(request, f"{refusal.message[:1].upper()}{refusal.message[1:]}.")
    return redirect("run", found.uid)


def _progress(request: HttpRequest, found: MaintenanceRun) -> dict[str, Any]:
    told = runs.told(found, clearance_of(request), counted=False)
    percent = results.percent(found, told)
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


def _run(request: HttpRequest, found: MaintenanceRun) -> dict[str, Any]:
    clearance = clearance_of(request)
    params = results.params([found], clearance)[found.pk]
    may_steer = _may_steer(request, found)
    always = {"params": params, "may_steer": may_steer, "out_of_reach": _is_out_of_reach(request, found)}
    if results.is_under_way(found):
        return {**_progress(request, found), **always}
    told = runs.told(found, clearance)
    listed = min(told.changes, found.result.get("listed", told.changes)) if told.whole else told.changes
    last = max(1, -(-listed // CHANGES))
    number = _number(request, last)
    return {
        **always,
        "run": found,
        "told": told,
        "percent": results.percent(found, told),
        "results": results.results(found, told),
        "changes": runs.changes_of(found, clearance, (number - 1) * CHANGES, CHANGES),
        "unlisted": told.changes - listed,
        "number": number,
        "last": last,
        "may_undo": runs.is_undoable(found),
        "may_do": _may_do(request, found, params),
        "is_for_good": found.operation in FOR_GOOD,
    }


def _may_do(request: HttpRequest, found: MaintenanceRun, params: list[tuple[str, Any]]) -> bool:
    """Whether the button under a dry run does the same in earnest: not where a parameter is hidden."""
    if not found.dry_run or found.operation not in OPERATIONS or found.status != MaintenanceRun.Status.DONE:
        return False
    is_whole = len(params) == sum(value is not None for value in found.params.values())
    return is_whole and may_run(request.user, found.operation, dry_run=False)


def _number(request: HttpRequest, last: int) -> int:
    """The page of changes that was asked for."""
    found = whole(request.GET.get("page", "1"), 7)
    if found is None:
        raise BadRequest("page is not the number of a page")
    return min(max(found, 1), last)
