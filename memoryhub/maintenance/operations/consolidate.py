"""Consolidate: raise the importance of used memories, lower that of unused ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings

from memoryhub.access.policy import Actor
from memoryhub.core.database import write_transaction
from memoryhub.core.text import format_change, format_count, is_visible_change
from memoryhub.core.vocabulary import MemoryType
from memoryhub.maintenance.operations.base import (
    Change,
    Operation,
    PagePlan,
    ProjectParams,
    Step,
    steps_by_page,
)
from memoryhub.maintenance.operations.evict import faded_reason
from memoryhub.memories import maintenance_updates
from memoryhub.search.lexical import default_weights
from memoryhub.search.scoring import Components, composite_score, recency

PROTECTED_TYPES = frozenset({MemoryType.DECISION.value, MemoryType.DISCOVERY.value})


@dataclass(frozen=True)
class ConsolidationRates:
    """``decay`` per day, ``boost`` factor, and the share of the decay that protected types get."""

    decay: float = 0.02
    boost: float = 0.03
    protected_share: float = 0.5


def consolidated_importance(
    importance: float, kind: str, days: float, accesses: int, rates: ConsolidationRates
) -> float:
    """Return the importance (0..1) after ``days`` and ``accesses`` since the last consolidation.

    Accessed memories are boosted and do not decay. Others decay linearly.
    """
    if accesses > 0:
        changed = importance + rates.boost * math.log1p(accesses)
    else:
        share = rates.protected_share if kind in PROTECTED_TYPES else 1.0
        changed = importance - rates.decay * share * max(days, 0.0)
    return min(max(changed, 0.0), 1.0)


def is_stale(importance: float, days_unaccessed: float, min_importance: float, after_days: float) -> bool:
    """Whether a memory has faded enough to be evicted."""
    return importance < min_importance and days_unaccessed >= after_days


MIN_CHANGE = 0.0005  # smaller changes of importance accumulate until a later run
# The match of a typical search: most of its words are in the text, but not all, or not in the title.
TYPICAL_MATCH = 0.5
_DAY = timedelta(days=1)


class _MemoryRow(NamedTuple):
    """The columns of a memory that consolidation reads; the last three are its access fields."""

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
    trust: float
    project: str
    sensitivity: str
    owner: str

    @property
    def accesses(self) -> int:
        """Accesses since the last consolidation."""
        return max(self.accessed_count - self.consolidated_accesses, 0)

    @property
    def changed_at(self) -> datetime:
        return max(self.updated_at, self.imported_at or self.updated_at)

    def days(self, now: datetime) -> float:
        """Return the days since the last consolidation, or else since the last change."""
        return max((now - (self.consolidated_at or self.changed_at)) / _DAY, 0.0)

    def days_unused(self, now: datetime) -> float:
        """Return the days since the last access or change."""
        return (now - max(self.changed_at, self.last_accessed_at or self.changed_at)) / _DAY


class _PlannedChange(NamedTuple):
    """A change to list, and the importance to write; either may be missing."""

    change: Change | None
    importance: maintenance_updates.ImportanceChange | None
    is_eviction: bool = False


class Consolidate(Operation[ProjectParams]):
    name = "consolidate"
    label = "Consolidate"
    depends_on_age = True
    help = (
        "Raises the importance of used memories and lowers that of unused ones. Use counts since the last "
        "consolidation; decisions and discoveries lose half as much. Faded memories that were not used for a "
        "long time go to the trash. Undo restores importances that have not changed since, and the "
        "memories in the trash."
    )
    inverse_records = ("consolidate", "evict")
    Params = ProjectParams

    def total(self, params: ProjectParams, actor: Actor, now: datetime) -> int:
        return params.live_memories(actor, now).unpinned().count()

    def steps(
        self, params: ProjectParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        live = params.live_memories(actor, now).unpinned()

        def plan(page: list[Any]) -> PagePlan:
            planned = [item for row in page if (item := _plan_change(_MemoryRow(*row), actor, now))]

            def commit(run_uid: str) -> tuple[Change, ...]:
                if not planned:
                    return ()
                importances = [item.importance for item in planned if item.importance]
                with write_transaction():
                    written = maintenance_updates.update_importances(importances, actor, run_uid, now)
                    valid = [
                        item for item in planned if not item.importance or item.importance.uid in written
                    ]
                    faded = [item.change.uid for item in valid if item.change and item.is_eviction]
                    evicted = maintenance_updates.evict_for_run(live, faded, actor, run_uid, now)
                evicted_uids = {memory.uid for memory in evicted}
                return tuple(
                    item.change
                    for item in valid
                    if item.change and (not item.is_eviction or item.change.uid in evicted_uids)
                )

            return [item.change for item in planned if item.change], commit

        # chore: changes that are too small to be listed must be written too.
        yield from steps_by_page(live, _MemoryRow._fields, plan, position or {}, chore=True)


def _plan_change(row: _MemoryRow, actor: Actor, now: datetime) -> _PlannedChange | None:
    config = settings.MEMORYHUB
    rates = ConsolidationRates(
        config.consolidation_decay_rate, config.consolidation_boost, config.protected_decay_share
    )
    after = consolidated_importance(row.importance, row.type, row.days(now), row.accesses, rates)
    importance = None
    # Accesses are written even if they cannot raise the importance, or they would prevent decay for ever.
    if row.accesses or abs(after - row.importance) >= MIN_CHANGE:
        importance = maintenance_updates.ImportanceChange(
            row.pk, row.uid, row.importance, after, row.accessed_count, row[-3:]
        )
    unused = row.days_unused(now)
    if actor.may_delete and is_stale(after, unused, config.evict_min_importance, config.evict_after_days):
        reason = faded_reason(after, int(unused))
        return _PlannedChange(Change("evict", row.uid, row.importance, after, reason), importance, True)
    if importance is None:
        return None
    # "0.60 → 0.60" would not look like a change.
    is_visible = is_visible_change(row.importance, after)
    return _PlannedChange(_describe_change(row, after, now) if is_visible else None, importance)


def _describe_change(row: _MemoryRow, after: float, now: datetime) -> Change:
    reason = _reason(row, after, now)
    if row.accesses:
        return Change("boost", row.uid, row.importance, after, reason)
    if is_recalled(row, row.importance, now) and not is_recalled(row, after, now):
        reason = f"{reason}; a search that matches it in part no longer finds it"
        return Change("fade", row.uid, row.importance, after, reason)
    return Change("decay", row.uid, row.importance, after, reason)


def is_recalled(row: _MemoryRow, importance: float, now: datetime) -> bool:
    """Whether a typical search would find the memory with this importance."""
    config = settings.MEMORYHUB
    age = (now - row.updated_at) / _DAY
    parts = Components(TYPICAL_MATCH, recency(age, config.recency_half_life_days), importance, row.trust)
    return composite_score(parts, default_weights()) >= float(config.min_score)


def _reason(row: _MemoryRow, after: float, now: datetime) -> str:
    importances = " → ".join(format_change(row.importance, after))
    since = " since the last consolidation" if row.consolidated_at else ""
    if row.accesses:
        return f"used {format_count(row.accesses, 'time')}{since}: {importances}"
    unused, days = int(row.days_unused(now)), int(row.days(now))
    part = f", {days} of them{since}" if days < unused else ""
    kind = f"; half rate, a {row.type}" if row.type in PROTECTED_TYPES else ""
    if unused < 1:
        return f"not used{since or ' since it was written'}: {importances}{kind}"
    return f"not used for {format_count(unused, 'day')}{part}: {importances}{kind}"
