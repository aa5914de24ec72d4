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
MERGE, UNDO_MERGE = "merge", "undo merge"  # reasons of revisions


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
        raise StoreError("a memory cannot replace itself; name another one", SUPERSEDED_BY)
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
    by_uid = {other.uid: other for other in others}
    revisions = Revision.objects.filter(at=at, reason=MERGE, memory__superseded_by=memory)
    return [
        _set_replacement(one.memory, by, actor, now, UNDO_MERGE)
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
