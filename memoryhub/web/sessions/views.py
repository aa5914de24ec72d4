"""The list of sessions and the page of one session, with filters for its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from django.core.exceptions import BadRequest
from django.db.models import Count, Exists, Min, OuterRef, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

from memoryhub.access.policy import Clearance
from memoryhub.accounts.clearance import request_clearance
from memoryhub.capture.distillation import ROUTINE
from memoryhub.capture.projects import mode_note
from memoryhub.core.text import collapse_whitespace
from memoryhub.injection import queries
from memoryhub.injection.queries import InjectionReport
from memoryhub.memories.filters import MemoryFilter
from memoryhub.models import Event, Injection, Memory, Project, Session
from memoryhub.models.querysets import SessionQuerySet, live_memories
from memoryhub.stats import timeline
from memoryhub.stats.timeline import EventFilter, count_rows, sessions_with_counts
from memoryhub.web.base import requests
from memoryhub.web.base.forms import SessionFilter
from memoryhub.web.base.labels import IS_PROMPT, SKIP_REASON_LABELS, make_title, name_sessions, title_columns
from memoryhub.web.base.requests import HtmxHttpRequest, cached_until_change, cursor_page, page_or_fragment
from memoryhub.web.memories import bulk_actions
from memoryhub.web.memories.filters import OptionGroup, without_single_options
from memoryhub.web.sessions.picture import MAX_ITEMS, fit_to_bytes, format_pause, render_picture

MAX_QUERY_WORDS = 8


@dataclass(frozen=True)
class SessionRow:
    """A session with what its reader may see of it: the summary, the first prompt, and the skipped events."""

    session: Any  # a Session with the annotations of sessions_with_counts
    summary: Memory | None
    prompt: Event | None
    skipped: int

    @property
    def duration(self) -> str:
        """Return the time from the first visible row to the end, such as ``45 min``; empty if none."""
        last = max(self.session.last_seen, self.session.ended_seen or self.session.last_seen)
        span = last - self.session.first_seen
        return format_pause(span) if span else ""

    @property
    def shows_prompt(self) -> bool:
        """Whether the prompt is shown below the title, because it says something else."""
        if not self.summary or not self.prompt:
            return False
        title = self.summary.title.removeprefix("Session: ").rstrip("…")
        return not collapse_whitespace(self.prompt.preview).startswith(title)

    @property
    def version(self) -> tuple[Any, ...]:
        """Return the values that change during a session."""
        texts = (self.summary and self.summary.title, self.prompt and self.prompt.pk)
        return (*session_version(self.session), self.skipped, *texts)


def session_version(session: Any) -> tuple[Any, ...]:
    """Return what changes of a session of ``sessions_with_counts`` during it."""
    counts = (session.memory_count, session.event_count)
    return (session.session_id, session.project, *counts, session.last_seen, session.ended_seen)


def describe(sessions: Sequence[Session], clearance: Clearance) -> list[SessionRow]:
    """Return the rows of some sessions. Three queries, and one if a session has no summary or prompt."""
    summary_ids = [session.summary_id for session in sessions if session.summary_id]
    summaries = live_memories(clearance).in_bulk(summary_ids)
    events = Event.objects.visible_to(clearance).filter(session__in=sessions)
    skipped = Count("pk", filter=Q(memory=None) & ~Q(skip_reason=""))
    groups = events.order_by().values("session").annotate(skipped=skipped, first=Min("pk", filter=IS_PROMPT))
    by_session = {group["session"]: group for group in groups}
    first = [group["first"] for group in by_session.values() if group["first"]]
    prompts = events.select_related("memory").in_bulk(first)
    rows = []
    for session in sessions:
        group = by_session.get(session.pk, {"skipped": 0, "first": None})
        summary, prompt = summaries.get(session.summary_id), prompts.get(group["first"])
        rows.append(SessionRow(session, summary, prompt, group["skipped"]))
    name_sessions([row.session for row in rows if not (row.summary or row.prompt)], clearance)
    return rows


def find_words(rows: SessionQuerySet, words: str, clearance: Clearance) -> SessionQuerySet:
    """Return the sessions in which each word occurs.

    Words are looked for in the id, the project, visible prompts, titles of visible memories, and the visible
    summary.
    """
    prompts = Event.objects.visible_to(clearance).filter(IS_PROMPT, session=OuterRef("pk"))
    memories = live_memories(clearance)
    of_session = memories.in_session(OuterRef("session_id"), project=OuterRef("project"))
    summary = memories.filter(pk=OuterRef("summary_id"))
    for word in words.split()[:MAX_QUERY_WORDS]:
        rows = rows.filter(
            Q(session_id__icontains=word)
            | Q(project__icontains=word)
            | Exists(prompts.filter(preview__icontains=word))
            | Exists(of_session.filter(title__icontains=word))
            | Exists(summary.filter(content__icontains=word))
        )
    return rows


PAGE_SIZE = 25
ENTRIES_PER_PAGE = 30
DECISIONS_PER_PAGE = 10  # each shows how it was made, and is as high as a phone
MAX_LIST_BYTES = 29_000  # of the entries on a page: fewer entries if they are long
CONTEXT_ENTRIES = 6  # entries before the one that the address names
MIN_FOLDED = 3  # routine events in a row that become one line
# The tabs of a session's page, and below the first one the kinds of entries that it can be narrowed to.
TABS = {"": "What happened", "injection": "What the agent received", "kept": "What was kept and why"}
NARROWED = {"": "Everything", "memory": "Memories", "event": "Events", "boundary": "New subjects"}
KINDS = {
    "": timeline.PAGE_KINDS,
    "memory": ("memory",),
    "event": ("event", "boundary"),
    "boundary": ("boundary",),
    "injection": ("injection",),
    "kept": ("memory", "event", "boundary"),
}
_WITH_EVENTS = {"", "event", "boundary", "kept"}
_MAX_SAME_ID = 50
_OUTCOME_LABELS = {"kept": "Kept", "skipped": "Not kept"}
_EVENT_LABELS = {
    "prompt:submit": "Prompts",
    "session:start": "Session start",
    "session:end": "Session end",
    "session:checkpoint": "Checkpoint",
    "tool:post": "Tool calls",
}


@dataclass(frozen=True)
class EventCount:
    """A number of events that are alike. ``is_lost``: no visible memory was made from them."""

    tool_name: str
    event: str
    skip_reason: str
    boundary: bool
    is_lost: bool
    count: int


def count_events(events: QuerySet[Event]) -> list[EventCount]:
    """Count visible events by all that a page groups them by, in one query."""
    rows = events.order_by().annotate(lost=Q(memory__isnull=True))
    columns = ("tool_name", "event", "skip_reason", "boundary", "lost")
    return [EventCount(*row) for row in rows.values_list(*columns).annotate(n=Count("pk"))]


def event_filters(request: HttpRequest, counted: Iterable[EventCount]) -> list[OptionGroup]:
    """Return the filters of counted events, the most frequent values first."""
    tools: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for one in counted:
        tools[one.tool_name or one.event] += one.count
        if not one.is_lost:
            kept["kept"] += one.count
        elif one.skip_reason:
            kept["skipped"] += one.count
            reasons[one.skip_reason] += one.count
    groups = [
        OptionGroup.of(request, "tool", "Tools and events", tools, _EVENT_LABELS),
        OptionGroup.of(request, "kept", "Outcome", kept, _OUTCOME_LABELS),
        OptionGroup.of(request, "reason", "Why not kept", reasons, SKIP_REASON_LABELS),
    ]
    for group in groups:
        group.options.sort(key=lambda option: (-option.count, option.value))
    return without_single_options(groups)


@require_safe
@requests.answers_polls
def sessions(request: HtmxHttpRequest) -> HttpResponse:
    """List the sessions with visible content, the most recently active first."""
    form = SessionFilter(request.GET)
    clearance = request_clearance(request)
    found = sessions_with_counts(clearance)
    if form.is_valid():
        found = find_words(found, form.value("q"), clearance).filter(**form.given("project"))
    else:
        found = found.none()
    context = {"form": form, **cursor_page(request, found, "last_seen", PAGE_SIZE)}
    context["rows"] = describe(context["page"].items, clearance)
    requests.set_etag(request, [row.version for row in context["rows"]])
    return page_or_fragment(request, "sessions/list.html", context, target="results", status=form.http_status)


@require_safe
@requests.answers_polls
def session(request: HttpRequest, session_id: str) -> HttpResponse:
    """Show one session's timeline, or a choice if several projects have a session with this id."""
    rows = sessions_with_titles(request_clearance(request)).filter(session_id=session_id)
    if (project := request.GET.get("project")) is not None:
        rows = rows.filter(project=project)
    found = list(rows.order_by("-last_seen", "-pk")[:_MAX_SAME_ID])
    if not found:
        raise Http404
    if len(found) > 1:
        return render(request, "sessions/choose.html", {"session_id": session_id, "sessions": found})
    found[0].title = make_title(found[0])
    context = _session_context(request, found[0])
    summary, entries = context["summary"], context["entries"]
    requests.set_etag(
        request,
        session_version(found[0]),
        summary and (summary.uid, summary.updated_at),
        [
            (entry.kind, entry.at, *(getattr(entry.row, one, "") for one in ("uid", "updated_at")))
            for entry in entries
        ],
        [context[name] for name in ("boundaries", "injections")],
    )
    return render(request, "sessions/page.html", context)


def sessions_with_titles(clearance: Clearance) -> SessionQuerySet:
    """Return the visible sessions with their counts, with what their titles need and with their summaries."""
    injections = Injection.objects.visible_to(clearance).filter(session=OuterRef("pk"))
    rows: SessionQuerySet = sessions_with_counts(clearance).annotate(
        injection_count=count_rows(injections), **title_columns(clearance)
    )
    return rows.select_related("summary")


def _session_context(request: HttpRequest, found: Session) -> dict[str, Any]:
    """Return the context of the page. Only the first page of what happened has the picture."""
    clearance = request_clearance(request)
    kind, order = request.GET.get("kind", ""), request.GET.get("order", "")
    if kind not in KINDS or order not in ("", "newest"):
        raise BadRequest("unknown kind or order")
    cursor = _first_cursor(request, found, clearance, order)
    events = Event.objects.visible_to(clearance).filter(session=found)
    counted = cached_until_change(
        request, "session", clearance, lambda: count_events(events), found.pk, depends_on_events=True
    )
    reports = queries.load_session_reports(found, clearance, MAX_ITEMS) if kind == "injection" else []
    has_picture = not cursor and kind in NARROWED
    picture = _load_picture(request, found, clearance, reports) if has_picture else ""
    page = _entries_context(request, found, clearance, kind, order, cursor, reports)
    return {
        "session": found,
        "summary": visible_summary(found),
        "boundaries": sum(one.count for one in counted if one.boundary),
        "picture": picture,
        "left_out": 0 if page["narrowed"] or kind != "kept" else _count_routine(counted),
        "chips": event_filters(request, counted) if kind in _WITH_EVENTS else [],
        "injections": found.injection_count,  # type: ignore[attr-defined]
        "known": queries.summarize_reports(reports) if kind == "injection" else None,
        "mode": (mode_note(Project.named(found.project)) or "automatic capture") if found.project else "",
        "kind": kind,
        "tab": kind if kind in TABS else "",
        "tabs": TABS.items(),
        "narrowed_to": NARROWED.items() if kind in NARROWED else (),
        "order": order,
        "first": not cursor,
        **page,
    }


def _load_picture(
    request: HttpRequest, found: Session, clearance: Clearance, reports: list[InjectionReport]
) -> str:
    """Return the picture of a session. If it must be drawn, add its injections to ``reports``."""

    def draw() -> str:
        reports[:] = reports or queries.load_session_reports(found, clearance, MAX_ITEMS)
        return render_picture(found, clearance, reports)

    shown_for = (found.pk, timezone.get_current_timezone_name(), get_language())
    return cached_until_change(request, "picture", clearance, draw, *shown_for, depends_on_events=True)


def _count_routine(counted: Iterable[EventCount]) -> int:
    """Count the events that the decisions leave out, because they were not kept as routine."""
    return sum(
        one.count for one in counted if one.is_lost and one.skip_reason == ROUTINE and not one.boundary
    )


def _first_cursor(request: HttpRequest, found: Session, clearance: Clearance, order: str) -> str | None:
    """Return the cursor of the page, or one shortly before the entry that the address names."""
    cursor, anchor = request.GET.get("cursor"), request.GET.get("entry", "")
    if anchor and not cursor:
        return timeline.cursor_before(anchor, clearance, found, CONTEXT_ENTRIES, oldest_first=not order)
    return cursor


def _entries_context(
    request: HttpRequest,
    found: Session,
    clearance: Clearance,
    kind: str,
    order: str,
    cursor: str | None,
    reports: Sequence[InjectionReport],
) -> dict[str, Any]:
    tool, outcome, reason = (request.GET.get(name, "") for name in ("tool", "kept", "reason"))
    which = EventFilter(tool, outcome, reason) if kind in _WITH_EVENTS else EventFilter()
    is_filtered = which != EventFilter()
    anchor = request.GET.get("entry", "")
    options = {
        "limit": DECISIONS_PER_PAGE if kind == "kept" else ENTRIES_PER_PAGE,
        # A filter for events leaves out the memories between them.
        "kinds": KINDS["event" if kind in ("", "kept") and is_filtered else kind],
        "oldest_first": not order,
        "which": replace(
            which, decided=kind == "kept", without="" if is_filtered or kind != "kept" else ROUTINE
        ),
    }
    entries, next_cursor = read_entries(found, clearance, cursor, reports, **options)
    anchors = [entry.anchor for entry in entries]
    min_count = anchors.index(anchor) + 1 if anchor in anchors else 1
    listing, fit = _render_entries(request, entries, min_count, folds=kind == "" and not is_filtered)
    if fit < len(entries):
        entries, next_cursor = entries[:fit], timeline.cursor_after(entries[fit - 1])
    return {
        "entries": entries,
        "listing": listing,
        "shown": len(entries),
        "next_cursor": next_cursor,
        "narrowed": is_filtered,
        "lost": bool(anchor) and anchor not in anchors,
    }


def read_entries(
    found: Session,
    clearance: Clearance,
    cursor: str | None,
    reports: Iterable[InjectionReport] = (),
    **options: Any,
) -> tuple[list[timeline.TimelineEntry], str | None]:
    """Return one page of a session's entries with their injection logs, and the cursor of the next page.

    ``reports``: those of the logs that are loaded already.
    """
    entries, next_cursor = timeline.load_timeline(
        clearance, MemoryFilter(), cursor=cursor, of=found, **options
    )
    queries.attach_reports(entries, clearance, reports)
    return entries, next_cursor


def _render_entries(
    request: HttpRequest, entries: list[timeline.TimelineEntry], min_count: int, *, folds: bool
) -> tuple[str, int]:
    """Render as many entries as the page's budget allows, but at least ``min_count``. Return their number."""
    context = {
        "in_session": True,
        "level": 3,
        "bulk": any(bulk_actions.allowed_actions(request).values()),
        "reasons_open": request.GET.get("kind") == "kept",
    }
    anchor = request.GET.get("entry", "")

    def render_first(count: int) -> str:
        shown = fold_routine(entries[:count], anchor) if folds else entries[:count]
        return render_to_string("timeline/page.html#days", {**context, "entries": shown}, request)

    return fit_to_bytes(render_first, len(entries), MAX_LIST_BYTES, min_count)


@dataclass(frozen=True)
class FoldedEvents:
    """Routine events in a row, shown as one line that opens. ``is_open``: one of them is asked for."""

    entries: list[timeline.TimelineEntry]
    is_open: bool
    kind: str = "fold"

    @property
    def at(self) -> datetime:
        return self.entries[0].at

    @property
    def anchor(self) -> str:
        return f"fold-{self.entries[0].anchor}"


def is_routine(entry: timeline.TimelineEntry) -> bool:
    """Whether the entry is a tool call without a memory and without a failure."""
    if entry.kind != "event" or not isinstance(entry.row, Event):
        return False
    handlers = entry.row.handlers if isinstance(entry.row.handlers, list) else []
    has_failed = any(isinstance(one, dict) and one.get("status") == "failed" for one in handlers)
    return entry.row.event == "tool:post" and entry.row.memory_id is None and not has_failed


def fold_routine(
    entries: Sequence[timeline.TimelineEntry], anchor: str = ""
) -> list[timeline.TimelineEntry | FoldedEvents]:
    """Fold each run of at least :data:`MIN_FOLDED` routine events of one day."""
    folded: list[timeline.TimelineEntry | FoldedEvents] = []
    for (routine, _), run in groupby(entries, lambda one: (is_routine(one), timezone.localdate(one.at))):
        found = list(run)
        if routine and len(found) >= MIN_FOLDED:
            folded.append(FoldedEvents(found, anchor in [entry.anchor for entry in found]))
        else:
            folded += found
    return folded


def visible_summary(found: Any) -> Memory | None:
    """Return the summary of a session of :func:`sessions_with_titles` if it is visible."""
    return found.summary if found.summary_uid else None
