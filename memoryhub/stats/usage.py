"""Numbers on the statistics page, and the health issues of memories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import (
    Case,
    Count,
    Exists,
    F,
    IntegerField,
    OuterRef,
    Q,
    Subquery,
    TextField,
    Value,
    When,
)
from django.db.models.fields.json import KeyTextTransform
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.core.dates import start_of_day
from memoryhub.memories.schemas import SECRET_BLOCKED
from memoryhub.models import Event, FileLink, Injection, JournalEntry, Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.stats import calendar
from memoryhub.stats.calendar import DailyCounts

STALE_DAYS = 90  # without an access or a change
UNUSED_DAYS = 30  # since creation, without an access
STALE, UNUSED, NO_FILES, NO_PROJECT = "stale", "unused", "without-files", "without-project"
HEALTH_ISSUES = (STALE, UNUSED, NO_FILES, NO_PROJECT)


def issue_condition(issue: str, now: datetime | None = None) -> Q:
    """Return the condition on memories with one of :data:`HEALTH_ISSUES`; KeyError for other names."""
    now = now or timezone.now()
    old, ripe = now - timedelta(days=STALE_DAYS), now - timedelta(days=UNUSED_DAYS)
    unread = Q(last_accessed_at__isnull=True) | Q(last_accessed_at__lt=old)
    return {
        STALE: Q(updated_at__lt=old) & unread,
        UNUSED: Q(accessed_count=0, created_at__lt=ripe),
        NO_FILES: ~Q(Exists(FileLink.objects.filter(memory=OuterRef("pk")))),
        NO_PROJECT: Q(project=""),
    }[issue]


AGE_LIMITS = (7, 30, 90, 180, 365)  # days including today; ends of all steps but the last
IMPORTANCE_LIMITS = (0.2, 0.4, 0.6, 0.8)  # ends of all steps but the last
IMPORTANCE_STEPS = ("0–0.2", "0.2–0.4", "0.4–0.6", "0.6–0.8", "0.8–1")
READ_LIMITS = (1, 5)  # accesses; ends of all steps but the last
USE_STEPS = ("never", "some", "often")
EXPIRY_CHART_DAYS = 28
MAX_JOURNAL_ROWS = 20_000  # newest rows that are counted


def importance_condition(name: str) -> Q:
    """Return the condition on memories in one of :data:`IMPORTANCE_STEPS`."""
    return _step_condition("importance", IMPORTANCE_LIMITS, IMPORTANCE_STEPS.index(name))


def use_condition(name: str) -> Q:
    """Return the condition on memories in one of :data:`USE_STEPS`."""
    return _step_condition("accessed_count", READ_LIMITS, USE_STEPS.index(name))


def _step_condition(column: str, ends: Sequence[float], step: int) -> Q:
    least = Q(**{f"{column}__gte": ends[step - 1]}) if step else Q()
    return least & Q(**{f"{column}__lt": ends[step]}) if step < len(ends) else least


def age_steps(today: date) -> list[tuple[date | None, date]]:
    """Return the first and last day of each age step, youngest first; the oldest has no first day."""
    firsts = [today - timedelta(days=days - 1) for days in AGE_LIMITS]
    lasts = [today, *(first - timedelta(days=1) for first in firsts)]
    return list(zip([*firsts, None], lasts, strict=True))


@dataclass
class MemoryUsage:
    """Number of live memories by age, importance, use and health issue.

    ``worth``: (importance step, age step) → count. ``use``: type → count of each use step.
    """

    total: int = 0
    worth: Counter[tuple[int, int]] = field(default_factory=Counter)
    use: dict[str, list[int]] = field(default_factory=dict)
    issues: Counter[str] = field(default_factory=Counter)


def summarize_usage(live: MemoryQuerySet, now: datetime) -> MemoryUsage:
    """Count live memories that the viewer can see, in one query."""
    first_days = [first for first, _ in age_steps(timezone.localdate(now)) if first]
    stepped = live.order_by().annotate(
        age=_step_number([Q(created_at__gte=start_of_day(day)) for day in first_days]),
        worth=_step_number([Q(importance__lt=limit) for limit in IMPORTANCE_LIMITS]),
        use=_step_number([Q(accessed_count__lt=limit) for limit in READ_LIMITS]),
    )
    counts: dict[str, Any] = {
        f"n{number}": Count("pk", filter=issue_condition(name, now))
        for number, name in enumerate(HEALTH_ISSUES)
    }
    found = MemoryUsage()
    rows = stepped.values_list("type", "age", "worth", "use").annotate(n=Count("pk"), **counts)
    for kind, age, worth, use, count, *issues in rows:
        found.total += count
        found.worth[worth, age] += count
        found.use.setdefault(kind, [0] * (len(READ_LIMITS) + 1))[use] += count
        found.issues.update(dict(zip(HEALTH_ISSUES, issues, strict=True)))
    return found


@dataclass
class Activity:
    """Counts of events since a moment, and of memories that expire within :data:`EXPIRY_CHART_DAYS`.

    ``captured``: events that became a stored memory; ``skipped``: the reasons of the others. ``injections``:
    "filled", or "empty" without memories. ``blocked_secrets``: refused secrets by kind. ``actions``: the
    operations of each actor in the newest journal rows.
    """

    captured: int
    skipped: Counter[str]
    injections: DailyCounts
    blocked_secrets: DailyCounts
    expiring: DailyCounts
    actions: dict[str, Counter[str]]


def count_activity(clearance: Clearance, since: datetime) -> Activity:
    """Count the rows that the viewer can see, in two statements."""
    now = timezone.now()
    events = Event.objects.visible_to(clearance).filter(at__gte=since)
    injections = Injection.objects.visible_to(clearance).filter(at__gte=since)
    secrets = JournalEntry.objects.visible_to(clearance).filter(operation=SECRET_BLOCKED, at__gte=since)
    live = Memory.objects.visible_to(clearance).live(now)
    expiring = live.filter(expires_at__lt=now + timedelta(days=EXPIRY_CHART_DAYS))
    is_empty = Case(When(injected=[], then=Value("empty")), default=Value("filled"), output_field=TextField())
    found = calendar.count_each_by_day(
        captured=(events.filter(memory__isnull=False), "at", Value("")),
        skipped=(events.filter(memory__isnull=True).exclude(skip_reason=""), "at", F("skip_reason")),
        injections=(injections, "at", is_empty),
        secrets=(secrets, "at", KeyTextTransform("kind", "detail")),
        expiring=(expiring, "expires_at", F("type")),
    )
    skipped: Counter[str] = Counter()
    for _, reason, count in found["skipped"]:
        skipped[reason] += count
    return Activity(
        captured=sum(count for _, _, count in found["captured"]),
        skipped=skipped,
        injections=found["injections"],
        blocked_secrets=found["secrets"],
        expiring=found["expiring"],
        actions=_count_actions(clearance, since),
    )


def _count_actions(clearance: Clearance, since: datetime) -> dict[str, Counter[str]]:
    newest = JournalEntry.objects.order_by("-seq").values("seq")[:1]
    rows = JournalEntry.objects.filter(seq__gt=Subquery(newest) - MAX_JOURNAL_ROWS, at__gte=since)
    actions = rows.visible_to(clearance).order_by().values_list("actor", "operation")
    found: dict[str, Counter[str]] = {}
    for actor, operation, count in actions.annotate(n=Count("pk")):
        found.setdefault(actor, Counter())[operation] += count
    return found


def _step_number(conditions: Sequence[Q]) -> Case:
    """Return the number of the first condition that is true, or the number of conditions."""
    steps = [When(condition, then=Value(number)) for number, condition in enumerate(conditions)]
    return Case(*steps, default=Value(len(steps)), output_field=IntegerField())
