"""Near-duplicates for pages that show them beside other things: found once in a while, not for every look."""

from __future__ import annotations

from itertools import product

from memoryhub.models import Memory
from memoryhub.querysets import MemoryQuerySet
from memoryhub.retrieval.duplicates import Found, find
from memoryhub.retrieval.related import related
from memoryhub.sensitivity import Clearance
from memoryhub.store.apart import apart
from memoryhub.vocabulary import NEVER_MERGED
from memoryhub.web.duplicates import Entered, Shown, one_cluster, shown
from memoryhub.web.kept import eyes, kept

MOST_BESIDE = 5  # memories that are offered for merging with one


def clusters(clearance: Clearance, project: str = "") -> Found:
    """All of them, in one project or everywhere; as they were a moment ago where comparing takes long."""
    live: MemoryQuerySet = Memory.objects.visible_to(clearance).live()
    live = live.filter(project=project) if project else live
    return kept("near-duplicates", repr((eyes(clearance), project)), lambda: find(live, clearance))


def first(found: Found, clearance: Clearance, most: int) -> list[Shown]:
    """The surest of them with their memories, without those that were decided about since."""
    live: MemoryQuerySet = Memory.objects.visible_to(clearance).live()
    decided = apart(clearance)
    picked: list[Shown] = []
    for at in range(0, len(found.clusters), most):
        some = shown(found.clusters[at : at + most], live)
        picked += [one for one in some if not _is_apart(one, decided)]
        if len(picked) >= most:
            break
    return picked[:most]


def _is_apart(cluster: Shown, decided: set[frozenset[str]]) -> bool:
    uids = [memory.uid for memory in cluster.everyone]
    return any(frozenset(pair) in decided for pair in product(uids[:1], uids[1:]))


def beside(memory: Memory, clearance: Clearance, likeness: float) -> Shown | None:
    """A memory and those most like it of its project, scope and owner; None where there is none.

    Only those are ticked that are at least as alike as ``likeness``, a cosine.
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
    ticked = frozenset(one.memory.uid for one in near if (one.likeness or 0) >= likeness)
    pks = [memory.pk, *(one.memory.pk for one in near)]
    live: MemoryQuerySet = Memory.objects.visible_to(clearance).live().filter(pk__in=pks)
    return one_cluster(live, "", Entered(ticked, frozenset(), "", ""))
