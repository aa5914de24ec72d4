"""Bulk actions: one change of one or many memories, journaled under one id and undone as a whole.

Every journal row of an action has ``act: <id>`` in its detail, with the numbers and moments that the undo
needs. Replaced texts are in the revision of the memory. The undo restores each memory exactly, unless it was
changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.utils import timezone

from memoryhub.access.policy import WAITING_LEVELS, Actor
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.core.dates import expiry_time, parse_moment
from memoryhub.core.text import new_uid
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories import evidence, freshness
from memoryhub.memories.delete import TRASH_FIELDS, evict_over_cap, revive_memory
from memoryhub.memories.errors import Conflict, StoreError
from memoryhub.memories.replacements import return_skipped, skip_removed
from memoryhub.memories.rows import (
    PreparedVectors,
    add_revision,
    embedding_text,
    fetch_by_uid,
    is_unchanged,
    list_values,
    restart_expiry,
)
from memoryhub.memories.schemas import MemoryPatch, to_patch
from memoryhub.memories.secret_check import MEMORY_FIELDS, journal_refusals, refuse_secrets
from memoryhub.memories.undo import (
    Inverse,
    Undo,
    apply_snapshot,
    format_moment,
    inverse_of,
    pause_between,
    restore_copy_number,
    restore_fields,
    revert_numbers,
    take_snapshot,
)
from memoryhub.memories.update import (
    apply_patch,
    find_twins,
    next_copy_number,
    refuse_if_ended,
    refuse_if_trashed,
)
from memoryhub.models import JournalEntry, Memory
from memoryhub.models.querysets import MemoryQuerySet

MAX_MEMORIES = 2000  # in one action; the browser changes more in a background run
DEMOTE_FACTOR = 0.5  # of the importance
PROMOTE_FACTOR = 0.5  # of the difference to 1
MOMENT_FIELDS = ("updated_at", "consolidated_at", "expires_at", "pinned_at")
NUMBER_FIELDS = (*MOMENT_FIELDS, "copy", "importance")
ACCEPTED_FIELDS = ("sensitivity", "reviewed_at", "copy", "expires_at")


@dataclass(frozen=True)
class BulkResult:
    """The result for each memory. ``same``: ids of memories that already were as wanted.

    ``refused``: ids and the reason as a text to show. ``outdated``: the refused ids that were changed since
    the person read them. ``first`` and ``last``: the numbers of the first and last journal row, 0 if nothing
    was done; an undo needs them and the ``id``.
    """

    id: str
    kind: str
    done: list[Memory] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class ActionContext:
    """What the steps of one bulk action share."""

    id: str
    kind: str
    actor: Actor
    now: datetime
    reason: str
    vectors: PreparedVectors
    patch: MemoryPatch | None

    def journal_row(self, operation: str, memory: Memory, **detail: Any) -> journal.Change:
        return journal.memory_change(operation, memory, act=self.id, kind=self.kind, **detail)


def apply_bulk_action(
    kind: str,
    uids: Iterable[str],
    actor: Actor,
    *,
    seen: Mapping[str, datetime] | None = None,
    reason: str = "",
    now: datetime | None = None,
    **values: Any,
) -> BulkResult:
    """Apply one action to at most :data:`MAX_MEMORIES` memories. A refused memory does not stop the others.

    ``kind`` is a key of :data:`ACTION_KINDS`: ``approve`` (mark as reviewed, clear the flags), ``demote`` and
    ``promote`` (importance half the way down or up), ``demote_and_approve``, ``trash``, ``restore``,
    ``expire``, ``pin``, ``unpin``, ``useful`` and ``not_useful`` (as it was last shown), ``still_true`` (no
    longer marked as outdated), ``tag`` and ``untag`` (with ``tag``), ``set`` (with fields of
    :class:`~memoryhub.memories.schemas.MemoryPatch`);
    ``accept`` and ``discard`` for memories that wait for approval.

    ``seen``: ``updated_at`` of memories as the person read them; memories that were changed since are
    refused. ``reason``: a word for the revision, by default the kind. Raise :class:`StoreError` for an
    unknown kind, an invalid value or too many memories, and :class:`SecretDetected` for a secret among the
    values. A memory that the actor may not see is refused like one that does not exist.
    """
    wanted = list(dict.fromkeys(uids))
    context = prepare_action(
        kind, actor, values, now=now, reason=reason, uid=wanted[0] if len(wanted) == 1 else ""
    )
    if not wanted:
        raise StoreError("choose at least one memory", "uid")
    if len(wanted) > MAX_MEMORIES:
        raise StoreError(f"at most {MAX_MEMORIES} memories at once; narrow the selection", "uid")
    result = BulkResult(context.id, kind)
    first = last = 0
    for chunk in pause_between(wanted):
        with write_transaction():
            before = journal.last_seq()
            apply_to_chunk(context, chunk, result, seen)
            if journal.last_seq() > before:
                first, last = first or before + 1, journal.last_seq()
    return replace(result, first=first, last=last)


def prepare_action(
    kind: str,
    actor: Actor,
    values: Mapping[str, Any],
    *,
    uid: str = "",
    act: str = "",
    reason: str = "",
    now: datetime | None = None,
) -> ActionContext:
    """Validate an action. ``uid``: the memory, if it is one. ``act``: the id of an action that continues.

    Raise the errors of :func:`apply_bulk_action`.
    """
    patch = _validate(kind, values)
    texts = [embedding_text(patch)] if patch and "content" in patch.given else []
    with journal_refusals(patch, actor, uid=uid):
        if patch:
            refuse_secrets(patch, [name for name in MEMORY_FIELDS if name in patch.given])
    vectors = PreparedVectors(texts)
    return ActionContext(act or new_uid(), kind, actor, now or timezone.now(), reason or kind, vectors, patch)


def apply_to_chunk(
    context: ActionContext,
    uids: Sequence[str],
    result: BulkResult,
    seen: Mapping[str, datetime] | None = None,
) -> None:
    """Apply an action to a few memories in one transaction, and add what happened to ``result``."""

    def step(memory: Memory) -> list[journal.Change]:
        if not is_unchanged(memory, seen or {}):
            raise Conflict("someone has changed this memory since you opened it; reload it", "updated_at")
        return ACTION_KINDS[context.kind].apply(memory, context)

    with write_transaction():
        found = fetch_by_uid(ACTION_KINDS[context.kind].memories(context.actor), uids)
        changes = [change for uid in uids for change in run_step(step, uid, found.get(uid), result)]
        journal.record(context.actor, changes, context.now)


def run_step(
    step: Callable[[Memory], list[journal.Change]], uid: str, memory: Memory | None, result: BulkResult
) -> list[journal.Change]:
    if memory is None:
        result.refused.append((uid, "there is no such memory"))
        return []
    try:
        with write_transaction():  # a savepoint: a refusal undoes what the step has written
            changes = step(memory)
    except StoreError as refusal:
        result.refused.append((uid, refusal.message))
        if refusal.field == "updated_at":
            result.outdated.append(uid)
        return []
    if changes:
        result.done.append(memory)
    else:
        result.same.append(uid)
    return changes


def _validate(kind: str, values: Mapping[str, Any]) -> MemoryPatch | None:
    """Return the values as a patch, or None for kinds without values. StoreError names the invalid field."""
    if kind not in ACTION_KINDS:
        raise StoreError(f"unknown action; use one of: {', '.join(ACTION_KINDS)}", "act")
    allowed = ACTION_KINDS[kind].values
    if unknown := sorted(set(values) - set(allowed)):
        raise StoreError(f"{kind} does not take {', '.join(unknown)}", unknown[0])
    if not allowed:
        return None
    if not values:
        raise StoreError(f"{kind} needs a value: {', '.join(allowed)}", allowed[0])
    return to_patch({"tags": [values["tag"]]} if "tag" in values else values)


def _approve(memory: Memory, context: ActionContext) -> list[journal.Change]:
    refuse_if_trashed(memory)
    was = {"reviewed_at": format_moment(memory.reviewed_at), "flags": memory.flags}
    memory.reviewed_at, memory.flags = context.now, []
    memory.save(update_fields=["reviewed_at", "flags"])
    return [context.journal_row("review", memory, was=was)]


def _trash(memory: Memory, context: ActionContext) -> list[journal.Change]:
    """Move a memory to the trash. One that waits for approval stays hidden there."""
    if memory.deleted_at:
        return []
    memory.deleted_at, memory.trash_reason = context.now, TrashReason.FORGOTTEN.value
    memory.merged_into = None
    memory.save(update_fields=TRASH_FIELDS)
    operation = "discard" if context.kind == "discard" else "delete"
    return [context.journal_row(operation, memory), *skip_removed([memory], context.actor, context.now)]


def _accept(memory: Memory, context: ActionContext) -> list[journal.Change]:
    """Give a memory that waits for approval its level. Its days to live begin now."""
    if memory.deleted_at:
        raise Conflict("it was discarded", "uid")
    names = ("reviewed_at", "expires_at", "copy", "updated_at")
    was = {"level": memory.sensitivity, **take_snapshot(memory, names)}
    memory.sensitivity, memory.reviewed_at = WAITING_LEVELS[memory.sensitivity], context.now
    memory.copy = next_copy_number(find_twins(memory))
    restart_expiry(memory, context.now)
    memory.save(update_fields=ACCEPTED_FIELDS)
    add_revision(memory, {"sensitivity": was["level"]}, was["level"], context.actor, context.now, "accept")
    evict_over_cap([memory], context.actor, context.now)
    return [context.journal_row("accept", memory, was=was)]


def _restore(memory: Memory, context: ActionContext) -> list[journal.Change]:
    if not memory.has_ended(context.now):
        return []
    was = take_snapshot(memory, ("deleted_at", "expires_at", "last_accessed_at", "trash_reason"))
    was["merged_into"] = memory.merged_into_id
    changes = revive_memory(memory, context.actor, context.now)
    left = take_snapshot(memory, ("expires_at", "updated_at"))
    return [context.journal_row("restore", memory, was=was, left=left), *changes]


def _expire(memory: Memory, context: ActionContext) -> list[journal.Change]:
    refuse_if_trashed(memory)
    if memory.is_expired(context.now):
        return []
    if memory.pinned:
        raise Conflict("this memory is pinned and does not expire; unpin it first", "pinned")
    was = take_snapshot(memory, ["expires_at"])
    memory.expires_at = expiry_time(context.now)
    memory.save(update_fields=["expires_at"])
    return [context.journal_row("expire", memory, was=was)]


def _demote(memory: Memory, context: ActionContext) -> list[journal.Change]:
    return _change(memory, context, to_patch({"importance": memory.importance * DEMOTE_FACTOR}))


def _promote(memory: Memory, context: ActionContext) -> list[journal.Change]:
    importance = memory.importance + (1 - memory.importance) * PROMOTE_FACTOR
    return _change(memory, context, to_patch({"importance": min(importance, 1)}))


def _pin(memory: Memory, context: ActionContext) -> list[journal.Change]:
    return _change(memory, context, to_patch({"pinned": context.kind == "pin"}))


def _rate(memory: Memory, context: ActionContext) -> list[journal.Change]:
    useful = context.kind == "useful"
    is_new = evidence.rate_memory(memory, context.id, context.actor, useful=useful)
    return [context.journal_row("rate", memory, useful=useful)] if is_new else []


def _still_true(memory: Memory, context: ActionContext) -> list[journal.Change]:
    refuse_if_trashed(memory)
    if not memory.may_be_outdated:
        return []
    was = freshness.dismiss_mark(memory, context.id)
    return [context.journal_row("still_true", memory, was=was)]


def _tag(memory: Memory, context: ActionContext) -> list[journal.Change]:
    [tag] = context.patch.tags if context.patch else []
    tags = list_values(memory, "tags")
    return [] if tag in tags else _change(memory, context, to_patch({"tags": [*tags, tag]}))


def _untag(memory: Memory, context: ActionContext) -> list[journal.Change]:
    [tag] = context.patch.tags if context.patch else []
    tags = list_values(memory, "tags")
    others = [other for other in tags if other != tag]
    return [] if tag not in tags else _change(memory, context, to_patch({"tags": others}))


def _set(memory: Memory, context: ActionContext) -> list[journal.Change]:
    return _change(memory, context, context.patch) if context.patch else []


def _change(memory: Memory, context: ActionContext, patch: MemoryPatch) -> list[journal.Change]:
    """Change a memory as ``update_memory`` does, with the values for an undo in the journal."""
    refuse_if_ended(memory, patch, context.now)
    was = take_snapshot(memory, NUMBER_FIELDS)
    changes = apply_patch(memory, patch, patch.given, context.actor, context.now, reason=context.reason[:20])
    if changes:
        memory.updated_at = context.now
        memory.save()
        context.vectors.refresh(memory)
        left = take_snapshot(memory, NUMBER_FIELDS)
        own = next(change for change in changes if change.object_id == memory.uid)
        own.detail.update(act=context.id, kind=context.kind, was=was, left=left)
        if "project" in patch.given:
            evict_over_cap([memory], context.actor, context.now)
    return changes


@dataclass(frozen=True)
class ActionKind:
    """The change that a kind of action makes, and the names of the values that it takes.

    ``waiting``: it changes memories that wait for approval instead of visible ones.
    """

    apply: Callable[[Memory, ActionContext], list[journal.Change]]
    values: tuple[str, ...] = ()
    waiting: bool = False

    def memories(self, actor: Actor) -> MemoryQuerySet:
        """The memories that the actor may change, with their lists if the action needs them."""
        if self.waiting:
            return Memory.objects.waiting(actor.clearance)
        visible = Memory.objects.visible_to(actor.clearance)
        return visible.with_details() if self.values else visible


ACTION_KINDS: dict[str, ActionKind] = {
    "approve": ActionKind(_approve),
    "demote": ActionKind(_demote),
    "demote_and_approve": ActionKind(lambda *step: _demote(*step) + _approve(*step)),
    "promote": ActionKind(_promote),
    "trash": ActionKind(_trash),
    "restore": ActionKind(_restore),
    "expire": ActionKind(_expire),
    "pin": ActionKind(_pin),
    "unpin": ActionKind(_pin),
    "useful": ActionKind(_rate),
    "not_useful": ActionKind(_rate),
    "still_true": ActionKind(_still_true),
    "tag": ActionKind(_tag, ("tag",)),
    "untag": ActionKind(_untag, ("tag",)),
    "set": ActionKind(_set, tuple(sorted(MemoryPatch.model_fields))),
    "accept": ActionKind(_accept, waiting=True),
    "discard": ActionKind(_trash, waiting=True),
}


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
    PreparedVectors().refresh(memory)
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
