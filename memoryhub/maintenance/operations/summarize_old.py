"""Summarize old: replace old memories of one category with one summary.

The memories of a group share project, scope, owner and category. Summaries are never summarised again, and
memories with a key stay, because agents read them by their key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Count, Q
from django.utils import timezone
from pydantic import Field

from memoryhub.access.policy import Actor
from memoryhub.core.text import shorten
from memoryhub.maintenance.operations.base import Change, Operation, Pace, ProjectParams, Step
from memoryhub.maintenance.operations.summaries import (
    split_evenly,
    summarisable_memories,
    summary_draft,
    summary_step,
)
from memoryhub.models import Memory

_MAX_LINE_CHARS = 400
_GROUP_COLUMNS = ("project", "scope", "owner", "category")
_EARLIEST = "0001-01-01T00:00:00+00:00"


class SummarizeOldParams(ProjectParams):
    older_than_days: float | None = Field(
        default=None,
        ge=0,
        le=36_500,
        description="Only memories unchanged for this number of days. Default: summarize_older_than_days.",
    )
    min_entries: int | None = Field(
        default=None,
        ge=2,
        le=10_000,
        description="Memories that a category needs. Default: summarize_min_entries.",
    )

    @property
    def min_age_days(self) -> float:
        days = self.older_than_days
        return settings.MEMORYHUB.summarize_older_than_days if days is None else days

    @property
    def min_memories(self) -> int:
        count = self.min_entries
        return settings.MEMORYHUB.summarize_min_entries if count is None else count


@dataclass(frozen=True)
class SummaryCounts:
    """``summarised`` memories were replaced by ``created`` summaries."""

    summarised: int = 0
    created: int = 0


class SummarizeOld(Operation[SummarizeOldParams]):
    name = "summarize_old"
    label = "Summarise old memories"
    depends_on_age = True
    help = (
        "Replaces old memories of one project and category by one summary. They were not changed for "
        "summarize_older_than_days, and there are at least summarize_min_entries. The sources go to the "
        "trash. Undo restores them and moves the summary to the trash."
    )
    inverse_records = ("summarize_old",)
    Params = SummarizeOldParams

    def total(self, params: SummarizeOldParams, actor: Actor, now: datetime) -> int:
        return sum(group["n"] for group in _eligible_groups(params, actor, now))

    def steps(
        self, params: SummarizeOldParams, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        position, pace = position or {}, Pace()
        reached = tuple(position.get("group", ("",) * len(_GROUP_COLUMNS)))
        for row in _eligible_groups(params, actor, now):
            group = tuple(row[column] for column in _GROUP_COLUMNS)
            if group < reached:
                continue
            group_position = position if group == reached else {}
            for step in _group_steps(group, group_position, params, actor, now):
                yield step
                pace.after(step)


def summarise_old(
    actor: Actor,
    *,
    older_than_days: float | None = None,
    min_entries: int | None = None,
    now: datetime | None = None,
) -> SummaryCounts:
    """Summarise each group of at least ``min_entries`` memories that did not change for ``older_than_days``.

    Both default to the configuration. Each summary has its own transaction. A second run changes nothing.
    """
    params = SummarizeOldParams(older_than_days=older_than_days, min_entries=min_entries)
    changed = created = 0
    for step in SummarizeOld().steps(params, actor, now or timezone.now()):
        changed += step.apply()
        created += len(step.applied)
    return SummaryCounts(changed, created)


def _eligible_groups(params: SummarizeOldParams, actor: Actor, now: datetime) -> list[dict[str, Any]]:
    old = summarisable_memories(params, actor, now, params.min_age_days)
    groups = old.order_by(*_GROUP_COLUMNS).values(*_GROUP_COLUMNS).annotate(n=Count("pk"))
    large = groups.filter(n__gte=params.min_memories)
    return sorted(large, key=lambda group: [group[column] for column in _GROUP_COLUMNS])


def _group_steps(
    group: tuple[str, ...], position: dict[str, Any], params: SummarizeOldParams, actor: Actor, now: datetime
) -> Iterator[Step]:
    """Yield a step for each part of a group, in chronological order."""
    old = summarisable_memories(params, actor, now, params.min_age_days)
    old = old.filter(**dict(zip(_GROUP_COLUMNS, group, strict=True)))
    at, pk = datetime.fromisoformat(position.get("at", _EARLIEST)), position.get("pk", 0)
    remaining = old.filter(Q(created_at__gt=at) | Q(created_at=at, pk__gt=pk)).order_by("created_at", "pk")
    for part in split_evenly(list(remaining.values_list("pk", flat=True))):
        memories = list(remaining.filter(pk__in=part).with_details())
        if len(memories) < len(part):
            continue  # some have changed; the next run decides again
        title = _make_title(memories)
        content = "\n".join([title, "", *(_format_line(memory) for memory in memories)])
        uids = tuple(memory.uid for memory in memories)
        days = f"{params.min_age_days:g}"
        reason = f"{len(memories)} memories of one category, none changed for {days} days"
        yield summary_step(
            SummarizeOld.name,
            Change("summarise", uids[0], reason=reason, members=uids),
            summary_draft(memories, title, content, now),
            memories,
            old,
            {"group": list(group), "at": memories[-1].created_at.isoformat(), "pk": part[-1]},
            len(memories),
            actor,
            now,
        )


def _make_title(memories: Sequence[Memory]) -> str:
    span = f"{memories[0].created_at:%Y-%m-%d} to {memories[-1].created_at:%Y-%m-%d}"
    return f"{len(memories)} memories of {memories[0].category}, {span}"


def _format_line(memory: Memory) -> str:
    abstract = memory.abstract if memory.abstract not in ("", memory.title) else ""
    text = f"{memory.title}: {abstract}" if abstract else memory.title
    return shorten(f"- {memory.created_at:%Y-%m-%d} {memory.type}: {text}", _MAX_LINE_CHARS)
