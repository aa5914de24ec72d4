"""The statistics page: counts, activity, and issues to fix."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import full_clearance, request_clearance
from memoryhub.capture.segments import BOUNDARY_FACTS
from memoryhub.core.dates import start_of_day
from memoryhub.facts.queries import query_facts
from memoryhub.models import Memory
from memoryhub.stats.counts import database_sizes, facets_and_days
from memoryhub.stats.usage import MAX_JOURNAL_ROWS, Activity, MemoryUsage, count_activity, summarize_usage
from memoryhub.web.base.caching import cached_until_change
from memoryhub.web.base.charts import breakdown
from memoryhub.web.base.requests import narrow_to_project, page_url
from memoryhub.web.duplicates.presenters import Comparison
from memoryhub.web.review.queue import count_contradictions
from memoryhub.web.stats import presenters


@require_safe
def stats_page(request: HttpRequest) -> HttpResponse:
    """Show statistics; ``GET`` takes ``project``, ``days`` (of activity) and ``all`` (a chart in full)."""
    form = presenters.StatsFilter(request.GET)
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
        context["facts"] = presenters.facts_chart(
            _count_facts(clearance, project), project, form.most("facts")
        )
    full = full_clearance(request)
    if full.is_whole and not project:
        sizes = cached_until_change(request, "sizes", full, lambda: database_sizes(full))
        context |= {"sizes": sizes, "storage": presenters.storage_chart(sizes)}
    return render(request, "glance/page.html", context, status=form.http_status)


@require_safe
def stats_duplicates(request: HttpRequest) -> HttpResponse:
    """Return the number of near-duplicates, loaded later because comparing takes a while."""
    form = presenters.StatsFilter(request.GET)
    form.is_valid()
    clusters = Comparison(request, form.project_asked()).clusters()
    members = sum(len(one.others) + 1 for one in clusters.near)
    counts = {"clusters": len(clusters.near), "members": members, "complete": clusters.complete}
    return render(request, "glance/page.html#duplicates", {"found": counts})


def _count_usage(request: HttpRequest, clearance: Clearance, now: datetime) -> MemoryUsage:
    live = Memory.objects.visible_to(clearance).live(now)
    return cached_until_change(request, "usage", clearance, lambda: summarize_usage(live, now), *_today(now))


def _today(now: datetime) -> tuple[str, date]:
    """Return the time zone and the day, on which counts by day depend."""
    return timezone.get_current_timezone_name(), timezone.localdate(now)


def _memories_context(
    request: HttpRequest, clearance: Clearance, form: presenters.StatsFilter
) -> dict[str, Any]:
    now, project = timezone.now(), form.project_asked()
    today, usage = timezone.localdate(now), _count_usage(request, clearance, now)
    facets, days = facets_and_days(clearance, now)
    columns = [] if project else [("project", "By project")]
    columns += [("category", "By category")]
    return {
        "total": usage.total,
        "health": presenters.health_issues(usage, count_contradictions(request, project), project),
        "over_time": presenters.memories_chart(days, project),
        "breakdowns": [
            breakdown(facets[name], name, title, form.most(name)) for name, title in columns if facets[name]
        ],
        "worth": presenters.importance_by_age(usage, today, project),
        "use": presenters.reads_by_type(usage, project, form.most("use")),
    }


def _count_facts(clearance: Clearance, project: str) -> dict[str, int]:
    """Count valid facts by predicate, without segment boundaries, which the list omits too."""
    facts = query_facts(clearance, project=project).exclude(BOUNDARY_FACTS)
    return dict(facts.order_by().values_list("predicate").annotate(n=Count("pk")))


def _activity_context(
    request: HttpRequest, clearance: Clearance, form: presenters.StatsFilter
) -> dict[str, Any]:
    """Count activity within the period, in whole days of the reader's time zone."""
    today, project = timezone.localdate(), form.project_asked()
    days = (today - timedelta(days=form.period() - 1), today)
    found: Activity = cached_until_change(
        request,
        "activity",
        clearance,
        lambda: count_activity(clearance, start_of_day(days[0])),
        *_today(timezone.now()),
        days[0],
        depends_on_events=True,
    )
    judged = found.captured + found.skipped.total()
    return {
        "kept": found.captured,
        "judged": judged,
        "kept_percent": round(100 * found.captured / judged) if judged else 0,
        "capture": presenters.capture_chart(found.captured, found.skipped, form.most("capture")),
        "injections": presenters.injections_chart(found.injections, days, project),
        "secrets": presenters.secrets_chart(found.blocked_secrets, days, project),
        "secret_kinds": presenters.secret_kinds_chart(found.blocked_secrets, form.most("secret-kinds")),
        "activity": presenters.activity_chart(found.actions, days[0], project, form.most("activity")),
        "ending": presenters.expiring_chart(found.expiring, today, project),
        "most_journal": MAX_JOURNAL_ROWS,
    }
