"""Understand at a glance: what there is, what becomes of it, and what wants mending."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.accounts.clearance import is_confined, request_clearance
from memoryhub.capture.segments import BOUNDARY_FACTS
from memoryhub.facts import contradictions
from memoryhub.facts.services import query_facts
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.stats import counts as stats_counts
from memoryhub.stats import usage as numbers
from memoryhub.stats.calendar import DailyCounts
from memoryhub.web.base import charts
from memoryhub.web.base.caching import cached_until_change, clearance_key
from memoryhub.web.base.charts import breakdown
from memoryhub.web.duplicates import presenters
from memoryhub.web.stats import presenters as shown

_ALL_LEVELS = LEVELS[-1]


@require_safe
def stats_page(request: HttpRequest) -> HttpResponse:
    """``project`` in the address: of which; ``days``: over which time is counted what happens; ``all``: the
    chart that is shown with all its rows."""
    form = shown.StatsFilter(request.GET)
    valid = form.is_valid()
    project = form.project_asked()
    clearance = _narrow_to_project(request_clearance(request), project)
    context = {
        "form": form,
        "in_full": form.cleaned_data.get("all"),
        "days": form.period(),
        "project": project,
        "duplicates_at": shown.page_url("duplicates", project=project),
        **_memories_context(clearance, form),
        **_activity_context(clearance, form),
    }
    if project and not context["total"]:
        context["facts"] = shown.facts_chart(_count_facts(clearance, project), project, form.most("facts"))
    if not (project or is_confined(request.user)):  # the sizes of the files tell of every project
        context |= _storage_context(clearance)
    return render(request, "glance/page.html", context, status=200 if valid else 422)


def _narrow_to_project(clearance: Clearance, project: str) -> Clearance:
    """What may be seen, of one project or of all."""
    return clearance.within(Clearance.up_to(_ALL_LEVELS, projects=[project])) if project else clearance


@require_safe
def stats_duplicates(request: HttpRequest) -> HttpResponse:
    """How many near-duplicates there are: a fragment of its own, because comparing takes a while."""
    form = shown.StatsFilter(request.GET)
    form.is_valid()
    looked = presenters.cached_clusters(request_clearance(request), form.project_asked())
    members = sum(len(one.others) + 1 for one in looked.near)
    found = {"clusters": len(looked.near), "members": members, "complete": looked.complete}
    return render(request, "glance/duplicates.html", {"found": found})


@require_safe
def stats_health(request: HttpRequest) -> HttpResponse:
    """What wants mending, in short: a fragment for the first page."""
    clearance, now = request_clearance(request), timezone.now()
    about = _cache_key(clearance, now)
    found = cached_until_change(
        "lives", about, lambda: numbers.summarize_usage(_live_memories(clearance, now), now)
    )
    lines = shown.health_issues(found, _count_contradictions(clearance, now))
    return render(request, "glance/brief.html", {"lines": [line for line in lines if line.count]})


def _live_memories(clearance: Clearance, now: datetime) -> MemoryQuerySet:
    live: MemoryQuerySet = Memory.objects.visible_to(clearance).live(now)
    return live


def _cache_key(clearance: Clearance, now: datetime) -> str:
    """What the numbers of memories depend on beside the store."""
    return f"{clearance_key(clearance)} {timezone.get_current_timezone_name()} {timezone.localdate(now)}"


def _count_memories(
    live: MemoryQuerySet, now: datetime
) -> tuple[numbers.MemoryUsage, dict[str, dict[str, int]], DailyCounts]:
    """Over all of them, in three passes: their lives, how many of each value, and of each day."""
    return (
        numbers.summarize_usage(live, now),
        stats_counts.count_facets(live),
        stats_counts.count_memories_by_day(live),
    )


def _memories_context(clearance: Clearance, form: shown.StatsFilter) -> dict[str, Any]:
    now, project = timezone.now(), form.project_asked()
    today, live = timezone.localdate(now), _live_memories(clearance, now)
    found, counts, days = cached_until_change(
        "glance", _cache_key(clearance, now), lambda: _count_memories(live, now)
    )
    return {
        "total": found.total,
        "health": shown.health_issues(found, _count_contradictions(clearance, now), project),
        "chart": charts.over_time(days),
        "breakdowns": [
            *(
                []
                if project
                else [breakdown(counts["project"], "project", "By project", form.most("project"))]
            ),
            breakdown(counts["category"], "category", "By category", form.most("category")),
        ]
        if found.total
        else [],
        "worth": shown.importance_by_age(found, today, project),
        "use": shown.reads_by_type(found, project, form.most("use")),
        "ending": shown.expiring_chart(numbers.count_expiring(live, now), today, project),
    }


def _count_facts(clearance: Clearance, project: str) -> dict[str, int]:
    """How many facts hold now, by predicate; not the hub's own marks, which the list leaves out too."""
    facts = query_facts(clearance, project=project).exclude(BOUNDARY_FACTS)
    return dict(facts.order_by().values_list("predicate").annotate(n=Count("pk")))


def _count_contradictions(clearance: Clearance, now: datetime) -> int:
    return len(contradictions.find_contradictions(clearance, now=now).open)


def _activity_context(clearance: Clearance, form: shown.StatsFilter) -> dict[str, Any]:
    """What happened within the days that were asked for, whole days of the reader's time zone."""
    today = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    since = today - timedelta(days=form.period() - 1)
    days = (since.date(), today.date())
    kept, skipped = numbers.count_captured(clearance, since)
    judged = kept + skipped.total()
    refused, project = numbers.count_blocked_secrets(clearance, since), form.project_asked()
    return {
        "kept": kept,
        "judged": judged,
        "kept_percent": round(100 * kept / judged) if judged else 0,
        "capture": shown.capture_chart(kept, skipped, form.most("capture")),
        "injections": shown.injections_chart(numbers.count_injections(clearance, since), days, project),
        "secrets": shown.secrets_chart(refused, days, project),
        "secret_kinds": shown.secret_kinds_chart(refused, form.most("secret-kinds")),
        "activity": shown.activity_chart(
            numbers.count_actions(clearance, since), since.date(), project, form.most("activity")
        ),
        "most_journal": numbers.MAX_JOURNAL_ROWS,
    }


def _storage_context(clearance: Clearance) -> dict[str, Any]:
    sizes = stats_counts.database_sizes(clearance)
    return {"sizes": sizes, "storage": shown.storage_chart(sizes, stats_counts.vector_bytes())}
