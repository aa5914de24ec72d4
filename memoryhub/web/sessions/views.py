"""The list of sessions and the page of one session, with filters for its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import BadRequest
from django.db.models import Count, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import clearance_of
from memoryhub.core import pagination
from memoryhub.injection import queries
from memoryhub.memories.filters import MemoryFilter
from memoryhub.models import Event, Injection, Memory, Session
from memoryhub.models.querysets import SessionQuerySet
from memoryhub.stats import timeline
from memoryhub.stats.timeline import EventFilter, with_counts
from memoryhub.web.base import live
from memoryhub.web.base.days import by_day
from memoryhub.web.base.filters import SessionFilter
from memoryhub.web.base.htmx import HtmxHttpRequest, page_or_fragment
from memoryhub.web.memories import bulk_actions
from memoryhub.web.memories.list_forms import without
from memoryhub.web.sessions.story import MOST, figure_of, fitting

KEPT = {"kept": "Kept", "skipped": "Not kept"}
_EVENTS = {
    "prompt:submit": "Prompts",
    "session:start": "Session start",
    "session:end": "Session end",
    "session:checkpoint": "Checkpoint",
    "tool:post": "Tool calls",
}


@dataclass(frozen=True)
class Chip:
    """One choice with its count; ``href`` makes it, or takes it back when it is made."""

    label: str
    count: int
    chosen: bool
    href: str


@dataclass(frozen=True)
class Group:
    title: str
    chips: list[Chip]


def asked(request: HttpRequest) -> EventFilter:
    """The events that the address asks for."""
    given = {name: request.GET.get(name, "") for name in ("tool", "kept", "reason")}
    return EventFilter(**given)


def groups(request: HttpRequest, events: QuerySet[Event]) -> list[Group]:
    """The chips for gated events, with counts of all of them; one query. A group of one chip is left out."""
    tools: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    rows = events.order_by().annotate(lost=Q(memory__isnull=True))
    columns = ("tool_name", "event", "skip_reason", "lost")
    for tool, event, reason, lost, count in rows.values_list(*columns).annotate(n=Count("pk")):
        tools[tool or event] += count
        if not lost:
            kept["kept"] += count
        elif reason:
            kept["skipped"] += count
            reasons[reason] += count
    made = [
        _group(request, "Tools and events", "tool", tools, _EVENTS),
        _group(request, "What became of them", "kept", kept, KEPT),
        _group(request, "Why not kept", "reason", reasons, {}),
    ]
    return [group for group in made if len(group.chips) > 1 or any(chip.chosen for chip in group.chips)]


def _group(
    request: HttpRequest, title: str, name: str, counts: Counter[str], labels: Mapping[str, str]
) -> Group:
    chosen = request.GET.get(name, "")
    chips = []
    for value, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        on = value == chosen
        href = without(request, name) if on else without(request, **{name: value})
        chips.append(Chip(labels.get(value, value), count, on, href))
    return Group(title, chips)


PAGE = 50
ENTRIES = 30
MOST_WEIGHT = 34_000  # bytes of the entries: fewer where they are long
CONTEXT = 6  # entries before the one that an address leads to
# The tabs of a session's page, and what each shows.
KINDS = {
    "": ("All", timeline.PAGE_KINDS),
    "memory": ("Memories", ("memory",)),
    "event": ("Events", ("event", "boundary")),
    "boundary": ("Boundaries", ("boundary",)),
    "injection": ("Injections", ("injection",)),
}
_WITH_EVENTS = {"", "event", "boundary"}
_SAME_ID = 50


@require_safe
@live.watched
def sessions(request: HtmxHttpRequest) -> HttpResponse:
    """Sessions with something in them that may be seen, those active last first."""
    form = SessionFilter(request.GET)
    valid = form.is_valid()
    everything = with_counts(clearance_of(request))
    rows = _narrow(everything, form) if valid else everything.none()
    page = _page(rows, request.GET.get("cursor"))
    live.shows(request, [_told(one) for one in page.items])
    context = {
        "form": form,
        "page": page,
        "first": not request.GET.get("cursor"),
    }
    return page_or_fragment(
        request,
        "sessions/list.html",
        context,
        fragment="sessions/results.html",
        target="results",
        status=200 if valid else 422,
    )


def _told(one: Any) -> tuple[Any, ...]:
    """What the pages tell of a session; it changes as the session goes on."""
    return (one.pk, one.memory_count, one.event_count, one.last_seen, one.ended_seen, one.summary_id)


def _narrow(rows: SessionQuerySet, form: SessionFilter) -> SessionQuerySet:
    if typed := form.value("q"):
        rows = rows.filter(Q(session_id__icontains=typed) | Q(project__icontains=typed))
    if project := form.value("project"):
        rows = rows.filter(project=project)
    return rows


def _page(rows: SessionQuerySet, cursor: str | None) -> pagination.Page:
    try:
        return pagination.page(rows, "last_seen", PAGE, cursor)
    except pagination.BadCursor as error:
        raise BadRequest(str(error)) from None


@require_safe
@live.watched
def session(request: HttpRequest, session_id: str) -> HttpResponse:
    """One session's timeline; a choice where several projects have a session of this name."""
    rows = with_counts(clearance_of(request)).filter(session_id=session_id)
    if (project := request.GET.get("project")) is not None:
        rows = rows.filter(project=project)
    found = list(rows.order_by("-last_seen", "-pk")[:_SAME_ID])
    if not found:
        raise Http404
    if len(found) > 1:
        return render(request, "sessions/choose.html", {"session_id": session_id, "sessions": found})
    context = _timeline(request, found[0])
    summary, entries = context["summary"], [entry for day in context["days"] for entry in day.entries]
    live.shows(
        request,
        _told(found[0]),
        summary and summary.updated_at,
        [(entry.anchor, getattr(entry.row, "updated_at", None)) for entry in entries],
        [context[name] for name in ("boundaries", "injections", "next_cursor")],
    )
    return render(request, "sessions/page.html", context)


def _timeline(request: HttpRequest, found: Session) -> dict[str, Any]:
    """The whole page: what is known of the session, its picture, and a page of what happened.

    Who goes on in the list has seen the picture, which takes longer than the list.
    """
    clearance = clearance_of(request)
    kind, order = request.GET.get("kind", ""), request.GET.get("order", "")
    if kind not in KINDS or order not in ("", "newest"):
        raise BadRequest("kind or order is not one of this page's")
    events = Event.objects.visible_to(clearance).filter(session=found)
    shown = _entries(request, found, clearance, kind, order)
    return {
        "session": found,
        "summary": _summary(request, found),
        "boundaries": events.filter(boundary=True).count(),
        "picture": figure_of(found, clearance) if shown["first"] else "",
        "chips": groups(request, events) if kind in _WITH_EVENTS else [],
        "injections": Injection.objects.visible_to(clearance).filter(session=found).count(),
        "known": _known(found, clearance) if kind == "injection" else None,
        "kind": kind,
        "kinds": [(name, label) for name, (label, _) in KINDS.items()],
        "order": order,
        **shown,
    }


def _entries(
    request: HttpRequest, found: Session, clearance: Clearance, kind: str, order: str
) -> dict[str, Any]:
    which = asked(request) if kind in _WITH_EVENTS else timeline.EventFilter()
    # Who asks for some events wants no memories between them.
    kinds = KINDS["event" if kind == "" and which != timeline.EventFilter() else kind][1]
    cursor, anchor = request.GET.get("cursor"), request.GET.get("entry", "")
    if anchor and not cursor:
        cursor = timeline.before(anchor, clearance, found, CONTEXT, oldest_first=not order)
    try:
        entries, next_cursor = timeline.timeline(
            clearance,
            MemoryFilter(),
            limit=ENTRIES,
            cursor=cursor,
            kinds=kinds,
            of=found,
            oldest_first=not order,
            which=which,
        )
    except pagination.BadCursor as error:
        raise BadRequest(str(error)) from None
    queries.look_up_entries(entries, clearance)
    anchors = [entry.anchor for entry in entries]
    least = anchors.index(anchor) + 1 if anchor in anchors else 1
    listing, fit = _listing(request, entries, least)
    if fit < len(entries):
        entries, next_cursor = entries[:fit], timeline.after(entries[fit - 1])
    narrowed = which != timeline.EventFilter()
    return {
        "days": by_day(entries),
        "listing": listing,
        "shown": len(entries),
        "next_cursor": next_cursor,
        "first": not cursor,
        "narrowed": narrowed,
        "lost": bool(anchor) and anchor not in anchors,
    }


def _listing(request: HttpRequest, entries: list[timeline.Entry], least: int) -> tuple[str, int]:
    """As many of the entries as a page bears, and how many those are; ``least`` of them in any case."""
    context = {"in_session": True, "level": 3, "bulk": any(bulk_actions.offered(request).values())}

    def shown(count: int) -> str:
        days = {"days": by_day(entries[:count])}
        return render_to_string("timeline/days.html", {**context, **days}, request)

    return fitting(shown, len(entries), MOST_WEIGHT, least)


def _known(found: Session, clearance: Clearance) -> queries.Knowledge:
    return queries.sum_up(queries.of_session(found, clearance, MOST))


def _summary(request: HttpRequest, found: Session) -> Memory | None:
    """The memory that sums the session up, if that may be seen."""
    if found.summary_id is None:
        return None
    visible = Memory.objects.visible_to(clearance_of(request)).live()
    summary: Memory | None = visible.filter(pk=found.summary_id).first()
    return summary
