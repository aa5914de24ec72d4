"""The timeline: memories, events, boundaries, injections, session starts and ends in one list."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.utils.crypto import salted_hmac

from memoryhub.access.policy import Clearance
from memoryhub.core.pagination import InvalidCursor, seal, unseal
from memoryhub.memories import serializers
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.rows import attach_lists, visible_replacements
from memoryhub.models import Event, Injection, Memory, Session
from memoryhub.models.querysets import SessionQuerySet, live_memories
from memoryhub.stats.counts import count_each

# Order of entries with the same time: an end is listed above other entries, a start below them.
_KIND_ORDER = ("session_start", "event", "boundary", "injection", "memory", "session_end")
# The API has no injections; only pages show them.
API_KINDS = tuple(kind for kind in _KIND_ORDER if kind != "injection")
PAGE_KINDS = _KIND_ORDER
_SESSION_KINDS = ("session_start", "session_end")
# A queryset, the column with the time of its rows, and their kinds: events are of two.
_Source = tuple[QuerySet[Any], str, tuple[str, ...]]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class TimelineEntry:
    """One entry. ``kind`` is one of :data:`PAGE_KINDS`."""

    at: datetime
    kind: str
    row: Memory | Event | Session | Injection

    @property
    def order(self) -> tuple[datetime, int, int]:
        return (self.at, _KIND_ORDER.index(self.kind), self.row.pk)

    @property
    def anchor(self) -> str:
        """Name within the session: the element id on a page, see :func:`cursor_before`."""
        if isinstance(self.row, Memory):
            return f"memory-{self.row.uid}"
        if isinstance(self.row, Injection):
            return f"injection-{self.row.uid}"
        if isinstance(self.row, Session):
            return self.kind.replace("_", "-")
        microseconds = (self.at - _EPOCH) // timedelta(microseconds=1)
        return f"event-{microseconds}-{_event_mark(self.row.pk)}"


def _event_mark(pk: int) -> str:
    """Return a keyed hash of a primary key, which would reveal the number of events."""
    return salted_hmac("memoryhub.event", str(pk)).hexdigest()[:12]


@dataclass(frozen=True)
class EventFilter:
    """Filter for events; empty values match all.

    ``tool``: a tool name, or the name of an event without a tool. ``kept``: "kept" for events that became a
    memory, "skipped" for rejected ones. ``reason``: the skip reason. ``decided``: only events that were kept
    or not, which most are. ``without``: leave out events that were not kept for this reason, but keep changes
    of the subject.
    """

    tool: str = ""
    kept: str = ""
    reason: str = ""
    decided: bool = False
    without: str = ""

    def select(self, events: QuerySet[Any]) -> QuerySet[Any]:
        if self.tool:
            events = events.filter(Q(tool_name=self.tool) | Q(tool_name="", event=self.tool))
        if self.decided:
            events = events.exclude(memory__isnull=True, memorability__isnull=True, skip_reason="")
        if self.without:
            events = events.exclude(memory__isnull=True, skip_reason=self.without, boundary=False)
        if self.kept == "kept":
            events = events.filter(memory__isnull=False)
        if self.kept == "skipped":
            events = events.filter(memory__isnull=True).exclude(skip_reason="")
        return events.filter(skip_reason=self.reason) if self.reason else events


def load_timeline(
    clearance: Clearance,
    wanted: MemoryFilter,
    *,
    limit: int = 50,
    cursor: str | None = None,
    kinds: Container[str] = API_KINDS,
    of: Session | None = None,
    oldest_first: bool = False,
    which: EventFilter = EventFilter(),
) -> tuple[list[TimelineEntry], str | None]:
    """Return the next entries after the cursor, and the next cursor.

    A filter on fields that only memories have returns only memories. ``of``: limit to one session of
    :func:`sessions_with_counts`, also one without a project. ``which``: limit the events. The number of
    queries is fixed. The labels, files and entities of memories are not loaded.
    """
    after = _decode_cursor(cursor) if cursor else None
    entries: list[TimelineEntry] = []
    for rows, column, found in _sources(clearance, wanted, of, kinds):
        if of and found[0] in _SESSION_KINDS:
            entries += _session_entries(of, column, found[0], after, oldest_first)
        else:
            if rows.model is Event:
                rows = which.select(rows)
            if len(entries) > limit:
                # The page is full up to this time; later rows need no access checks.
                rows = rows.filter(**{f"{column}__{'lte' if oldest_first else 'gte'}": entries[limit].at})
            entries += _load_entries(rows, column, found, limit, after, oldest_first)
        entries.sort(key=lambda entry: entry.order, reverse=not oldest_first)
    shown = entries[:limit]
    more = len(entries) > limit
    return shown, cursor_after(shown[-1]) if more and shown else None


def timeline_memories(entries: Iterable[TimelineEntry]) -> list[Memory]:
    """Return the memories among the entries."""
    return [entry.row for entry in entries if isinstance(entry.row, Memory)]


def cursor_after(entry: TimelineEntry) -> str:
    """Return the cursor after an entry, for either direction."""
    at, order, pk = entry.order
    return seal([at.isoformat(), order, pk])


def cursor_before(
    anchor: str, clearance: Clearance, of: Session, context: int, *, oldest_first: bool
) -> str | None:
    """Return a cursor for a page of a session that contains this entry and ``context`` entries before it.

    ``None`` if the entry is among the first ones, or is not visible.
    """
    entry = _find_entry(anchor, clearance, of)
    if entry is None:
        return None
    ahead, more = load_timeline(
        clearance,
        MemoryFilter(),
        limit=context,
        cursor=cursor_after(entry),
        kinds=PAGE_KINDS,
        of=of,
        oldest_first=not oldest_first,
    )
    return cursor_after(ahead[-1]) if more else None


def _find_entry(anchor: str, clearance: Clearance, of: Session) -> TimelineEntry | None:
    kind, _, name = anchor.partition("-")
    if kind == "event":
        at, _, part = name.partition("-")
        return _find_event(at, part, clearance, of)
    named = kind if kind in ("memory", "injection") else anchor.replace("-", "_")
    for rows, column, _ in _sources(clearance, MemoryFilter(), of, [named]):
        row = (rows.filter(uid=name) if named == kind else rows).first()
        return TimelineEntry(getattr(row, column), named, row) if row else None
    return None


def _find_event(at: str, part: str, clearance: Clearance, of: Session) -> TimelineEntry | None:
    if not (at.isascii() and at.isdecimal() and len(at) < 18):
        return None
    rows = Event.objects.visible_to(clearance).filter(session=of, at=_EPOCH + timedelta(microseconds=int(at)))
    row = next((row for row in rows if _event_mark(row.pk) == part), None)
    return TimelineEntry(row.at, _event_kind(row), row) if row else None


def _event_kind(row: Event) -> str:
    return "boundary" if row.boundary else "event"


def count_entries(
    clearance: Clearance,
    wanted: MemoryFilter,
    *,
    kinds: Container[str] = API_KINDS,
    of: Session | None = None,
) -> int:
    """Count the entries of the whole timeline."""
    return _count(rows for rows, _, _ in _sources(clearance, wanted, of, kinds))


def _count(sources: Iterable[QuerySet[Any]]) -> int:
    """Count the rows of some querysets, in one statement."""
    return sum(count_each(**{f"n{number}": rows for number, rows in enumerate(sources)}).values())


def count_entries_before(cursor: str, clearance: Clearance, of: Session) -> int:
    """Count the entries of a session before a cursor, oldest first."""
    after = _decode_cursor(cursor)
    sources = list(_sources(clearance, MemoryFilter(), of, PAGE_KINDS))
    behind = _count(_filter_after(*source, after, oldest_first=True) for source in sources)
    return _count(rows for rows, _, _ in sources) - behind


def _includes_events(wanted: MemoryFilter) -> bool:
    """Return whether the filter has only fields that events and sessions have too."""
    shared = {"project", "session_id", "since", "until"}
    return all(not value for name, value in wanted if name not in shared)


def _sources(
    clearance: Clearance, wanted: MemoryFilter, of: Session | None, kinds: Container[str]
) -> Iterator[_Source]:
    """Yield the querysets that have entries of these kinds."""
    memories = wanted.select(clearance)
    if of:
        memories = memories.in_session(of.session_id, project=of.project)
    if "memory" in kinds:
        yield memories, "created_at", ("memory",)
    if _includes_events(wanted):
        yield from _event_sources(clearance, wanted, of, kinds)


def _event_sources(
    clearance: Clearance, wanted: MemoryFilter, of: Session | None, kinds: Container[str]
) -> Iterator[_Source]:
    """Yield the sources other than memories."""
    events, injections, sessions = _rows_of_sessions(clearance, wanted, of)
    of_events = tuple(kind for kind in ("event", "boundary") if kind in kinds)
    if len(of_events) == 1:
        events = events.filter(boundary=of_events == ("boundary",))
    for rows, column, found in (
        (events, "at", of_events),
        (injections, "at", ("injection",)),
        (sessions, "first_seen", ("session_start",)),
        (sessions.filter(ended_seen__isnull=False), "ended_seen", ("session_end",)),
    ):
        if not any(kind in kinds for kind in found):
            continue
        if wanted.since:
            rows = rows.filter(**{f"{column}__gte": wanted.since})
        if wanted.until:
            rows = rows.filter(**{f"{column}__lt": wanted.until})
        yield rows, column, found


def _rows_of_sessions(clearance: Clearance, wanted: MemoryFilter, of: Session | None) -> list[QuerySet[Any]]:
    events = Event.objects.visible_to(clearance).select_related("session", "memory")
    sessions = Session.objects.visible_to(clearance)
    injections = Injection.objects.visible_to(clearance).select_related("session")
    if of:
        events, sessions = events.filter(session=of), sessions.filter(pk=of.pk)
        injections = injections.filter(session=of)
    if wanted.project:
        events = events.filter(session__project=wanted.project)
        sessions = sessions.filter(project=wanted.project)
        injections = injections.filter(project=wanted.project)
    if wanted.session_id:
        events = events.filter(session__session_id=wanted.session_id)
        sessions = sessions.filter(session_id=wanted.session_id)
        injections = injections.filter(session__session_id=wanted.session_id)
    return [events, injections, sessions]


def _load_entries(
    rows: QuerySet[Any],
    column: str,
    kinds: tuple[str, ...],
    limit: int,
    after: tuple[datetime, int, int] | None,
    oldest_first: bool,
) -> list[TimelineEntry]:
    """Return the first entries of a source after the cursor, one more than the limit if there are more."""
    if after:
        rows = _filter_after(rows, column, kinds, after, oldest_first=oldest_first)
    order = (column, "boundary", "pk") if rows.model is Event else (column, "pk")
    rows = rows.order_by(*(one if oldest_first else f"-{one}" for one in order))[: limit + 1]
    return [
        TimelineEntry(getattr(row, column), _event_kind(row) if rows.model is Event else kinds[0], row)
        for row in rows
    ]


def _session_entries(
    of: Session, column: str, kind: str, after: tuple[datetime, int, int] | None, oldest_first: bool
) -> list[TimelineEntry]:
    """Return the start or end of a visible session, if it is known and after the cursor."""
    at: datetime | None = getattr(of, column)
    found = [TimelineEntry(at, kind, of)] if at else []
    return [
        one for one in found if after is None or (one.order > after if oldest_first else one.order < after)
    ]


def _filter_after(
    rows: QuerySet[Any],
    column: str,
    kinds: tuple[str, ...],
    after: tuple[datetime, int, int],
    *,
    oldest_first: bool,
) -> QuerySet[Any]:
    operator = "gt" if oldest_first else "lt"
    at, cursor_order, pk = after
    found = Q(**{f"{column}__{operator}": at})
    for kind in kinds:
        of_kind = Q(boundary=kind == "boundary") if len(kinds) > 1 else Q()
        order = _KIND_ORDER.index(kind)
        if order == cursor_order:
            found |= of_kind & Q(**{column: at, f"pk__{operator}": pk})
        elif (order > cursor_order) == oldest_first:
            found |= of_kind & Q(**{column: at})
    return rows.filter(found)


def _decode_cursor(cursor: str) -> tuple[datetime, int, int]:
    try:
        at, order, pk = unseal(cursor)
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is None or not (0 <= int(order) < len(_KIND_ORDER)) or not 0 <= int(pk) < 2**63:
            raise InvalidCursor
        return moment.astimezone(UTC), int(order), int(pk)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise InvalidCursor from None


def sessions_with_counts(clearance: Clearance) -> SessionQuerySet:
    """Return the visible sessions with ``memory_count`` and ``event_count`` of visible rows. Lazy."""
    memories = live_memories(clearance)
    events = Event.objects.visible_to(clearance).filter(session=OuterRef("pk"))
    sessions: SessionQuerySet = Session.objects.visible_to(clearance).annotate(
        memory_count=count_rows(memories.in_session(OuterRef("session_id"), project=OuterRef("project"))),
        event_count=count_rows(events),
    )
    return sessions


def count_rows(rows: QuerySet[Any]) -> Coalesce:
    """Return an expression for the number of rows of a correlated queryset."""
    # Grouping by a constant gives one group, or none.
    grouped = rows.order_by().values(one=Value(1)).annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(grouped), 0)


def serialize_entries(rows: Sequence[TimelineEntry], clearance: Clearance) -> list[dict[str, Any]]:
    """Return the entries in the shape of the wire contract."""
    found = timeline_memories(rows)
    attach_lists(found)
    replacements = visible_replacements(found, clearance)
    return [_serialize_entry(row, replacements) for row in rows]


def _serialize_entry(row: TimelineEntry, replacements: Mapping[int, str]) -> dict[str, Any]:
    head = {"at": serializers.moment(row.at), "kind": row.kind}
    if isinstance(row.row, Memory):
        return {
            **head,
            "memory": serializers.preview(row.row, replacements),
            "session_id": row.row.session_id,
            "project": row.row.project,
        }
    if isinstance(row.row, Event):
        return {**head, **serializers.event(row.row)}
    return {**head, "session_id": row.row.session_id, "project": row.row.project}
