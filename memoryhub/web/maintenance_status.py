"""The state of maintenance: counts of visible memories, the schedule, and the latest runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Max
from django.urls import reverse

from memoryhub.access.policy import Clearance
from memoryhub.maintenance import runs
from memoryhub.maintenance import scheduler as daily
from memoryhub.maintenance.operations import OPERATIONS
from memoryhub.maintenance.worker import Worker
from memoryhub.memories.delete import count_by_quota
from memoryhub.models import Event, MaintenanceRun, Memory
from memoryhub.models.querysets import MemoryQuerySet

FAILED_RUN_DAYS = 7  # for which a failed run is reported
MAX_WAIT = timedelta(minutes=2)  # a run that waits longer while none is running has no worker


@dataclass(frozen=True)
class StatusNumber:
    """A count with a link to the counted rows; ``needs_a_look`` if something should be done."""

    count: int
    words: str
    href: str = ""
    needs_a_look: bool = False


def status_numbers(clearance: Clearance, now: datetime) -> list[StatusNumber]:
    """Count visible memories and events by state."""
    visible: MemoryQuerySet = Memory.objects.visible_to(clearance)
    quotas = count_by_quota(visible.live(now))
    found = [
        StatusNumber(sum(quotas.values()), "live", reverse("memories")),
        StatusNumber(
            visible.expired(now).count(), "expired, waiting to be purged", f"{reverse('trash')}?tab=expired"
        ),
        StatusNumber(visible.trashed().count(), "in the trash", reverse("trash")),
    ]
    if cap := settings.MEMORYHUB.max_memories:
        over = sum(max(count - cap, 0) for count in quotas.values())
        found.append(StatusNumber(over, f"over the cap of {cap} for a project and owner", "", over > 0))
    if days := settings.MEMORYHUB.event_retention_days:
        old = Event.objects.visible_to(clearance).filter(at__lt=now - timedelta(days=days))
        found.append(StatusNumber(old.count(), f"events older than {days} days"))
    return found


@dataclass(frozen=True)
class Schedule:
    """Scheduled maintenance; ``next_at`` is None without a schedule."""

    next_at: datetime | None
    operations: list[str]
    worker: str
    is_worked_on: bool
    waiting: int


def schedule_status(clearance: Clearance, now: datetime) -> Schedule:
    """Return the next run, its operations, and the state of the worker."""
    worker, is_working = _worker_status()
    pending = runs.visible_runs(clearance).filter(status__in=runs.PENDING).values_list("status", "created_at")
    statuses = {status for status, _ in pending}
    is_idle = MaintenanceRun.Status.RUNNING not in statuses
    waiting = sum(is_idle and created_at < now - MAX_WAIT for _, created_at in pending)
    labels = [OPERATIONS[name].label for name in daily.daily_operations()]
    return Schedule(daily.next_due_time(now), labels, worker, is_working, waiting)


def _worker_status() -> tuple[str, bool]:
    """Describe the worker of this server, and whether it is running."""
    if any(isinstance(one, Worker) and one.is_alive() for one in threading.enumerate()):
        return "At work in this server", True
    if settings.MEMORYHUB.maintenance_worker:
        return "None in this server", False
    return "Switched off in this server", False


def last_runs_by_operation(clearance: Clearance) -> dict[str, MaintenanceRun]:
    """Return the newest run of each operation that was no dry run."""
    real = runs.visible_runs(clearance).filter(dry_run=False, undoes=None)
    newest = real.order_by().values("operation").annotate(newest=Max("pk")).values("newest")
    return {run.operation: run for run in real.filter(pk__in=newest)}


def recent_failed_runs(clearance: Clearance, now: datetime) -> list[MaintenanceRun]:
    """Return recent failed runs, newest first, without those that a later run made up for."""
    since = now - timedelta(days=FAILED_RUN_DAYS)
    recent = runs.visible_runs(clearance).filter(created_at__gte=since, dry_run=False)
    failed, succeeded = [], set()
    for run in recent.select_related("undoes"):
        kind = (run.operation, run.project, run.undoes_id is None)
        if run.status == MaintenanceRun.Status.FAILED and run.cause != MaintenanceRun.Cause.STOPPED:
            if kind not in succeeded:
                failed.append(run)
        elif run.status == MaintenanceRun.Status.DONE:
            succeeded.add(kind)
    return failed
