"""Quotas: ``max_memories`` counts the live memories of each project and owner.

Shared memories have no owner; there the author counts, which is the agent or person that stored the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from django.db.models import Case, Count, F, Q, Value, When

if TYPE_CHECKING:
    from memoryhub.models import Memory
    from memoryhub.models.querysets import MemoryQuerySet


class Quota(NamedTuple):
    """Memories that are counted together. ``author`` is empty where the memories have an owner."""

    project: str
    owner: str
    author: str


# The author of a shared memory, else empty: the last part of a quota.
AUTHOR = Case(When(owner="", then=F("author")), default=Value(""))


def quota_of(memory: Memory) -> Quota:
    return Quota(memory.project, memory.owner, "" if memory.owner else memory.author)


def in_quota(quota: Quota) -> Q:
    """Return the condition on memories that count towards this quota."""
    found = Q(project=quota.project, owner=quota.owner)
    return found if quota.owner else found & Q(author=quota.author)


def count_by_quota(memories: MemoryQuerySet) -> dict[Quota, int]:
    """Return the number of these memories in each quota."""
    rows = memories.order_by().values_list("project", "owner", AUTHOR).annotate(n=Count("pk"))
    return {Quota(*quota): n for *quota, n in rows}


def fullest(counts: Mapping[Quota, int]) -> dict[str, int]:
    """Return for each project the number of memories in its fullest quota, the largest first."""
    most: dict[str, int] = {}
    for quota, n in counts.items():
        most[quota.project] = max(n, most.get(quota.project, 0))
    return dict(sorted(most.items(), key=lambda item: (-item[1], item[0])))
