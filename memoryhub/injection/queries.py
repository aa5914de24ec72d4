"""What agents were told, and what was held back: injections with those of their memories that may be seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from memoryhub.access.policy import Clearance
from memoryhub.models import Injection, Memory, Session
from memoryhub.stats.timeline import Entry

BELOW_FLOOR = "below the floor"


@dataclass(frozen=True)
class Told:
    """A memory that an agent was shown; ``score`` 0..1, None when none was noted; ``scale`` its age class."""

    memory: Memory
    score: float | None
    scale: str


@dataclass(frozen=True)
class Kept:
    """A memory that was held back, and why; ``detail`` says more, where there is more to say."""

    memory: Memory
    reason: str
    detail: str


@dataclass(frozen=True)
class Log:
    """One injection behind the gate.

    ``complete``: every memory that it names is among those listed. Where one is not, because it may not be
    seen or has ended since, figures over all of them would tell of it.
    """

    injection: Injection
    told: list[Told]
    kept: list[Kept]
    complete: bool

    @property
    def held(self) -> list[Kept]:
        """What was good enough to be shown, and was held back."""
        return [one for one in self.kept if one.reason != BELOW_FLOOR]

    @property
    def weak(self) -> list[Kept]:
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
class Knowledge:
    """What a session knew from the hub: each memory once, with how often it was shown, the first one first;
    and for each reason, most frequent first, how often something was held back."""

    told: list[tuple[Memory, int]]
    reasons: list[tuple[str, int]]


def sum_up(logs: Iterable[Log]) -> Knowledge:
    """What the injections of a session come to, in their order."""
    memories: dict[str, Memory] = {}
    times: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for log in logs:
        for one in log.told:
            memories.setdefault(one.memory.uid, one.memory)
            times[one.memory.uid] += 1
        reasons.update(one.reason for one in log.kept)
    return Knowledge([(memory, times[uid]) for uid, memory in memories.items()], reasons.most_common())


def of_session(session: Session, clearance: Clearance, most: int) -> list[Log]:
    """The injections of a session that may be seen, oldest first. Two queries."""
    rows = Injection.objects.visible_to(clearance).filter(session=session)
    return look_up(rows.order_by("at", "pk")[:most], clearance)


def look_up(rows: Iterable[Injection], clearance: Clearance) -> list[Log]:
    """Each of these injections, which are gated already, with what may be seen of it. One query."""
    rows = list(rows)
    named = {uid for row in rows for one in _named(row) if (uid := one["id"])}
    visible = Memory.objects.visible_to(clearance).live().defer("content", "overview")
    known = {memory.uid: memory for memory in visible.filter(uid__in=named)}
    return [_log(row, known) for row in rows]


def look_up_entries(entries: Iterable[Entry], clearance: Clearance) -> None:
    """Give each injection among the entries of a timeline its :class:`Log`, as ``row.log``."""
    rows = [entry.row for entry in entries if isinstance(entry.row, Injection)]
    for log in look_up(rows, clearance) if rows else []:
        log.injection.log = log  # type: ignore[attr-defined]


def _log(row: Injection, known: dict[str, Memory]) -> Log:
    told = [
        Told(known[one["id"]], _number(one.get("score")), str(one.get("scale") or ""))
        for one in _entries(row.injected)
        if one["id"] in known
    ]
    kept = [
        Kept(known[one["id"]], str(one.get("reason") or "no reason noted"), _text(one.get("detail")))
        for one in _entries(row.withheld)
        if one["id"] in known
    ]
    return Log(row, told, kept, complete=all(one["id"] in known for one in _named(row)))


def _named(row: Injection) -> Iterator[dict[str, Any]]:
    yield from _entries(row.injected)
    yield from _entries(row.withheld)


def _entries(stored: Any) -> list[dict[str, Any]]:
    """The entries of a stored list that name a memory, whatever else was put there."""
    entries = stored if isinstance(stored, list) else []
    return [one for one in entries if isinstance(one, dict) and isinstance(one.get("id"), str)]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
