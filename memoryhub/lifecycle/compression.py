"""Compression: old memories that say much the same become one; the trash keeps them, to be restored.

Clusters are formed within one project, scope and owner, over the terms of title and content. Left alone are
summaries and checkpoints, and memories with a key, which are found by it and not by search.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from time import sleep
from typing import Any

from django.conf import settings
from django.db.models import Count
from django.utils import timezone

from memoryhub.lifecycle.clusters import single_linkage
from memoryhub.lifecycle.condensing import SUMMARIES, draft_of, parts, spread
from memoryhub.lifecycle.gist import Said, gist, likeness_terms
from memoryhub.lifecycle.plan import Change, OnProject, Operation, Pace, Step
from memoryhub.models import Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.sensitivity import Actor
from memoryhub.store import embed_ahead
from memoryhub.store.condense import condense

_GROUP = ("project", "scope", "owner")
_PAGE = 500
Group = tuple[str, str, str]


class Compress(Operation[OnProject]):
    name = "compress"
    label = "Compress"
    help = (
        "Makes one summary of at least compression_min_members old memories of a project that share much of "
        "their wording. The sources go to the trash. Undo takes them out again and moves the summary there."
    )
    undoable = True
    Params = OnProject

    def total(self, params: OnProject, actor: Actor, now: datetime) -> int:
        return sum(n for _, n in _groups(params, actor, now))

    def steps(
        self, params: OnProject, actor: Actor, now: datetime, position: dict[str, Any] | None = None
    ) -> Iterator[Step]:
        position = position or {}
        reached: Group = tuple(position.get("group", ("", "", "")))
        for group, _ in _groups(params, actor, now):
            if group >= reached:
                after = position.get("after", 0) if group == reached else 0
                yield from _of_group(group, after, actor, now)

    def undo(self, run_uid: str, actor: Actor, now: datetime | None = None) -> Iterator[int]:
        yield from spread(self.name, run_uid, actor, now or timezone.now())


def _eligible(actor: Actor, now: datetime) -> MemoryQuerySet:
    before = now - timedelta(days=settings.MEMORYHUB.compression_min_age_days)
    live: MemoryQuerySet = Memory.objects.visible_to(actor.clearance).live(now)
    return live.filter(updated_at__lte=before, key="").exclude(type__in=SUMMARIES)


def _groups(params: OnProject, actor: Actor, now: datetime) -> list[tuple[Group, int]]:
    """Those large enough for a cluster, and how many memories each has."""
    rows = params.within(_eligible(actor, now)).order_by(*_GROUP).values_list(*_GROUP)
    counted = rows.annotate(n=Count("pk")).filter(n__gte=settings.MEMORYHUB.compression_min_members)
    return sorted(((project, scope, owner), n) for project, scope, owner, n in counted)


def _of_group(group: Group, after: int, actor: Actor, now: datetime) -> Iterator[Step]:
    """First steps without changes, while the texts are read; then one for each cluster, or part of one."""
    config = settings.MEMORYHUB
    eligible = _eligible(actor, now).filter(**dict(zip(_GROUP, group, strict=True)))
    keys, texts, numbers = array("Q"), list["array[int]"](), dict[str, int]()
    for page in _pages(eligible):
        for pk, title, content in page:
            found = likeness_terms(f"{title} {content}")
            keys.append(pk)
            texts.append(array("I", [numbers.setdefault(term, len(numbers)) for term in found]))
            sleep(0)  # who else waits for the interpreter goes first
        yield Step((), {"group": list(group), "after": after}, len(page))
    clusters = single_linkage(texts, config.compression_similarity, config.compression_min_members)
    pace = Pace()
    for members in sorted(chain.from_iterable(map(parts, clusters)), key=lambda part: part[0]):
        if keys[members[0]] > after:
            step = _step(group, [keys[at] for at in members], eligible, actor, now)
            yield step
            pace.after(step)


def _pages(eligible: MemoryQuerySet) -> Iterator[list[tuple[int, str, str]]]:
    """In short reads: a long one would keep the write-ahead log from being emptied."""
    rows, last = eligible.order_by("pk").values_list("pk", "title", "content"), 0
    while page := list(rows.filter(pk__gt=last)[:_PAGE]):
        last = page[-1][0]
        yield page


def _step(group: Group, keys: Sequence[int], eligible: MemoryQuerySet, actor: Actor, now: datetime) -> Step:
    memories = list(eligible.filter(pk__in=keys).order_by("created_at", "pk").with_details())
    position = {"group": list(group), "after": keys[0]}
    if len(memories) < len(keys):
        return Step((), position)  # someone was at them since; the next run will see
    told = gist([Said(one.created_at, one.type, one.title, one.content) for one in memories])
    change = Change(
        "merge",
        memories[told.center].uid,
        reason=_reason(memories, told.likeness),
        members=tuple(memory.uid for memory in memories),
    )

    draft = draft_of(memories, told.title, told.content, now)
    vectors = embed_ahead([draft])

    def commit(run_uid: str) -> tuple[Change, ...]:
        made = condense(eligible, memories, draft, actor, Compress.name, run_uid, now, vectors)
        return (replace(change, into=made.uid),) if made else ()

    return Step((change,), position, 0, commit)


def _reason(memories: Sequence[Memory], likeness: float) -> str:
    first, last = f"{memories[0].created_at:%Y-%m-%d}", f"{memories[-1].created_at:%Y-%m-%d}"
    span = f"on {first}" if first == last else f"from {first} to {last}"
    return f"said {len(memories)} times {span}, with {likeness:.0%} of the words in common"
