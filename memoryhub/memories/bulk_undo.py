"""Undo bulk actions: each memory is restored exactly, unless it was changed since."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.core.dates import parse_moment
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories import evidence, freshness
from memoryhub.memories import vectors as memories_vectors
from memoryhub.memories.bulk_actions import (
    ACCEPTED_FIELDS,
    MOMENT_FIELDS,
    NUMBER_FIELDS,
    BulkResult,
    run_step,
)
from memoryhub.memories.delete import TRASH_FIELDS
from memoryhub.memories.errors import Conflict
from memoryhub.memories.replacements import return_skipped
from memoryhub.memories.rows import fetch_by_uid
from memoryhub.memories.undo import (
    Inverse,
    Undo,
    apply_snapshot,
    inverse_of,
    restore_copy_number,
    restore_fields,
    revert_numbers,
    take_snapshot,
)
from memoryhub.models import JournalEntry, Memory


def undo_bulk_action(uid: str, actor: Actor, first: int, last: int) -> BulkResult:
    """Undo a bulk action of the same actor. Each memory is restored exactly.

    ``first`` and ``last``: the numbers of its journal rows, as in :class:`BulkResult`. Memories that were
    changed since are ``refused``. Raise :class:`NotFound` if the actor has no such action. Accesses since
    then stay counted, and memories that were evicted from a full project stay in the trash.
    """
    undo = Undo.of_span(uid, actor, first, last, about="memory").run()
    return BulkResult(uid, _kind_of(undo), undo.restored, undo.refused)


def bulk_action_kind(uid: str, actor: Actor, first: int, last: int) -> str:
    """Return the kind of an action. Raise :class:`NotFound` like :func:`undo_bulk_action`."""
    return _kind_of(Undo.of_span(uid, actor, first, last, about="memory"))


def _kind_of(undo: Undo) -> str:
    return str(undo.rows[-1].detail["kind"])


def _rows_by_memory(rows: list[JournalEntry]) -> list[list[JournalEntry]]:
    """Return the rows of each memory, the last row first, which is the order of the undo."""
    by_memory: dict[str, list[JournalEntry]] = {}
    for row in rows:
        by_memory.setdefault(row.object_id, []).append(row)
    return list(reversed(by_memory.values()))


def _restore_memories(undo: Undo, units: Sequence[list[JournalEntry]]) -> int:
    """Restore each memory, unless it was changed since."""
    result = BulkResult(undo.id, "", undo.restored, undo.refused)
    visible = Memory.objects.visible_or_waiting(undo.actor.clearance)
    found = fetch_by_uid(visible, [rows[0].object_id for rows in units])
    changes: list[journal.Change] = []
    for rows in units:

        def step(memory: Memory, rows: list[JournalEntry] = rows) -> list[journal.Change]:
            return [change for row in rows for change in _UNDO_STEPS[row.operation](memory, row, undo)]

        uid = rows[0].object_id
        changes += run_step(step, uid, found.get(uid), result)
    journal.record(undo.actor, changes, undo.now)
    return len(changes)


_CHANGED_SINCE = "it was changed since"


def _undo_review(memory: Memory, entry: JournalEntry, undo: Undo) -> list[journal.Change]:
    if memory.reviewed_at != entry.at or memory.flags:
        raise Conflict("it was reviewed or flagged again since")
    was = entry.detail["was"]
    memory.reviewed_at, memory.flags = parse_moment(was["reviewed_at"]), was["flags"]
    memory.save(update_fields=["reviewed_at", "flags"])
    return [journal.memory_change("undo_review", memory, undoes=undo.id)]


def _undo_trash(memory: Memory, entry: JournalEntry, undo: Undo) -> list[journal.Change]:
    if (memory.deleted_at, memory.trash_reason) != (entry.at, TrashReason.FORGOTTEN.value):
        raise Conflict("it was restored, or moved to the trash again, since")
    changes = return_skipped(memory, undo.actor, undo.now)
    memory.deleted_at, memory.trash_reason = None, ""
    memory.save(update_fields=TRASH_FIELDS)
    return [journal.memory_change("restore", memory, undoes=undo.id), *changes]


def _undo_accept(memory: Memory, entry: JournalEntry, undo: Undo) -> list[journal.Change]:
    was, now = entry.detail["was"], (memory.sensitivity, memory.reviewed_at, memory.updated_at)
    if memory.deleted_at or now != (entry.sensitivity, entry.at, parse_moment(was["updated_at"])):
        raise Conflict(_CHANGED_SINCE)
    memory.sensitivity = was["level"]
    apply_snapshot(memory, {name: was[name] for name in ("reviewed_at", "expires_at")})
    restore_copy_number(memory, was["copy"])
    memory.save(update_fields=ACCEPTED_FIELDS)
    return [journal.memory_change("undo_accept", memory, undoes=undo.id)]


def _undo_discard(memory: Memory, entry: JournalEntry, undo: Undo) -> list[journal.Change]:
    if memory.deleted_at != entry.at:
        raise Conflict(_CHANGED_SINCE)
    memory.deleted_at, memory.trash_reason = None, ""
    memory.save(update_fields=TRASH_FIELDS)
    return [journal.memory_change("undo_discard", memory, undoes=undo.id)]


def _undo_restore(memory: Memory, entry: JournalEntry, undo: Undo) -> list[journal.Change]:
    was, left = entry.detail["was"], entry.detail["left"]
    if memory.deleted_at or take_snapshot(memory, left) != left:
        raise Conflict(_CHANGED_SINCE)
    for name in ("deleted_at", "expires_at", "last_accessed_at"):
        setattr(memory, name, parse_moment(was[name]))
    memory.trash_reason = was["trash_reason"]
    # None if the other memory was erased since.
    memory.merged_into = Memory.objects.filter(pk=was["merged_into"]).first()
    memory.save(update_fields=[*TRASH_FIELDS, "expires_at", "last_accessed_at"])
    return [journal.memory_change("delete" if memory.deleted_at else "expire", memory, undoes=undo.id)]


def _undo_expire(memory: Memory, entry: JournalEntry, undo: Undo) -> list[journal.Change]:
    if memory.deleted_at or memory.expires_at is None or memory.expires_at > entry.at:
        raise Conflict(_CHANGED_SINCE)
    memory.expires_at = parse_moment(entry.detail["was"]["expires_at"])
    memory.save(update_fields=["expires_at"])
    return [journal.memory_change("restore", memory, undoes=undo.id)]


def _undo_rate(memory: Memory, entry: JournalEntry, undo: Undo) -> list[journal.Change]:
    evidence.undo_rating(memory, undo.id)
    return [journal.memory_change("undo_rate", memory, undoes=undo.id)]


def _undo_still_true(memory: Memory, entry: JournalEntry, undo: Undo) -> list[journal.Change]:
    if memory.updated_at > entry.at:
        raise Conflict(_CHANGED_SINCE)
    freshness.restore_mark(memory, entry.detail["act"], parse_moment(entry.detail["was"]["outdated_at"]))
    return [journal.memory_change("undo_still_true", memory, undoes=undo.id)]


def _undo_update(memory: Memory, entry: JournalEntry, undo: Undo) -> list[journal.Change]:
    """Restore the values of the action's revision, which makes another revision."""
    was, left = entry.detail["was"], entry.detail["left"]
    if memory.deleted_at:
        raise Conflict("it is in the trash; restore it first")
    revision = memory.revisions.filter(number=entry.detail["revision"]).first()
    if revision is None or memory.updated_at != entry.at:
        raise Conflict(_CHANGED_SINCE)
    current = take_snapshot(memory, NUMBER_FIELDS)
    if "importance" in revision.before and current["importance"] != left["importance"]:
        raise Conflict(_CHANGED_SINCE)
    # A row of a release without pins has no pinned_at.
    moments = revert_numbers(was, left, current, [name for name in MOMENT_FIELDS if name in was])
    changes = restore_fields(memory, revision, undo.actor, undo.now, reason="undo", undoes=undo.id)
    apply_snapshot(memory, moments)
    restore_copy_number(memory, was["copy"])
    memory.save()
    memories_vectors.PreparedVectors().refresh(memory)
    return changes


_UNDO_STEPS: dict[str, Callable[[Memory, JournalEntry, Undo], list[journal.Change]]] = {
    "review": _undo_review,
    "delete": _undo_trash,
    "restore": _undo_restore,
    "expire": _undo_expire,
    "update": _undo_update,
    "accept": _undo_accept,
    "discard": _undo_discard,
    "rate": _undo_rate,
    "still_true": _undo_still_true,
}
UNDO_OPERATIONS = tuple(_UNDO_STEPS)


inverse_of(Inverse(_rows_by_memory, _restore_memories), *UNDO_OPERATIONS, about="memory")
