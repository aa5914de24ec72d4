"""The daily maintenance: when it is due, and queueing it once a day, whichever process comes first."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Max, Min
from django.utils import timezone

from memoryhub.access.policy import Actor, system_actor
from memoryhub.core.transactions import write_transaction
from memoryhub.maintenance import runs
from memoryhub.maintenance.registry import OPERATIONS
from memoryhub.models import MaintenanceRun, RunChanges

SCHEDULE_ACTOR = system_actor("schedule")
LIST_RETENTION = timedelta(days=30)
DELETE_CHUNK = 20  # lists of one step of a run, tens of kilobytes each


def daily_operations() -> list[str]:
    """What the daily maintenance does, in order; without what is unknown or switched off."""
    named = filter(None, settings.MEMORYHUB.maintenance_operations.split(","))
    without = "embed" if settings.MEMORYHUB.embeddings == "none" else ""
    return [
        name for name in named if name in OPERATIONS and name != without and not runs.is_switched_off(name)
    ]


def unknown_operations() -> list[str]:
    """Names in the configuration that no operation has."""
    named = filter(None, settings.MEMORYHUB.maintenance_operations.split(","))
    return [name for name in named if name not in OPERATIONS]


def last_due_time(now: datetime) -> datetime | None:
    """The latest moment up to ``now`` at which the daily maintenance is to run; None without a schedule."""
    if not settings.MEMORYHUB.maintenance_at:
        return None
    local = now.astimezone(ZoneInfo(settings.TIME_ZONE))
    today = _due_time_on(local.date())
    return today if today <= now else _due_time_on(local.date() - timedelta(days=1))


def next_due_time(now: datetime) -> datetime | None:
    """When it runs next; None without a schedule."""
    last = last_due_time(now)
    return _due_time_on(last.date() + timedelta(days=1)) if last else None


def last_scheduled_day() -> date | None:
    """The last day whose maintenance was queued."""
    found: date | None = MaintenanceRun.objects.filter(day__isnull=False).aggregate(last=Max("day"))["last"]
    return found


def is_due(now: datetime) -> bool:
    """Whether the last moment passed without its runs; a store younger than that waits for the next."""
    moment = last_due_time(now)
    if moment is None:
        return False
    last = last_scheduled_day()
    if last is not None and last >= moment.date():
        return False
    born = MigrationRecorder.Migration.objects.aggregate(first=Min("applied"))["first"]
    return born is not None and born < moment


def enqueue_due(now: datetime | None = None) -> list[MaintenanceRun]:
    """Queue the daily runs if they are due; nothing when another process was quicker."""
    now = now or timezone.now()
    moment = last_due_time(now)
    if moment is None or not is_due(now):
        return []
    delete_old_records(now)
    with write_transaction():
        return enqueue_daily(SCHEDULE_ACTOR, moment.date(), now) if is_due(now) else []


def enqueue_daily(actor: Actor, day: date | None, now: datetime | None = None) -> list[MaintenanceRun]:
    """Queue what the daily maintenance does, in its order; each belongs to ``day``, if one is given."""
    now = now or timezone.now()
    with write_transaction():
        return [
            runs.enqueue(name, daily_params(name), actor, now=now, day=day, may_wait=True)
            for name in daily_operations()
        ]


def delete_old_records(now: datetime) -> None:
    """Remove the lists of what old runs changed, and the records of very old ones; the journal stays.

    Undo reads the journal and the trash, not these lists.
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
    """What the schedule asks of an operation; the purge spares what can be revived still."""
    if operation == "purge_expired":
        return {"grace_days": settings.MEMORYHUB.expiry_grace_days}
    return {}


def _due_time_on(day: date) -> datetime:
    at = time.fromisoformat(settings.MEMORYHUB.maintenance_at)
    return datetime.combine(day, at, ZoneInfo(settings.TIME_ZONE))
