"""How healthy the memory is, in numbers behind the gate, and when maintenance runs by itself."""

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
from memoryhub.maintenance.registry import OPERATIONS
from memoryhub.maintenance.worker import Worker
from memoryhub.memories.quotas import count_by_quota
from memoryhub.models import Event, MaintenanceRun, Memory
from memoryhub.models.querysets import MemoryQuerySet

FAILED_RUN_DAYS = 7  # how long a run that broke off is pointed out
MAX_WAIT = timedelta(minutes=2)  # a run that waits longer, with none under way, waits for a worker


@dataclass(frozen=True)
class StatusNumber:
    """One figure; ``href`` leads to what it counts, ``needs_a_look`` when something ought to be done."""

    count: int
    words: str
    href: str = ""
    needs_a_look: bool = False


def status_numbers(clearance: Clearance, now: datetime) -> list[StatusNumber]:
    """Only of what may be seen."""
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
    """What maintenance does by itself. ``next_at`` is None without a schedule."""

    next_at: datetime | None
    operations: list[str]
    worker: str
    is_worked_on: bool
    waiting: int


def schedule_status(clearance: Clearance, now: datetime) -> Schedule:
    """When, what, and whether there is somebody to do it."""
    words, lives = _worker_status()
    pending = runs.visible_runs(clearance).filter(status__in=runs.PENDING).values_list("status", "created_at")
    statuses = {status for status, _ in pending}
    stuck = MaintenanceRun.Status.RUNNING not in statuses
    waiting = sum(stuck and asked < now - MAX_WAIT for _, asked in pending)
    labels = [OPERATIONS[name].label for name in daily.daily_operations()]
    return Schedule(daily.next_due_time(now), labels, words, lives, waiting)


def _worker_status() -> tuple[str, bool]:
    """Who works on runs, in words, and whether that is so."""
    if any(isinstance(one, Worker) and one.is_alive() for one in threading.enumerate()):
        return "At work in this server", True
    if settings.MEMORYHUB.maintenance_worker:
        return "None in this server", False
    return "Switched off in this server", False


def last_runs_by_operation(clearance: Clearance) -> dict[str, MaintenanceRun]:
    """The newest real run of each operation."""
    real = runs.visible_runs(clearance).filter(dry_run=False, undoes=None)
    newest = real.order_by().values("operation").annotate(newest=Max("pk")).values("newest")
    return {run.operation: run for run in real.filter(pk__in=newest)}


def recent_failed_runs(clearance: Clearance, now: datetime) -> list[MaintenanceRun]:
    """Lately broken off and not gone on with, newest first; none that a later run has made good."""
    since = now - timedelta(days=FAILED_RUN_DAYS)
    lately = (
        runs.visible_runs(clearance).filter(created_at__gte=since, dry_run=False).select_related("undoes")
    )
    found, later = [], set()
    for run in lately:
        same = (run.operation, run.project, run.undoes_id is None)
        if run.status == MaintenanceRun.Status.FAILED and run.cause != MaintenanceRun.Cause.STOPPED:
            if same not in later:
                found.append(run)
        elif run.status == MaintenanceRun.Status.DONE:
            later.add(same)
    return found
