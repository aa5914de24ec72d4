"""The queue of maintenance runs: enqueue, stop, resume and undo runs, and enqueue the daily ones.

A worker claims a run: a thread of the server (:mod:`memoryhub.maintenance.worker`) or the command ``manage.py
maintain``. The run has the clearance of its requester, which is stored with it.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import transaction
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Max, Min, Q
from django.utils import timezone
from pydantic import ValidationError

from memoryhub import capabilities
from memoryhub.access.policy import Actor, system_actor
from memoryhub.audit import clock, journal
from memoryhub.core.database import write_transaction
from memoryhub.maintenance import results
from memoryhub.maintenance.executor import mark_interrupted
from memoryhub.maintenance.operations import (
    MEMORY_CHECKS,
    OPERATIONS,
    SEND_DIGESTS,
    find_operation,
    require_confirmed_clock,
)
from memoryhub.maintenance.operations.base import Operation
from memoryhub.memories import Conflict, Forbidden, NotFound, StoreError
from memoryhub.memories.delete import delete_waiting
from memoryhub.models import Digest, MaintenanceRun, MemoryCheck, RunChanges

# Notified when this process queues a run, so that its worker does not wait for the next poll.
queue_changed = threading.Condition()
_CAPABILITIES = {"consolidate": capabilities.CONSOLIDATION, "compress": capabilities.COMPRESSION}
Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause
WORKER_ACTOR = system_actor("worker")
MAX_RESUMPTIONS = 3  # of a run that is interrupted each time before it completes a step
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
    """Queue a run. A dry run only lists the changes; any number of dry runs may run at once.

    ``operation``: a name, or the instance of a registered operation.
    ``may_wait``: queue the run behind others, or return an identical run that is still queued. Otherwise
    Conflict is raised if a run of the operation on the same memories is queued or running.
    ``day``: the day of the daily maintenance that the run belongs to.

    Raise StoreError with the name of an invalid field.
    """
    now = now or timezone.now()
    if isinstance(operation, str):
        operation = require_operation(operation)
    if is_switched_off(operation.name):
        message = capabilities.disabled_message(_CAPABILITIES[operation.name])
        raise StoreError(f"{message} in the configuration; switch it on", "operation")
    if not dry_run:
        require_confirmed_clock(operation)
    stored = validate_params(operation, params)
    project = str(stored.get("project") or "")
    if project and not actor.clearance.includes_project(project):
        raise Forbidden("you have no access to this project; choose another one", "project")
    with write_transaction():
        if may_wait and day is None and (same := _find_queued(operation.name, stored, actor, dry_run)):
            return same
        if not dry_run and not may_wait:
            _require_no_overlap(operation.name, project, actor)
        run = MaintenanceRun.objects.create(
            operation=operation.name,
            params=stored,
            project=project,
            reach=results.reach_to_json(actor),
            dry_run=dry_run,
            day=day,
            actor=actor.name,
            created_at=now,
        )
        _record("run", run, actor, now)
    return run


def undo(uid: str, actor: Actor, now: datetime | None = None) -> MaintenanceRun:
    """Queue a run that undoes another one, with the clearance of that run.

    Raise NotFound, Forbidden, or Conflict if there is nothing to undo.
    """
    now = now or timezone.now()
    with write_transaction():
        run = _get_controllable(uid, actor)
        _require_undoable(run)
        _require_no_overlap(run.operation, run.project, actor)
        undoing = MaintenanceRun.objects.create(
            operation=run.operation,
            project=run.project,
            reach=run.reach,
            undoes=run,
            actor=actor.name,
            created_at=now,
            total=(run.result or {}).get("changed", 0),
        )
        _record("run_undo", undoing, actor, now)
    return undoing


def resume(uid: str, actor: Actor) -> MaintenanceRun:
    """Queue a failed, interrupted or stopped run again; it continues after its last step."""
    now = timezone.now()
    with write_transaction():
        run = _get_controllable(uid, actor)
        if run.status != Status.FAILED:
            raise Conflict(f"this run is {run.status}; only one that failed or was stopped can be resumed")
        if refusal := resume_refusal(run):
            raise Conflict(refusal)
        if not run.dry_run:
            _require_no_overlap(run.operation, run.project, actor)
        run.status, run.cause, run.error = Status.QUEUED, "", ""
        run.worker, run.stop_requested, run.finished_at = "", False, None
        run.save()
        _record("run_resume", run, actor, now)
    return run


def resume_interrupted() -> None:
    """Queue interrupted runs again, except those that were interrupted too often without any progress."""
    mark_interrupted()
    ended = MaintenanceRun.objects.filter(status=Status.FAILED, cause=Cause.INTERRUPTED, undone_at=None)
    for run in ended.filter(interruptions__range=(1, MAX_RESUMPTIONS)).order_by("pk"):
        with suppress(Conflict):  # waits until the run on the same memories ends
            resume(run.uid, WORKER_ACTOR)


def stop(uid: str, actor: Actor) -> MaintenanceRun:
    """Ask a run to stop after the current step; a queued run stops at once. It can be resumed."""
    now = timezone.now()
    with write_transaction():
        run = _get_controllable(uid, actor)
        if run.status not in PENDING:
            raise Conflict(f"this run is {run.status} already")
        run.stop_requested = True
        if run.status == Status.QUEUED:
            run.status, run.cause, run.finished_at = Status.FAILED, Cause.STOPPED, now
            run.error = "stopped before it began; resume it to start"
        run.save(update_fields=["stop_requested", "status", "cause", "error", "finished_at"])
        _record("run_stop", run, actor, now)
    return run


def get_run(uid: str, actor: Actor) -> MaintenanceRun:
    """Return a run that is visible to the actor; raise NotFound otherwise."""
    run = results.visible_runs(actor.clearance).filter(uid=uid).first()
    if run is None:
        raise NotFound("there is no such run")
    return run


def is_undoable(run: MaintenanceRun) -> bool:
    """Whether a run made changes that can be undone and are not being undone."""
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
    """Whether a run ended early and can continue."""
    return run.status == Status.FAILED and not resume_refusal(run)


def resume_refusal(run: MaintenanceRun) -> str:
    """Return why a run that ended early cannot continue, and what to do; empty if it can."""
    operation = find_operation(run.operation)
    if operation is None:
        return "this version of the hub does not have the operation of this run; start another one"
    if run.undone_at:
        return "this run was undone; start a new one"
    return "" if run.undoes_id else operation.resume_refusal(run.params)


def is_switched_off(operation: str) -> bool:
    """Whether the configuration switches off the capability of an operation."""
    capability = _CAPABILITIES.get(operation)
    return capability is not None and not capabilities.is_enabled(capability)


def require_operation(name: str) -> Operation[Any]:
    """Return a built-in operation; raise StoreError if none has this name."""
    try:
        return OPERATIONS[name]
    except KeyError:
        names = ", ".join(OPERATIONS)
        raise StoreError(f"there is no such operation; choose one of {names}", "operation") from None


def validate_params(operation: Operation[Any], params: dict[str, Any]) -> dict[str, Any]:
    """Return the given parameters, validated, in their stored form."""
    known = operation.Params.model_fields
    for name in params:
        if name not in known:
            accepted = f"it has {', '.join(known)}" if known else "it has none"
            raise StoreError(f"{operation.name} has no such parameter; {accepted}", name)
    try:
        stored: dict[str, Any] = operation.Params(**params).model_dump(mode="json", exclude_unset=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        message = str(first["msg"]).removeprefix("Value error, ")
        raise StoreError(message, ".".join(map(str, first["loc"])) or "params") from None
    return stored


def _find_queued(
    operation: str, params: dict[str, Any], actor: Actor, dry_run: bool
) -> MaintenanceRun | None:
    """Return an identical run that has not started yet."""
    queued = MaintenanceRun.objects.filter(
        operation=operation, status=Status.QUEUED, dry_run=dry_run, started_at=None, undoes=None
    )
    reach = results.reach_to_json(actor)
    return next((run for run in queued if run.params == params and run.reach == reach), None)


def _require_no_overlap(operation: str, project: str, actor: Actor) -> None:
    """Raise Conflict if a run of this operation on the same memories is queued or running."""
    pending = MaintenanceRun.objects.filter(operation=operation, status__in=PENDING, dry_run=False)
    if pending.exists():
        mark_interrupted()
    for run in pending:
        if results.overlaps(run, project, actor.clearance):
            raise Conflict(f"run {run.uid} of {operation} is {run.status} on the same memories; wait for it")


def _require_undoable(run: MaintenanceRun) -> None:
    if is_undoable(run):
        return
    if run.undone_at:
        raise Conflict("this run has already been undone")
    if run.status in PENDING:
        raise Conflict("this run has not finished; stop it first")
    operation = find_operation(run.operation)
    if operation is None or not operation.undoable:
        raise Conflict(f"changes of {run.operation} cannot be undone")
    raise Conflict("this run changed nothing that could be undone, or is being undone now")


def _get_controllable(uid: str, actor: Actor) -> MaintenanceRun:
    run = get_run(uid, actor)
    run = MaintenanceRun.objects.select_for_update().get(pk=run.pk)  # locked until the commit
    if not results.can_control(actor.clearance, run):
        raise Forbidden("this run covers more than you can see; ask someone who can see all of it")
    return run


def _record(action: str, run: MaintenanceRun, actor: Actor, now: datetime) -> None:
    """Write the journal entry, and notify the worker of this process after the commit."""
    detail: dict[str, Any] = {"operation": run.operation, "dry_run": run.dry_run}
    if run.undoes:
        detail["undoes"] = run.undoes.uid
    journal.record(actor, [journal.Change(action, "run", run.uid, detail, run.project)], now)
    transaction.on_commit(_notify_worker)


def _notify_worker() -> None:
    with queue_changed:
        queue_changed.notify_all()


SCHEDULE_ACTOR = system_actor("schedule")
LIST_RETENTION = timedelta(days=30)  # of the lists of changes
PAUSE_AFTER_FAILURE = timedelta(minutes=10)  # of a run that sends digests
DELETE_CHUNK = 20  # rows in one transaction; a list of changes has tens of kilobytes


def daily_operations() -> list[str]:
    """Return the configured operations in order, without unknown and disabled ones."""
    has_embeddings = settings.MEMORYHUB.embeddings != "none"
    return [
        name
        for name in _configured_names()
        if (name in OPERATIONS and not is_switched_off(name) and (has_embeddings or name != "embed"))
        or (name == MEMORY_CHECKS and MemoryCheck.objects.filter(enabled=True).exists())
    ]


def unknown_operations() -> list[str]:
    """Return configured names that do not belong to any operation."""
    return [name for name in _configured_names() if name not in (*OPERATIONS, MEMORY_CHECKS)]


def _configured_names() -> list[str]:
    return [name for name in settings.MEMORYHUB.maintenance_operations.split(",") if name]


def last_due_time(now: datetime) -> datetime | None:
    """Return the latest scheduled time up to ``now``; None without a schedule."""
    if not settings.MEMORYHUB.maintenance_at:
        return None
    local = now.astimezone(ZoneInfo(settings.TIME_ZONE))
    today = _due_time_on(local.date())
    return today if today <= now else _due_time_on(local.date() - timedelta(days=1))


def next_due_time(now: datetime) -> datetime | None:
    """Return the next scheduled time; None without a schedule."""
    last = last_due_time(now)
    return _due_time_on(last.date() + timedelta(days=1)) if last else None


def last_scheduled_day(now: datetime | None = None) -> date | None:
    """Return the last day whose maintenance was queued.

    Without later days than tomorrow: the clock was ahead then, and maintenance would wait for them.
    """
    tomorrow = (now or timezone.now()) + timedelta(days=1)
    scheduled = MaintenanceRun.objects.filter(day__lte=tomorrow.date())
    last_day: date | None = scheduled.aggregate(last=Max("day"))["last"]
    return last_day


def is_due(now: datetime) -> bool:
    """Whether the last scheduled runs are not queued yet. A new store waits for its first scheduled time."""
    due = last_due_time(now)
    if due is None:
        return False
    last_day = last_scheduled_day(now)
    if last_day is not None and last_day >= due.date():
        return False
    created = MigrationRecorder.Migration.objects.aggregate(first=Min("applied"))["first"]
    return created is not None and not due <= created <= now


def enqueue_digests(now: datetime) -> list[MaintenanceRun]:
    """Queue a run that sends the digests that are due, unless one is pending or failed recently."""
    if not Digest.objects.due(now).exists() or clock.current_pause():
        return []
    recent = Q(status__in=PENDING) | Q(
        status=MaintenanceRun.Status.FAILED, finished_at__gt=now - PAUSE_AFTER_FAILURE
    )
    with write_transaction():
        if MaintenanceRun.objects.filter(recent, operation=SEND_DIGESTS, dry_run=False).exists():
            return []
        return [enqueue(find_operation(SEND_DIGESTS) or SEND_DIGESTS, {}, SCHEDULE_ACTOR, now=now)]


def enqueue_due(now: datetime | None = None) -> list[MaintenanceRun]:
    """Queue the daily runs if they are due and no other process has queued them, and due digests."""
    now = now or timezone.now()
    return [*enqueue_digests(now), *_enqueue_due_day(now)]


def _enqueue_due_day(now: datetime) -> list[MaintenanceRun]:
    due = last_due_time(now)
    if due is None or not is_due(now) or clock.current_pause():
        return []
    delete_old_records(now)
    delete_waiting(SCHEDULE_ACTOR, settings.MEMORYHUB.expiry_grace_days, now)
    with write_transaction():
        return enqueue_daily(SCHEDULE_ACTOR, due.date(), now) if is_due(now) else []


def enqueue_daily(actor: Actor, day: date | None, now: datetime | None = None) -> list[MaintenanceRun]:
    """Queue the daily runs in their order, for ``day`` if one is given."""
    now = now or timezone.now()
    with write_transaction():
        return [
            enqueue(find_operation(name) or name, daily_params(name), actor, now=now, day=day, may_wait=True)
            for name in daily_operations()
        ]


def delete_old_records(now: datetime) -> None:
    """Delete the change lists of old runs and the records of very old runs.

    Undo does not need them, because it reads the journal and the trash.
    """
    lists = RunChanges.objects.filter(run__created_at__lt=now - LIST_RETENTION)
    days = settings.MEMORYHUB.event_retention_days
    old = MaintenanceRun.objects.filter(created_at__lt=now - timedelta(days=days)).exclude(status__in=PENDING)
    for rows in (lists, old) if days else (lists,):
        while chunk := list(rows.values_list("pk", flat=True)[:DELETE_CHUNK]):
            with write_transaction():
                rows.model._default_manager.filter(pk__in=chunk).delete()


def daily_params(operation: str) -> dict[str, Any]:
    """Return the parameters of a daily run. The purge spares memories that can still be restored."""
    if operation == "purge_expired":
        return {"grace_days": settings.MEMORYHUB.expiry_grace_days}
    return {}


def _due_time_on(day: date) -> datetime:
    at = time.fromisoformat(settings.MEMORYHUB.maintenance_at)
    return datetime.combine(day, at, ZoneInfo(settings.TIME_ZONE))
