"""What agents were told, and what was held back: injections with those of their memories that may be seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from memoryhub.access.policy import Clearance
from memoryhub.models import Injection, Memory, Session
from memoryhub.stats.timeline import TimelineEntry

BELOW_FLOOR = "below the floor"


@dataclass(frozen=True)
class ShownMemory:
    """A memory that an agent was shown; ``score`` 0..1, None when none was noted; ``scale`` its age class."""

    memory: Memory
    score: float | None
    scale: str


@dataclass(frozen=True)
class WithheldMemory:
    """A memory that was held back, and why; ``detail`` says more, where there is more to say."""

    memory: Memory
    reason: str
    detail: str


@dataclass(frozen=True)
class InjectionReport:
    """One injection behind the gate.

    ``complete``: every memory that it names is among those listed. Where one is not, because it may not be
    seen or has ended since, figures over all of them would tell of it.
    """

    injection: Injection
    told: list[ShownMemory]
    kept: list[WithheldMemory]
    complete: bool

    @property
    def held(self) -> list[WithheldMemory]:
        """What was good enough to be shown, and was held back."""
        return [one for one in self.kept if one.reason != BELOW_FLOOR]

    @property
    def weak(self) -> list[WithheldMemory]:
        """What did not reach the floor."""
        return [one for one in self.kept if one.reason == BELOW_FLOOR]

    @property
    def available(self) -> int:
        """How many there were to choose from: above the floor, shown or not."""
        return len(self.told) + len(self.held)

    @property
    def tokens_used(self) -> int | None:
        """What the block cost, in tokens; None where that would tell of what is not listed."""
        return self.injection.tokens_used if self.complete else None


@dataclass(frozen=True)
class SessionKnowledge:
    """What a session knew from the hub: each memory once, with how often it was shown, the first one first;
    and for each reason, most frequent first, how often something was held back."""

    told: list[tuple[Memory, int]]
    reasons: list[tuple[str, int]]


def summarize_reports(logs: Iterable[InjectionReport]) -> SessionKnowledge:
    """What the injections of a session come to, in their order."""
    memories: dict[str, Memory] = {}
    times: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for log in logs:
        for one in log.told:
            memories.setdefault(one.memory.uid, one.memory)
            times[one.memory.uid] += 1
        reasons.update(one.reason for one in log.kept)
    return SessionKnowledge([(memory, times[uid]) for uid, memory in memories.items()], reasons.most_common())


def load_session_reports(session: Session, clearance: Clearance, most: int) -> list[InjectionReport]:
    """The injections of a session that may be seen, oldest first. Two queries."""
    rows = Injection.objects.visible_to(clearance).filter(session=session)
    return load_reports(rows.order_by("at", "pk")[:most], clearance)


def load_reports(rows: Iterable[Injection], clearance: Clearance) -> list[InjectionReport]:
    """Each of these injections, which are gated already, with what may be seen of it. One query."""
    rows = list(rows)
    named = {uid for row in rows for one in _all_entries(row) if (uid := one["id"])}
    visible = Memory.objects.visible_to(clearance).live().defer("content", "overview")
    known = {memory.uid: memory for memory in visible.filter(uid__in=named)}
    return [_build_report(row, known) for row in rows]


def attach_reports(entries: Iterable[TimelineEntry], clearance: Clearance) -> None:
    """Give each injection among the entries of a timeline its :class:`Log`, as ``row.log``."""
    rows = [entry.row for entry in entries if isinstance(entry.row, Injection)]
    for log in load_reports(rows, clearance) if rows else []:
        log.injection.log = log  # type: ignore[attr-defined]


def _build_report(row: Injection, known: dict[str, Memory]) -> InjectionReport:
    told = [
        ShownMemory(known[one["id"]], _to_number(one.get("score")), str(one.get("scale") or ""))
        for one in _valid_entries(row.injected)
        if one["id"] in known
    ]
    kept = [
        WithheldMemory(
            known[one["id"]], str(one.get("reason") or "no reason noted"), _to_text(one.get("detail"))
        )
        for one in _valid_entries(row.withheld)
        if one["id"] in known
    ]
    return InjectionReport(row, told, kept, complete=all(one["id"] in known for one in _all_entries(row)))


def _all_entries(row: Injection) -> Iterator[dict[str, Any]]:
    yield from _valid_entries(row.injected)
    yield from _valid_entries(row.withheld)


def _valid_entries(stored: Any) -> list[dict[str, Any]]:
    """The entries of a stored list that name a memory, whatever else was put there."""
    entries = stored if isinstance(stored, list) else []
    return [one for one in entries if isinstance(one, dict) and isinstance(one.get("id"), str)]


def _to_number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else ""
