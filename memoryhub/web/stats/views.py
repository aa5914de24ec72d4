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
from memoryhub.accounts.clearance import clearance_of
from memoryhub.accounts.memberships import is_confined
from memoryhub.capture.segments import MARKS
from memoryhub.facts import contradictions
from memoryhub.facts.services import query_facts
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
from memoryhub.stats import counts as stats_counts
from memoryhub.stats import usage as numbers
from memoryhub.stats.calendar import Dated
from memoryhub.web.base import charts
from memoryhub.web.base.caching import as_it_stands, eyes
from memoryhub.web.base.charts import breakdown
from memoryhub.web.duplicates import presenters
from memoryhub.web.stats import presenters as shown

_ALL = LEVELS[-1]


@require_safe
def glance(request: HttpRequest) -> HttpResponse:
    """``project`` in the address: of which; ``days``: over which time is counted what happens; ``all``: the
    chart that is shown with all its rows."""
    form = shown.GlanceFilter(request.GET)
    valid = form.is_valid()
    project = form.project_asked()
    clearance = _within(clearance_of(request), project)
    context = {
        "form": form,
        "in_full": form.cleaned_data.get("all"),
        "days": form.period(),
        "project": project,
        "duplicates_at": shown.address("duplicates", project=project),
        **_memories(clearance, form),
        **_flows(clearance, form),
    }
    if project and not context["total"]:
        context["facts"] = shown.facts(_said(clearance, project), project, form.most("facts"))
    if not (project or is_confined(request.user)):  # the sizes of the files tell of every project
        context |= _storage(clearance)
    return render(request, "glance/page.html", context, status=200 if valid else 422)


def _within(clearance: Clearance, project: str) -> Clearance:
    """What may be seen, of one project or of all."""
    return clearance.within(Clearance.up_to(_ALL, projects=[project])) if project else clearance


@require_safe
def glance_duplicates(request: HttpRequest) -> HttpResponse:
    """How many near-duplicates there are: a fragment of its own, because comparing takes a while."""
    form = shown.GlanceFilter(request.GET)
    form.is_valid()
    looked = presenters.clusters(clearance_of(request), form.project_asked())
    members = sum(len(one.others) + 1 for one in looked.near)
    found = {"clusters": len(looked.near), "members": members, "complete": looked.complete}
    return render(request, "glance/duplicates.html", {"found": found})


@require_safe
def glance_health(request: HttpRequest) -> HttpResponse:
    """What wants mending, in short: a fragment for the first page."""
    clearance, now = clearance_of(request), timezone.now()
    about = _about(clearance, now)
    found = as_it_stands("lives", about, lambda: numbers.lives(_live(clearance, now), now))
    lines = shown.health(found, _clashes(clearance, now))
    return render(request, "glance/brief.html", {"lines": [line for line in lines if line.count]})


def _live(clearance: Clearance, now: datetime) -> MemoryQuerySet:
    live: MemoryQuerySet = Memory.objects.visible_to(clearance).live(now)
    return live


def _about(clearance: Clearance, now: datetime) -> str:
    """What the numbers of memories depend on beside the store."""
    return f"{eyes(clearance)} {timezone.get_current_timezone_name()} {timezone.localdate(now)}"


def _counted(live: MemoryQuerySet, now: datetime) -> tuple[numbers.Lives, dict[str, dict[str, int]], Dated]:
    """Over all of them, in three passes: their lives, how many of each value, and of each day."""
    return numbers.lives(live, now), stats_counts.tallies(live), stats_counts.per_day(live)


def _memories(clearance: Clearance, form: shown.GlanceFilter) -> dict[str, Any]:
    now, project = timezone.now(), form.project_asked()
    today, live = timezone.localdate(now), _live(clearance, now)
    found, counts, days = as_it_stands("glance", _about(clearance, now), lambda: _counted(live, now))
    return {
        "total": found.total,
        "health": shown.health(found, _clashes(clearance, now), project),
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
        "worth": shown.worth(found, today, project),
        "use": shown.use(found, project, form.most("use")),
        "ending": shown.ending(numbers.expiring(live, now), today, project),
    }


def _said(clearance: Clearance, project: str) -> dict[str, int]:
    """How many facts hold now, by predicate; not the hub's own marks, which the list leaves out too."""
    facts = query_facts(clearance, project=project).exclude(MARKS)
    return dict(facts.order_by().values_list("predicate").annotate(n=Count("pk")))


def _clashes(clearance: Clearance, now: datetime) -> int:
    return len(contradictions.survey(clearance, now=now).open)


def _flows(clearance: Clearance, form: shown.GlanceFilter) -> dict[str, Any]:
    """What happened within the days that were asked for, whole days of the reader's time zone."""
    today = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    since = today - timedelta(days=form.period() - 1)
    days = (since.date(), today.date())
    kept, skipped = numbers.captured(clearance, since)
    judged = kept + skipped.total()
    refused, project = numbers.blocked(clearance, since), form.project_asked()
    return {
        "kept": kept,
        "judged": judged,
        "kept_percent": round(100 * kept / judged) if judged else 0,
        "capture": shown.capture(kept, skipped, form.most("capture")),
        "injections": shown.injections(numbers.injected(clearance, since), days, project),
        "secrets": shown.secrets(refused, days, project),
        "secret_kinds": shown.secret_kinds(refused, form.most("secret-kinds")),
        "activity": shown.activity(
            numbers.active(clearance, since), since.date(), project, form.most("activity")
        ),
        "most_journal": numbers.MOST_JOURNAL,
    }


def _storage(clearance: Clearance) -> dict[str, Any]:
    sizes = stats_counts.sizes(clearance)
    return {"sizes": sizes, "storage": shown.storage(sizes, stats_counts.vector_bytes())}
