"""Runs of maintenance: the list, one run with its progress and what it changed, stop, resume, undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import reswap, retarget

from memoryhub.lifecycle import reach, runs, telling
from memoryhub.lifecycle.asking import FOR_GOOD, MAINTAIN, may_look, may_run
from memoryhub.lifecycle.operations import OPERATIONS
from memoryhub.models import MaintenanceRun
from memoryhub.retrieval import paging
from memoryhub.sensitivity import Actor
from memoryhub.store import NotFound, StoreError
from memoryhub.web.access import actor_of, clearance_of
from memoryhub.web.fields import whole
from memoryhub.web.maintenance import RunFilter

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
        page = paging.page(rows, "created_at", PAGE, cursor)
    except paging.BadCursor as error:
        raise BadRequest(str(error)) from None
    params = telling.params(page.items, clearance_of(request))
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
    if telling.is_under_way(found):
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
    return request.user.has_perm(MAINTAIN) and reach.steers(clearance_of(request), found)


def _is_out_of_reach(request: HttpRequest, found: MaintenanceRun) -> bool:
    """Whether there is something to stop, resume or undo for one who may maintain, but not see all of it."""
    if not request.user.has_perm(MAINTAIN) or _may_steer(request, found):
        return False
    is_open = telling.is_under_way(found) or runs.is_resumable(found)
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
    percent = telling.percent(found, told)
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
    params = telling.params([found], clearance)[found.pk]
    may_steer = _may_steer(request, found)
    always = {"params": params, "may_steer": may_steer, "out_of_reach": _is_out_of_reach(request, found)}
    if telling.is_under_way(found):
        return {**_progress(request, found), **always}
    told = runs.told(found, clearance)
    listed = min(told.changes, found.result.get("listed", told.changes)) if told.whole else told.changes
    last = max(1, -(-listed // CHANGES))
    number = _number(request, last)
    return {
        **always,
        "run": found,
        "told": told,
        "percent": telling.percent(found, told),
        "results": telling.results(found, told),
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
