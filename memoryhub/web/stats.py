"""The statistics page: counts, activity, and issues to fix, as charts with labels, percentages and links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from django import forms
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import full_clearance, request_clearance
from memoryhub.accounts.tokens import actor_label
from memoryhub.capture.segments import BOUNDARY_FACTS
from memoryhub.core.dates import start_of_day
from memoryhub.facts.queries import query_facts
from memoryhub.memories.secret_check import SECRET_BLOCKED
from memoryhub.models import Memory
from memoryhub.stats import usage
from memoryhub.stats.counts import database_sizes, facets_and_days
from memoryhub.stats.usage import DailyCounts, MemoryUsage
from memoryhub.web.base import charts
from memoryhub.web.base.charts import MAX_ROWS, BarChart, DayChart, bar_chart, breakdown
from memoryhub.web.base.forms import ListFilter, ProjectFilterField
from memoryhub.web.base.labels import SKIP_REASON_LABELS
from memoryhub.web.base.navigation import count_contradictions
from memoryhub.web.base.requests import cached_until_change, narrow_to_project, page_url
from memoryhub.web.duplicates.presenters import Comparison

PERIODS = (7, 30, 90, 365)  # days
DEFAULT_PERIOD = 30
MAX_ROWS_IN_FULL = 500  # of a bar chart
FULL_CHARTS = ("project", "category", "use", "capture", "activity", "secret-kinds", "facts")
# Short and spoken labels: the columns of a phone are narrow.
_AGE_LABELS = (
    ("7d", "up to a week"),
    ("30d", "up to a month"),
    ("90d", "up to 3 months"),
    ("6mo", "up to 6 months"),
    ("1y", "up to a year"),
    ("Older", "older"),
)
_SHADES = 5  # of a cell that is not empty: CSS classes heat-1 to heat-5; 0 is empty
_CHANGE_OPERATIONS = {
    "added": {"insert", "accept", "evidence", "restore", "reinstate", "issue"},
    "changed": {"update", "dedup_refresh", "consolidate", "compressed", "merged", "supersede"},
    "removed": {"delete", "expire", "evict", "purge", "erase", "revoke"},
}
OTHER = "other"

Days = tuple[date, date]  # first and last


class StatsFilter(ListFilter):
    """The project, the period of activity, and the chart shown in full."""

    project = ProjectFilterField()
    days = forms.ChoiceField(
        required=False,
        label="Events within",
        choices=[(str(n), f"{n} days") for n in PERIODS],
        error_messages={"invalid_choice": "Select one of the choices."},
    )
    all = forms.ChoiceField(
        required=False,
        choices=[(name, name) for name in FULL_CHARTS],
        error_messages={"invalid_choice": f"Unknown chart. Use one of: {', '.join(FULL_CHARTS)}."},
    )

    def __init__(self, data: Mapping[str, Any]) -> None:
        given = {name: value for name, value in data.items() if value}
        super().__init__({"days": str(DEFAULT_PERIOD), **given})

    def project_asked(self) -> str:
        """Return the project; empty for all of them or if invalid."""
        return str(self.cleaned_data.get("project") or "")

    def period(self) -> int:
        """Return the period in days; the default if invalid."""
        return int(self.cleaned_data.get("days") or DEFAULT_PERIOD)

    def most(self, chart: str) -> int:
        """Return the maximum number of rows of a chart."""
        return MAX_ROWS_IN_FULL if self.cleaned_data.get("all") == chart else MAX_ROWS


@require_safe
def stats_page(request: HttpRequest) -> HttpResponse:
    """Show statistics; ``GET`` takes ``project``, ``days`` (of activity) and ``all`` (a chart in full)."""
    form = StatsFilter(request.GET)
    form.is_valid()
    project = form.project_asked()
    clearance = narrow_to_project(request_clearance(request), project)
    context = {
        "form": form,
        "in_full": form.cleaned_data.get("all"),
        "days": form.period(),
        "project": project,
        "duplicates_at": page_url("duplicates", project=project),
        **_memories_context(request, clearance, form),
        **_activity_context(request, clearance, form),
    }
    if project and not context["total"]:
        # Without segment boundaries, which the list omits too.
        facts = query_facts(clearance, project=project).exclude(BOUNDARY_FACTS).order_by()
        counts = dict(facts.values_list("predicate").annotate(n=Count("pk")))
        context["facts"] = facts_chart(counts, project, form.most("facts"))
    full = full_clearance(request)
    if full.is_whole and not project:
        sizes = cached_until_change(request, "sizes", full, lambda: database_sizes(full))
        context |= {"sizes": sizes, "storage": storage_chart(sizes)}
    return render(request, "glance/page.html", context, status=form.http_status)


@require_safe
def stats_duplicates(request: HttpRequest) -> HttpResponse:
    """Return the number of near-duplicates, loaded later because comparing takes a while."""
    form = StatsFilter(request.GET)
    form.is_valid()
    clusters = Comparison(request, form.project_asked()).clusters()
    members = sum(len(one.others) + 1 for one in clusters.near)
    counts = {"clusters": len(clusters.near), "members": members, "complete": clusters.complete}
    return render(request, "glance/page.html#duplicates", {"found": counts})


def _memories_context(request: HttpRequest, clearance: Clearance, form: StatsFilter) -> dict[str, Any]:
    now, project = timezone.now(), form.project_asked()
    zone, today = timezone.get_current_timezone_name(), timezone.localdate(now)
    live = Memory.objects.visible_to(clearance).live(now)
    found = cached_until_change(
        request, "usage", clearance, lambda: usage.summarize_usage(live, now), zone, today
    )
    facets, days = facets_and_days(clearance, now)
    titles = {"category": "By category"} if project else {"project": "By project", "category": "By category"}
    return {
        "total": found.total,
        "trashed": not found.total and Memory.objects.visible_to(clearance).trashed().exists(),
        "health": health_issues(found, count_contradictions(request, project), project),
        "over_time": memories_chart(days, project),
        "breakdowns": [
            breakdown(facets[name], name, title, form.most(name))
            for name, title in titles.items()
            if facets[name]
        ],
        "worth": importance_by_age(found, today, project),
        "use": reads_by_type(found, project, form.most("use")),
    }


def _activity_context(request: HttpRequest, clearance: Clearance, form: StatsFilter) -> dict[str, Any]:
    """Count activity within the period, in whole days of the reader's time zone."""
    today, project = timezone.localdate(), form.project_asked()
    days = (today - timedelta(days=form.period() - 1), today)
    found = cached_until_change(
        request,
        "activity",
        clearance,
        lambda: usage.count_activity(clearance, start_of_day(days[0])),
        timezone.get_current_timezone_name(),
        *days,
        depends_on_events=True,
    )
    judged = found.captured + found.skipped.total()
    return {
        "kept": found.captured,
        "judged": judged,
        "kept_percent": round(100 * found.captured / judged) if judged else 0,
        "capture": capture_chart(found.captured, found.skipped, form.most("capture")),
        "injections": injections_chart(found.injections, days, project),
        "secrets": secrets_chart(found.blocked_secrets, days, project),
        "secret_kinds": secret_kinds_chart(found.blocked_secrets, form.most("secret-kinds")),
        "activity": activity_chart(found.actions, days[0], project, form.most("activity")),
        "ending": expiring_chart(found.expiring, today, project),
        "most_journal": usage.MAX_JOURNAL_ROWS,
    }


@dataclass(frozen=True)
class HealthIssue:
    """A line of the health report, with a link to the list where the issue can be fixed."""

    title: str
    means: str
    count: int
    percent: float
    href: str


def health_issues(found: MemoryUsage, contradictions: int, project: str) -> list[HealthIssue]:
    """Return the issues that are found without comparing memories, of one project or of all."""
    labels = {
        usage.STALE: ("Stale", f"neither read nor changed for {usage.STALE_DAYS} days"),
        usage.UNUSED: ("Never used", f"not read for {usage.UNUSED_DAYS} days or more"),
        usage.NO_FILES: ("Without files", "not linked to a file"),
        usage.NO_PROJECT: ("Without a project", "not in any project"),
    }
    lines = [
        HealthIssue(
            title,
            means,
            found.issues[name],
            round(100 * found.issues[name] / found.total, 1) if found.total else 0,
            page_url("memories", issue=name, project=project),
        )
        for name, (title, means) in labels.items()
        if not (project and name == usage.NO_PROJECT)
    ]
    meaning = "different values for one subject, of which only one can be true"
    href = page_url("fact-conflicts", project=project)
    return [HealthIssue("Contradicting facts", meaning, contradictions, 0, href), *lines]


def memories_chart(days: DailyCounts, project: str) -> DayChart:
    """Return the memories stored over the whole time, by family of types."""
    chart = charts.over_time(charts.by_family(days))
    return DayChart(
        "memories", "Memories over time", "Memories stored", chart, {}, charts.listing_url(project)
    )


def importance_by_age(found: MemoryUsage, today: date, project: str) -> dict[str, Any]:
    """Return a table of importance by age: rows of cells (count, shade, link), most important first."""
    highest = max(found.worth.values(), default=0)
    days = usage.age_steps(today)
    rows = []
    for step, label in reversed(list(enumerate(usage.IMPORTANCE_STEPS))):
        counts = [found.worth[step, age] for age in range(len(_AGE_LABELS))]
        urls = [
            page_url("memories", worth=label, since=first, until=last, project=project)
            for first, last in days
        ]
        # The square root makes small numbers visible.
        shades = [max(1, round(_SHADES * (count / highest) ** 0.5)) if count else 0 for count in counts]
        cells = list(zip(counts, shades, urls, strict=True))
        rows.append({"label": label, "cells": cells})
    return {"ages": _AGE_LABELS, "rows": rows}


def reads_by_type(found: MemoryUsage, project: str, most: int) -> BarChart:
    series = [("often", "5 times or more"), ("some", "1 to 4 times"), ("never", "Never")]
    counts = {kind: dict(zip(usage.USE_STEPS, n, strict=True)) for kind, n in found.use.items()}
    labels = {kind: kind.replace("_", " ") for kind in counts}

    def url(kind: str, reads: str) -> str:
        return page_url("memories", type=kind, reads=reads, project=project)

    return bar_chart(series, counts, labels, url, most)


def capture_chart(kept: int, skipped: Counter[str], most: int) -> BarChart:
    """Return the captured events: stored as a memory, or skipped by reason."""
    counts = {"": {"kept": kept}} | {reason: {"skipped": count} for reason, count in skipped.items()}
    series = [("kept", "kept"), ("skipped", "skipped")]
    return bar_chart(series, counts, {"": "kept as a memory", **SKIP_REASON_LABELS}, most=most)


def facts_chart(by_predicate: Mapping[str, int], project: str, most: int) -> BarChart:
    def url(predicate: str, kind: str) -> str:
        return page_url("facts", predicate=predicate, project=project)

    counts = {predicate: {"facts": count} for predicate, count in by_predicate.items()}
    return bar_chart([("facts", "facts")], counts, {}, url, most)


def activity_chart(found: Mapping[str, Counter[str]], since: date, project: str, most: int) -> BarChart:
    """Return journal entries by actor and kind of change."""
    series = [*((kind, kind) for kind in _CHANGE_OPERATIONS), (OTHER, OTHER)]
    kinds = {operation: kind for kind, operations in _CHANGE_OPERATIONS.items() for operation in operations}
    counts: dict[str, Counter[str]] = {}
    for actor, operations in found.items():
        counts[actor] = Counter()
        for operation, count in operations.items():
            counts[actor][kinds.get(operation, OTHER)] += count

    def url(actor: str, kind: str) -> str:
        return "" if kind else page_url("journal", actor=actor, since=since, project=project)

    labels = {actor: actor_label(actor) for actor in counts}
    return bar_chart(series, counts, labels, url, most)


def storage_chart(numbers: Mapping[str, Any]) -> BarChart:
    """Return what the database file contains, in bytes."""
    index, free, vectors = (numbers[name] for name in ("index_bytes", "free_bytes", "vector_bytes"))
    rest = max(numbers["database_bytes"] - index - free - vectors, 0)
    counts = {
        "Memories, journal and events": {"bytes": rest},
        "Text indexes": {"bytes": index},
        "Vectors": {"bytes": vectors},
        "Free space": {"bytes": free},
    }
    return bar_chart([("bytes", "Size")], counts, {})


def injections_chart(rows: DailyCounts, days: Days, project: str) -> DayChart:
    words = {"filled": "with memories", "empty": "empty"}
    chart = charts.over_time(rows, days)
    href = charts.extendable_url(page_url("injections", project=project))
    return DayChart("injections", "Injections", "Injections", chart, words, href, by="outcome")


def secrets_chart(rows: DailyCounts, days: Days, project: str) -> DayChart:
    """Return one series; :func:`secret_kinds_chart` shows the kinds."""
    counts: Counter[date] = Counter()
    for day, _, count in rows:
        counts[day] += count
    chart = charts.over_time([(day, "blocked", count) for day, count in sorted(counts.items())], days)
    href = charts.extendable_url(page_url("journal", operation=SECRET_BLOCKED, project=project))
    return DayChart("secrets", "Secrets blocked", "Credentials refused", chart, {"blocked": "blocked"}, href)


def secret_kinds_chart(rows: DailyCounts, most: int) -> BarChart:
    kinds: Counter[str] = Counter()
    for _, kind, count in rows:
        kinds[kind] += count
    counts = {kind: {"blocked": count} for kind, count in kinds.items()}
    return bar_chart([("blocked", "blocked")], counts, {"": "unknown kind"}, most=most)


def expiring_chart(rows: DailyCounts, today: date, project: str) -> DayChart:
    title = f"Expiring within {usage.EXPIRY_CHART_DAYS} days"
    days = (today, today + timedelta(days=usage.EXPIRY_CHART_DAYS))
    href = charts.extendable_url(page_url("memories", project=project))
    chart = charts.over_time(charts.by_family(rows), days)
    return DayChart("expiring", title, "Memories that expire", chart, {}, href, day="ends")
