"""Chips that narrow the events of a session: by tool, by what became of them, by why they were not kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest

from memoryhub.models import Event
from memoryhub.retrieval.timeline import EventFilter
from memoryhub.web.lists import without

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
