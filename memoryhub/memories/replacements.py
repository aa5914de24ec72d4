"""Which memory replaces another one (``superseded_by``): set, followed, and moved when memories merge.

There are no cycles. A replacement can be hidden from a caller who sees the memory that it replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.memories.errors import StoreError
from memoryhub.memories.rows import add_revision, field_value, resolve_replacement, visible_replacements
from memoryhub.models import Memory, Revision
from memoryhub.models.querysets import MemoryQuerySet

SUPERSEDED_BY = "superseded_by"
MERGE, UNDO_MERGE, REMOVAL, RESTORE = "merge", "undo merge", "removal", "restore"  # reasons of revisions


def change_replacement(
    memory: Memory, uid: str | None, actor: Actor, now: datetime
) -> tuple[dict[str, str | None], list[journal.Change]]:
    """Set the replacement of a stored memory, which the caller saves.

    Return the old value if it changed, as a revision stores it, and the changes of other memories. For a
    caller who cannot see the replacement it is null, so null then changes nothing. Raise
    :class:`StoreError` for an unknown or hidden id, and for a cycle.
    """
    if uid is None and not visible_replacements([memory], actor.clearance):
        return {}, []
    new, old = resolve_replacement(uid, actor.clearance), memory.superseded_by
    if new == memory.superseded_by_id:
        return {}, []
    changes = [] if new is None else refuse_cycle(memory, new, actor, now)
    memory.superseded_by_id = new
    return {SUPERSEDED_BY: old.uid if old else None}, changes


def refuse_cycle(memory: Memory, new: int, actor: Actor, now: datetime) -> list[journal.Change]:
    """Raise :class:`StoreError` if ``memory`` replaces the memory with the key ``new``.

    If it does so only by memories that the actor cannot see, a refusal would reveal them. Then the last of
    these replaces nothing any more. Return this change.
    """
    if new == memory.pk:
        raise StoreError("a memory cannot replace itself; choose another one", SUPERSEDED_BY)
    chain = [new, *find_successors(new)]
    if memory.pk not in chain:
        return []
    between = chain[: chain.index(memory.pk)]
    visible = existing_keys(Memory.objects.visible_to(actor.clearance), between)
    hidden = [pk for pk in between if pk not in visible]
    if not hidden:
        raise StoreError("this memory replaces that one already; clear that first", SUPERSEDED_BY)
    last = Memory.objects.select_related(SUPERSEDED_BY).get(pk=hidden[-1])
    return [_set_replacement(last, None, actor, now, "update")]


def find_successors(pk: int) -> list[int]:
    """Return the keys of the memories that replace this one: the direct one, the one that replaces that."""
    found: list[int] = []
    while True:
        rows = Memory.objects.filter(pk=found[-1] if found else pk)
        following = rows.values_list(SUPERSEDED_BY, flat=True).first()
        if following is None or following in found:
            return found
        found.append(following)


def existing_keys(memories: MemoryQuerySet, keys: Iterable[int | None]) -> set[int]:
    """Return the keys of rows of this queryset. One query, and none without keys."""
    wanted = set(keys) - {None}
    return set(memories.filter(pk__in=wanted).values_list("pk", flat=True)) if wanted else set()


def move_replacements(
    memory: Memory, others: Sequence[int], actor: Actor, now: datetime
) -> list[journal.Change]:
    """Let a memory replace what others replaced that are merged into it, including hidden memories."""
    replaced = Memory.objects.filter(superseded_by__in=others).select_related(SUPERSEDED_BY)
    if not (found := list(replaced)):
        return []
    unmoved = {memory.pk, *others, *find_successors(memory.pk)}
    return [_set_replacement(one, memory, actor, now, MERGE) for one in found if one.pk not in unmoved]


def return_replacements(
    memory: Memory, others: Iterable[Memory], at: datetime, actor: Actor, now: datetime
) -> list[journal.Change]:
    """Let the others replace the memories again that ``memory`` replaces since a merge at this moment."""
    return _return_replacements(memory.pk, others, (at, MERGE), actor, now, UNDO_MERGE)


def skip_removed(memories: Sequence[Memory], actor: Actor, now: datetime) -> list[journal.Change]:
    """Let the next live memory of each chain replace what memories replaced that are removed.

    Otherwise an outdated memory would be current again, although a newer one replaces it. Moves hidden
    memories, too.
    """
    removed = [memory.pk for memory in memories if memory.superseded_by_id is not None]
    if not removed:
        return []
    replaced = Memory.objects.filter(superseded_by__in=removed).exclude(pk__in=removed)
    moved = list(replaced.select_related(SUPERSEDED_BY))
    chains = {pk: find_successors(pk) for pk in {memory.superseded_by_id for memory in moved}}
    following = {one for chain in chains.values() for one in chain}.difference(removed)
    live = Memory.objects.live(now).in_bulk(following) if following else {}
    nearest = {pk: next((live[one] for one in chain if one in live), None) for pk, chain in chains.items()}
    return [
        _set_replacement(memory, by, actor, now, REMOVAL)
        for memory in moved
        if (by := nearest[memory.superseded_by_id])
    ]


def return_skipped(memory: Memory, actor: Actor, now: datetime) -> list[journal.Change]:
    """Let a memory in the trash replace again what it replaced, before it is restored."""
    if memory.superseded_by_id is None or memory.deleted_at is None:
        return []
    removal = memory.deleted_at, REMOVAL
    return _return_replacements(memory.superseded_by_id, [memory], removal, actor, now, RESTORE)


def _return_replacements(
    pk: int,
    others: Iterable[Memory],
    change: tuple[datetime, str],
    actor: Actor,
    now: datetime,
    reason: str,
) -> list[journal.Change]:
    """Undo the move of replacements from others to the memory ``pk`` by a change of this time and reason."""
    by_uid = {other.uid: other for other in others}
    revisions = Revision.objects.filter(at=change[0], reason=change[1], memory__superseded_by=pk)
    return [
        _set_replacement(one.memory, by, actor, now, reason)
        for one in revisions.select_related("memory__superseded_by")
        if (by := by_uid.get(one.before.get(SUPERSEDED_BY)))
    ]


def _set_replacement(
    memory: Memory, by: Memory | None, actor: Actor, now: datetime, reason: str
) -> journal.Change:
    """Set the replacement, with a revision. The journal does not name it, because it can be hidden."""
    before: dict[str, Any] = {SUPERSEDED_BY: field_value(memory, SUPERSEDED_BY)}
    memory.superseded_by = by
    memory.save(update_fields=[SUPERSEDED_BY])
    number = add_revision(memory, before, memory.sensitivity, actor, now, reason)
    return journal.memory_change("update", memory, fields=[SUPERSEDED_BY], revision=number, reason=reason)
