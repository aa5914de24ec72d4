"""The statistics page: counts, activity, and issues to fix."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.accounts.clearance import full_clearance, request_clearance
from memoryhub.capture.segments import BOUNDARY_FACTS
from memoryhub.core.dates import start_of_day
from memoryhub.facts import contradictions
from memoryhub.facts.services import query_facts
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.stats import counts as stats_counts
from memoryhub.stats import usage as usage_counts
from memoryhub.stats.calendar import DailyCounts
from memoryhub.stats.usage import MemoryUsage, summarize_usage
from memoryhub.web.base import charts
from memoryhub.web.base.caching import cached_until_change, clearance_key
from memoryhub.web.base.charts import breakdown
from memoryhub.web.duplicates.presenters import cached_clusters
from memoryhub.web.stats import presenters

_ALL_LEVELS = LEVELS[-1]


@require_safe
def stats_page(request: HttpRequest) -> HttpResponse:
    """Show statistics; ``GET`` takes ``project``, ``days`` (of activity) and ``all`` (a chart in full)."""
    form = presenters.StatsFilter(request.GET)
    valid = form.is_valid()
    project = form.project_asked()
    clearance = _narrow_to_project(request_clearance(request), project)
    context = {
        "form": form,
        "in_full": form.cleaned_data.get("all"),
        "days": form.period(),
        "project": project,
        "duplicates_at": presenters.page_url("duplicates", project=project),
        **_memories_context(clearance, form),
        **_activity_context(clearance, form),
    }
    if project and not context["total"]:
        context["facts"] = presenters.facts_chart(
            _count_facts(clearance, project), project, form.most("facts")
        )
    sizes = {} if project else stats_counts.database_sizes(full_clearance(request))
    if any(sizes.values()):
        context |= {"sizes": sizes, "storage": presenters.storage_chart(sizes)}
    return render(request, "glance/page.html", context, status=200 if valid else 422)


def _narrow_to_project(clearance: Clearance, project: str) -> Clearance:
    return clearance.within(Clearance.up_to(_ALL_LEVELS, projects=[project])) if project else clearance


@require_safe
def stats_duplicates(request: HttpRequest) -> HttpResponse:
    """Return the number of near-duplicates, loaded later because comparing takes a while."""
    form = presenters.StatsFilter(request.GET)
    form.is_valid()
    clusters = cached_clusters(request_clearance(request), form.project_asked())
    members = sum(len(one.others) + 1 for one in clusters.near)
    counts = {"clusters": len(clusters.near), "members": members, "complete": clusters.complete}
    return render(request, "glance/duplicates.html", {"found": counts})


@require_safe
def stats_health(request: HttpRequest) -> HttpResponse:
    """Return the issues to fix, for the home page."""
    clearance, now = request_clearance(request), timezone.now()
    live = _live_memories(clearance, now)
    usage = cached_until_change("lives", _cache_key(clearance, now), lambda: summarize_usage(live, now))
    issues = presenters.health_issues(usage, _count_contradictions(clearance, now))
    return render(request, "glance/brief.html", {"lines": [issue for issue in issues if issue.count]})


def _live_memories(clearance: Clearance, now: datetime) -> MemoryQuerySet:
    live: MemoryQuerySet = Memory.objects.visible_to(clearance).live(now)
    return live


def _cache_key(clearance: Clearance, now: datetime) -> str:
    """Return what the counts of memories depend on besides the store."""
    return f"{clearance_key(clearance)} {timezone.get_current_timezone_name()} {timezone.localdate(now)}"


def _count_memories(
    live: MemoryQuerySet, now: datetime
) -> tuple[MemoryUsage, dict[str, dict[str, int]], DailyCounts]:
    """Count memories by usage, by value and by day, in three passes."""
    return (
        summarize_usage(live, now),
        stats_counts.count_facets(live),
        stats_counts.count_memories_by_day(live),
    )


def _memories_context(clearance: Clearance, form: presenters.StatsFilter) -> dict[str, Any]:
    now, project = timezone.now(), form.project_asked()
    today, live = timezone.localdate(now), _live_memories(clearance, now)
    usage, counts, days = cached_until_change(
        "glance", _cache_key(clearance, now), lambda: _count_memories(live, now)
    )
    columns = [] if project else [("project", "By project")]
    columns += [("category", "By category")]
    return {
        "total": usage.total,
        "health": presenters.health_issues(usage, _count_contradictions(clearance, now), project),
        "chart": charts.over_time(days),
        "breakdowns": [
            breakdown(counts[name], name, title, form.most(name)) for name, title in columns if usage.total
        ],
        "worth": presenters.importance_by_age(usage, today, project),
        "use": presenters.reads_by_type(usage, project, form.most("use")),
        "ending": presenters.expiring_chart(usage_counts.count_expiring(live, now), today, project),
    }


def _count_facts(clearance: Clearance, project: str) -> dict[str, int]:
    """Count valid facts by predicate, without segment boundaries, which the list omits too."""
    facts = query_facts(clearance, project=project).exclude(BOUNDARY_FACTS)
    return dict(facts.order_by().values_list("predicate").annotate(n=Count("pk")))


def _count_contradictions(clearance: Clearance, now: datetime) -> int:
    return len(contradictions.find_contradictions(clearance, now=now).open)


def _activity_context(clearance: Clearance, form: presenters.StatsFilter) -> dict[str, Any]:
    """Count activity within the period, in whole days of the reader's time zone."""
    today = timezone.localdate()
    days = (today - timedelta(days=form.period() - 1), today)
    since = start_of_day(days[0])
    kept, skipped = usage_counts.count_captured(clearance, since)
    total = kept + skipped.total()
    refused, project = usage_counts.count_blocked_secrets(clearance, since), form.project_asked()
    return {
        "kept": kept,
        "judged": total,
        "kept_percent": round(100 * kept / total) if total else 0,
        "capture": presenters.capture_chart(kept, skipped, form.most("capture")),
        "injections": presenters.injections_chart(
            usage_counts.count_injections(clearance, since), days, project
        ),
        "secrets": presenters.secrets_chart(refused, days, project),
        "secret_kinds": presenters.secret_kinds_chart(refused, form.most("secret-kinds")),
        "activity": presenters.activity_chart(
            usage_counts.count_actions(clearance, since), days[0], project, form.most("activity")
        ),
        "most_journal": usage_counts.MAX_JOURNAL_ROWS,
    }
