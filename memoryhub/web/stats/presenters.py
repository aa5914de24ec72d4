"""What the page "at a glance" draws: numbers with their words, shares and links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Any

from django import forms
from django.urls import reverse
from django.utils.http import urlencode

from memoryhub.memories.secret_check import SECRET_BLOCKED
from memoryhub.stats import usage
from memoryhub.stats.calendar import DailyCounts
from memoryhub.stats.usage import MemoryUsage
from memoryhub.web.base import charts
from memoryhub.web.base.filters import ListFilter, ProjectField

PERIODS = (7, 30, 90, 365)  # days
DEFAULT_PERIOD = 30
MAX_ROWS, MAX_ROWS_IN_FULL = (
    8,
    500,
)  # rows of a chart with one for each name: at first, and if all are asked for
FULL_CHARTS = ("project", "category", "use", "capture", "activity", "secret-kinds", "facts")
_AGE_LABELS = ("a week", "a month", "3 months", "6 months", "a year", "older")
_SHADES = 5  # of a cell with something in it: classes heat-1 to heat-5
_CHANGE_OPERATIONS = {
    "added": {"insert", "evidence", "restore", "reinstate", "issue"},
    "changed": {"update", "dedup_refresh", "consolidate", "compressed", "merged", "supersede"},
    "removed": {"delete", "expire", "evict", "purge", "erase", "revoke"},
}
OTHER = "other"

Days = tuple[date, date]  # the first and the last


class StatsFilter(ListFilter):
    """Of which project, over which time what happens day by day is counted, which chart is shown in full."""

    project = ProjectField()
    days = forms.ChoiceField(
        required=False,
        label="What happened within",
        choices=[(str(n), f"{n} days") for n in PERIODS],
        error_messages={"invalid_choice": "There is no such choice; pick one of the list."},
    )
    all = forms.ChoiceField(
        required=False,
        choices=[(name, name) for name in FULL_CHARTS],
        error_messages={
            "invalid_choice": f"all: there is no such chart; those with more rows: {', '.join(FULL_CHARTS)}."
        },
    )

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__(
            {"days": str(DEFAULT_PERIOD)} | {name: value for name, value in data.items() if value}
        )

    def project_asked(self) -> str:
        """Empty for all of them, and where a wrong one was asked for."""
        asked: str = self.cleaned_data.get("project") or ""
        return asked

    def period(self) -> int:
        """In days; the default where a wrong one was asked for."""
        return int(self.cleaned_data.get("days") or DEFAULT_PERIOD)

    def most(self, chart: str) -> int:
        """How many rows of a chart are asked for."""
        return MAX_ROWS_IN_FULL if self.cleaned_data.get("all") == chart else MAX_ROWS


@dataclass(frozen=True)
class BarPart:
    """A piece of a bar: ``x`` and ``width`` in percent of the longest bar."""

    kind: str
    words: str
    count: int
    x: float
    width: float
    href: str = ""


@dataclass(frozen=True)
class BarRow:
    """A row of a chart that is a table: a name, a number for each series, and the bar of them."""

    label: str
    total: int
    parts: list[BarPart]
    href: str = ""


@dataclass(frozen=True)
class BarChart:
    """``series``: (kind, words) of each piece, in order; ``hidden``: rows that are left out."""

    series: list[tuple[str, str]]
    rows: list[BarRow]
    hidden: int = 0


@dataclass(frozen=True)
class DayChart:
    """A chart of days with the words around it.

    ``href`` is the list that a column leads to, ``by`` the filter of it that a series is, ``day`` the one
    that a day is where it is not from ``since`` to ``until``.
    """

    name: str
    title: str
    what: str
    chart: charts.Chart | None
    words: Mapping[str, str]
    href: str = ""
    by: str = ""
    day: str = ""

    @property
    def legend(self) -> list[tuple[str, str, int]]:
        """Of each series its class, words and count."""
        if self.chart is None:
            return []
        return [(kind, self.words.get(kind, kind), count) for kind, count in self.chart.types]

    @property
    def rows(self) -> list[tuple[charts.Bar, str, list[tuple[int, str]]]]:
        """Each step with something in it, its list, and of each series the number and the list."""
        found = []
        for bar in self.chart.bars if self.chart else []:
            days = (
                {self.day: str(bar.first)} if self.day else {"since": str(bar.first), "until": str(bar.last)}
            )
            href = f"{self.href}{urlencode(days)}" if self.href else ""
            cells = [
                (count, f"{href}&{urlencode({self.by: kind})}" if self.by and href else "")
                for count, (kind, _) in zip(bar.counts, self.chart.types if self.chart else [], strict=True)
            ]
            found += [(bar, href, cells)] if bar.total else []
        return found

    def total(self) -> int:
        return self.chart.total if self.chart else 0


@dataclass(frozen=True)
class HealthIssue:
    """A line of the health report: how many, of how many, and where it is mended."""

    title: str
    means: str
    count: int
    percent: float
    href: str


def health_issues(found: MemoryUsage, contradictions: int, project: str = "") -> list[HealthIssue]:
    """What is known without comparing memories with each other; of one project or of all."""
    said = {
        usage.STALE: ("Stale", f"neither read nor changed for {usage.STALE_DAYS} days"),
        usage.UNUSED: ("Never used", f"not read once in {usage.UNUSED_DAYS} days or more"),
        usage.NO_FILES: ("Without files", "linked to no file"),
        usage.NO_PROJECT: ("Without a project", "found in no project's list"),
    }
    lines = [
        HealthIssue(
            title,
            means,
            found.ailing[name],
            _percent(found.ailing[name], found.total),
            page_url("memories", mend=name, project=project),
        )
        for name, (title, means) in said.items()
        if not (project and name == usage.NO_PROJECT)
    ]
    clash = "other things are said of one subject, and only one can be true"
    mended = page_url("fact-conflicts", project=project)
    return [HealthIssue("Contradicting facts", clash, contradictions, 0, mended), *lines]


def page_url(page: str, **query: object) -> str:
    """Of a page with these parameters, those left out that are empty."""
    asked = urlencode({name: str(value) for name, value in query.items() if value})
    return f"{reverse(page)}?{asked}" if asked else reverse(page)


def _percent(count: int, total: int) -> float:
    return round(100 * count / total, 1) if total else 0


def importance_by_age(found: MemoryUsage, today: date, project: str = "") -> dict[str, Any]:
    """Importance against age, as rows of cells (count, shade, list), the most important first."""
    most = max(found.worth.values(), default=0)
    days = usage.age_steps(today)
    rows = []
    for step, label in reversed(list(enumerate(usage.IMPORTANCE_STEPS))):
        counts = [found.worth[step, age] for age in range(len(_AGE_LABELS))]
        lists = [
            page_url("memories", worth=label, since=first, until=last, project=project)
            for first, last in days
        ]
        cells = [(count, _shade(count, most), href) for count, href in zip(counts, lists, strict=True)]
        rows.append({"label": label, "cells": cells})
    return {"ages": _AGE_LABELS, "rows": rows}


def _shade(count: int, most: int) -> int:
    """0 for nothing, else 1 to 5 by the root of its share, so that small numbers show beside large ones."""
    return 0 if not count else max(1, round(_SHADES * (count / most) ** 0.5))


def reads_by_type(found: MemoryUsage, project: str = "", most: int = MAX_ROWS) -> BarChart:
    """How much of each type is read."""
    series = [("often", "5 times or more"), ("some", "1 to 4 times"), ("never", "never")]
    counted = {kind: dict(zip(usage.USE_STEPS, n, strict=True)) for kind, n in found.use.items()}
    named = {kind: kind.replace("_", " ") for kind in counted}

    def listed(kind: str, reads: str) -> str:
        return page_url("memories", type=kind, reads=reads, project=project)

    return _bar_chart(series, counted, named, listed, most)


def capture_chart(kept: int, skipped: Counter[str], most: int = MAX_ROWS) -> BarChart:
    """What became of what agents did: kept, and skipped by reason."""
    counted = {"": {"kept": kept}} | {reason: {"skipped": count} for reason, count in skipped.items()}
    series = [("kept", "kept"), ("skipped", "skipped")]
    return _bar_chart(series, counted, {"": "kept as a memory"}, most=most)


def facts_chart(counted: Mapping[str, int], project: str, most: int = MAX_ROWS) -> BarChart:
    """The facts of a project by what they say."""

    def listed(predicate: str, kind: str) -> str:
        return page_url("facts", predicate=predicate, project=project)

    return _bar_chart(
        [("facts", "facts")], {name: {"facts": n} for name, n in counted.items()}, {}, listed, most
    )


def activity_chart(
    found: Mapping[str, Counter[str]], since: date, project: str = "", most: int = MAX_ROWS
) -> BarChart:
    """Who did how much, by what it did to the store."""
    series = [*((kind, kind) for kind in _CHANGE_OPERATIONS), (OTHER, OTHER)]
    counted: dict[str, dict[str, int]] = {}
    for actor, operations in found.items():
        of = counted.setdefault(actor, {})
        for operation, count in operations.items():
            kind = next((kind for kind, named in _CHANGE_OPERATIONS.items() if operation in named), OTHER)
            of[kind] = of.get(kind, 0) + count

    def rows(actor: str, kind: str) -> str:
        return "" if kind else page_url("journal", actor=actor, since=since, project=project)

    return _bar_chart(series, counted, {}, rows, most)


def storage_chart(numbers: Mapping[str, Any], vector_bytes: int) -> BarChart:
    """What the database file is filled with."""
    words, free = numbers["index_bytes"], numbers["free_bytes"]
    rest = max(numbers["database_bytes"] - words - free - vector_bytes, 0)
    counted = {
        "memories, journal, events": {"bytes": rest},
        "index of words": {"bytes": words},
        "vectors": {"bytes": vector_bytes},
        "free": {"bytes": free},
    }
    return _bar_chart([("bytes", "size")], counted, {})


def _bar_chart(
    series: list[tuple[str, str]],
    counted: Mapping[str, Mapping[str, int]],
    named: Mapping[str, str],
    lists: Callable[[str, str], str] = lambda name, kind: "",
    most: int = MAX_ROWS,
) -> BarChart:
    """The longest bar first; ``lists`` gives the address of a name and a kind, or of all its kinds.

    ``most``: rows; the others are counted as hidden.
    """
    order = sorted(counted, key=lambda name: (-sum(counted[name].values()), name))
    longest = max((sum(counts.values()) for counts in counted.values()), default=0)
    rows = [
        BarRow(
            named.get(name, name),
            sum(counted[name].values()),
            _bar_parts(series, counted[name], longest, partial(lists, name)),
            lists(name, ""),
        )
        for name in order[:most]
    ]
    return BarChart(series, rows, max(len(order) - most, 0))


def _bar_parts(
    series: Sequence[tuple[str, str]], counts: Mapping[str, int], longest: int, lists: Callable[[str], str]
) -> list[BarPart]:
    parts, x = [], 0.0
    for kind, words in series:
        count = counts.get(kind, 0)
        width = 100 * count / longest if longest else 0
        parts.append(BarPart(kind, words, count, round(x, 2), round(width, 2), lists(kind)))
        x += width
    return parts


def injections_chart(rows: DailyCounts, days: Days, project: str = "") -> DayChart:
    words = {"filled": "with memories", "empty": "empty"}
    chart = charts.over_time(rows, days)
    href = _extendable_url(page_url("injections", project=project))
    return DayChart("injections", "Injections", "Injections", chart, words, href, by="outcome")


def _extendable_url(href: str) -> str:
    """An address to which parameters are added."""
    return f"{href}&" if "?" in href else f"{href}?"


def secrets_chart(rows: DailyCounts, days: Days, project: str = "") -> DayChart:
    """One series: which kinds there were stands in a table beside it."""
    counted: Counter[date] = Counter()
    for day, _, count in rows:
        counted[day] += count
    chart = charts.over_time([(day, "blocked", n) for day, n in sorted(counted.items())], days)
    href = _extendable_url(page_url("journal", operation=SECRET_BLOCKED, project=project))
    return DayChart("secrets", "Secrets blocked", "Credentials refused", chart, {"blocked": "blocked"}, href)


def secret_kinds_chart(rows: DailyCounts, most: int = MAX_ROWS) -> BarChart:
    kinds: Counter[str] = Counter()
    for _, kind, count in rows:
        kinds[kind] += count
    counted = {kind: {"blocked": count} for kind, count in kinds.items()}
    return _bar_chart([("blocked", "blocked")], counted, {"": "of no kind"}, most=most)


def expiring_chart(rows: DailyCounts, today: date, project: str = "") -> DayChart:
    words = {kind: kind.replace("_", " ") for _, kind, _ in rows}
    title = f"Expiring within {usage.EXPIRING_DAYS} days"
    days = (today, today + timedelta(days=usage.EXPIRING_DAYS))
    href = _extendable_url(page_url("memories", project=project))
    chart = charts.over_time(rows, days)
    return DayChart("expiring", title, "Memories that expire", chart, words, href, by="type", day="ends")
