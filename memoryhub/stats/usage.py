"""Numbers of the statistics page, and the health issues that a memory can have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import Any

from django.db.models import Case, Count, Exists, IntegerField, OuterRef, Q, QuerySet, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.memories.secret_check import SECRET_BLOCKED
from memoryhub.models import Event, FileLink, Injection, JournalEntry
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.stats import calendar
from memoryhub.stats.calendar import DailyCounts

STALE_DAYS = 90  # neither read nor changed for so long
UNUSED_DAYS = 30  # so long a memory has had the chance to be read
STALE, UNUSED, NO_FILES, NO_PROJECT = "stale", "unused", "without-files", "without-project"
HEALTH_ISSUES = (STALE, UNUSED, NO_FILES, NO_PROJECT)


def issue_condition(ailment: str, now: datetime | None = None) -> Q:
    """The condition on memories that have one of :data:`AILMENTS`; KeyError for another word."""
    now = now or timezone.now()
    old, ripe = now - timedelta(days=STALE_DAYS), now - timedelta(days=UNUSED_DAYS)
    unread = Q(last_accessed_at__isnull=True) | Q(last_accessed_at__lt=old)
    return {
        STALE: Q(updated_at__lt=old) & unread,
        UNUSED: Q(accessed_count=0, created_at__lt=ripe),
        NO_FILES: ~Q(Exists(FileLink.objects.filter(memory=OuterRef("pk")))),
        NO_PROJECT: Q(project=""),
    }[ailment]


AGE_LIMITS = (7, 30, 90, 180, 365)  # days, today among them: all steps of age but the last, which is open
IMPORTANCE_LIMITS = (0.2, 0.4, 0.6, 0.8)  # the ends of all steps of importance but the last, which ends at 1
IMPORTANCE_STEPS = ("0–0.2", "0.2–0.4", "0.4–0.6", "0.6–0.8", "0.8–1")
READ_LIMITS = (1, 5)  # accesses: the ends of the first two of
USE_STEPS = ("never", "some", "often")
EXPIRING_DAYS = 28
MAX_JOURNAL_ROWS = 20_000  # rows, the newest, that one look at the journal counts at most


def importance_condition(name: str) -> Q:
    """The condition on memories whose importance lies in one of :data:`WORTHS`."""
    return _step_condition("importance", IMPORTANCE_LIMITS, IMPORTANCE_STEPS.index(name))


def use_condition(name: str) -> Q:
    """The condition on memories that were read as often as one of :data:`USES` says."""
    return _step_condition("accessed_count", READ_LIMITS, USE_STEPS.index(name))


def _step_condition(column: str, ends: Sequence[float], step: int) -> Q:
    least = Q(**{f"{column}__gte": ends[step - 1]}) if step else Q()
    return least & Q(**{f"{column}__lt": ends[step]}) if step < len(ends) else least


def age_steps(today: date) -> list[tuple[date | None, date]]:
    """The first and the last day of each step of age, the youngest first; the oldest has no first day."""
    firsts = [today - timedelta(days=days - 1) for days in AGE_LIMITS]
    lasts = [today, *(first - timedelta(days=1) for first in firsts)]
    return list(zip([*firsts, None], lasts, strict=True))


@dataclass
class MemoryUsage:
    """Live memories by age, importance and use; how many suffer from what.

    ``worth``: (step of importance, step of age) → count. ``use``: type → counts for each step of reads.
    """

    total: int = 0
    worth: Counter[tuple[int, int]] = field(default_factory=Counter)
    use: dict[str, list[int]] = field(default_factory=dict)
    ailing: Counter[str] = field(default_factory=Counter)


def summarize_usage(live: MemoryQuerySet, now: datetime) -> MemoryUsage:
    """One pass over gated, live memories."""
    first_days = [first for first, _ in age_steps(timezone.localdate(now)) if first]
    ages = [timezone.make_aware(datetime.combine(day, time.min)) for day in first_days]
    stepped = live.order_by().annotate(
        age=_step_number([Q(created_at__gte=edge) for edge in ages]),
        worth=_step_number([Q(importance__lt=edge) for edge in IMPORTANCE_LIMITS]),
        use=_step_number([Q(accessed_count__lt=edge) for edge in READ_LIMITS]),
    )
    counts: dict[str, Any] = {
        f"n{number}": Count("pk", filter=issue_condition(name, now))
        for number, name in enumerate(HEALTH_ISSUES)
    }
    found = MemoryUsage()
    rows = stepped.values_list("type", "age", "worth", "use").annotate(n=Count("pk"), **counts)
    for kind, age, worth, use, count, *suffering in rows:
        found.total += count
        found.worth[worth, age] += count
        found.use.setdefault(kind, [0] * (len(READ_LIMITS) + 1))[use] += count
        found.ailing.update(dict(zip(HEALTH_ISSUES, suffering, strict=True)))
    return found


def count_expiring(live: MemoryQuerySet, now: datetime) -> DailyCounts:
    """How many live memories end on each day to come."""
    rows = live.filter(expires_at__lt=now + timedelta(days=EXPIRING_DAYS))
    return calendar.count_by_day(rows, "expires_at", "type")


def count_captured(clearance: Clearance, since: datetime) -> tuple[int, Counter[str]]:
    """Of what agents did, how much became a memory that is still there, and why the rest did not."""
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
    """Injections of each day: "filled", or "empty" where the agent got nothing."""
    rows = Injection.objects.visible_to(clearance).filter(at__gte=since)
    empty = Case(When(injected=[], then=Value("empty")), default=Value("filled"), output_field=TextField())
    return calendar.count_by_day(rows.annotate(outcome=empty), "at", "outcome")


def count_blocked_secrets(clearance: Clearance, since: datetime) -> DailyCounts:
    """Credentials that were refused on each day, by their kind."""
    rows = JournalEntry.objects.visible_to(clearance).filter(operation=SECRET_BLOCKED, at__gte=since)
    return calendar.count_by_day(rows.annotate(kind=KeyTextTransform("kind", "detail")), "at", "kind")


def count_actions(clearance: Clearance, since: datetime) -> dict[str, Counter[str]]:
    """For each actor how often they did what, as far as the newest rows of the journal tell."""
    last = JournalEntry.objects.order_by("-seq").values_list("seq", flat=True).first() or 0
    newest = JournalEntry.objects.filter(seq__gt=last - MAX_JOURNAL_ROWS, at__gte=since)
    rows = newest.visible_to(clearance).order_by().values_list("actor", "operation")
    found: dict[str, Counter[str]] = {}
    for actor, operation, count in rows.annotate(n=Count("pk")):
        found.setdefault(actor, Counter())[operation] += count
    return found


def _step_number(conditions: Sequence[Q]) -> Case:
    """The number of the first condition that holds; behind the last one when none does."""
    steps = [When(condition, then=Value(number)) for number, condition in enumerate(conditions)]
    return Case(*steps, default=Value(len(steps)), output_field=IntegerField())
