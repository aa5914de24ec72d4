"""Logged injections with the shown and withheld memories that the viewer can see."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.core.database import Deadline
from memoryhub.injection import outcomes
from memoryhub.injection.requests import InjectionRequest
from memoryhub.injection.selection import BELOW_FLOOR, OVER_PINNED_BUDGET, pinned_warnings, select_pinned
from memoryhub.injection.services import find_pinned
from memoryhub.memories.evidence import RATED
from memoryhub.models import Injection, Memory, Session
from memoryhub.models.querysets import InjectionQuerySet, live_memories
from memoryhub.stats.timeline import TimelineEntry

HELPED_SPAN = timedelta(days=30)
MAX_WARNED = 20  # projects whose pinned memories are measured for a page


@dataclass(frozen=True)
class ShownMemory:
    """A memory in the block. ``score``: 0..1, or None if not logged; ``scale``: its time scale.

    ``used``: whether it helped, with the reason ``why``; None if that is not decided. ``factor``: what its
    score was multiplied by for the order, if not 1.
    """

    memory: Memory
    score: float | None
    scale: str
    used: bool | None = None
    why: str = ""
    factor: float | None = None

    @property
    def outcome(self) -> str:
        """The outcome in words; empty if it is not decided."""
        if self.used is None:
            return ""
        return _OUTCOMES.get((self.used, self.why), "used" if self.used else "not used")


_OUTCOMES = {
    (True, outcomes.FILE): "used: its file was touched",
    (True, outcomes.TERMS): "used: its words were used",
    (True, outcomes.FAILURE): "used: its failure was avoided",
    (True, RATED): "rated useful",
    (False, RATED): "rated not useful",
}


@dataclass(frozen=True)
class WithheldMemory:
    """A withheld memory with the reason and an optional detail."""

    memory: Memory
    reason: str
    detail: str


@dataclass(frozen=True)
class InjectionReport:
    """One visible injection with its visible memories.

    ``complete``: all of its memories are listed. If one is hidden or deleted, totals would reveal it.
    """

    injection: Injection
    shown: list[ShownMemory]
    not_shown: list[WithheldMemory]
    complete: bool

    @property
    def withheld(self) -> list[WithheldMemory]:
        """Withheld memories that reached the minimum score."""
        return [one for one in self.not_shown if one.reason != BELOW_FLOOR]

    @property
    def weak(self) -> list[WithheldMemory]:
        """Memories below the minimum score."""
        return [one for one in self.not_shown if one.reason == BELOW_FLOOR]

    @property
    def available(self) -> int:
        """Number of memories that reached the minimum score, shown or not."""
        listed = [one.memory for one in self.shown] + [one.memory for one in self.withheld]
        return len({memory.pk for memory in listed})

    @property
    def exceeds_pinned_budget(self) -> bool:
        """Whether a visible pinned memory was cut or left out."""
        return any(one.reason == OVER_PINNED_BUDGET for one in self.not_shown)

    @property
    def tokens_used(self) -> int | None:
        """Tokens of the block, or None if that would reveal hidden memories."""
        return self.injection.tokens_used if self.complete else None


@dataclass(frozen=True)
class SessionKnowledge:
    """Memories shown in a session, each with its number of injections, and the number of each reason."""

    shown: list[tuple[Memory, int]]
    reasons: list[tuple[str, int]]


def decided_injections(clearance: Clearance, now: datetime) -> InjectionQuerySet:
    """Return the visible injections of the last 30 days whose outcome is decided. Lazy."""
    return Injection.objects.visible_to(clearance).filter(at__gte=now - HELPED_SPAN, helped__isnull=False)


def count_helped(clearance: Clearance, now: datetime) -> dict[str, tuple[int, int]]:
    """Return, by agent, how many :func:`decided_injections` helped, and how many there are. One query.

    Injections outside a session count for the agent "".
    """
    agents = decided_injections(clearance, now).order_by().values_list(Coalesce("session__agent", Value("")))
    counts = agents.annotate(helped=Count("pk", filter=Q(helped=True)), total=Count("pk"))
    return {agent: (helped, total) for agent, helped, total in counts}


def find_pinned_warnings(clearance: Clearance, project: str) -> dict[str, list[str]]:
    """Return the warnings about pinned memories by project, for one project or for all that have any."""
    pinned = live_memories(clearance).pinned()
    names = pinned.filter(project=project) if project else pinned
    warnings, budget = {}, settings.MEMORYHUB.pinned_token_budget
    for name in names.order_by("project").values_list("project", flat=True).distinct()[:MAX_WARNED]:
        candidates = find_pinned(InjectionRequest("", project=name), clearance, timezone.now())
        chosen = select_pinned(candidates, {}, budget, Deadline(math.inf))
        if lines := pinned_warnings(chosen):
            warnings[name] = lines
    return warnings


def summarize_reports(logs: Iterable[InjectionReport]) -> SessionKnowledge:
    """Combine the injections of a session, in order."""
    memories: dict[str, Memory] = {}
    times: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for log in logs:
        for one in log.shown:
            memories.setdefault(one.memory.uid, one.memory)
            times[one.memory.uid] += 1
        reasons.update(one.reason for one in log.not_shown)
    return SessionKnowledge([(memory, times[uid]) for uid, memory in memories.items()], reasons.most_common())


@dataclass(frozen=True)
class MemoryUse:
    """An injection that contained a memory. ``outcome``: whether it helped, in words."""

    injection: Injection
    outcome: str


def find_uses(memory: Memory, clearance: Clearance, limit: int) -> list[MemoryUse]:
    """Return the newest visible injections that showed the memory. One query."""
    rows = Injection.objects.visible_to(clearance).filter(injected__icontains=memory.uid)
    found = rows.defer("withheld", "page").select_related("session").order_by("-at", "-pk")[:limit]
    return [
        MemoryUse(row, shown.outcome)
        for row in found
        for shown in _shown_memories(row, {memory.uid: memory})[:1]
    ]


def load_session_reports(session: Session, clearance: Clearance, limit: int) -> list[InjectionReport]:
    """Return the visible injections of a session, oldest first. Two queries."""
    rows = Injection.objects.visible_to(clearance).filter(session=session)
    return load_reports(rows.order_by("at", "pk")[:limit], clearance)


def load_reports(rows: Iterable[Injection], clearance: Clearance) -> list[InjectionReport]:
    """Return a report for each injection, all visible to the caller. One query."""
    rows = list(rows)
    named = {uid for row in rows for one in _all_entries(row) if (uid := one["id"])}
    visible = Memory.objects.visible_to(clearance).live().defer("content", "overview")
    known = {memory.uid: memory for memory in visible.filter(uid__in=named)}
    return [_build_report(row, known) for row in rows]


def attach_reports(
    entries: Iterable[TimelineEntry], clearance: Clearance, loaded: Iterable[InjectionReport]
) -> None:
    """Set ``row.log`` of each injection among timeline entries to its report, possibly one that is loaded."""
    reports = {report.injection.pk: report for report in loaded}
    rows = [entry.row for entry in entries if isinstance(entry.row, Injection)]
    if missing := [row for row in rows if row.pk not in reports]:
        reports |= {report.injection.pk: report for report in load_reports(missing, clearance)}
    for row in rows:
        row.log = reports[row.pk]  # type: ignore[attr-defined]


def _build_report(row: Injection, known: dict[str, Memory]) -> InjectionReport:
    shown = _shown_memories(row, known)
    not_shown = [
        WithheldMemory(
            known[one["id"]], str(one.get("reason") or "no reason noted"), _to_text(one.get("detail"))
        )
        for one in _valid_entries(row.withheld)
        if one["id"] in known
    ]
    return InjectionReport(
        row, shown, not_shown, complete=all(one["id"] in known for one in _all_entries(row))
    )


def _shown_memories(row: Injection, known: Mapping[str, Memory]) -> list[ShownMemory]:
    return [
        ShownMemory(
            known[one["id"]],
            _to_number(one.get("score")),
            str(one.get("scale") or ""),
            used if isinstance(used := one.get("used"), bool) else None,
            _to_text(one.get("why")),
            _to_number(one.get("factor")),
        )
        for one in _valid_entries(row.injected)
        if one["id"] in known
    ]


def _all_entries(row: Injection) -> Iterator[dict[str, Any]]:
    yield from _valid_entries(row.injected)
    yield from _valid_entries(row.withheld)


def _valid_entries(stored: Any) -> list[dict[str, Any]]:
    entries = stored if isinstance(stored, list) else []
    return [one for one in entries if isinstance(one, dict) and isinstance(one.get("id"), str)]


def _to_number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else ""
