"""The picture of a session: its events, injections and memories, within a budget of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.template.defaultfilters import floatformat
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from memoryhub.access import policy
from memoryhub.access.policy import Clearance
from memoryhub.capture.observation import tool_kind
from memoryhub.core.text import shorten
from memoryhub.injection.queries import InjectionReport
from memoryhub.models import Event, Memory
from memoryhub.web.base.labels import event_name, skip_reason
from memoryhub.web.base.session_titles import session_url
from memoryhub.web.sessions.picture_layout import END, START, PictureItem, lay_out_picture

MAX_ITEMS = 1500  # of each kind; more marks would overlap
MAX_PICTURE_BYTES = 36_000  # with its table
MAX_TITLE_CHARS = 90
_EVENT_LANES = {
    "prompt:submit": "prompt",
    "session:start": START,
    "session:end": END,
    "session:checkpoint": "memory",
}


def fit_to_bytes(
    render: Callable[[int], str], count: int, max_bytes: int, min_count: int = 1
) -> tuple[str, int]:
    """Render the first ``count`` items, or fewer to stay within ``max_bytes``. Return markup and count.

    ``render`` makes the markup of that many items. At least ``min_count`` are rendered, whatever their size.
    """
    markup = render(count)
    while (size := len(markup.encode())) > max_bytes and count > min_count:
        count = max(min_count, min(count - 1, count * max_bytes // size))
        markup = render(count)
    return markup, count


def render_picture(session: Any, clearance: Clearance, reports: Iterable[InjectionReport]) -> str:
    """Return the markup of the picture of a visible session and its injections; empty without items.

    To stay within the byte budget, first the titles of small marks are left out, then the last items.
    """
    drawn, more = _collect_items(session, clearance, reports)
    if not drawn:
        return ""
    markup = _render_items(drawn, more=more, titled=True)
    if len(markup.encode()) <= MAX_PICTURE_BYTES:
        return markup
    return fit_to_bytes(
        lambda count: _render_items(drawn[:count], more=more or count < len(drawn), titled=False),
        len(drawn),
        MAX_PICTURE_BYTES,
    )[0]


def _render_items(drawn: Sequence[PictureItem], *, more: bool, titled: bool) -> str:
    threshold = settings.MEMORYHUB.memorability_threshold
    picture = lay_out_picture(drawn, threshold, timezone.get_current_timezone())
    return render_to_string(
        "sessions/page.html#picture", {"picture": picture, "more": more, "titled": titled}
    )


def _collect_items(
    session: Any, clearance: Clearance, reports: Iterable[InjectionReport]
) -> tuple[list[PictureItem], bool]:
    """Return the items to draw in their order, and whether more of them exist."""
    events = _event_rows(session, clearance)
    more = len(events) > MAX_ITEMS
    drawn = [_event_item(item) for item in events[:MAX_ITEMS]]
    drawn += [_injection_item(report, session) for report in reports]
    drawn += [
        _memory_item(item) for item in _other_memories(session, clearance, {e.memory_id for e in events})
    ]
    if more:
        last = events[MAX_ITEMS - 1].at
        drawn = [item for item in drawn if item.at <= last]
    drawn += _edge_items(session, {item.lane for item in drawn}, ends=not more)
    return sorted(drawn, key=lambda item: item.at), more


def _event_rows(session: Any, clearance: Clearance) -> list[Any]:
    """Return the events, one more than :data:`MAX_ITEMS` when more exist."""
    events = Event.objects.visible_to(clearance).filter(session=session)
    names = ("at", "event", "tool_name", "segment", "memorability", "skip_reason", "files", "keywords")
    became = ("memory_id", "memory__uid", "memory__title", "memory__type", "memory__sensitivity")
    # Rows take half the time of model instances.
    return list(events.order_by("at", "pk").values_list(*names, *became, named=True)[: MAX_ITEMS + 1])


def _other_memories(session: Any, clearance: Clearance, drawn: set[int | None]) -> list[Memory]:
    """Return memories that come from no event: checkpoints, summaries, those that an agent stored."""
    memories = Memory.objects.visible_to(clearance).live()
    mine = memories.in_session(session.session_id, project=session.project)
    rows = mine.only("uid", "title", "type", "created_at", "sensitivity").order_by("created_at", "pk")[
        :MAX_ITEMS
    ]
    return [memory for memory in rows if memory.pk not in drawn]


def _event_item(event: Any) -> PictureItem:
    return PictureItem(
        at=event.at,
        lane=_EVENT_LANES.get(event.event) or tool_kind(event.tool_name),
        title=_event_title(event),
        type=event.memory__type or "",
        href=reverse("memory", args=[event.memory__uid]) if event.memory_id else "",
        memorability=event.memorability,
        segment=event.segment,
        keywords=tuple(map(str, event.keywords)) if isinstance(event.keywords, list) else (),
    )


def _event_title(event: Any) -> str:
    """``14:02:31 Edit src/a.py, memorability 0.41, became “…”``."""
    name = " ".join([event_name(event), *map(str, event.files[:1])])
    parts = [f"{_clock(event.at)} {shorten(name, MAX_TITLE_CHARS)}"]
    if event.memorability is not None:
        parts.append(f"memorability {floatformat(event.memorability, 2)}")
    if event.memory_id:
        became = policy.format_display_name(event.memory__title, event.memory__uid, event.memory__sensitivity)
        parts.append(f"became “{shorten(became, MAX_TITLE_CHARS)}”")
    elif event.skip_reason:
        parts.append(f"not kept: {skip_reason(event.skip_reason)}")
    return ", ".join(parts)


def _injection_item(log: InjectionReport, session: Any) -> PictureItem:
    """Link the item to its entry in the injection log of this session."""
    titles = (
        "; ".join(shorten(policy.display_name(item.memory), MAX_TITLE_CHARS) for item in log.shown)
        or "nothing to list"
    )
    at, uid = log.injection.at, log.injection.uid
    here = f"{session_url(session.session_id, session.project)}&kind=injection#injection-{uid}"
    return PictureItem(at, "injection", f"{_clock(at)} injected: {titles}", href=here)


def _memory_item(memory: Memory) -> PictureItem:
    name = shorten(policy.display_name(memory), MAX_TITLE_CHARS)
    title = f"{_clock(memory.created_at)} {memory.type.replace('_', ' ')}: {name}"
    return PictureItem(memory.created_at, "memory", title, memory.type, reverse("memory", args=[memory.uid]))


def _edge_items(session: Any, lanes: set[str], *, ends: bool) -> list[PictureItem]:
    """Return the start and end of the session, unless events mark them."""
    edges = []
    if START not in lanes:
        edges.append(PictureItem(session.first_seen, START, f"{_clock(session.first_seen)} session began"))
    if ends and session.ended_seen and END not in lanes:
        edges.append(PictureItem(session.ended_seen, END, f"{_clock(session.ended_seen)} session ended"))
    return edges


def _clock(at: datetime) -> str:
    return timezone.localtime(at).time().isoformat("seconds")
