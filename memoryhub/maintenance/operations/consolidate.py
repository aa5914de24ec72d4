"""Consolidate and evict: importance follows use; faded memories, and those above a cap, go to the trash.

Only memories that the actor may see are counted and moved, so an eviction reveals nothing about hidden ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Q

from memoryhub.access.policy import Actor
from memoryhub.core.database import batched, write_transaction
from memoryhub.core.text import format_change, format_count, is_visible_change
from memoryhub.core.vocabulary import MemoryType
from memoryhub.maintenance.operations.base import (
    Change,
    Operation,
    Pace,
    PagePlan,
    ProjectParams,
    Step,
    steps_by_page,
)
from memoryhub.memories import maintenance_updates
from memoryhub.memories.delete import AUTHOR, Quota, count_by_quota, in_quota, load_caps
from memoryhub.memories.rows import CHUNK_SIZE
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet
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


EVICTION_ORDER = ("accessed_count", "updated_at", "importance", "pk")


class _Candidate(NamedTuple):
    pk: int
    uid: str
    accessed_count: int
    updated_at: datetime
    importance: float


class Evict(Operation[ProjectParams]):
    name = "evict"
    label = "Evict"
    depends_on_age = True
    help = (
        "Moves faded memories, and those above the cap of a project, to the trash. A faded memory has little "
        "importance and was not used for a long time. If an owner still has more memories in a project than "
        "its cap, those used least go, then those unchanged longest, then the least important. Undo restores "
        "them."
    )
    inverse_records = ("evict",)
    Params = ProjectParams

    def total(self, params: ProjectParams, actor: Actor, now: datetime) -> int:
        excess = sum(excess for _, excess in _quotas_over_limit(params, actor, now))
        return _faded(params, actor, now).count() + excess

    def steps(
        self, params: ProjectParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        position = position or {"phase": "faded"}
        planned: set[int] = set()  # keys of memories that a dry run lists but does not move
        if position["phase"] == "faded":
            for step, keys in _faded_steps(params, actor, now, position):
                yield step
                if not step.applied:
                    planned.update(keys)
        for quota, excess in _quotas_over_limit(params, actor, now, planned):
            yield from _cap_steps(quota, excess, actor, now, planned)


def _faded(params: ProjectParams, actor: Actor, now: datetime) -> MemoryQuerySet:
    config = settings.MEMORYHUB
    if not actor.may_delete:
        return Memory.objects.none()
    before = now - timedelta(days=config.evict_after_days)
    unused = Q(last_accessed_at__isnull=True) | Q(last_accessed_at__lte=before)
    imported = Q(imported_at__isnull=True) | Q(imported_at__lte=before)
    return (
        params.live_memories(actor, now)
        .unpinned()
        .filter(unused, imported, importance__lt=config.evict_min_importance, updated_at__lte=before)
    )


def _faded_steps(
    params: ProjectParams, actor: Actor, now: datetime, position: dict[str, Any]
) -> Iterator[tuple[Step, list[int]]]:
    """Yield steps with the primary keys of their memories."""
    faded = _faded(params, actor, now)
    keys: list[int] = []

    def plan(page: list[Any]) -> PagePlan:
        keys[:] = [pk for pk, *_ in page]
        changes = []
        for _, uid, importance, *times in page:
            unused = now - max(time for time in times if time)
            changes.append(
                Change("evict", uid, importance, importance, faded_reason(importance, unused.days))
            )

        def commit(run_uid: str) -> tuple[Change, ...]:
            return _evict(faded, [change.uid for change in changes], changes, actor, now, run_uid)

        return changes, commit

    columns = ("pk", "uid", "importance", "updated_at", "imported_at", "last_accessed_at")
    for step in steps_by_page(faded, columns, plan, position, Pace(50, min_size=8)):
        yield step, keys


def faded_reason(importance: float, days: int) -> str:
    return f"faded to {importance:.2f} and not used for {format_count(days, 'day')}: to the trash"


def _evict(
    memories: MemoryQuerySet,
    uids: Sequence[str],
    changes: Sequence[Change],
    actor: Actor,
    now: datetime,
    run_uid: str,
) -> tuple[Change, ...]:
    """Evict memories; return the changes of those that were really evicted."""
    evicted = maintenance_updates.evict_for_run(memories, uids, actor, run_uid, now)
    evicted_uids = {memory.uid for memory in evicted}
    return tuple(change for change in changes if change.uid in evicted_uids)


def _quotas_over_limit(
    params: ProjectParams, actor: Actor, now: datetime, planned: set[int] | None = None
) -> list[tuple[Quota, int]]:
    """Return quotas above their cap with their excess, without counting ``planned`` memories."""
    caps = load_caps()
    if not caps.is_any or not actor.may_delete:
        return []
    live = params.live_memories(actor, now)
    counts = Counter(count_by_quota(live))
    for keys in batched(planned or (), CHUNK_SIZE):
        quotas = live.filter(pk__in=keys).values_list("project", "owner", AUTHOR)
        counts.subtract(Quota(*quota) for quota in quotas)
    excesses = ((quota, caps.excess(quota.project, n)) for quota, n in sorted(counts.items()))
    return [(quota, excess) for quota, excess in excesses if excess]


def _cap_steps(quota: Quota, excess: int, actor: Actor, now: datetime, planned: set[int]) -> Iterator[Step]:
    live = ProjectParams(project=quota.project).live_memories(actor, now).filter(in_quota(quota))
    evictable = live.unpinned()
    worst = evictable.order_by(*EVICTION_ORDER)[: excess + len(planned)].values_list(*_Candidate._fields)
    candidates = iter([_Candidate(*row) for row in worst if row[0] not in planned][:excess])
    pace, cap = Pace(50, min_size=8), load_caps([quota.project])[quota.project]
    while page := list(islice(candidates, pace.size)):
        changes = [
            Change("evict", row.uid, row.importance, row.importance, _cap_reason(row, excess, cap))
            for row in page
        ]

        def commit(
            run_uid: str, page: list[_Candidate] = page, changes: list[Change] = changes
        ) -> tuple[Change, ...]:
            """Evict unchanged memories, and only as many as still exceed the cap."""
            with write_transaction():
                rows = evictable.filter(pk__in=[row.pk for row in page])
                current = {values[0]: _Candidate(*values) for values in rows.values_list(*_Candidate._fields)}
                unchanged = [row.uid for row in page if current.get(row.pk) == row]
                caps = load_caps([quota.project])
                # Limited, because counting a hundred thousand rows would take 20 ms of each step.
                counted = live.order_by()[: caps[quota.project] + len(unchanged)].count()
                still_over = caps.excess(quota.project, counted)
                return _evict(evictable, unchanged[:still_over], changes, actor, now, run_uid)

        step = Step(tuple(changes), {"phase": "cap"}, len(page), commit)
        yield step
        pace.after(step)


def _cap_reason(candidate: _Candidate, excess: int, cap: int) -> str:
    return (
        f"{excess} over the cap of {cap} for its project and owner; used "
        f"{format_count(candidate.accessed_count, 'time')}, changed {candidate.updated_at:%Y-%m-%d}, "
        f"importance {candidate.importance:.2f}: to the trash"
    )
