"""Eviction: what has faded away, and what a project holds beyond ``max_memories``, goes to the trash.

The cap is held against what the actor may see, so that what is evicted tells nothing about what is hidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Count, Q
from django.utils import timezone

from memoryhub.batches import batched
from memoryhub.lifecycle.plan import (
    Change,
    OnProject,
    Operation,
    Pace,
    Planned,
    Step,
    count,
    give_back,
    walk,
)
from memoryhub.models import Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.sensitivity import Actor
from memoryhub.store import upkeep
from memoryhub.store.rows import CHUNK
from memoryhub.transactions import write

# Who leaves first.
ORDER = ("accessed_count", "updated_at", "importance", "pk")


class _Victim(NamedTuple):
    pk: int
    uid: str
    accessed_count: int
    updated_at: datetime
    importance: float


class Evict(Operation[OnProject]):
    name = "evict"
    label = "Evict"
    help = (
        "Moves to the trash what has faded away and was long not used; then, in each project that holds more "
        "than max_memories, those used least, changed longest ago and least important, until it fits. Undo "
        "takes them out of the trash again."
    )
    undoable = True
    Params = OnProject

    def total(self, params: OnProject, actor: Actor, now: datetime) -> int:
        return _faded(params, actor, now).count() + sum(over for _, over in _overfull(params, actor, now))

    def steps(
        self, params: OnProject, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        position = position or {"phase": "faded"}
        planned: set[int] = set()  # by a dry run, which leaves them where they are
        if position["phase"] == "faded":
            for step, keys in _faded_steps(params, actor, now, position):
                yield step
                if not step.applied:
                    planned.update(keys)
        for project, over in _overfull(params, actor, now, planned):
            yield from _cap_steps(project, over, actor, now, planned)

    def undo(self, run_uid: str, actor: Actor, now: datetime | None = None) -> Iterator[int]:
        at, pace = now or timezone.now(), Pace(20, least=4)
        for entry in upkeep.noted("evict", run_uid, actor):

            def back(uids: Sequence[str], since: datetime = entry.at) -> int:
                return len(upkeep.unevict(uids, since, actor, at))

            yield from give_back(entry.detail["evicted"], back, pace)


def _live(params: OnProject, actor: Actor, now: datetime) -> MemoryQuerySet:
    live: MemoryQuerySet = Memory.objects.visible_to(actor.clearance).live(now)
    return params.within(live)


def _faded(params: OnProject, actor: Actor, now: datetime) -> MemoryQuerySet:
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
    params: OnProject, actor: Actor, now: datetime, position: dict[str, Any]
) -> Iterator[tuple[Step, list[int]]]:
    faded = _faded(params, actor, now)
    keys: list[int] = []

    def plan(page: list[Any]) -> Planned:
        keys[:] = [pk for pk, *_ in page]
        changes = [
            Change(
                "evict", uid, worth, worth, faded_reason(worth, (now - max(at, came or at, read or at)).days)
            )
            for _, uid, worth, at, came, read in page
        ]

        def commit(run_uid: str) -> tuple[Change, ...]:
            gone = upkeep.evict(faded, [change.uid for change in changes], actor, run_uid, now)
            return _of(changes, gone)

        return changes, commit

    columns = ("pk", "uid", "importance", "updated_at", "imported_at", "last_accessed_at")
    for step in walk(faded, columns, plan, position, Pace(50, least=8)):
        yield step, keys


def faded_reason(importance: float, days: int) -> str:
    """Why a memory is evicted that nobody needed for long."""
    return f"faded to {importance:.2f} and not used for {count(days, 'day')}: to the trash"


def _of(changes: Sequence[Change], memories: Sequence[Memory]) -> tuple[Change, ...]:
    uids = {memory.uid for memory in memories}
    return tuple(change for change in changes if change.uid in uids)


def _overfull(
    params: OnProject, actor: Actor, now: datetime, planned: set[int] | None = None
) -> list[tuple[str, int]]:
    """Projects with more than they may hold, and how many too many, without those that leave anyway."""
    cap = settings.MEMORYHUB.max_memories
    if not cap:
        return []
    live = _live(params, actor, now)
    held = dict(live.order_by("project").values_list("project").annotate(n=Count("pk")))
    leaving: Counter[str] = Counter()
    for keys in batched(planned or (), CHUNK):
        leaving.update(live.filter(pk__in=keys).values_list("project", flat=True))
    return [(name, n - leaving[name] - cap) for name, n in held.items() if n - leaving[name] > cap]


def _cap_steps(project: str, over: int, actor: Actor, now: datetime, planned: set[int]) -> Iterator[Step]:
    live = _live(OnProject(project=project), actor, now)
    worst = live.order_by(*ORDER)[: over + len(planned)].values_list(*_Victim._fields)
    victims = iter([_Victim(*row) for row in worst if row[0] not in planned][:over])
    pace = Pace(50, least=8)
    while page := list(islice(victims, pace.size)):
        changes = [
            Change("evict", one.uid, one.importance, one.importance, _cap_reason(one, over)) for one in page
        ]
        step = Step(
            tuple(changes),
            {"phase": "cap"},
            len(page),
            partial(_commit, live, page, changes, actor, now),
        )
        yield step
        pace.after(step)


def _cap_reason(victim: _Victim, over: int) -> str:
    most = settings.MEMORYHUB.max_memories
    return (
        f"the project holds {over} more than {most}; used {count(victim.accessed_count, 'time')}, "
        f"changed {victim.updated_at:%Y-%m-%d}, importance {victim.importance:.2f}: to the trash"
    )


def _commit(
    live: MemoryQuerySet,
    page: Sequence[_Victim],
    changes: Sequence[Change],
    actor: Actor,
    now: datetime,
    run_uid: str,
) -> tuple[Change, ...]:
    """Those that are as they were when they were chosen, and no more than are still too many."""
    with write():
        rows = live.filter(pk__in=[one.pk for one in page]).values_list(*_Victim._fields)
        there = {row[0]: _Victim(*row) for row in rows}
        leaving = [one.uid for one in page if there.get(one.pk) == one]
        cap = settings.MEMORYHUB.max_memories
        # Counted no further than matters: all of a hundred thousand rows would take 20 ms of each step.
        over = max(live.order_by()[: cap + len(leaving)].count() - cap, 0)
        return _of(changes, upkeep.evict(live, leaving[:over], actor, run_uid, now))
