"""Writes of maintenance runs, in steps, with the journal rows that undo them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.backends import bulk
from memoryhub.core.database import batched, write_transaction
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories.create import create_memories
from memoryhub.memories.delete import move_to_trash, restore_memories, trash_memories, trash_merged
from memoryhub.memories.errors import StoreError
from memoryhub.memories.rows import CHUNK_SIZE, fetch_by_uids
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.memories.vectors import PreparedVectors
from memoryhub.models import JournalEntry, Memory
from memoryhub.models.querysets import MemoryQuerySet

# The memories of a step that share these get one journal row: a row for each would fill the journal.
ACCESS_FIELDS = ("project", "sensitivity", "owner")


def access_key(row: Memory | JournalEntry) -> tuple[str, str, str]:
    return row.project, row.sensitivity, row.owner


@dataclass(frozen=True)
class ImportanceChange:
    """The old and the new importance of a memory, and the number of accesses that the new one counts."""

    pk: int
    uid: str
    before: float
    after: float
    accesses: int
    key: tuple[str, str, str]  # project, level, owner


def update_importances(
    planned: Sequence[ImportanceChange], actor: Actor, run: str, now: datetime
) -> set[str]:
    """Write the importances of memories that have not changed since they were read. Return their ids.

    Also sets ``consolidated_at`` and ``consolidated_accesses``, but not ``updated_at``. One journal row for
    each project, level and owner has the old and new values, which :func:`undo_importances` needs.
    """
    with write_transaction():
        current = _current_values(planned, actor, now)
        unchanged = [
            change
            for change in planned
            if current.get(change.pk) == (change.before, change.accesses, change.key)
        ]
        at = bulk.adapt_moment(now)
        bulk.update(
            Memory,
            ("importance", "consolidated_at", "consolidated_accesses"),
            [(one.after, at, one.accesses, one.pk) for one in unchanged],
        )
        changes: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
        for one in unchanged:
            changes[one.key].append([one.uid, one.before, one.after])
        record_grouped(
            "consolidate", run, {key: {"changes": rows} for key, rows in changes.items()}, actor, now
        )
    return {one.uid for one in unchanged}


def _current_values(
    planned: Sequence[ImportanceChange], actor: Actor, now: datetime
) -> dict[int, tuple[Any, ...]]:
    live = Memory.objects.visible_to(actor.clearance).live(now)
    found: dict[int, tuple[Any, ...]] = {}
    for chunk in batched(planned, CHUNK_SIZE):
        rows = live.filter(pk__in=[change.pk for change in chunk])
        for pk, importance, accesses, *key in rows.values_list(
            "pk", "importance", "accessed_count", *ACCESS_FIELDS
        ):
            found[pk] = (importance, accesses, tuple(key))
    return found


def record_grouped(
    operation: str,
    run: str,
    details: dict[tuple[str, str, str], dict[str, Any]],
    actor: Actor,
    now: datetime,
    *,
    about: str = "memories",
) -> None:
    """Record one journal row about several objects for each group of one project, level and owner."""
    journal.record(
        actor,
        [
            journal.Change(operation, about, run, {"run": run, **detail}, *key)
            for key, detail in sorted(details.items())
        ],
        now,
    )


def grouped_rows(
    operation: str, run: str, actor: Actor, *, about: str = "memories"
) -> Iterator[JournalEntry]:
    """Return the rows of :func:`record_grouped` about a run that the actor may see, the newest first.

    Includes rows that name a memory which is now hidden from the actor: an undo restores the others.
    """
    rows = JournalEntry.objects.visible_as_recorded(actor.clearance).filter(
        object_id=run, object_type=about, operation=operation
    )
    yield from list(rows.order_by("-seq"))


def undo_importances(
    changes: Iterable[tuple[str, float, float]], run: str, actor: Actor, now: datetime
) -> set[str]:
    """Restore the earlier importance of memories, unless it was changed since. Return their ids.

    ``changes``: ids with the importances before and after, from the rows of :func:`update_importances`. The
    memories stay marked as consolidated, so that the next run does not repeat the change.
    """
    wanted = {uid: (before, after) for uid, before, after in changes if before != after}
    undone: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
    rows: list[tuple[float, int]] = []
    with write_transaction():
        for pk, uid, importance, *key in _current_importances(wanted, actor):
            before, after = wanted[uid]
            if importance == after:
                rows.append((before, pk))
                undone[tuple(key)].append([uid, after, before])
        bulk.update(Memory, ("importance",), rows)
        details = {key: {"changes": changes} for key, changes in undone.items()}
        record_grouped("undo_consolidate", run, details, actor, now)
    return {uid for group in undone.values() for uid, *_ in group}


def _current_importances(uids: Iterable[str], actor: Actor) -> Iterator[Any]:
    visible: MemoryQuerySet = Memory.objects.visible_to(actor.clearance)
    for chunk in batched(uids, CHUNK_SIZE):
        yield from visible.filter(uid__in=chunk).values_list("pk", "uid", "importance", *ACCESS_FIELDS)


def evict_for_run(
    candidates: MemoryQuerySet, uids: Iterable[str], actor: Actor, run: str, now: datetime
) -> list[Memory]:
    """Move the candidates with these ids to the trash as evicted, with a journal row for each.

    One more row for each project, level and owner is for :func:`undo_evictions`.
    """
    with write_transaction():
        memories = fetch_by_uids(candidates, uids)
        move_to_trash(memories, actor, TrashReason.EVICTED, now, "evict")
        gone: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        for memory in memories:
            gone[access_key(memory)].append(memory.uid)
        record_grouped("evict", run, {key: {"evicted": uids} for key, uids in gone.items()}, actor, now)
    return memories


def undo_evictions(uids: Iterable[str], at: datetime, actor: Actor, now: datetime) -> set[str]:
    """Restore memories that a run evicted at this moment and that are still in the trash."""
    with write_transaction():
        out = restore_memories(still_in_trash(uids, at, TrashReason.EVICTED, actor), actor, now)
    return {memory.uid for memory in out}


def still_in_trash(uids: Iterable[str], at: datetime, reason: TrashReason, actor: Actor) -> list[str]:
    """Return the ids of memories that were trashed at this moment for this reason and are still in the trash.

    Filters by id only: SQLite would use the index on ``deleted_at``, and a whole run shares one moment.
    """
    visible: MemoryQuerySet = Memory.objects.visible_to(actor.clearance)
    found: list[str] = []
    for chunk in batched(uids, CHUNK_SIZE):
        rows = visible.filter(uid__in=chunk).order_by("pk").values_list("uid", "deleted_at", "trash_reason")
        found += [uid for uid, since, why in rows if since == at and why == reason.value]
    return found


_COMPARED_FIELDS = ("pk", "updated_at", "sensitivity", "content_hash")


def condense_memories(
    sources: MemoryQuerySet,
    memories: Sequence[Memory],
    draft: MemoryDraft,
    actor: Actor,
    operation: str,
    run: str,
    now: datetime,
    vectors: PreparedVectors | None = None,
) -> Memory | None:
    """Replace these memories by a draft: store it and move them to the trash as merged into it.

    Return None and change nothing if one of them has changed since it was read or is no longer in
    ``sources``. ``vectors``: the draft's, made before the caller's transaction (``memories.embed_drafts``). A
    summary of personal memories gets their owner.
    """
    uids = [memory.uid for memory in memories]
    owner = memories[0].owner
    clearance = replace(actor.clearance, owner=owner or actor.owner)
    with write_transaction():
        current = sources.filter(pk__in=[memory.pk for memory in memories]).values_list(*_COMPARED_FIELDS)
        if set(current) != {_compared_values(memory) for memory in memories}:
            return None
        [made] = create_memories(
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
        trash_merged(made.memory, uids, actor, TrashReason.COMPRESSED, now)
        key = (made.memory.project, made.memory.sensitivity, owner)
        record_grouped(operation, run, {key: {"into": made.memory.uid, "members": uids}}, actor, now)
    return made.memory


def _compared_values(memory: Memory) -> tuple[Any, ...]:
    return tuple(getattr(memory, name) for name in _COMPARED_FIELDS)


def restore_sources(entry: JournalEntry, uids: Sequence[str], actor: Actor, now: datetime) -> int:
    """Undo :func:`condense_memories` for some sources: restore them if they are still in the trash."""
    with write_transaction():
        return len(
            restore_memories(still_in_trash(uids, entry.at, TrashReason.COMPRESSED, actor), actor, now)
        )


def trash_condensed(entry: JournalEntry, actor: Actor, now: datetime) -> None:
    """Undo :func:`condense_memories` after sources were restored: trash the summary, unless it was edited."""
    with write_transaction():
        visible = Memory.objects.visible_to(actor.clearance)
        made = visible.filter(uid=entry.detail["into"], deleted_at__isnull=True).first()
        back = visible.filter(uid__in=entry.detail["members"], deleted_at__isnull=True).exists()
        if back and made and not made.revisions.exists():
            trash_memories([made.uid], actor, now=now)
