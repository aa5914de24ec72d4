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
from memoryhub.accounts.clearance import request_clearance
from memoryhub.core import pagination
from memoryhub.injection import queries
from memoryhub.memories.filters import MemoryFilter
from memoryhub.models import Event, Injection, Memory, Session
from memoryhub.models.querysets import SessionQuerySet
from memoryhub.stats import timeline
from memoryhub.stats.timeline import EventFilter, sessions_with_counts
from memoryhub.web.base import live
from memoryhub.web.base.days import group_by_day
from memoryhub.web.base.filters import SessionFilter
from memoryhub.web.base.htmx import HtmxHttpRequest, page_or_fragment
from memoryhub.web.memories import bulk_actions
from memoryhub.web.memories.filters import filter_url
from memoryhub.web.sessions.picture import MAX_ITEMS, fit_to_bytes, render_picture

_OUTCOME_LABELS = {"kept": "Kept", "skipped": "Not kept"}
_EVENT_LABELS = {
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
class ChipGroup:
    title: str
    chips: list[Chip]


def parse_event_filter(request: HttpRequest) -> EventFilter:
    """The events that the address asks for."""
    given = {name: request.GET.get(name, "") for name in ("tool", "kept", "reason")}
    return EventFilter(**given)


def chip_groups(request: HttpRequest, events: QuerySet[Event]) -> list[ChipGroup]:
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
        _chip_group(request, "Tools and events", "tool", tools, _EVENT_LABELS),
        _chip_group(request, "What became of them", "kept", kept, _OUTCOME_LABELS),
        _chip_group(request, "Why not kept", "reason", reasons, {}),
    ]
    return [group for group in made if len(group.chips) > 1 or any(chip.chosen for chip in group.chips)]


def _chip_group(
    request: HttpRequest, title: str, name: str, counts: Counter[str], labels: Mapping[str, str]
) -> ChipGroup:
    chosen = request.GET.get(name, "")
    chips = []
    for value, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        on = value == chosen
        href = filter_url(request, name) if on else filter_url(request, **{name: value})
        chips.append(Chip(labels.get(value, value), count, on, href))
    return ChipGroup(title, chips)


PAGE_SIZE = 50
ENTRIES_PER_PAGE = 30
MAX_LIST_BYTES = 34_000  # bytes of the entries: fewer where they are long
CONTEXT_ENTRIES = 6  # entries before the one that an address leads to
# The tabs of a session's page, and what each shows.
KINDS = {
    "": ("All", timeline.PAGE_KINDS),
    "memory": ("Memories", ("memory",)),
    "event": ("Events", ("event", "boundary")),
    "boundary": ("Boundaries", ("boundary",)),
    "injection": ("Injections", ("injection",)),
}
_WITH_EVENTS = {"", "event", "boundary"}
_MAX_SAME_ID = 50


@require_safe
@live.answers_polls
def sessions(request: HtmxHttpRequest) -> HttpResponse:
    """Sessions with something in them that may be seen, those active last first."""
    form = SessionFilter(request.GET)
    valid = form.is_valid()
    everything = sessions_with_counts(request_clearance(request))
    rows = _apply_filter(everything, form) if valid else everything.none()
    page = _read_page(rows, request.GET.get("cursor"))
    live.set_etag(request, [_session_version(one) for one in page.items])
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


def _session_version(one: Any) -> tuple[Any, ...]:
    """What the pages tell of a session; it changes as the session goes on."""
    return (one.pk, one.memory_count, one.event_count, one.last_seen, one.ended_seen, one.summary_id)


def _apply_filter(rows: SessionQuerySet, form: SessionFilter) -> SessionQuerySet:
    if typed := form.value("q"):
        rows = rows.filter(Q(session_id__icontains=typed) | Q(project__icontains=typed))
    if project := form.value("project"):
        rows = rows.filter(project=project)
    return rows


def _read_page(rows: SessionQuerySet, cursor: str | None) -> pagination.Page:
    try:
        return pagination.paginate(rows, "last_seen", PAGE_SIZE, cursor)
    except pagination.InvalidCursor as error:
        raise BadRequest(str(error)) from None


@require_safe
@live.answers_polls
def session(request: HttpRequest, session_id: str) -> HttpResponse:
    """One session's timeline; a choice where several projects have a session of this name."""
    rows = sessions_with_counts(request_clearance(request)).filter(session_id=session_id)
    if (project := request.GET.get("project")) is not None:
        rows = rows.filter(project=project)
    found = list(rows.order_by("-last_seen", "-pk")[:_MAX_SAME_ID])
    if not found:
        raise Http404
    if len(found) > 1:
        return render(request, "sessions/choose.html", {"session_id": session_id, "sessions": found})
    context = _session_context(request, found[0])
    summary, entries = context["summary"], [entry for day in context["days"] for entry in day.entries]
    live.set_etag(
        request,
        _session_version(found[0]),
        summary and summary.updated_at,
        [(entry.anchor, getattr(entry.row, "updated_at", None)) for entry in entries],
        [context[name] for name in ("boundaries", "injections", "next_cursor")],
    )
    return render(request, "sessions/page.html", context)


def _session_context(request: HttpRequest, found: Session) -> dict[str, Any]:
    """The whole page: what is known of the session, its picture, and a page of what happened.

    Who goes on in the list has seen the picture, which takes longer than the list.
    """
    clearance = request_clearance(request)
    kind, order = request.GET.get("kind", ""), request.GET.get("order", "")
    if kind not in KINDS or order not in ("", "newest"):
        raise BadRequest("kind or order is not one of this page's")
    events = Event.objects.visible_to(clearance).filter(session=found)
    shown = _entries_context(request, found, clearance, kind, order)
    return {
        "session": found,
        "summary": _visible_summary(request, found),
        "boundaries": events.filter(boundary=True).count(),
        "picture": render_picture(found, clearance) if shown["first"] else "",
        "chips": chip_groups(request, events) if kind in _WITH_EVENTS else [],
        "injections": Injection.objects.visible_to(clearance).filter(session=found).count(),
        "known": _injected_knowledge(found, clearance) if kind == "injection" else None,
        "kind": kind,
        "kinds": [(name, label) for name, (label, _) in KINDS.items()],
        "order": order,
        **shown,
    }


def _entries_context(
    request: HttpRequest, found: Session, clearance: Clearance, kind: str, order: str
) -> dict[str, Any]:
    which = parse_event_filter(request) if kind in _WITH_EVENTS else timeline.EventFilter()
    # Who asks for some events wants no memories between them.
    kinds = KINDS["event" if kind == "" and which != timeline.EventFilter() else kind][1]
    cursor, anchor = request.GET.get("cursor"), request.GET.get("entry", "")
    if anchor and not cursor:
        cursor = timeline.cursor_before(anchor, clearance, found, CONTEXT_ENTRIES, oldest_first=not order)
    try:
        entries, next_cursor = timeline.load_timeline(
            clearance,
            MemoryFilter(),
            limit=ENTRIES_PER_PAGE,
            cursor=cursor,
            kinds=kinds,
            of=found,
            oldest_first=not order,
            which=which,
        )
    except pagination.InvalidCursor as error:
        raise BadRequest(str(error)) from None
    queries.attach_reports(entries, clearance)
    anchors = [entry.anchor for entry in entries]
    least = anchors.index(anchor) + 1 if anchor in anchors else 1
    listing, fit = _render_entries(request, entries, least)
    if fit < len(entries):
        entries, next_cursor = entries[:fit], timeline.cursor_after(entries[fit - 1])
    narrowed = which != timeline.EventFilter()
    return {
        "days": group_by_day(entries),
        "listing": listing,
        "shown": len(entries),
        "next_cursor": next_cursor,
        "first": not cursor,
        "narrowed": narrowed,
        "lost": bool(anchor) and anchor not in anchors,
    }


def _render_entries(
    request: HttpRequest, entries: list[timeline.TimelineEntry], least: int
) -> tuple[str, int]:
    """As many of the entries as a page bears, and how many those are; ``least`` of them in any case."""
    context = {"in_session": True, "level": 3, "bulk": any(bulk_actions.allowed_actions(request).values())}

    def shown(count: int) -> str:
        days = {"days": group_by_day(entries[:count])}
        return render_to_string("timeline/days.html", {**context, **days}, request)

    return fit_to_bytes(shown, len(entries), MAX_LIST_BYTES, least)


def _injected_knowledge(found: Session, clearance: Clearance) -> queries.SessionKnowledge:
    return queries.summarize_reports(queries.load_session_reports(found, clearance, MAX_ITEMS))


def _visible_summary(request: HttpRequest, found: Session) -> Memory | None:
    """The memory that sums the session up, if that may be seen."""
    if found.summary_id is None:
        return None
    visible = Memory.objects.visible_to(request_clearance(request)).live()
    summary: Memory | None = visible.filter(pk=found.summary_id).first()
    return summary
