"""Understand at a glance: what there is, what becomes of it, and what wants mending."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from memoryhub import contradictions
from memoryhub.models import JournalEntry, Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval import glance as numbers
from memoryhub.retrieval import overview
from memoryhub.retrieval.duplicates import find
from memoryhub.search import schema, vector_log
from memoryhub.sensitivity import Clearance
from memoryhub.team.membership import is_confined
from memoryhub.web import charts
from memoryhub.web import glance as shown
from memoryhub.web.access import clearance_of
from memoryhub.web.breakdowns import breakdown

COUNTED_FOR = 300  # seconds that a count of near-duplicates is told again while nothing changes


@require_safe
def glance(request: HttpRequest) -> HttpResponse:
    """``days`` in the address: over which time is counted what happens."""
    form = shown.GlanceFilter(request.GET)
    valid = form.is_valid()
    clearance = clearance_of(request)
    context = {"form": form, "days": form.period(), **_memories(clearance), **_flows(clearance, form)}
    if not is_confined(request.user):  # the sizes of the files tell of every project
        context |= _storage()
    return render(request, "glance/page.html", context, status=200 if valid else 422)


@require_safe
def glance_duplicates(request: HttpRequest) -> HttpResponse:
    """How many near-duplicates there are: a fragment of its own, because comparing takes a while."""
    clearance = clearance_of(request)
    key = _key(clearance)
    found = cache.get(key)
    if found is None:
        live: MemoryQuerySet = Memory.objects.visible_to(clearance).live()
        looked = find(live, clearance)
        members = sum(len(one.others) + 1 for one in looked.clusters)
        found = {"clusters": len(looked.clusters), "members": members, "complete": looked.complete}
        cache.set(key, found, COUNTED_FOR)
    return render(request, "glance/duplicates.html", {"found": found})


@require_safe
def glance_health(request: HttpRequest) -> HttpResponse:
    """What wants mending, in short: a fragment for the first page."""
    clearance, now = clearance_of(request), timezone.now()
    found = numbers.lives(Memory.objects.visible_to(clearance).live(now), now)
    lines = shown.health(found, _clashes(clearance, now))
    return render(request, "glance/brief.html", {"lines": [line for line in lines if line.count]})


def _key(clearance: Clearance) -> str:
    """Of what was counted: by whose eyes, and in which state of the store."""
    last = JournalEntry.objects.order_by("-seq").values_list("seq", flat=True).first()
    parts = [(sorted(levels), sorted(of) if of is not None else None) for levels, of in clearance.parts()]
    said = repr((last, clearance.owner, clearance.every_owner, parts))
    return f"glance-duplicates-{hashlib.sha256(said.encode()).hexdigest()}"


def _memories(clearance: Clearance) -> dict[str, Any]:
    now = timezone.now()
    live: MemoryQuerySet = Memory.objects.visible_to(clearance).live(now)
    found = numbers.lives(live, now)
    counts = overview.tallies(live)
    return {
        "total": found.total,
        "health": shown.health(found, _clashes(clearance, now)),
        "chart": charts.over_time(overview.per_day(live)),
        "breakdowns": [
            breakdown(counts["project"], "project", "By project"),
            breakdown(counts["category"], "category", "By category"),
        ]
        if found.total
        else [],
        "worth": shown.worth(found),
        "use": shown.use(found),
        "ending": shown.ending(numbers.expiring(live, now), timezone.localdate(now)),
    }


def _clashes(clearance: Clearance, now: datetime) -> int:
    return len(contradictions.survey(clearance, now=now).open)


def _flows(clearance: Clearance, form: shown.GlanceFilter) -> dict[str, Any]:
    """What happened within the days that were asked for, whole days of the reader's time zone."""
    today = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    since = today - timedelta(days=form.period() - 1)
    days = (since.date(), today.date())
    kept, skipped = numbers.captured(clearance, since)
    judged = kept + skipped.total()
    refused = numbers.blocked(clearance, since)
    return {
        "kept": kept,
        "judged": judged,
        "kept_percent": round(100 * kept / judged) if judged else 0,
        "capture": shown.capture(kept, skipped),
        "injections": shown.injections(numbers.injected(clearance, since), days),
        "secrets": shown.secrets(refused, days),
        "secret_kinds": shown.secret_kinds(refused),
        "activity": shown.activity(numbers.active(clearance, since), since.date()),
        "most_journal": numbers.MOST_JOURNAL,
    }


def _storage() -> dict[str, Any]:
    sizes = schema.sizes() | {"index_bytes": schema.index_bytes()}
    vectors = sum(size for _, size in vector_log.census().values())
    return {"sizes": sizes, "storage": shown.storage(sizes, vectors)}
