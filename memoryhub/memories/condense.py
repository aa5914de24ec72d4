"""One memory in the place of several: made, journaled and undone as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from memoryhub.access.policy import Actor
from memoryhub.core.transactions import write
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories.create import remember_many
from memoryhub.memories.delete import merge_into, restore, trash
from memoryhub.memories.errors import StoreError
from memoryhub.memories.maintenance_updates import note, still_there
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.memories.vectors import Ahead
from memoryhub.models import JournalEntry, Memory
from memoryhub.models.querysets import MemoryQuerySet

_READ = ("pk", "updated_at", "sensitivity", "content_hash")


def condense(
    sources: MemoryQuerySet,
    memories: Sequence[Memory],
    draft: MemoryDraft,
    actor: Actor,
    operation: str,
    run: str,
    now: datetime,
    vectors: Ahead | None = None,
) -> Memory | None:
    """Store the draft in the place of these memories, which go to the trash and name it.

    ``vectors``: the draft's, made before the transaction of whoever calls this (``store.embed_ahead``).
    None, and nothing is done, when one of them has changed since it was read or has left ``sources``. The
    hub's own upkeep reaches everyone's personal memories; what it makes of them belongs to the same owner.
    """
    uids = [memory.uid for memory in memories]
    owner = memories[0].owner
    clearance = replace(actor.clearance, owner=owner or actor.owner)
    with write():
        there = sources.filter(pk__in=[memory.pk for memory in memories]).values_list(*_READ)
        if set(there) != {_as_read(memory) for memory in memories}:
            return None
        [made] = remember_many(
            [draft],
            replace(actor, clearance=clearance),
            now,
            hold_cap=False,
            refusals=[None],
            vectors=vectors,
            imported_at=max(filter(None, (memory.imported_at for memory in memories)), default=None),
        )
        if isinstance(made, StoreError):
            raise made
        merge_into(made.memory, uids, actor, TrashReason.COMPRESSED, now)
        gate = (made.memory.project, made.memory.sensitivity, owner)
        note(operation, run, {gate: {"into": made.memory.uid, "members": uids}}, actor, now)
    return made.memory


def _as_read(memory: Memory) -> tuple[Any, ...]:
    return tuple(getattr(memory, name) for name in _READ)


def bring_back(entry: JournalEntry, uids: Sequence[str], actor: Actor, now: datetime) -> int:
    """Undo :func:`condense`: some of the sources come back; how many that were.

    Sources that are not in the trash any more, or for another reason, are left out.
    """
    with write():
        return len(restore(still_there(uids, entry.at, TrashReason.COMPRESSED, actor), actor, now))


def put_away(entry: JournalEntry, actor: Actor, now: datetime) -> None:
    """Undo :func:`condense`: once sources are back, what was made of them goes to the trash.

    What was edited since stays, beside its sources.
    """
    with write():
        visible = Memory.objects.visible_to(actor.clearance)
        made = visible.filter(uid=entry.detail["into"], deleted_at__isnull=True).first()
        back = visible.filter(uid__in=entry.detail["members"], deleted_at__isnull=True).exists()
        if back and made and not made.revisions.exists():
            trash([made.uid], actor, now=now)
