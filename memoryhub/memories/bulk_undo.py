"""Undo of a bulk action: each memory is restored, unless it was changed since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories import vectors
from memoryhub.memories.bulk_actions import NUMBER_FIELDS, BulkResult, run_in_chunks
from memoryhub.memories.delete import TRASH_FIELDS
from memoryhub.memories.errors import Conflict, NotFound
from memoryhub.memories.undo import (
    apply_snapshot,
    parse_moment,
    restore_copy_number,
    restore_fields,
    revert_numbers,
    take_snapshot,
)
from memoryhub.models import JournalEntry, Memory

# Journal rows between the first and the last row of an action: its own, and those of concurrent writers.
MAX_JOURNAL_ROWS = 50_000
_CHANGED_SINCE = "it was changed since"


@dataclass(frozen=True)
class _Undo:
    uid: str
    actor: Actor
    now: datetime
    rows: dict[str, list[JournalEntry]]


def undo_bulk_action(
    uid: str, actor: Actor, first: int, last: int, now: datetime | None = None
) -> BulkResult:
    """Undo a bulk action of the same actor. Each memory is restored exactly.

    ``first`` and ``last``: the numbers of its journal rows, as in :class:`BulkResult`. Memories that were
    changed since are ``refused``. Raise :class:`NotFound` if the actor has no such action. Accesses since
    then stay counted, and memories that were evicted from a full project stay in the trash.
    """
    undo = _Undo(uid, actor, now or timezone.now(), _load_rows(uid, actor, first, last))

    def step(memory: Memory) -> list[journal.Change]:
        entries = undo.rows[memory.uid]
        return [change for entry in entries for change in _UNDO_STEPS[entry.operation](memory, entry, undo)]

    visible = Memory.objects.visible_to(actor.clearance)
    return run_in_chunks(uid, _kind_of(undo.rows), undo.rows, visible, step, actor, undo.now)


def bulk_action_kind(uid: str, actor: Actor, first: int, last: int) -> str:
    """Return the kind of an action. Raise :class:`NotFound` like :func:`undo_bulk_action`."""
    return _kind_of(_load_rows(uid, actor, first, last))


def _kind_of(rows: dict[str, list[JournalEntry]]) -> str:
    return str(next(iter(rows.values()))[0].detail["kind"])


def _load_rows(uid: str, actor: Actor, first: int, last: int) -> dict[str, list[JournalEntry]]:
    """Return the action's journal rows by memory id, the last row first, which is the order of the undo.

    Rows that were imported from another store's journal do not count.
    """
    if not uid or not 0 < first <= last or last - first >= MAX_JOURNAL_ROWS:
        raise NotFound("there is no such act of yours")
    found = JournalEntry.objects.filter(seq__range=(first, last), actor=actor.name, object_type="memory")
    own = found.filter(detail__act=uid).exclude(detail__has_key="imported")
    rows: dict[str, list[JournalEntry]] = {}
    for row in own.order_by("-seq"):
        rows.setdefault(row.object_id, []).append(row)
    if not rows:
        raise NotFound("there is no such act of yours")
    return dict(reversed(rows.items()))


def _undo_review(memory: Memory, entry: JournalEntry, undo: _Undo) -> list[journal.Change]:
    if memory.reviewed_at != entry.at or memory.flags:
        raise Conflict("it was reviewed or flagged again since")
    was = entry.detail["was"]
    memory.reviewed_at, memory.flags = parse_moment(was["reviewed_at"]), was["flags"]
    memory.save(update_fields=["reviewed_at", "flags"])
    return [journal.memory_change("undo_review", memory, undoes=undo.uid)]


def _undo_trash(memory: Memory, entry: JournalEntry, undo: _Undo) -> list[journal.Change]:
    if (memory.deleted_at, memory.trash_reason) != (entry.at, TrashReason.FORGOTTEN.value):
        raise Conflict("it was restored, or moved to the trash again, since")
    memory.deleted_at, memory.trash_reason = None, ""
    memory.save(update_fields=TRASH_FIELDS)
    return [journal.memory_change("restore", memory, undoes=undo.uid)]


def _undo_restore(memory: Memory, entry: JournalEntry, undo: _Undo) -> list[journal.Change]:
    was, left = entry.detail["was"], entry.detail["left"]
    if memory.deleted_at or take_snapshot(memory, left) != left:
        raise Conflict(_CHANGED_SINCE)
    for name in ("deleted_at", "expires_at", "last_accessed_at"):
        setattr(memory, name, parse_moment(was[name]))
    memory.trash_reason = was["trash_reason"]
    # None if the other memory was erased since.
    memory.merged_into = Memory.objects.filter(pk=was["merged_into"]).first()
    memory.save(update_fields=[*TRASH_FIELDS, "expires_at", "last_accessed_at"])
    return [journal.memory_change("delete" if memory.deleted_at else "expire", memory, undoes=undo.uid)]


def _undo_expire(memory: Memory, entry: JournalEntry, undo: _Undo) -> list[journal.Change]:
    if memory.deleted_at or memory.expires_at != entry.at:
        raise Conflict(_CHANGED_SINCE)
    memory.expires_at = parse_moment(entry.detail["was"]["expires_at"])
    memory.save(update_fields=["expires_at"])
    return [journal.memory_change("restore", memory, undoes=undo.uid)]


def _undo_update(memory: Memory, entry: JournalEntry, undo: _Undo) -> list[journal.Change]:
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
    moments = revert_numbers(was, left, current, ("updated_at", "consolidated_at", "expires_at"))
    changes = restore_fields(memory, revision, undo.actor, undo.now, reason="undo", undoes=undo.uid)
    apply_snapshot(memory, moments)
    restore_copy_number(memory, was["copy"])
    memory.save()
    vectors.PreparedVectors().refresh(memory)
    return changes


_UNDO_STEPS: dict[str, Callable[[Memory, JournalEntry, _Undo], list[journal.Change]]] = {
    "review": _undo_review,
    "delete": _undo_trash,
    "restore": _undo_restore,
    "expire": _undo_expire,
    "update": _undo_update,
}
