"""Maintenance runs: asked for, looked at, stopped, resumed and taken back.

A run is a row that a worker picks up: the server's own thread (:mod:`memoryhub.maintenance.worker`) or
``manage.py maintain``. It works under the reach of whoever asked for it, kept with it and never wider.
"""

from __future__ import annotations

import threading
from datetime import date, datetime
from typing import Any

from django.db import transaction
from django.utils import timezone
from pydantic import ValidationError

from memoryhub import capabilities
from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.core.transactions import write_transaction
from memoryhub.maintenance import run_scope
from memoryhub.maintenance.executor import execute, mark_interrupted
from memoryhub.maintenance.operations.base import Operation
from memoryhub.maintenance.registry import OPERATIONS, find_operation
from memoryhub.maintenance.results import (
    MAX_LISTED_CHANGES,
    VisibleChange,
    VisibleResult,
    list_changes,
    visible_result,
)
from memoryhub.maintenance.run_scope import visible_runs
from memoryhub.memories import Conflict, Forbidden, NotFound, StoreError
from memoryhub.models import MaintenanceRun

__all__ = [
    "MAX_LISTED_CHANGES",
    "VisibleChange",
    "VisibleResult",
    "enqueue",
    "execute",
    "get_run",
    "is_resumable",
    "is_switched_off",
    "is_undoable",
    "list_changes",
    "mark_interrupted",
    "require_operation",
    "resume",
    "stop",
    "undo",
    "validate_params",
    "visible_result",
    "visible_runs",
]

# Told when a run was queued in this process: its worker need not wait for its next look.
queue_changed = threading.Condition()
_CAPABILITIES = {"consolidate": capabilities.CONSOLIDATION, "compress": capabilities.COMPRESSION}
Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause
PENDING = (Status.QUEUED, Status.RUNNING)


def enqueue(
    operation: str | Operation[Any],
    params: dict[str, Any],
    actor: Actor,
    *,
    dry_run: bool = False,
    now: datetime | None = None,
    day: date | None = None,
    may_wait: bool = False,
) -> MaintenanceRun:
    """Queue a run. A dry run lists what would change and changes nothing; any number of them may run.

    ``operation``: its name; one of a higher floor is handed in itself.

    StoreError names a field that cannot be used. Conflict when the same operation is under way, or waits, on
    the same project. One that ``may_wait`` queues behind that, or is the one that waits already for the same.
    ``day``: the day whose daily maintenance this is.
    """
    now = now or timezone.now()
    wanted = require_operation(operation) if isinstance(operation, str) else operation
    if is_switched_off(wanted.name):
        words = capabilities.disabled_message(_CAPABILITIES[wanted.name])
        raise StoreError(f"{words} in the configuration; switch it on", "operation")
    kept = validate_params(wanted, params)
    project = str(kept.get("project") or "")
    if project and not actor.clearance.reaches(project):
        raise Forbidden("this project is out of your reach; name one that is open to you", "project")
    with write_transaction():
        if may_wait and day is None and (same := _find_queued(wanted.name, kept, actor, dry_run)):
            return same
        if not dry_run and not may_wait:
            _require_no_overlap(wanted.name, project, actor, now)
        run = MaintenanceRun.objects.create(
            operation=wanted.name,
            params=kept,
            project=project,
            reach=run_scope.clearance_to_json(actor.clearance),
            dry_run=dry_run,
            day=day,
            actor=actor.name,
            created_at=now,
        )
        _journal("run", run, actor, now)
    return run


def undo(uid: str, actor: Actor, now: datetime | None = None) -> MaintenanceRun:
    """Queue a run that takes another back, under that one's reach.

    NotFound, Forbidden, or Conflict when there is nothing to take back (any more).
    """
    now = now or timezone.now()
    with write_transaction():
        run = _get_controllable(uid, actor)
        _require_undoable(run)
        _require_no_overlap(run.operation, run.project, actor, now)
        undoing = MaintenanceRun.objects.create(
            operation=run.operation,
            project=run.project,
            reach=run.reach,
            undoes=run,
            actor=actor.name,
            created_at=now,
            total=(run.result or {}).get("changed", 0),
        )
        _journal("run_undo", undoing, actor, now)
    return undoing


def resume(uid: str, actor: Actor, now: datetime | None = None) -> MaintenanceRun:
    """Queue a failed, interrupted or stopped run again; it goes on where it was, under its own reach."""
    now = now or timezone.now()
    with write_transaction():
        run = _get_controllable(uid, actor)
        if run.status != Status.FAILED:
            raise Conflict(f"this run is {run.status}; only one that failed, or was stopped, can go on")
        if run.undone_at:
            raise Conflict("this run was taken back; start a new one")
        if find_operation(run.operation) is None:
            require_operation(run.operation)
        if not run.dry_run:
            _require_no_overlap(run.operation, run.project, actor, now)
        run.status, run.cause, run.error = Status.QUEUED, "", ""
        run.worker, run.stop_requested, run.finished_at = "", False, None
        run.save()
        _journal("run_resume", run, actor, now)
    return run


def stop(uid: str, actor: Actor, now: datetime | None = None) -> MaintenanceRun:
    """Ask a run to stop between two steps; one that still waits is stopped at once. It can be resumed."""
    now = now or timezone.now()
    with write_transaction():
        run = _get_controllable(uid, actor)
        if run.status not in PENDING:
            raise Conflict(f"this run is {run.status} already")
        run.stop_requested = True
        if run.status == Status.QUEUED:
            run.status, run.cause, run.finished_at = Status.FAILED, Cause.STOPPED, now
            run.error = "stopped before it began; resume it to go on"
        run.save(update_fields=["stop_requested", "status", "cause", "error", "finished_at"])
        _journal("run_stop", run, actor, now)
    return run


def get_run(uid: str, actor: Actor) -> MaintenanceRun:
    """A run that the actor may know of; NotFound otherwise."""
    run = visible_runs(actor.clearance).filter(uid=uid).first()
    if run is None:
        raise NotFound("there is no such run")
    return run


def is_undoable(run: MaintenanceRun) -> bool:
    """Whether a run changed something that can be taken back still, and nobody is at it."""
    operation = find_operation(run.operation)
    return (
        operation is not None
        and operation.undoable
        and not run.dry_run
        and run.undoes_id is None
        and run.undone_at is None
        and run.status in (Status.DONE, Status.FAILED)
        and bool((run.result or {}).get("changed"))
        and not run.undoings.filter(status__in=PENDING).exists()
    )


def is_resumable(run: MaintenanceRun) -> bool:
    """Whether a run did not come to its end, and has not been taken back since."""
    return run.status == Status.FAILED and run.undone_at is None


def is_switched_off(operation: str) -> bool:
    """Whether the capability that an operation belongs to is switched off in the configuration."""
    capability = _CAPABILITIES.get(operation)
    return capability is not None and not capabilities.is_enabled(capability)


def require_operation(name: str) -> Operation[Any]:
    """StoreError when there is none of this name."""
    try:
        return OPERATIONS[name]
    except KeyError:
        names = ", ".join(OPERATIONS)
        raise StoreError(f"there is no such operation; choose one of {names}", "operation") from None


def validate_params(operation: Operation[Any], params: dict[str, Any]) -> dict[str, Any]:
    """The parameters as they are kept: those that were given, validated."""
    known = operation.Params.model_fields
    for name in params:
        if name not in known:
            knows = f"it knows {', '.join(known)}" if known else "it takes none"
            raise StoreError(f"{operation.name} has no such parameter; {knows}", name)
    try:
        kept: dict[str, Any] = operation.Params(**params).model_dump(mode="json", exclude_unset=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        words = str(first["msg"]).removeprefix("Value error, ")
        raise StoreError(words, ".".join(map(str, first["loc"])) or "params") from None
    return kept


def _find_queued(
    operation: str, params: dict[str, Any], actor: Actor, dry_run: bool
) -> MaintenanceRun | None:
    """A run of the same that nobody has begun."""
    waiting = MaintenanceRun.objects.filter(
        operation=operation, status=Status.QUEUED, dry_run=dry_run, started_at=None, undoes=None
    )
    wide = run_scope.clearance_to_json(actor.clearance)
    return next((run for run in waiting if run.params == params and run.reach == wide), None)


def _require_no_overlap(operation: str, project: str, actor: Actor, now: datetime) -> None:
    """Conflict when a run of this operation is under way on a project that a new one would work on."""
    under_way = MaintenanceRun.objects.filter(operation=operation, status__in=PENDING, dry_run=False)
    if under_way.exists():
        mark_interrupted(now)
    for run in under_way:
        if run_scope.overlaps(run, project, actor.clearance):
            raise Conflict(f"run {run.uid} of {operation} is {run.status} on the same memories; wait for it")


def _require_undoable(run: MaintenanceRun) -> None:
    if is_undoable(run):
        return
    if run.undone_at:
        raise Conflict("this run was taken back already")
    if run.status in PENDING:
        raise Conflict("this run is not finished; stop it first")
    operation = find_operation(run.operation)
    if operation is None or not operation.undoable:
        raise Conflict(f"what {run.operation} does cannot be undone")
    raise Conflict("this run changed nothing that could be taken back, or is being taken back now")


def _get_controllable(uid: str, actor: Actor) -> MaintenanceRun:
    run = get_run(uid, actor)
    if not run_scope.can_control(actor.clearance, run):
        raise Forbidden("this run reaches further than you may see; leave it to those who may")
    return run


def _journal(deed: str, run: MaintenanceRun, actor: Actor, now: datetime) -> None:
    """The journal's row, and a nudge for the worker of this process once it is true."""
    detail: dict[str, Any] = {"operation": run.operation, "dry_run": run.dry_run}
    if run.undoes:
        detail["undoes"] = run.undoes.uid
    journal.record(actor, [journal.Change(deed, "run", run.uid, detail, run.project)], now)
    transaction.on_commit(_notify_worker)


def _notify_worker() -> None:
    with queue_changed:
        queue_changed.notify_all()
