"""Writes of maintenance runs, in steps, with the journal rows that undo them, and how these are undone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from django.db.models import Exists, OuterRef, Q

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.audit.journal import ACCESS_FIELDS
from memoryhub.backends import bulk
from memoryhub.core.database import adapt_moment, batched, write_transaction
from memoryhub.core.text import is_visible_change
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories.create import create_memories
from memoryhub.memories.delete import move_to_trash, restore_memories, trash_memories
from memoryhub.memories.errors import StoreError
from memoryhub.memories.replacements import return_replacements
from memoryhub.memories.rows import CHUNK_SIZE, PreparedVectors, fetch_by_uids
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.memories.undo import AccessKey, Inverse, Undo, access_key, inverse_of, record_action
from memoryhub.memories.update import FACT_IDENTITY, find_equal, next_copy_number
from memoryhub.models import Fact, JournalEntry, Memory
from memoryhub.models.querysets import MemoryQuerySet


@dataclass(frozen=True)
class ImportanceChange:
    """The old and the new importance of a memory, and the number of accesses that the new one counts."""

    pk: int
    uid: str
    before: float
    after: float
    accesses: int
    key: AccessKey  # project, level, owner


def update_importances(
    planned: Sequence[ImportanceChange], actor: Actor, run: str, now: datetime
) -> set[str]:
    """Write the importances of memories that have not changed since they were read. Return their ids.

    Also sets ``consolidated_at`` and ``consolidated_accesses``, but not ``updated_at``. One journal row for
    each project, level and owner has the old and new values, which an undo needs.
    """
    with write_transaction():
        current = _current_values(planned, actor, now)
        unchanged = [
            change
            for change in planned
            if current.get(change.pk) == (change.before, change.accesses, change.key)
        ]
        at = adapt_moment(now)
        bulk.update(
            Memory,
            ("importance", "consolidated_at", "consolidated_accesses"),
            [(one.after, at, one.accesses, one.pk) for one in unchanged],
        )
        changes: dict[AccessKey, list[Any]] = defaultdict(list)
        for one in unchanged:
            changes[one.key].append([one.uid, one.before, one.after])
        record_action(
            "consolidate", run, {key: {"changes": rows} for key, rows in changes.items()}, actor, now
        )
    return {one.uid for one in unchanged}


def _current_values(
    planned: Sequence[ImportanceChange], actor: Actor, now: datetime
) -> dict[int, tuple[Any, ...]]:
    live = Memory.objects.visible_to(actor.clearance).live(now).unpinned()
    found: dict[int, tuple[Any, ...]] = {}
    for chunk in batched(planned, CHUNK_SIZE):
        rows = live.filter(pk__in=[change.pk for change in chunk])
        for pk, importance, accesses, *key in rows.values_list(
            "pk", "importance", "accessed_count", *ACCESS_FIELDS
        ):
            found[pk] = (importance, accesses, tuple(key))
    return found


def evict_for_run(
    candidates: MemoryQuerySet, uids: Iterable[str], actor: Actor, run: str, now: datetime
) -> list[Memory]:
    """Move the candidates with these ids to the trash as evicted, with a journal row for each.

    One more row for each project, level and owner is for the undo.
    """
    with write_transaction():
        memories = fetch_by_uids(candidates, uids)
        move_to_trash(memories, actor, TrashReason.EVICTED, now)
        gone: dict[AccessKey, list[str]] = defaultdict(list)
        for memory in memories:
            gone[access_key(memory)].append(memory.uid)
        record_action("evict", run, {key: {"evicted": uids} for key, uids in gone.items()}, actor, now)
    return memories


@dataclass
class _Changed:
    """What a run did to a memory. ``change``: its importances before and after the change."""

    uid: str
    evicted_at: datetime | None = None
    change: tuple[float, float] | None = None


def _changed_memories(rows: list[JournalEntry]) -> list[_Changed]:
    """Return each memory that a run changed or evicted, once. Those in the trash come first."""
    # The evictions of a resumed run have several times.
    found = {
        uid: _Changed(uid, row.at)
        for row in rows
        if row.operation == "evict"
        for uid in row.detail["evicted"]
    }
    for row in rows:
        for uid, before, after in row.detail.get("changes", ()):
            found.setdefault(uid, _Changed(uid)).change = (before, after)
    return list(found.values())


def _restore_changed(undo: Undo, units: Sequence[_Changed]) -> int:
    """Restore memories with their importances. Skips memories that were changed or restored since.

    The memories stay marked as consolidated, so that the next run does not repeat the change.
    """
    restored = _restore_importances(undo, {one.uid: one.change for one in units if one.change})
    trashed = {one.uid: one.evicted_at for one in units if one.evicted_at}
    still = _still_in_trash(trashed, TrashReason.EVICTED, undo.actor)
    return len(restored | {memory.uid for memory in restore_memories(still, undo.actor, undo.now)})


def _restore_importances(undo: Undo, changes: Mapping[str, tuple[float, float]]) -> set[str]:
    """Return the ids of the memories whose change the run has listed; smaller changes are undone, too."""
    undone: dict[AccessKey, list[Any]] = defaultdict(list)
    rows: list[tuple[float, int]] = []
    visible = Memory.objects.visible_to(undo.actor.clearance)
    for chunk in batched([uid for uid, (before, after) in changes.items() if before != after], CHUNK_SIZE):
        found = visible.filter(uid__in=chunk).values_list("pk", "uid", "importance", *ACCESS_FIELDS)
        for pk, uid, importance, *key in found:
            before, after = changes[uid]
            if importance == after:
                rows.append((before, pk))
                undone[tuple(key)].append([uid, after, before])
    bulk.update(Memory, ("importance",), rows)
    details = {key: {"changes": changes} for key, changes in undone.items()}
    record_action("undo_consolidate", undo.id, details, undo.actor, undo.now)
    return {
        uid for group in undone.values() for uid, after, before in group if is_visible_change(before, after)
    }


inverse_of(Inverse(_changed_memories, _restore_changed), "consolidate", "evict")


def _still_in_trash(trashed: Mapping[str, datetime], reason: TrashReason, actor: Actor) -> list[str]:
    """Return the ids of memories that are in the trash since this moment, for this reason.

    Filters by id only: SQLite would use the index on ``deleted_at``, and a whole run shares one moment.
    """
    visible = Memory.objects.visible_to(actor.clearance)
    found: list[str] = []
    for chunk in batched(trashed, CHUNK_SIZE):
        rows = visible.filter(uid__in=chunk).order_by("pk").values_list("uid", "deleted_at", "trash_reason")
        found += [uid for uid, since, why in rows if since == trashed[uid] and why == reason.value]
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
    vectors: PreparedVectors | None,
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
        if set(current) != set(map(attrgetter(*_COMPARED_FIELDS), memories)):
            return None
        [made] = create_memories(
            [draft],
            replace(actor, clearance=clearance),
            now,
            enforce_cap=False,
            refusals=[None],
            vectors=vectors,
            imported_at=max(filter(None, (memory.imported_at for memory in memories)), default=None),
        )
        if isinstance(made, StoreError):
            raise made
        trash_memories(uids, actor, TrashReason.COMPRESSED, now, into=made.memory)
        key = (made.memory.project, made.memory.sensitivity, owner)
        record_action(operation, run, {key: {"into": made.memory.uid, "members": uids}}, actor, now)
    return made.memory


def _summary_sources(rows: list[JournalEntry]) -> list[tuple[JournalEntry, str]]:
    return [(row, uid) for row in rows for uid in row.detail["members"]]


def _restore_sources(undo: Undo, units: Sequence[tuple[JournalEntry, str]]) -> int:
    """Restore the sources of summaries, then move each summary to the trash, unless it was edited.

    What the sources replaced is replaced by them again.
    """
    trashed = {uid: row.at for row, uid in units}
    restored = restore_memories(
        _still_in_trash(trashed, TrashReason.COMPRESSED, undo.actor), undo.actor, undo.now
    )
    known = Memory.objects.visible_to(undo.actor.clearance)
    visible, changes = known.filter(deleted_at__isnull=True), list[journal.Change]()
    for into, at in {row.detail["into"]: row.at for row, _ in units}.items():
        if made := known.filter(uid=into).first():
            changes += return_replacements(made, restored, at, undo.actor, undo.now)
    journal.record(undo.actor, changes, undo.now)
    for row, uid in units:
        members = row.detail["members"]
        made = visible.filter(uid=row.detail["into"]).first() if uid == members[-1] else None
        if made and not made.revisions.exists() and visible.filter(uid__in=members).exists():
            trash_memories([made.uid], undo.actor, now=undo.now)
    return len(restored)


inverse_of(Inverse(_summary_sources, _restore_sources), "compress", "summarize_old")


_PLACE = ("scope", "owner", "sensitivity", "key")
Moved = list[list[int]]  # the primary key and the copy number of each row, before it was moved


def move_memories(source: str, target: str, keys: Sequence[int] | None = None) -> Moved:
    """Move memories between projects: all, or those with these keys. Call it in a transaction."""
    twins = Memory.objects.filter(
        Q(content_hash=OuterRef("content_hash")) | Q(key=OuterRef("key")) & ~Q(key=""),
        project=target,
        **{name: OuterRef(name) for name in _PLACE},
    )
    return _move(Memory, twins, source, target, keys)


def move_facts(source: str, target: str, keys: Sequence[int] | None = None) -> Moved:
    """Move facts between projects, like :func:`move_memories`."""
    same = {name: OuterRef(name) for name in FACT_IDENTITY}
    return _move(Fact, Fact.objects.filter(**{**same, "project": target}), source, target, keys)


def _move(
    model: type[Memory | Fact], twins: Any, source: str, target: str, keys: Sequence[int] | None
) -> Moved:
    """Move rows. One that has a twin in the target gets a copy number of its own."""
    moved: Moved = []
    for rows in _chunks(model._default_manager.filter(project=source), keys):
        moved += [list(pair) for pair in rows.values_list("pk", "copy")]
        for row in rows.filter(Exists(twins)).order_by("copy", "pk"):
            row.project = target
            row.copy = next_copy_number(find_equal(row))
            row.save(update_fields=["project", "copy"])
        rows.update(project=target)
    return moved


def move_back(model: type[Memory | Fact], source: str, target: str, moved: Moved) -> None:
    """Undo a move. Rows that were erased or moved elsewhere since stay as they are.

    A row gets its earlier copy number back, unless a twin has it now.
    """
    move = move_memories if model is Memory else move_facts
    move(source, target, [pk for pk, _ in moved])
    copies = {pk: copy for pk, copy in moved}  # noqa: C416 pairs are lists
    for chunk in batched(copies, CHUNK_SIZE):
        for row in model._default_manager.filter(pk__in=chunk, project=target):
            copy = copies[row.pk]
            if row.copy != copy and not find_equal(row).filter(copy=copy).exists():
                row.copy = copy
                row.save(update_fields=["copy"])


def _chunks(rows: Any, keys: Sequence[int] | None) -> Any:
    """Yield the rows with these keys in parts that fit into a statement, or all rows at once."""
    if keys is None:
        yield rows
        return
    for chunk in batched(keys, CHUNK_SIZE):
        yield rows.filter(pk__in=chunk)
