"""``summarize_old``: old memories of one category become one summary; the trash keeps them, to be restored.

A group shares project, scope, owner and category. Left alone are summaries, so that none is ever summarised
again, and memories with a key, which are found by it and not by search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Q
from django.utils import timezone
from pydantic import Field

from memoryhub.access.policy import Actor
from memoryhub.core.text import shorten
from memoryhub.core.vocabulary import SUMMARIES
from memoryhub.maintenance.operations.summaries import MOST, draft_of, parts, spread
from memoryhub.maintenance.plan import Change, OnProject, Operation, Pace, Step
from memoryhub.memories import embed_ahead
from memoryhub.memories.condense import condense
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet

__all__ = ["MOST", "SUMMARIES", "Summarise", "Summarised", "summarise_old"]

_LINE = 400
_GROUP = ("project", "scope", "owner", "category")
_EARLIEST = "0001-01-01T00:00:00+00:00"


class Summarising(OnProject):
    older_than_days: float | None = Field(
        default=None, ge=0, le=36_500, description="Not changed for so long; summarize_older_than_days."
    )
    min_entries: int | None = Field(
        default=None, ge=2, le=10_000, description="Memories that a category needs; summarize_min_entries."
    )

    @property
    def days(self) -> float:
        given = self.older_than_days
        return settings.MEMORYHUB.summarize_older_than_days if given is None else given

    @property
    def least(self) -> int:
        given = self.min_entries
        return settings.MEMORYHUB.summarize_min_entries if given is None else given


@dataclass(frozen=True)
class Summarised:
    """``summarised`` memories are in the trash, ``created`` summaries stand for them."""

    summarised: int = 0
    created: int = 0


class Summarise(Operation[Summarising]):
    name = "summarize_old"
    label = "Summarise old"
    help = (
        "Makes one summary of all memories of a project and category that were not changed for "
        "summarize_older_than_days, where there are at least summarize_min_entries. The sources go to the "
        "trash. Undo takes them out again and moves the summary there."
    )
    undoable = True
    Params = Summarising

    def total(self, params: Summarising, actor: Actor, now: datetime) -> int:
        return sum(group["n"] for group in _groups(params, actor, now))

    def steps(
        self, params: Summarising, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        position, pace = position or {}, Pace()
        reached = tuple(position.get("group", ("",) * len(_GROUP)))
        for group in _groups(params, actor, now):
            name = tuple(group[column] for column in _GROUP)
            if name < reached:
                continue
            after = position if name == reached else {}
            for step in _of_group(name, after, params, actor, now):
                yield step
                pace.after(step)

    def undo(self, run_uid: str, actor: Actor, now: datetime | None = None) -> Iterator[int]:
        yield from spread(self.name, run_uid, actor, now or timezone.now())


def summarise_old(
    actor: Actor,
    *,
    older_than_days: float | None = None,
    min_entries: int | None = None,
    now: datetime | None = None,
) -> Summarised:
    """Summarise each group of at least ``min_entries`` memories not touched for ``older_than_days``.

    Both default to the configuration. One transaction for each summary; a second run changes nothing.
    """
    params = Summarising(older_than_days=older_than_days, min_entries=min_entries)
    changed = created = 0
    for step in Summarise().steps(params, actor, now or timezone.now()):
        changed += step.apply()
        created += len(step.applied)
    return Summarised(changed, created)


def _old(params: Summarising, actor: Actor, now: datetime) -> MemoryQuerySet:
    memories: MemoryQuerySet = Memory.objects.visible_to(actor.clearance).live(now)
    before = now - timedelta(days=params.days)
    return params.within(memories.filter(updated_at__lte=before, key="").exclude(type__in=SUMMARIES))


def _groups(params: Summarising, actor: Actor, now: datetime) -> list[dict[str, Any]]:
    groups = _old(params, actor, now).order_by(*_GROUP).values(*_GROUP).annotate(n=Count("pk"))
    found = list(groups.filter(n__gte=params.least))
    return sorted(found, key=lambda group: [group[column] for column in _GROUP])


def _of_group(
    name: tuple[str, ...], position: dict[str, Any], params: Summarising, actor: Actor, now: datetime
) -> Iterator[Step]:
    """A step for each part, in the order of time."""
    old = _old(params, actor, now).filter(**dict(zip(_GROUP, name, strict=True)))
    at, pk = datetime.fromisoformat(position.get("at", _EARLIEST)), position.get("pk", 0)
    left = old.filter(Q(created_at__gt=at) | Q(created_at=at, pk__gt=pk)).order_by("created_at", "pk")
    for part in parts(list(left.values_list("pk", flat=True))):
        memories = list(left.filter(pk__in=part).with_details())
        if len(memories) == len(part):  # else someone was at them since; the next run will see
            last = {"at": memories[-1].created_at.isoformat(), "pk": part[-1]}
            yield _step(memories, old, {"group": list(name), **last}, params, actor, now)


def _step(
    memories: Sequence[Memory],
    old: MemoryQuerySet,
    position: dict[str, Any],
    params: Summarising,
    actor: Actor,
    now: datetime,
) -> Step:
    reason = f"{len(memories)} memories of one category, none changed for {params.days:g} days"
    uids = tuple(memory.uid for memory in memories)
    change = Change("summarise", uids[0], reason=reason, members=uids)

    title = _title(memories)
    content = "\n".join([title, "", *(_line(memory) for memory in memories)])
    draft = draft_of(memories, title, content, now)
    vectors = embed_ahead([draft])

    def commit(run_uid: str) -> tuple[Change, ...]:
        made = condense(old, memories, draft, actor, Summarise.name, run_uid, now, vectors)
        return (replace(change, into=made.uid),) if made else ()

    return Step((change,), position, len(memories), commit)


def _title(memories: Sequence[Memory]) -> str:
    span = f"{memories[0].created_at:%Y-%m-%d} to {memories[-1].created_at:%Y-%m-%d}"
    return f"{len(memories)} memories of {memories[0].category}, {span}"


def _line(memory: Memory) -> str:
    """What one source said, on a line."""
    says = memory.abstract if memory.abstract not in ("", memory.title) else ""
    told = f"{memory.title}: {says}" if says else memory.title
    return shorten(f"- {memory.created_at:%Y-%m-%d} {memory.type}: {told}", _LINE)
