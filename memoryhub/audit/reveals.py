"""Secrets that were read, many in one answer: who read which, as one row of the journal for each place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from memoryhub.access.policy import Actor, Sensitivity
from memoryhub.audit import journal
from memoryhub.core.transactions import write_transaction
from memoryhub.models import Memory

MAX_NAMED_IDS = 100  # ids in one row; those beyond are counted


def record_reveals(memories: Iterable[Memory], actor: Actor, door: str) -> None:
    """Journal the secrets among what an answer shows, before it is sent; without one nothing is written.

    A row is under the project and the owner of what it names, so several of these are several rows.
    """
    shown: dict[tuple[str, str], list[str]] = defaultdict(list)
    for memory in memories:
        if memory.sensitivity == Sensitivity.SECRET.value:
            shown[(memory.project, memory.owner)].append(memory.uid)
    if not shown:
        return
    with write_transaction():
        journal.record(actor, [_reveal_change(uids, *place, door) for place, uids in sorted(shown.items())])


def _reveal_change(uids: list[str], project: str, owner: str, door: str) -> journal.Change:
    level = Sensitivity.SECRET.value
    if len(uids) == 1:
        return journal.Change("reveal", "memory", uids[0], {"page": door}, project, level, owner)
    detail = {"page": door, "count": len(uids), "ids": uids[:MAX_NAMED_IDS]}
    return journal.Change("reveal", "memories", "", detail, project, level, owner)
