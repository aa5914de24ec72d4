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
from memoryhub.memories.bulk_actions import Acted, as_text, carry_out, numbers, patch_of
from memoryhub.memories.delete import ENDING
from memoryhub.memories.errors import Conflict, NotFound
from memoryhub.memories.update import apply, twins
from memoryhub.models import JournalEntry, Memory

# Journal rows between the first and the last of an act: its own, and those of others who wrote meanwhile.
MOST_ROWS = 50_000
_SINCE = "it was changed since"
MOMENTS = ("updated_at", "consolidated_at", "expires_at")


def undo_act(uid: str, actor: Actor, first: int, last: int, now: datetime | None = None) -> Acted:
    """Take back what the same actor did as this act; each memory is then exactly as it was.

    ``first`` and ``last``: the numbers of its journal rows, as :class:`Acted` gives them. What was changed
    since stays as it is and is among the ``refused``, in words. :class:`NotFound` when the actor did no such
    act. Accesses since then stay counted, and what a full project had to let go stays in the trash.
    """
    now = now or timezone.now()
    rows = _rows(uid, actor, first, last)
    step = partial(_back, rows, uid, actor, now)
    visible = Memory.objects.visible_to(actor.clearance)
    return carry_out(uid, _kind(rows), rows, visible, step, actor, now)


def kind_of(uid: str, actor: Actor, first: int, last: int) -> str:
    """What an act of this actor did; :class:`NotFound` as with :func:`undo_act`."""
    return _kind(_rows(uid, actor, first, last))


def _kind(rows: dict[str, list[JournalEntry]]) -> str:
    return str(next(iter(rows.values()))[0].detail["kind"])


def _rows(uid: str, actor: Actor, first: int, last: int) -> dict[str, list[JournalEntry]]:
    """By the ids of the memories, the last first: so they are taken back.

    A row that came from another store's journal is none of this actor's.
    """
    if not uid or not 0 < first <= last or last - first >= MOST_ROWS:
        raise NotFound("there is no such act of yours")
    found = JournalEntry.objects.filter(seq__range=(first, last), actor=actor.name, object_type="memory")
    own = found.filter(detail__act=uid).exclude(detail__has_key="imported")
    rows: dict[str, list[JournalEntry]] = {}
    for row in own.order_by("-seq"):
        rows.setdefault(row.object_id, []).append(row)
    if not rows:
        raise NotFound("there is no such act of yours")
    return dict(reversed(rows.items()))


def _back(
    rows: dict[str, list[JournalEntry]], uid: str, actor: Actor, now: datetime, memory: Memory
) -> list[journal.Change]:
    """All that the act did to a memory, or nothing."""
    steps = ((_BACK[entry.operation], entry) for entry in rows[memory.uid])
    return [change for back, entry in steps for change in back(memory, entry, uid, actor, now)]


def _unreview(
    memory: Memory, entry: JournalEntry, uid: str, actor: Actor, now: datetime
) -> list[journal.Change]:
    if memory.reviewed_at != entry.at or memory.flags:
        raise Conflict("it was looked at or flagged again since")
    was = entry.detail["was"]
    memory.reviewed_at, memory.flags = _moment(was["reviewed_at"]), was["flags"]
    memory.save(update_fields=["reviewed_at", "flags"])
    return [journal.of_memory("undo_review", memory, undoes=uid)]


def _untrash(
    memory: Memory, entry: JournalEntry, uid: str, actor: Actor, now: datetime
) -> list[journal.Change]:
    if (memory.deleted_at, memory.trash_reason) != (entry.at, TrashReason.FORGOTTEN.value):
        raise Conflict("it was taken out of the trash, or put there again, since")
    memory.deleted_at, memory.trash_reason = None, ""
    memory.save(update_fields=ENDING)
    return [journal.of_memory("restore", memory, undoes=uid)]


def _end_again(
    memory: Memory, entry: JournalEntry, uid: str, actor: Actor, now: datetime
) -> list[journal.Change]:
    was = entry.detail["was"]
    as_left = {"expires_at": as_text(memory.expires_at), "updated_at": as_text(memory.updated_at)}
    if memory.deleted_at or as_left != entry.detail["left"]:
        raise Conflict(_SINCE)
    for name in ("deleted_at", "expires_at", "last_accessed_at"):
        setattr(memory, name, _moment(was[name]))
    memory.trash_reason = was["trash_reason"]
    # None when that one was erased since.
    memory.merged_into = Memory.objects.filter(pk=was["merged_into"]).first()
    memory.save(update_fields=[*ENDING, "expires_at", "last_accessed_at"])
    return [journal.of_memory("delete" if memory.deleted_at else "expire", memory, undoes=uid)]


def _unexpire(
    memory: Memory, entry: JournalEntry, uid: str, actor: Actor, now: datetime
) -> list[journal.Change]:
    if memory.deleted_at or memory.expires_at != entry.at:
        raise Conflict(_SINCE)
    memory.expires_at = _moment(entry.detail["was"]["expires_at"])
    memory.save(update_fields=["expires_at"])
    return [journal.of_memory("restore", memory, undoes=uid)]


def _unchange(
    memory: Memory, entry: JournalEntry, uid: str, actor: Actor, now: datetime
) -> list[journal.Change]:
    """What the revision of the act says it was; this too leaves a revision."""
    was, left = entry.detail["was"], entry.detail["left"]
    if memory.deleted_at:
        raise Conflict("it is in the trash; restore it first")
    revision = memory.revisions.filter(number=entry.detail["revision"]).first()
    if revision is None or memory.updated_at != entry.at:
        raise Conflict(_SINCE)
    # The hub's own upkeep weighs memories anew, and readers renew their time: no changes to anything else.
    now_is = numbers(memory)
    if "importance" in revision.before and now_is["importance"] != left["importance"]:
        raise Conflict(_SINCE)
    back = {name: was[name] if now_is[name] == left[name] else now_is[name] for name in MOMENTS}
    # Title and abstract as they are, unless the act changed them: else they would follow the content.
    patch = patch_of({"title": memory.title, "abstract": memory.abstract, **revision.before})
    changes = apply(memory, patch, patch.given, actor, now, reason="undo", undoes=uid)
    for name, value in back.items():
        setattr(memory, name, _moment(value))
    _take_place(memory, was["copy"])
    memory.save()
    vectors.Ahead().renew(memory)
    return changes


def _take_place(memory: Memory, copy: int) -> None:
    """Its old place among those that say the same, if that is still free."""
    beside = twins(memory)
    memory.copy = copy
    if beside.filter(copy=copy).exists():
        memory.copy = 1 + (beside.aggregate(last=Max("copy"))["last"] or 0)


def _moment(text: str | None) -> datetime | None:
    return parse_datetime(text) if text else None


_Way = Callable[[Memory, JournalEntry, str, Actor, datetime], list[journal.Change]]
_BACK: dict[str, _Way] = {
    "review": _unreview,
    "delete": _untrash,
    "restore": _end_again,
    "expire": _unexpire,
    "update": _unchange,
}
