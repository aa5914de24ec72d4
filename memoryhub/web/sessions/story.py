"""The events, injections and memories of a session for its picture, within a byte budget of markup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from memoryhub.access import redaction
from memoryhub.access.policy import Clearance
from memoryhub.capture.observation import kind_of
from memoryhub.core.text import shorten
from memoryhub.injection.queries import Log, of_session
from memoryhub.models import Event, Memory
from memoryhub.web.sessions.picture import END, START, Happening, draw
from memoryhub.web.templatetags.pages import event_name, session_url


def weight(markup: str) -> int:
    """Bytes as they are sent."""
    return len(markup.encode())


def fitting(shown: Callable[[int], str], count: int, most: int, least: int = 1) -> tuple[str, int]:
    """The markup of the first of ``count`` things, no heavier than ``most`` bytes, and how many those are.

    ``shown`` makes the markup of so many. The first ``least`` are shown whatever they weigh.
    """
    markup = shown(count)
    while (heavy := weight(markup)) > most and count > least:
        count = max(least, min(count - 1, count * most // heavy))
        markup = shown(count)
    return markup, count


MOST = 1500  # of a kind; a picture of more would be a grey wall
MOST_WEIGHT = 36_000  # bytes of the picture and its table
TITLE = 90
_LANES = {
    "prompt:submit": "prompt",
    "session:start": START,
    "session:end": END,
    "session:checkpoint": "memory",
}


def figure_of(session: Any, clearance: Clearance) -> str:
    """The picture of a session that ``SessionQuerySet.visible_to`` gave, as markup; empty of nothing.

    What does not fit into the page's weight goes: first the words under single marks, then the end.
    """
    drawn, more = _happenings(session, clearance)
    if not drawn:
        return ""
    markup = _figure(drawn, more=more, titled=True)
    if weight(markup) <= MOST_WEIGHT:
        return markup
    return fitting(
        lambda count: _figure(drawn[:count], more=more or count < len(drawn), titled=False),
        len(drawn),
        MOST_WEIGHT,
    )[0]


def _figure(drawn: Sequence[Happening], *, more: bool, titled: bool) -> str:
    gate = settings.MEMORYHUB.memorability_threshold
    picture = draw(drawn, gate, timezone.get_current_timezone())
    return render_to_string("sessions/picture.html", {"picture": picture, "more": more, "titled": titled})


def _happenings(session: Any, clearance: Clearance) -> tuple[list[Happening], bool]:
    """What there is to draw, in its order; and whether that is the beginning of more."""
    events = _events(session, clearance)
    more = len(events) > MOST
    drawn = [_event(one) for one in events[:MOST]]
    drawn += [_injection(log, session) for log in of_session(session, clearance, MOST)]
    drawn += [_memory(one) for one in _memories(session, clearance, {e.memory_id for e in events})]
    if more:
        last = events[MOST - 1].at
        drawn = [one for one in drawn if one.at <= last]
    drawn += _edges(session, {one.lane for one in drawn}, ends=not more)
    return sorted(drawn, key=lambda one: one.at), more


def _events(session: Any, clearance: Clearance) -> list[Any]:
    """One more than :data:`MOST` when there are more."""
    events = Event.objects.visible_to(clearance).filter(session=session)
    names = ("at", "event", "tool_name", "segment", "memorability", "skip_reason", "files", "keywords")
    became = ("memory_id", "memory__uid", "memory__title", "memory__type", "memory__sensitivity")
    # Rows and no models: a thousand of them take half the time.
    return list(events.order_by("at", "pk").values_list(*names, *became, named=True)[: MOST + 1])


def _memories(session: Any, clearance: Clearance, drawn: set[int | None]) -> list[Memory]:
    """Those that came by another way than an event: checkpoints, summaries, what an agent stored itself."""
    memories = Memory.objects.visible_to(clearance).live()
    mine = memories.in_session(session.session_id, project=session.project)
    rows = mine.only("uid", "title", "type", "created_at", "sensitivity").order_by("created_at", "pk")[:MOST]
    return [memory for memory in rows if memory.pk not in drawn]


def _event(event: Any) -> Happening:
    return Happening(
        at=event.at,
        lane=_LANES.get(event.event) or kind_of(event.tool_name),
        title=_told(event),
        type=event.memory__type or "",
        href=reverse("memory", args=[event.memory__uid]) if event.memory_id else "",
        memorability=event.memorability,
        segment=event.segment,
        keywords=tuple(map(str, event.keywords)) if isinstance(event.keywords, list) else (),
    )


def _told(event: Any) -> str:
    """``14:02:31 Edit src/a.py, memorability 0.41, became “…”``."""
    name = " ".join([event_name(event), *map(str, event.files[:1])])
    parts = [f"{_clock(event.at)} {shorten(name, TITLE)}"]
    if event.memorability is not None:
        parts.append(f"memorability {event.memorability:.2f}")
    if event.memory_id:
        became = redaction.name(event.memory__title, event.memory__uid, event.memory__sensitivity)
        parts.append(f"became “{shorten(became, TITLE)}”")
    elif event.skip_reason:
        parts.append(f"not kept: {event.skip_reason}")
    return ", ".join(parts)


def _injection(log: Log, session: Any) -> Happening:
    """It leads to its place in the log of this session."""
    told = (
        "; ".join(shorten(redaction.name_of(one.memory), TITLE) for one in log.told) or "nothing to be listed"
    )
    at, uid = log.injection.at, log.injection.uid
    here = f"{session_url(session.session_id, session.project)}&kind=injection#injection-{uid}"
    return Happening(at, "injection", f"{_clock(at)} injected: {told}", href=here)


def _memory(memory: Memory) -> Happening:
    told = shorten(redaction.name_of(memory), TITLE)
    title = f"{_clock(memory.created_at)} {memory.type.replace('_', ' ')}: {told}"
    return Happening(memory.created_at, "memory", title, memory.type, reverse("memory", args=[memory.uid]))


def _edges(session: Any, lanes: set[str], *, ends: bool) -> list[Happening]:
    """Where it began and ended, as far as no event of its own says so."""
    edges = []
    if START not in lanes:
        edges.append(Happening(session.first_seen, START, f"{_clock(session.first_seen)} session began"))
    if ends and session.ended_seen and END not in lanes:
        edges.append(Happening(session.ended_seen, END, f"{_clock(session.ended_seen)} session ended"))
    return edges


def _clock(at: datetime) -> str:
    return timezone.localtime(at).time().isoformat("seconds")
