"""Journal which secret memories a page showed to whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from memoryhub.access.policy import Actor, Sensitivity
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.models import Memory

MAX_NAMED_IDS = 100  # in one row, which also has the count


def record_reveals(memories: Iterable[Memory], actor: Actor, page: str) -> None:
    """Journal the secret memories among those that a response shows, before it is sent.

    Writes one row for each project and owner.
    """
    shown: dict[tuple[str, str], list[str]] = defaultdict(list)
    for memory in memories:
        if memory.sensitivity == Sensitivity.SECRET.value:
            shown[(memory.project, memory.owner)].append(memory.uid)
    if not shown:
        return
    with write_transaction():
        journal.record(actor, [_reveal_change(uids, *place, page) for place, uids in sorted(shown.items())])


def _reveal_change(uids: list[str], project: str, owner: str, page: str) -> journal.Change:
    level = Sensitivity.SECRET.value
    if len(uids) == 1:
        return journal.Change("reveal", "memory", uids[0], {"page": page}, project, level, owner)
    detail = {"page": page, "count": len(uids), "ids": uids[:MAX_NAMED_IDS]}
    return journal.Change("reveal", "memories", "", detail, project, level, owner)
