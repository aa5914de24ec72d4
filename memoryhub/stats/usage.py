"""Counts per calendar day in the reader's time zone, the statistics page, and the health of memories."""

from __future__ import annotations

from calendar import monthrange
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

from django.db.models import (
    Case,
    Count,
    Exists,
    Expression,
    F,
    IntegerField,
    Max,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
    Value,
    When,
    Window,
)
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, RowNumber, Substr
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.core.dates import next_month, start_of_day
from memoryhub.core.vocabulary import MemoryType
from memoryhub.memories.secret_check import SECRET_BLOCKED
from memoryhub.models import Event, FileLink, Injection, JournalEntry, Memory
from memoryhub.models.querysets import MemoryQuerySet, live_memories

MAX_NAMED_MEMORIES = 6  # named memories per day
# Most interesting types of a day; other types come between these and LAST_TYPES.
FIRST_TYPES = (
    MemoryType.DECISION,
    MemoryType.BUGFIX,
    MemoryType.DISCOVERY,
    MemoryType.FEATURE,
    MemoryType.SESSION_SUMMARY,
    MemoryType.REFACTOR,
)
LAST_TYPES = (MemoryType.CHECKPOINT,)

DailyCounts = list[tuple[date, str, int]]
_DAY_CHARS, _HOUR_CHARS, _MINUTE_CHARS = 10, 13, 16  # prefixes of 2026-05-04 13:30
_FIRST_YEAR = 2000  # the first year whose time zone offsets are considered


@dataclass
class CalendarDay:
    """One day of the current time zone. ``sessions``: (session_id, project) of its memories and events.

    ``named_sessions``: the first of them with their titles.
    """

    date: date
    types: dict[str, int] = field(default_factory=dict)
    events: int = 0
    sessions: list[tuple[str, str]] = field(default_factory=list)
    named_sessions: list[tuple[str, str, str]] = field(default_factory=list)
    named: list[Memory] = field(default_factory=list)

    @property
    def memories(self) -> int:
        return sum(self.types.values())

    @property
    def is_quiet(self) -> bool:
        return not (self.types or self.events)


def load_month(clearance: Clearance, project: str, first: date) -> list[CalendarDay]:
    """Return every day of the month of ``first``, newest first; of all projects without a name."""
    days = [CalendarDay(first + timedelta(days=n)) for n in range(monthrange(first.year, first.month)[1])]
    bounds = [start_of_day(day.date) for day in days] + [start_of_day(days[-1].date + timedelta(days=1))]
    memories, events = _visible_rows(clearance, project)
    memories = memories.filter(created_at__gte=bounds[0], created_at__lt=bounds[-1])
    memories = memories.annotate(day=_day_number("created_at", bounds))
    events = events.filter(at__gte=bounds[0], at__lt=bounds[-1]).annotate(day=_day_number("at", bounds))
    _add_counts(days, memories, events)
    for memory in _most_important(memories):
        days[memory.day].named.append(memory)
    return days[::-1]


def find_adjacent_months(clearance: Clearance, project: str, first: date) -> tuple[date | None, date | None]:
    """Return the nearest earlier and later month with any content, by their first days."""
    begin, end = start_of_day(first), start_of_day(next_month(first))
    memories, events = _visible_rows(clearance, project)
    found = _read_moments(
        [
            (memories.filter(created_at__lt=begin), Max("created_at")),
            (events.filter(at__lt=begin), Max("at")),
            (memories.filter(created_at__gte=end), Min("created_at")),
            (events.filter(at__gte=end), Min("at")),
        ]
    )
    return _choose_month(found[:2], max), _choose_month(found[2:], min)


def find_latest_month(clearance: Clearance, project: str) -> date:
    """Return the month of the newest memory or event, or the current month."""
    memories, events = _visible_rows(clearance, project)
    found = _choose_month(_read_moments([(memories, Max("created_at")), (events, Max("at"))]), max)
    return found or timezone.localdate().replace(day=1)


def _visible_rows(clearance: Clearance, project: str) -> tuple[QuerySet[Any], QuerySet[Any]]:
    """Return the memories and events that the viewer can see."""
    memories = live_memories(clearance).order_by()
    events = Event.objects.visible_to(clearance).order_by()
    if project:
        return memories.filter(project=project), events.filter(session__project=project)
    return memories, events


def _day_number(column: str, bounds: list[datetime]) -> Case:
    """Number of the day within the month. Compares bounds, because days have 23 to 25 hours."""
    ends = [When(**{f"{column}__lt": end}, then=Value(n)) for n, end in enumerate(bounds[1:])]
    return Case(*ends, output_field=IntegerField())


def _add_counts(days: list[CalendarDay], memories: QuerySet[Any], events: QuerySet[Any]) -> None:
    """Set the counts of each day and its sessions, those with most content first. One statement."""
    types: list[Counter[str]] = [Counter() for _ in days]
    sessions: list[Counter[tuple[str, str]]] = [Counter() for _ in days]
    of_memories = memories.values_list("day", "type", "session_id", "project").annotate(n=Count("pk"))
    of_events = events.values_list("day", Value(""), "session__session_id", "session__project")
    for number, kind, *session, count in of_memories.union(of_events.annotate(n=Count("pk")), all=True):
        if kind:
            types[number][kind] += count
        else:
            days[number].events += count
        if session[0]:
            sessions[number][session[0], session[1]] += count
    for day, by_type, by_session in zip(days, types, sessions, strict=True):
        day.types = dict(sorted(by_type.items(), key=lambda item: (-item[1], item[0])))
        day.sessions = sorted(by_session, key=lambda one: (-by_session[one], one))


def _most_important(memories: QuerySet[Any]) -> Iterable[Any]:
    """Return the most important memories of each day, with their ``day``."""
    cases = [When(type=kind, then=Value(position)) for position, kind in enumerate(FIRST_TYPES)]
    last = When(type__in=LAST_TYPES, then=Value(len(FIRST_TYPES) + 1))
    worth = Case(*cases, last, default=Value(len(FIRST_TYPES)), output_field=IntegerField())
    ranked = memories.annotate(
        position=Window(
            RowNumber(),
            partition_by=F("day"),
            order_by=[worth.asc(), F("importance").desc(), F("created_at").desc(), F("pk").desc()],
        )
    )
    named: Iterable[Any] = ranked.filter(position__lte=MAX_NAMED_MEMORIES).defer("content", "overview")
    return sorted(named, key=lambda memory: (memory.day, memory.position))


def _read_moments(sources: Iterable[tuple[QuerySet[Any], Max | Min]]) -> list[datetime | None]:
    """Return the first or last moment of each queryset, in one statement. Each is one step in an index."""
    first, *others = (
        rows.values_list(Value(number)).annotate(moment=moment)
        for number, (rows, moment) in enumerate(sources)
    )
    return [moment for _, moment in sorted(first.union(*others, all=True))]


def _choose_month(times: Iterable[datetime | None], choose: Any) -> date | None:
    known = [at for at in times if at]
    return timezone.localtime(choose(known)).date().replace(day=1) if known else None


def count_each_by_day(**sources: tuple[QuerySet[Any], str, Expression | F]) -> dict[str, DailyCounts]:
    """Return ``(day, kind, count)`` of each source (rows, time column, kind), all in one statement.

    The oldest day is first. A missing kind is empty.
    """
    first, *others = (
        _count_pieces(rows, [Value(name)], column, kind) for name, (rows, column, kind) in sources.items()
    )
    found: dict[str, Counter[tuple[date, str]]] = {name: Counter() for name in sources}
    for (name,), day, kind, count in _to_days(first.union(*others, all=True) if others else first):
        found[name][day, kind] += count
    return {
        name: sorted((day, kind, count) for (day, kind), count in counted.items())
        for name, counted in found.items()
    }


def count_created_by_day(
    memories: QuerySet[Any], parts: Sequence[Any]
) -> Iterator[tuple[list[Any], date, str, int]]:
    """Yield ``(parts, day of creation, type, count)`` for the values of columns or expressions.

    Unordered. A day can occur several times, because it contains parts of two UTC days.
    """
    return _to_days(_count_pieces(memories, parts, "created_at", F("type")))


def _count_pieces(
    rows: QuerySet[Any], parts: Sequence[Any], column: str, kind: Expression | F
) -> QuerySet[Any, Any]:
    """Count by parts, by a prefix of the stored time, which is in UTC, and by kind.

    Django's Trunc functions would call Python for every row of an SQLite table.
    """
    piece = Substr(Cast(column, TextField()), 1, _timestamp_chars(timezone.get_current_timezone()))
    pieces: QuerySet[Any, Any] = rows.order_by().values_list(*parts, piece, kind).annotate(n=Count("pk"))
    return pieces


def _to_days(pieces: Iterable[tuple[Any, ...]]) -> Iterator[tuple[list[Any], date, str, int]]:
    """Convert the prefixes to days of the current time zone."""
    zone = timezone.get_current_timezone()
    days: dict[str, date] = {}
    for *values, text, name, count in pieces:
        if (day := days.get(text)) is None:
            at = datetime.fromisoformat(text).replace(tzinfo=UTC)
            day = days[text] = at.date() if len(text) == _DAY_CHARS else at.astimezone(zone).date()
        yield values, day, name or "", count


def _timestamp_chars(zone: tzinfo) -> int:
    """Return the length of the UTC prefix that determines the day, for all offsets of the zone."""
    years = range(_FIRST_YEAR, timezone.now().year + 1)
    offsets = {zone.utcoffset(datetime(year, month, 1)) for year in years for month in (1, 7)}
    seconds = {offset.total_seconds() if offset else 0.0 for offset in offsets}
    if seconds == {0.0}:
        return _DAY_CHARS
    return _MINUTE_CHARS if any(one % 3600 for one in seconds) else _HOUR_CHARS


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
    found = count_each_by_day(
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
