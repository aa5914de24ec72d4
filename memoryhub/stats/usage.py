"""Numbers on the statistics page, and the health issues of memories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import Case, Count, Exists, IntegerField, OuterRef, Q, QuerySet, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.core.dates import start_of_day
from memoryhub.memories.secret_check import SECRET_BLOCKED
from memoryhub.models import Event, FileLink, Injection, JournalEntry
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
EXPIRING_DAYS = 28
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


def count_expiring(live: MemoryQuerySet, now: datetime) -> DailyCounts:
    """Count the live memories that expire on each future day."""
    rows = live.filter(expires_at__lt=now + timedelta(days=EXPIRING_DAYS))
    return calendar.count_by_day(rows, "expires_at", "type")


def count_captured(clearance: Clearance, since: datetime) -> tuple[int, Counter[str]]:
    """Return the number of events that became a stored memory, and the skip reasons of the others."""
    events: QuerySet[Event] = Event.objects.visible_to(clearance).filter(at__gte=since).order_by()
    rows = events.values_list("skip_reason").annotate(
        kept=Count("pk", filter=Q(memory__isnull=False)), lost=Count("pk", filter=Q(memory__isnull=True))
    )
    kept, skipped = 0, Counter[str]()
    for reason, became, lost in rows:
        kept += became
        if reason and lost:
            skipped[reason] += lost
    return kept, skipped


def count_injections(clearance: Clearance, since: datetime) -> DailyCounts:
    """Count the injections of each day: "filled", or "empty" without memories."""
    rows = Injection.objects.visible_to(clearance).filter(at__gte=since)
    empty = Case(When(injected=[], then=Value("empty")), default=Value("filled"), output_field=TextField())
    return calendar.count_by_day(rows.annotate(outcome=empty), "at", "outcome")


def count_blocked_secrets(clearance: Clearance, since: datetime) -> DailyCounts:
    """Count the refused secrets of each day, by kind."""
    rows = JournalEntry.objects.visible_to(clearance).filter(operation=SECRET_BLOCKED, at__gte=since)
    return calendar.count_by_day(rows.annotate(kind=KeyTextTransform("kind", "detail")), "at", "kind")


def count_actions(clearance: Clearance, since: datetime) -> dict[str, Counter[str]]:
    """Count the operations of each actor in the newest journal rows."""
    last = JournalEntry.objects.order_by("-seq").values_list("seq", flat=True).first() or 0
    newest = JournalEntry.objects.filter(seq__gt=last - MAX_JOURNAL_ROWS, at__gte=since)
    rows = newest.visible_to(clearance).order_by().values_list("actor", "operation")
    found: dict[str, Counter[str]] = {}
    for actor, operation, count in rows.annotate(n=Count("pk")):
        found.setdefault(actor, Counter())[operation] += count
    return found


def _step_number(conditions: Sequence[Q]) -> Case:
    """Return the number of the first condition that is true, or the number of conditions."""
    steps = [When(condition, then=Value(number)) for number, condition in enumerate(conditions)]
    return Case(*steps, default=Value(len(steps)), output_field=IntegerField())
