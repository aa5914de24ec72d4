"""The daily maintenance: when it is due, and queueing it once a day, whichever process comes first."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Max, Min
from django.utils import timezone

from memoryhub.access.policy import Actor, system
from memoryhub.core.transactions import write
from memoryhub.maintenance import runs
from memoryhub.maintenance.registry import OPERATIONS
from memoryhub.models import MaintenanceRun, RunChanges

SCHEDULE = system("schedule")
KEPT_LISTS = timedelta(days=30)
CHUNK = 20  # lists of one step of a run, tens of kilobytes each


def operations() -> list[str]:
    """What the daily maintenance does, in order; without what is unknown or switched off."""
    named = filter(None, settings.MEMORYHUB.maintenance_operations.split(","))
    without = "embed" if settings.MEMORYHUB.embeddings == "none" else ""
    return [name for name in named if name in OPERATIONS and name != without and not runs.switched_off(name)]


def unknown_operations() -> list[str]:
    """Names in the configuration that no operation has."""
    named = filter(None, settings.MEMORYHUB.maintenance_operations.split(","))
    return [name for name in named if name not in OPERATIONS]


def last_moment(now: datetime) -> datetime | None:
    """The latest moment up to ``now`` at which the daily maintenance is to run; None without a schedule."""
    if not settings.MEMORYHUB.maintenance_at:
        return None
    local = now.astimezone(ZoneInfo(settings.TIME_ZONE))
    today = _moment(local.date())
    return today if today <= now else _moment(local.date() - timedelta(days=1))


def next_moment(now: datetime) -> datetime | None:
    """When it runs next; None without a schedule."""
    last = last_moment(now)
    return _moment(last.date() + timedelta(days=1)) if last else None


def last_day() -> date | None:
    """The last day whose maintenance was queued."""
    found: date | None = MaintenanceRun.objects.filter(day__isnull=False).aggregate(last=Max("day"))["last"]
    return found


def is_due(now: datetime) -> bool:
    """Whether the last moment passed without its runs; a store younger than that waits for the next."""
    moment = last_moment(now)
    if moment is None:
        return False
    last = last_day()
    if last is not None and last >= moment.date():
        return False
    born = MigrationRecorder.Migration.objects.aggregate(first=Min("applied"))["first"]
    return born is not None and born < moment


def start_due(now: datetime | None = None) -> list[MaintenanceRun]:
    """Queue the daily runs if they are due; nothing when another process was quicker."""
    now = now or timezone.now()
    moment = last_moment(now)
    if moment is None or not is_due(now):
        return []
    forget_old(now)
    with write():
        return start_daily(SCHEDULE, moment.date(), now) if is_due(now) else []


def start_daily(actor: Actor, day: date | None, now: datetime | None = None) -> list[MaintenanceRun]:
    """Queue what the daily maintenance does, in its order; each belongs to ``day``, if one is given."""
    now = now or timezone.now()
    with write():
        return [
            runs.start(name, daily_params(name), actor, now=now, day=day, may_wait=True)
            for name in operations()
        ]


def forget_old(now: datetime) -> None:
    """Remove the lists of what old runs changed, and the records of very old ones; the journal stays.

    Undo reads the journal and the trash, not these lists.
    """
    lists = RunChanges.objects.filter(run__created_at__lt=now - KEPT_LISTS)
    days = settings.MEMORYHUB.event_retention_days
    old = MaintenanceRun.objects.filter(created_at__lt=now - timedelta(days=days)).exclude(
        status__in=runs.PENDING
    )
    for rows in (lists, old) if days else (lists,):
        while chunk := list(rows.values_list("pk", flat=True)[:CHUNK]):
            with write():
                rows.model._default_manager.filter(pk__in=chunk).delete()


def daily_params(operation: str) -> dict[str, Any]:
    """What the schedule asks of an operation; the purge spares what can be revived still."""
    if operation == "purge_expired":
        return {"grace_days": settings.MEMORYHUB.expiry_grace_days}
    return {}


def _moment(day: date) -> datetime:
    at = time.fromisoformat(settings.MEMORYHUB.maintenance_at)
    return datetime.combine(day, at, ZoneInfo(settings.TIME_ZONE))
