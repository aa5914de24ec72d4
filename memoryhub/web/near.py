"""Near-duplicates for pages that show them beside other things: found once in a while, not for every look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from django.db.models import Max

from memoryhub.batches import batched
from memoryhub.models import JournalEntry, Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval.duplicates import Cluster, Found, arrange, find, read
from memoryhub.retrieval.related import related
from memoryhub.sensitivity import Clearance
from memoryhub.store.apart import UNDO_APART, apart
from memoryhub.store.merging import UNDO_MERGE
from memoryhub.store.rows import CHUNK
from memoryhub.vocabulary import NEVER_MERGED
from memoryhub.web.duplicates import Entered, Shown, one_cluster, shown
from memoryhub.web.kept import eyes, kept, last

_NAME = "near-duplicates"
MOST_WEIGHT = 60_000  # bytes of a page's near-duplicates, but for the first
MOST_BESIDE = 5  # memories that are offered for merging with one


def clusters(clearance: Clearance, project: str = "") -> Found:
    """All of them, in one project or everywhere; where comparing takes long, as they were a moment ago.

    What was decided since is left out, and what was taken back since is there again.
    """
    live = _live(clearance)
    narrowed = live.filter(project=project) if project else live
    found = kept(_NAME, _about(clearance, project), lambda: find(narrowed, clearance))
    return replace(found, clusters=_undecided(found.clusters, clearance))


def counted(clearance: Clearance, project: str = "") -> int | None:
    """How many near-duplicates there were when they were looked for lately; None when that is long ago."""
    found: Found | None = last(_NAME, _about(clearance, project))
    return None if found is None else len(found.near)


def first(found: Found, clearance: Clearance, most: int) -> list[Shown]:
    """The surest of them, with their memories: at most so many, and no more than a page can bear."""
    made = shown(found.near[:most], _live(clearance))
    weights = accumulate(one.weight for one in made)
    return [one for one, weight in zip(made, weights, strict=True) if weight <= MOST_WEIGHT or one is made[0]]


def _undecided(clusters: Sequence[Cluster], clearance: Clearance) -> list[Cluster]:
    """Without those of which a memory is gone, or that somebody told apart."""
    uids: dict[int, str] = {}
    for pks in batched((pk for one in clusters for pk in _members(one)), CHUNK):
        uids.update(_live(clearance).filter(pk__in=pks).values_list("pk", "uid"))
    there = [one for one in clusters if all(pk in uids for pk in _members(one))]
    decided = apart(clearance)
    return [
        one
        for one in there
        if not any(frozenset((uids[one.keep], uids[pk])) in decided for pk, _ in one.others)
    ]


def _members(cluster: Cluster) -> list[int]:
    return [cluster.keep, *(pk for pk, _ in cluster.others)]


def _live(clearance: Clearance) -> MemoryQuerySet:
    live: MemoryQuerySet = Memory.objects.visible_to(clearance).live()
    return live


def _about(clearance: Clearance, project: str) -> str:
    """Whatever was compared before something was taken back may have left that out: it is compared anew."""
    undone = JournalEntry.objects.filter(operation__in=(UNDO_MERGE, UNDO_APART)).aggregate(last=Max("seq"))
    return repr((eyes(clearance), project, undone["last"]))


def beside(memory: Memory, clearance: Clearance, likeness: float) -> Shown | None:
    """A memory and those most like it of its project, scope and owner; None where there is none.

    Only those are ticked that are at least as alike as ``likeness``, a cosine; one of them is kept.
    """
    if memory.category in NEVER_MERGED:
        return None
    near = [
        one
        for one in related(memory, clearance, 4 * MOST_BESIDE).items
        if (one.memory.project, one.memory.scope, one.memory.owner)
        == (memory.project, memory.scope, memory.owner)
        and one.memory.category not in NEVER_MERGED
    ][:MOST_BESIDE]
    alike = [one.memory for one in near if (one.likeness or 0) >= likeness]
    ticked = frozenset([memory.uid, *(one.uid for one in alike)])
    # What is kept is one of those that are ticked: else the second key would merge it into something else.
    keep, why = memory.uid, "it is the one you were looking at"
    if alike:
        pks = [memory.pk, *(one.pk for one in alike)]
        best, _, why = arrange(read(_live(clearance).filter(pk__in=pks)))
        keep = next(one.uid for one in (memory, *alike) if one.pk == best.pk)
    pks = [memory.pk, *(one.memory.pk for one in near)]
    entered = Entered(ticked, frozenset(), "", "")
    found = one_cluster(_live(clearance).filter(pk__in=pks), keep, entered)
    return replace(found, why=why) if found else None
