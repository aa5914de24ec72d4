"""The daily maintenance: when it is due, and enqueueing its runs once a day."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Max, Min, Q
from django.utils import timezone

from memoryhub.access.policy import Actor, system_actor
from memoryhub.audit import clock
from memoryhub.core.database import write_transaction
from memoryhub.maintenance import runs
from memoryhub.maintenance.operations import MEMORY_CHECKS, OPERATIONS, SEND_DIGESTS, find_operation
from memoryhub.memories.delete import delete_waiting
from memoryhub.models import Digest, MaintenanceRun, MemoryCheck, RunChanges

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
        if (name in OPERATIONS and not runs.is_switched_off(name) and (has_embeddings or name != "embed"))
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
    recent = Q(status__in=runs.PENDING) | Q(
        status=MaintenanceRun.Status.FAILED, finished_at__gt=now - PAUSE_AFTER_FAILURE
    )
    with write_transaction():
        if MaintenanceRun.objects.filter(recent, operation=SEND_DIGESTS, dry_run=False).exists():
            return []
        return [runs.enqueue(find_operation(SEND_DIGESTS) or SEND_DIGESTS, {}, SCHEDULE_ACTOR, now=now)]


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
            runs.enqueue(
                find_operation(name) or name, daily_params(name), actor, now=now, day=day, may_wait=True
            )
            for name in daily_operations()
        ]


def delete_old_records(now: datetime) -> None:
    """Delete the change lists of old runs and the records of very old runs.

    Undo does not need them, because it reads the journal and the trash.
    """
    lists = RunChanges.objects.filter(run__created_at__lt=now - LIST_RETENTION)
    days = settings.MEMORYHUB.event_retention_days
    old = MaintenanceRun.objects.filter(created_at__lt=now - timedelta(days=days)).exclude(
        status__in=runs.PENDING
    )
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
