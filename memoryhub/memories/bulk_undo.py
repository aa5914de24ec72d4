"""Taking back an act: each memory as it was before, unless it was changed since."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from django.db.models import Max
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories import vectors
from memoryhub.memories.bulk_actions import (
    BulkResult,
    format_moment,
    journaled_numbers,
    run_in_chunks,
    to_patch,
)
from memoryhub.memories.delete import TRASH_FIELDS
from memoryhub.memories.errors import Conflict, NotFound
from memoryhub.memories.update import apply_patch, find_twins
from memoryhub.models import JournalEntry, Memory

# Journal rows between the first and the last of an act: its own, and those of others who wrote meanwhile.
MAX_JOURNAL_ROWS = 50_000
_CHANGED_SINCE = "it was changed since"
TIMESTAMP_FIELDS = ("updated_at", "consolidated_at", "expires_at")


def undo_bulk_action(
    uid: str, actor: Actor, first: int, last: int, now: datetime | None = None
) -> BulkResult:
    """Take back what the same actor did as this act; each memory is then exactly as it was.

    ``first`` and ``last``: the numbers of its journal rows, as :class:`Acted` gives them. What was changed
    since stays as it is and is among the ``refused``, in words. :class:`NotFound` when the actor did no such
    act. Accesses since then stay counted, and what a full project had to let go stays in the trash.
    """
    now = now or timezone.now()
    rows = _journal_rows(uid, actor, first, last)
    step = partial(_undo_memory, rows, uid, actor, now)
    visible = Memory.objects.visible_to(actor.clearance)
    return run_in_chunks(uid, _action_kind(rows), rows, visible, step, actor, now)


def bulk_action_kind(uid: str, actor: Actor, first: int, last: int) -> str:
    """What an act of this actor did; :class:`NotFound` as with :func:`undo_act`."""
    return _action_kind(_journal_rows(uid, actor, first, last))


def _action_kind(rows: dict[str, list[JournalEntry]]) -> str:
    return str(next(iter(rows.values()))[0].detail["kind"])


def _journal_rows(uid: str, actor: Actor, first: int, last: int) -> dict[str, list[JournalEntry]]:
    """By the ids of the memories, the last first: so they are taken back.

    A row that came from another store's journal is none of this actor's.
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


def _undo_memory(
    rows: dict[str, list[JournalEntry]], uid: str, actor: Actor, now: datetime, memory: Memory
) -> list[journal.Change]:
    """All that the act did to a memory, or nothing."""
    steps = ((_UNDO_STEPS[entry.operation], entry) for entry in rows[memory.uid])
    return [change for back, entry in steps for change in back(memory, entry, uid, actor, now)]


def _undo_review(
    memory: Memory, entry: JournalEntry, uid: str, actor: Actor, now: datetime
) -> list[journal.Change]:
    if memory.reviewed_at != entry.at or memory.flags:
        raise Conflict("it was looked at or flagged again since")
    was = entry.detail["was"]
    memory.reviewed_at, memory.flags = _parse_moment(was["reviewed_at"]), was["flags"]
    memory.save(update_fields=["reviewed_at", "flags"])
    return [journal.memory_change("undo_review", memory, undoes=uid)]


def _undo_trash(
    memory: Memory, entry: JournalEntry, uid: str, actor: Actor, now: datetime
) -> list[journal.Change]:
    if (memory.deleted_at, memory.trash_reason) != (entry.at, TrashReason.FORGOTTEN.value):
        raise Conflict("it was taken out of the trash, or put there again, since")
    memory.deleted_at, memory.trash_reason = None, ""
    memory.save(update_fields=TRASH_FIELDS)
    return [journal.memory_change("restore", memory, undoes=uid)]


def _undo_restore(
    memory: Memory, entry: JournalEntry, uid: str, actor: Actor, now: datetime
) -> list[journal.Change]:
    was = entry.detail["was"]
    as_left = {"expires_at": format_moment(memory.expires_at), "updated_at": format_moment(memory.updated_at)}
    if memory.deleted_at or as_left != entry.detail["left"]:
        raise Conflict(_CHANGED_SINCE)
    for name in ("deleted_at", "expires_at", "last_accessed_at"):
        setattr(memory, name, _parse_moment(was[name]))
    memory.trash_reason = was["trash_reason"]
    # None when that one was erased since.
    memory.merged_into = Memory.objects.filter(pk=was["merged_into"]).first()
    memory.save(update_fields=[*TRASH_FIELDS, "expires_at", "last_accessed_at"])
    return [journal.memory_change("delete" if memory.deleted_at else "expire", memory, undoes=uid)]


def _undo_expire(
    memory: Memory, entry: JournalEntry, uid: str, actor: Actor, now: datetime
) -> list[journal.Change]:
    if memory.deleted_at or memory.expires_at != entry.at:
        raise Conflict(_CHANGED_SINCE)
    memory.expires_at = _parse_moment(entry.detail["was"]["expires_at"])
    memory.save(update_fields=["expires_at"])
    return [journal.memory_change("restore", memory, undoes=uid)]


def _undo_update(
    memory: Memory, entry: JournalEntry, uid: str, actor: Actor, now: datetime
) -> list[journal.Change]:
    """What the revision of the act says it was; this too leaves a revision."""
    was, left = entry.detail["was"], entry.detail["left"]
    if memory.deleted_at:
        raise Conflict("it is in the trash; restore it first")
    revision = memory.revisions.filter(number=entry.detail["revision"]).first()
    if revision is None or memory.updated_at != entry.at:
        raise Conflict(_CHANGED_SINCE)
    # The hub's own upkeep weighs memories anew, and readers renew their time: no changes to anything else.
    now_is = journaled_numbers(memory)
    if "importance" in revision.before and now_is["importance"] != left["importance"]:
        raise Conflict(_CHANGED_SINCE)
    back = {name: was[name] if now_is[name] == left[name] else now_is[name] for name in TIMESTAMP_FIELDS}
    # Title and abstract as they are, unless the act changed them: else they would follow the content.
    patch = to_patch({"title": memory.title, "abstract": memory.abstract, **revision.before})
    changes = apply_patch(memory, patch, patch.given, actor, now, reason="undo", undoes=uid)
    for name, value in back.items():
        setattr(memory, name, _parse_moment(value))
    _restore_copy_number(memory, was["copy"])
    memory.save()
    vectors.PreparedVectors().renew(memory)
    return changes


def _restore_copy_number(memory: Memory, copy: int) -> None:
    """Its old place among those that say the same, if that is still free."""
    beside = find_twins(memory)
    memory.copy = copy
    if beside.filter(copy=copy).exists():
        memory.copy = 1 + (beside.aggregate(last=Max("copy"))["last"] or 0)


def _parse_moment(text: str | None) -> datetime | None:
    return parse_datetime(text) if text else None


_UndoStep = Callable[[Memory, JournalEntry, str, Actor, datetime], list[journal.Change]]
_UNDO_STEPS: dict[str, _UndoStep] = {
    "review": _undo_review,
    "delete": _undo_trash,
    "restore": _undo_restore,
    "expire": _undo_expire,
    "update": _undo_update,
}
