"""Eviction: moves faded memories, and those above ``max_memories`` for a project and owner, to the trash.

Only memories that the actor may see are counted and moved, so an eviction reveals nothing about hidden ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from memoryhub.access.policy import Actor
from memoryhub.core.chunks import batched
from memoryhub.core.transactions import write_transaction
from memoryhub.maintenance.operations.base import (
    Change,
    Operation,
    Pace,
    PagePlan,
    ProjectParams,
    Step,
    format_count,
    steps_by_page,
    undo_in_batches,
)
from memoryhub.memories import maintenance_updates
from memoryhub.memories.quotas import AUTHOR, Quota, count_by_quota, in_quota
from memoryhub.memories.rows import CHUNK_SIZE
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet

# Who leaves first.
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
    help = (
        "Moves to the trash what has faded away and was long not used. Then, where one owner has more than "
        "max_memories in a project, the least used, longest unchanged and least important of that owner. "
        "Undo takes them out of the trash again."
    )
    undoable = True
    Params = ProjectParams

    def total(self, params: ProjectParams, actor: Actor, now: datetime) -> int:
        return _faded(params, actor, now).count() + sum(
            over for _, over in _quotas_over_limit(params, actor, now)
        )

    def steps(
        self, params: ProjectParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        position = position or {"phase": "faded"}
        planned: set[int] = set()  # by a dry run, which leaves them where they are
        if position["phase"] == "faded":
            for step, keys in _faded_steps(params, actor, now, position):
                yield step
                if not step.applied:
                    planned.update(keys)
        for quota, over in _quotas_over_limit(params, actor, now, planned):
            yield from _cap_steps(quota, over, actor, now, planned)

    def undo(self, run_uid: str, actor: Actor, now: datetime | None = None) -> Iterator[int]:
        at, pace = now or timezone.now(), Pace(20, least=4)
        for entry in maintenance_updates.grouped_rows("evict", run_uid, actor):

            def back(uids: Sequence[str], since: datetime = entry.at) -> int:
                return len(maintenance_updates.undo_evictions(uids, since, actor, at))

            yield from undo_in_batches(entry.detail["evicted"], back, pace)


def _live(params: ProjectParams, actor: Actor, now: datetime) -> MemoryQuerySet:
    live: MemoryQuerySet = Memory.objects.visible_to(actor.clearance).live(now)
    return params.within(live)


def _faded(params: ProjectParams, actor: Actor, now: datetime) -> MemoryQuerySet:
    config = settings.MEMORYHUB
    before = now - timedelta(days=config.evict_after_days)
    unused = Q(last_accessed_at__isnull=True) | Q(last_accessed_at__lte=before)
    imported = Q(imported_at__isnull=True) | Q(imported_at__lte=before)
    faded: MemoryQuerySet = _live(params, actor, now).filter(
        unused,
        imported,
        importance__lt=config.evict_min_importance,
        updated_at__lte=before,
    )
    return faded


def _faded_steps(
    params: ProjectParams, actor: Actor, now: datetime, position: dict[str, Any]
) -> Iterator[tuple[Step, list[int]]]:
    faded = _faded(params, actor, now)
    keys: list[int] = []

    def plan(page: list[Any]) -> PagePlan:
        keys[:] = [pk for pk, *_ in page]
        changes = [
            Change(
                "evict", uid, worth, worth, faded_reason(worth, (now - max(at, came or at, read or at)).days)
            )
            for _, uid, worth, at, came, read in page
        ]

        def commit(run_uid: str) -> tuple[Change, ...]:
            gone = maintenance_updates.evict_for_run(
                faded, [change.uid for change in changes], actor, run_uid, now
            )
            return _changes_of(changes, gone)

        return changes, commit

    columns = ("pk", "uid", "importance", "updated_at", "imported_at", "last_accessed_at")
    for step in steps_by_page(faded, columns, plan, position, Pace(50, least=8)):
        yield step, keys


def faded_reason(importance: float, days: int) -> str:
    """Why a memory is evicted that nobody needed for long."""
    return f"faded to {importance:.2f} and not used for {format_count(days, 'day')}: to the trash"


def _changes_of(changes: Sequence[Change], memories: Sequence[Memory]) -> tuple[Change, ...]:
    uids = {memory.uid for memory in memories}
    return tuple(change for change in changes if change.uid in uids)


def _quotas_over_limit(
    params: ProjectParams, actor: Actor, now: datetime, planned: set[int] | None = None
) -> list[tuple[Quota, int]]:
    """Return quotas above ``max_memories`` and by how many, without the memories that leave anyway."""
    cap = settings.MEMORYHUB.max_memories
    if not cap:
        return []
    live = _live(params, actor, now)
    counts = Counter(count_by_quota(live))
    for keys in batched(planned or (), CHUNK_SIZE):
        leaving = live.filter(pk__in=keys).values_list("project", "owner", AUTHOR)
        counts.subtract(Quota(*quota) for quota in leaving)
    return [(quota, n - cap) for quota, n in sorted(counts.items()) if n > cap]


def _cap_steps(quota: Quota, over: int, actor: Actor, now: datetime, planned: set[int]) -> Iterator[Step]:
    live = _live(ProjectParams(project=quota.project), actor, now).filter(in_quota(quota))
    worst = live.order_by(*EVICTION_ORDER)[: over + len(planned)].values_list(*_Candidate._fields)
    victims = iter([_Candidate(*row) for row in worst if row[0] not in planned][:over])
    pace = Pace(50, least=8)
    while page := list(islice(victims, pace.size)):
        changes = [
            Change("evict", one.uid, one.importance, one.importance, _cap_reason(one, over)) for one in page
        ]
        step = Step(
            tuple(changes),
            {"phase": "cap"},
            len(page),
            partial(_evict_page, live, page, changes, actor, now),
        )
        yield step
        pace.after(step)


def _cap_reason(victim: _Candidate, over: int) -> str:
    most = settings.MEMORYHUB.max_memories
    return (
        f"{over} over the cap of {most} for its project and owner; used "
        f"{format_count(victim.accessed_count, 'time')}, changed {victim.updated_at:%Y-%m-%d}, "
        f"importance {victim.importance:.2f}: to the trash"
    )


def _evict_page(
    live: MemoryQuerySet,
    page: Sequence[_Candidate],
    changes: Sequence[Change],
    actor: Actor,
    now: datetime,
    run_uid: str,
) -> tuple[Change, ...]:
    """Those that are as they were when they were chosen, and no more than are still too many."""
    with write_transaction():
        rows = live.filter(pk__in=[one.pk for one in page]).values_list(*_Candidate._fields)
        there = {row[0]: _Candidate(*row) for row in rows}
        leaving = [one.uid for one in page if there.get(one.pk) == one]
        cap = settings.MEMORYHUB.max_memories
        # Counted no further than matters: all of a hundred thousand rows would take 20 ms of each step.
        over = max(live.order_by()[: cap + len(leaving)].count() - cap, 0)
        return _changes_of(
            changes, maintenance_updates.evict_for_run(live, leaving[:over], actor, run_uid, now)
        )
