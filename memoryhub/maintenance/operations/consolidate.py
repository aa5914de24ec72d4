"""Consolidate: raise the importance of used memories, lower that of unused ones."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from memoryhub.access.policy import Actor
from memoryhub.core.transactions import write_transaction
from memoryhub.core.vocabulary import MemoryType
from memoryhub.maintenance.operations.base import (
    Change,
    Commit,
    Operation,
    Pace,
    PagePlan,
    ProjectParams,
    Step,
    format_count,
    steps_by_page,
    undo_in_batches,
)
from memoryhub.maintenance.operations.evict import faded_reason
from memoryhub.memories import maintenance_updates
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet

PROTECTED_TYPES = frozenset({MemoryType.DECISION.value, MemoryType.DISCOVERY.value})


@dataclass(frozen=True)
class ConsolidationRates:
    """Importance lost a day, the factor of the boost, the share of decay for protected types."""

    decay: float = 0.02
    boost: float = 0.03
    protected_share: float = 0.5


def consolidated_importance(
    importance: float, kind: str, days: float, accesses: int, rates: ConsolidationRates
) -> float:
    """Importance (0..1) after ``days`` and ``accesses`` since the last consolidation.

    What was accessed is boosted and does not decay; what was not decays linearly.
    """
    if accesses > 0:
        changed = importance + rates.boost * math.log1p(accesses)
    else:
        share = rates.protected_share if kind in PROTECTED_TYPES else 1.0
        changed = importance - rates.decay * share * max(days, 0.0)
    return min(max(changed, 0.0), 1.0)


def is_stale(importance: float, days_unaccessed: float, least: float, after_days: float) -> bool:
    """Whether a memory has faded so far that it may be evicted."""
    return importance < least and days_unaccessed >= after_days


MIN_CHANGE = 0.0005  # smaller changes of importance wait for a later run
_DAY = timedelta(days=1)
_FIELDS = (
    *("pk", "uid", "type", "importance", "accessed_count", "consolidated_accesses"),
    *("consolidated_at", "updated_at", "imported_at", "last_accessed_at", *maintenance_updates.ACCESS_FIELDS),
)


@dataclass(frozen=True)
class _MemoryRow:
    """A memory as consolidation sees it."""

    pk: int
    uid: str
    type: str
    importance: float
    accessed_count: int
    consolidated_accesses: int
    consolidated_at: datetime | None
    updated_at: datetime
    imported_at: datetime | None
    last_accessed_at: datetime | None
    project: str
    sensitivity: str
    owner: str

    @property
    def accesses(self) -> int:
        """Since the last consolidation."""
        return max(self.accessed_count - self.consolidated_accesses, 0)

    def days(self, now: datetime) -> float:
        """Since the last consolidation, else since the last change."""
        return max((now - (self.consolidated_at or self.changed_at)) / _DAY, 0.0)

    @property
    def changed_at(self) -> datetime:
        """When somebody last said it."""
        return max(self.updated_at, self.imported_at or self.updated_at)

    def days_unused(self, now: datetime) -> float:
        """Since somebody read or wrote it."""
        return (now - max(self.changed_at, self.last_accessed_at or self.changed_at)) / _DAY


@dataclass(frozen=True)
class _PlannedChange:
    """What becomes of a memory: a change for people, and what is to be written."""

    change: Change
    worth: maintenance_updates.ImportanceChange | None
    evicted: bool = False


class Consolidate(Operation[ProjectParams]):
    name = "consolidate"
    label = "Consolidate"
    help = (
        "Raises the importance of what was used since the last consolidation and lowers that of what was not "
        "(decisions and discoveries at half rate); what has faded away and was long not used goes to the "
        "trash. Undo gives back the importances that nobody changed since, and what went to the trash."
    )
    undoable = True
    Params = ProjectParams

    def total(self, params: ProjectParams, actor: Actor, now: datetime) -> int:
        return _eligible(params, actor, now).count()

    def steps(
        self, params: ProjectParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        eligible = _eligible(params, actor, now)

        def plan(page: list[Any]) -> PagePlan:
            verdicts = [verdict for row in page if (verdict := _plan_change(_MemoryRow(*row), now))]
            return [verdict.change for verdict in verdicts], _make_commit(verdicts, eligible, actor, now)

        yield from steps_by_page(eligible, _FIELDS, plan, position or {})

    def undo(self, run_uid: str, actor: Actor, now: datetime | None = None) -> Iterator[int]:
        at = now or timezone.now()
        gone = maintenance_updates.grouped_rows("evict", run_uid, actor)
        evicted = {uid: entry.at for entry in gone for uid in entry.detail["evicted"]}
        rows = maintenance_updates.grouped_rows("consolidate", run_uid, actor)
        weighed = [change for entry in rows for change in entry.detail["changes"]]
        left = {change[0]: change for change in weighed if change[0] in evicted}

        def out(uids: Sequence[str]) -> int:
            """One that comes out of the trash gets its importance too, and is one memory."""
            changes = [left[uid] for uid in uids if uid in left]
            with write_transaction():
                back = maintenance_updates.undo_importances(changes, run_uid, actor, at)
                for since, some in _group_by_time(uids, evicted):
                    back |= maintenance_updates.undo_evictions(some, since, actor, at)
            return len(back)

        def weigh(changes: Sequence[Any]) -> int:
            return len(maintenance_updates.undo_importances(changes, run_uid, actor, at))

        yield from undo_in_batches(list(evicted), out, Pace(20, least=4))
        yield from undo_in_batches([one for one in weighed if one[0] not in evicted], weigh, Pace())


def _group_by_time(uids: Sequence[str], moments: dict[str, datetime]) -> Iterator[tuple[datetime, list[str]]]:
    """The ids by the moment at which they went; a run that was resumed has several."""
    groups: dict[datetime, list[str]] = defaultdict(list)
    for uid in uids:
        groups[moments[uid]].append(uid)
    yield from groups.items()


def _eligible(params: ProjectParams, actor: Actor, now: datetime) -> MemoryQuerySet:
    live: MemoryQuerySet = Memory.objects.visible_to(actor.clearance).live(now)
    return params.within(live)


def _plan_change(row: _MemoryRow, now: datetime) -> _PlannedChange | None:
    """None when nothing is to be written."""
    config = settings.MEMORYHUB
    rates = ConsolidationRates(
        config.consolidation_decay_rate, config.consolidation_boost, config.protected_decay_share
    )
    after = consolidated_importance(row.importance, row.type, row.days(now), row.accesses, rates)
    gate = (row.project, row.sensitivity, row.owner)
    worth = maintenance_updates.ImportanceChange(
        row.pk, row.uid, row.importance, after, row.accessed_count, gate
    )
    unused = row.days_unused(now)
    # An access is counted even where it cannot lift the importance further: it would hold off decay for ever.
    written = worth if row.accesses or abs(after - row.importance) >= MIN_CHANGE else None
    if is_stale(after, unused, config.evict_min_importance, config.evict_after_days):
        reason = faded_reason(after, int(unused))
        return _PlannedChange(Change("evict", row.uid, row.importance, after, reason), written, True)
    if written is None:
        return None
    action = "boost" if row.accesses else "decay"
    return _PlannedChange(Change(action, row.uid, row.importance, after, _reason(row, after, now)), written)


def _reason(row: _MemoryRow, after: float, now: datetime) -> str:
    shown = f"{row.importance:.2f} → {after:.2f}"
    since = " since the last consolidation" if row.consolidated_at else ""
    if row.accesses:
        return f"used {format_count(row.accesses, 'time')}{since}: {shown}"
    unused, days = int(row.days_unused(now)), int(row.days(now))
    part = f", {days} of them{since}" if days < unused else ""
    kind = f"; half rate, a {row.type}" if row.type in PROTECTED_TYPES else ""
    if unused < 1:
        return f"not used{since or ' since it was written'}: {shown}{kind}"
    return f"not used for {format_count(unused, 'day')}{part}: {shown}{kind}"


def _make_commit(
    verdicts: list[_PlannedChange], eligible: MemoryQuerySet, actor: Actor, now: datetime
) -> Commit:
    def commit(run_uid: str) -> tuple[Change, ...]:
        with write_transaction():
            weighed = maintenance_updates.update_importances(
                [v.worth for v in verdicts if v.worth], actor, run_uid, now
            )
            held = [v for v in verdicts if v.worth is None or v.change.uid in weighed]
            leaving = [v.change.uid for v in held if v.evicted]
            gone = {
                memory.uid
                for memory in maintenance_updates.evict_for_run(eligible, leaving, actor, run_uid, now)
            }
        return tuple(v.change for v in held if not v.evicted or v.change.uid in gone)

    return commit
