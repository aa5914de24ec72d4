"""The memory that replaces another one (``superseded_by``): validated when set, hidden from some callers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import Exists, OuterRef, Q

from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit import journal
from memoryhub.memories.errors import Conflict, NotFound, StoreError
from memoryhub.models import Memory
from memoryhub.models.querysets import MemoryQuerySet

FIELD = "superseded_by"


def resolve_replacement(uid: str | None, clearance: Clearance, memory: Memory | None = None) -> int | None:
    """Return the primary key of the memory with this id, which is to replace ``memory`` (None: a new one).

    Raise :class:`StoreError` for an unknown or hidden id, which look the same, and for a cycle.
    """
    if uid is None:
        return None
    target = Memory.objects.visible_to(clearance).filter(uid=uid).only("pk", FIELD).first()
    if target is None:
        raise StoreError("there is no memory with this id; name one that you can see", FIELD)
    if memory is not None and target.pk == memory.pk:
        raise StoreError("a memory cannot replace itself; name another one", FIELD)
    if memory is not None and memory.pk in _successors(target):
        raise StoreError("this memory replaces that one already; clear that first", FIELD)
    return int(target.pk)


def _successors(memory: Memory) -> set[int]:
    """Return the primary keys of the memories that replace this one, directly or by others."""
    found: set[int] = set()
    following = memory.superseded_by_id
    while following is not None and following not in found:
        found.add(following)
        following = Memory.objects.filter(pk=following).values_list("superseded_by_id", flat=True).first()
    return found


def without_replaced(memories: MemoryQuerySet) -> MemoryQuerySet:
    """Return the memories without those that another one of them replaces."""
    replaced = Exists(memories.filter(pk=OuterRef(FIELD)))
    found: MemoryQuerySet = memories.filter(Q(superseded_by__isnull=True) | ~replaced)
    return found


def visible_replacements(memories: Iterable[Memory], clearance: Clearance) -> dict[int, str]:
    """Return the ids of the visible memories that replace these, by primary key.

    One query, and none if no memory is superseded, which is the usual case.
    """
    pks = {memory.superseded_by_id for memory in memories if memory.superseded_by_id is not None}
    if not pks:
        return {}
    visible = Memory.objects.visible_to(clearance).filter(pk__in=pks)
    return dict(visible.values_list("pk", "uid"))


def change_replacement(memory: Memory, uid: str | None, clearance: Clearance) -> dict[str, str | None]:
    """Set the replacement of a stored memory. Return the old value if it changed, as a revision stores it.

    For a caller who cannot see the replacement it is null, so null then changes nothing.
    """
    old = memory.superseded_by
    if uid is None and not visible_replacements([memory], clearance):
        return {}
    new = resolve_replacement(uid, clearance, memory)
    if new == memory.superseded_by_id:
        return {}
    memory.superseded_by_id = new
    return {FIELD: old.uid if old else None}


def import_replacements(found: Sequence[tuple[str, str]], actor: Actor) -> list[bool | StoreError]:
    """Store ``(memory, its replacement)``, inside a transaction. False if already stored.

    Makes a journal row, but no revision: the memories came with theirs.
    """
    results: list[bool | StoreError] = []
    for uid, by in found:
        try:
            results.append(_import_replacement(uid, by, actor))
        except StoreError as refusal:
            results.append(refusal)
    return results


def _import_replacement(uid: str, by: str, actor: Actor) -> bool:
    visible = Memory.objects.visible_to(actor.clearance)
    memory, target = visible.filter(uid=uid).first(), visible.filter(uid=by).first()
    if memory is None or target is None:
        raise NotFound("a memory of this replacement is not in this store", "memory_id")
    if memory.superseded_by_id == target.pk:
        return False
    if memory.superseded_by_id is not None:
        raise Conflict("this memory is replaced by another one here", "memory_id")
    memory.superseded_by_id = resolve_replacement(by, actor.clearance, memory)
    memory.save(update_fields=[FIELD])
    journal.record(actor, [journal.memory_change("update", memory, fields=[FIELD], reason="import")])
    return True
