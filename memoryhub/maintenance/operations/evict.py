"""Evict: move faded memories, and those above the cap of a project and owner, to the trash.

Only memories that the actor may see are counted and moved, so an eviction reveals nothing about hidden ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Q

from memoryhub.access.policy import Actor
from memoryhub.core.database import batched, write_transaction
from memoryhub.core.text import format_count
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
from memoryhub.memories.delete import AUTHOR, Quota, count_by_quota, has_one_owner, in_quota, load_caps
from memoryhub.memories.rows import CHUNK_SIZE
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet

EVICTION_ORDER = ("accessed_count", "updated_at", "importance", "pk")


class _Candidate(NamedTuple):
    pk: int
    uid: str
    accessed_count: int
    updated_at: datetime
    importance: float


class Evict(Operation[ProjectParams]):
    name = "evict"
    label = "Trash unused memories"
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
    """Return quotas of one owner above their cap, with their excess without ``planned`` memories."""
    caps = load_caps()
    if not caps.is_any or not actor.may_delete:
        return []
    live = params.live_memories(actor, now)
    counts = Counter(count_by_quota(live))
    for keys in batched(planned or (), CHUNK_SIZE):
        quotas = live.filter(pk__in=keys).values_list("project", "owner", AUTHOR)
        counts.subtract(Quota(*quota) for quota in quotas)
    excesses = ((quota, caps.excess(quota.project, n)) for quota, n in sorted(counts.items()))
    return [(quota, excess) for quota, excess in excesses if excess and has_one_owner(quota)]


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
