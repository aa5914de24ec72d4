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
from memoryhub.core.vocabulary import SUMMARY_TYPES
from memoryhub.maintenance.operations.base import Change, Operation, Pace, ProjectParams, Step
from memoryhub.maintenance.operations.summaries import (
    MAX_SUMMARY_SOURCES,
    split_evenly,
    summary_draft,
    undo_summaries,
)
from memoryhub.memories import embed_drafts
from memoryhub.memories.maintenance_updates import condense_memories
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet

__all__ = ["MAX_SUMMARY_SOURCES", "SUMMARY_TYPES", "SummarizeOld", "SummaryCounts", "summarise_old"]

_MAX_LINE_CHARS = 400
_GROUP = ("project", "scope", "owner", "category")
_EARLIEST = "0001-01-01T00:00:00+00:00"


class SummarizeOldParams(ProjectParams):
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
class SummaryCounts:
    """``summarised`` memories are in the trash, ``created`` summaries stand for them."""

    summarised: int = 0
    created: int = 0


class SummarizeOld(Operation[SummarizeOldParams]):
    name = "summarize_old"
    label = "Summarise old"
    help = (
        "Makes one summary of all memories of a project and category that were not changed for "
        "summarize_older_than_days, where there are at least summarize_min_entries. The sources go to the "
        "trash. Undo takes them out again and moves the summary there."
    )
    undoable = True
    Params = SummarizeOldParams

    def total(self, params: SummarizeOldParams, actor: Actor, now: datetime) -> int:
        return sum(group["n"] for group in _eligible_groups(params, actor, now))

    def steps(
        self, params: SummarizeOldParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        position, pace = position or {}, Pace()
        reached = tuple(position.get("group", ("",) * len(_GROUP)))
        for group in _eligible_groups(params, actor, now):
            name = tuple(group[column] for column in _GROUP)
            if name < reached:
                continue
            after = position if name == reached else {}
            for step in _group_steps(name, after, params, actor, now):
                yield step
                pace.after(step)

    def undo(self, run_uid: str, actor: Actor, now: datetime | None = None) -> Iterator[int]:
        yield from undo_summaries(self.name, run_uid, actor, now or timezone.now())


def summarise_old(
    actor: Actor,
    *,
    older_than_days: float | None = None,
    min_entries: int | None = None,
    now: datetime | None = None,
) -> SummaryCounts:
    """Summarise each group of at least ``min_entries`` memories not touched for ``older_than_days``.

    Both default to the configuration. One transaction for each summary; a second run changes nothing.
    """
    params = SummarizeOldParams(older_than_days=older_than_days, min_entries=min_entries)
    changed = created = 0
    for step in SummarizeOld().steps(params, actor, now or timezone.now()):
        changed += step.apply()
        created += len(step.applied)
    return SummaryCounts(changed, created)


def _old_memories(params: SummarizeOldParams, actor: Actor, now: datetime) -> MemoryQuerySet:
    memories: MemoryQuerySet = Memory.objects.visible_to(actor.clearance).live(now)
    before = now - timedelta(days=params.days)
    return params.within(memories.filter(updated_at__lte=before, key="").exclude(type__in=SUMMARY_TYPES))


def _eligible_groups(params: SummarizeOldParams, actor: Actor, now: datetime) -> list[dict[str, Any]]:
    groups = _old_memories(params, actor, now).order_by(*_GROUP).values(*_GROUP).annotate(n=Count("pk"))
    found = list(groups.filter(n__gte=params.least))
    return sorted(found, key=lambda group: [group[column] for column in _GROUP])


def _group_steps(
    name: tuple[str, ...], position: dict[str, Any], params: SummarizeOldParams, actor: Actor, now: datetime
) -> Iterator[Step]:
    """A step for each part, in the order of time."""
    old = _old_memories(params, actor, now).filter(**dict(zip(_GROUP, name, strict=True)))
    at, pk = datetime.fromisoformat(position.get("at", _EARLIEST)), position.get("pk", 0)
    left = old.filter(Q(created_at__gt=at) | Q(created_at=at, pk__gt=pk)).order_by("created_at", "pk")
    for part in split_evenly(list(left.values_list("pk", flat=True))):
        memories = list(left.filter(pk__in=part).with_details())
        if len(memories) == len(part):  # else someone was at them since; the next run will see
            last = {"at": memories[-1].created_at.isoformat(), "pk": part[-1]}
            yield _summary_step(memories, old, {"group": list(name), **last}, params, actor, now)


def _summary_step(
    memories: Sequence[Memory],
    old: MemoryQuerySet,
    position: dict[str, Any],
    params: SummarizeOldParams,
    actor: Actor,
    now: datetime,
) -> Step:
    reason = f"{len(memories)} memories of one category, none changed for {params.days:g} days"
    uids = tuple(memory.uid for memory in memories)
    change = Change("summarise", uids[0], reason=reason, members=uids)

    title = _make_title(memories)
    content = "\n".join([title, "", *(_format_line(memory) for memory in memories)])
    draft = summary_draft(memories, title, content, now)
    vectors = embed_drafts([draft])

    def commit(run_uid: str) -> tuple[Change, ...]:
        made = condense_memories(old, memories, draft, actor, SummarizeOld.name, run_uid, now, vectors)
        return (replace(change, into=made.uid),) if made else ()

    return Step((change,), position, len(memories), commit)


def _make_title(memories: Sequence[Memory]) -> str:
    span = f"{memories[0].created_at:%Y-%m-%d} to {memories[-1].created_at:%Y-%m-%d}"
    return f"{len(memories)} memories of {memories[0].category}, {span}"


def _format_line(memory: Memory) -> str:
    """What one source said, on a line."""
    says = memory.abstract if memory.abstract not in ("", memory.title) else ""
    told = f"{memory.title}: {says}" if says else memory.title
    return shorten(f"- {memory.created_at:%Y-%m-%d} {memory.type}: {told}", _MAX_LINE_CHARS)
