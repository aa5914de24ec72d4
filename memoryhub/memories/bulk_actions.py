"""Bulk actions: one change of one or many memories, journaled under one id and undone as a whole.

Every journal row of an action has ``act: <id>`` in its detail, with the numbers and moments that
:func:`memoryhub.memories.bulk_undo.undo_bulk_action` needs. Replaced texts are in the revision of the memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.utils import timezone

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.core.database import batched, write_transaction
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories import vectors as memories_vectors
from memoryhub.memories.delete import TRASH_FIELDS, evict_over_cap, revive_memory
from memoryhub.memories.errors import Conflict, StoreError
from memoryhub.memories.rows import fetch_by_uids, is_unchanged, list_values
from memoryhub.memories.schemas import MemoryPatch, to_patch
from memoryhub.memories.secret_check import MEMORY_FIELDS, journal_refusals, refuse_secrets
from memoryhub.memories.undo import format_moment, take_snapshot
from memoryhub.memories.update import apply_patch, refuse_if_ended, refuse_if_trashed
from memoryhub.models import Memory
from memoryhub.models.fields import new_uid
from memoryhub.models.querysets import MemoryQuerySet

MAX_MEMORIES = 2000  # in one action
CHUNK_SIZE = 50  # changes in one transaction, which limits how long other writers wait
PAUSE_SECONDS = 0.02  # between two transactions: waiting writers retry every millisecond
DEMOTE_FACTOR = 0.5  # of the importance
PROMOTE_FACTOR = 0.5  # of the difference to 1
NUMBER_FIELDS = ("updated_at", "consolidated_at", "expires_at", "copy", "importance")


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


class _ChangedSinceRead(Conflict):
    """The memory was changed since the person read it."""


@dataclass(frozen=True)
class ActionContext:
    """What the steps of one bulk action share."""

    id: str
    kind: str
    actor: Actor
    now: datetime
    reason: str
    vectors: memories_vectors.PreparedVectors
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
    ``expire``, ``tag`` and ``untag`` (with ``tag``), ``set`` (with fields of
    :class:`~memoryhub.memories.schemas.MemoryPatch`).

    ``seen``: ``updated_at`` of memories as the person read them; memories that were changed since are
    refused. ``reason``: a word for the revision, by default the kind. Raise :class:`StoreError` for an
    unknown kind, an invalid value or too many memories, and :class:`SecretDetected` for a secret among the
    values. A memory that the actor may not see is refused like one that does not exist.
    """
    now = now or timezone.now()
    wanted = list(dict.fromkeys(uids))
    patch = _validate(kind, wanted, values)
    texts = [memories_vectors.embedding_text(patch)] if patch and "content" in patch.given else []
    with journal_refusals(patch, actor, uid=wanted[0] if len(wanted) == 1 else ""):
        if patch:
            refuse_secrets(patch, [name for name in MEMORY_FIELDS if name in patch.given])
    vectors = memories_vectors.PreparedVectors(texts)
    context = ActionContext(new_uid(), kind, actor, now, reason or kind, vectors, patch)

    def step(memory: Memory) -> list[journal.Change]:
        if not is_unchanged(memory, seen or {}):
            raise _ChangedSinceRead(
                "someone changed this memory since you opened it; look at it again", "updated_at"
            )
        return ACTION_KINDS[kind].apply(memory, context)

    return run_in_chunks(context.id, kind, wanted, ACTION_KINDS[kind].memories(actor), step, actor, now)


Step = Callable[[Memory], list[journal.Change]]


def run_in_chunks(
    uid: str,
    kind: str,
    wanted: Iterable[str],
    memories: MemoryQuerySet,
    step: Step,
    actor: Actor,
    now: datetime,
) -> BulkResult:
    """Run a step for each memory, in chunks of one transaction each, for an action or its undo."""
    result = BulkResult(uid, kind)
    first = last = 0
    for number, uids in enumerate(batched(wanted, CHUNK_SIZE)):
        time.sleep(PAUSE_SECONDS if number else 0)
        with write_transaction():
            before = journal.last_seq()
            found = {memory.uid: memory for memory in fetch_by_uids(memories, uids)}
            changes = [change for one in uids for change in _run_step(step, one, found.get(one), result)]
            journal.record(actor, changes, now)
            if journal.last_seq() > before:
                first, last = first or before + 1, journal.last_seq()
    return replace(result, first=first, last=last)


def _run_step(step: Step, uid: str, memory: Memory | None, result: BulkResult) -> list[journal.Change]:
    if memory is None:
        result.refused.append((uid, "there is no such memory"))
        return []
    try:
        with write_transaction():  # a savepoint: a refusal undoes what the step has written
            changes = step(memory)
    except StoreError as refusal:
        result.refused.append((uid, refusal.message))
        if isinstance(refusal, _ChangedSinceRead):
            result.outdated.append(uid)
        return []
    if changes:
        result.done.append(memory)
    else:
        result.same.append(uid)
    return changes


def _validate(kind: str, wanted: list[str], values: Mapping[str, Any]) -> MemoryPatch | None:
    """Return the values as a patch, or None for kinds without values. StoreError names the invalid field."""
    if kind not in ACTION_KINDS:
        raise StoreError(f"there is no such act; use one of: {', '.join(ACTION_KINDS)}", "act")
    if not wanted:
        raise StoreError("name at least one memory", "uid")
    if len(wanted) > MAX_MEMORIES:
        raise StoreError(f"at most {MAX_MEMORIES} memories at once; narrow the selection", "uid")
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
    if memory.deleted_at:
        return []
    memory.deleted_at, memory.trash_reason, memory.merged_into = (
        context.now,
        TrashReason.FORGOTTEN.value,
        None,
    )
    memory.save(update_fields=TRASH_FIELDS)
    return [context.journal_row("delete", memory)]


def _restore(memory: Memory, context: ActionContext) -> list[journal.Change]:
    if not memory.has_ended(context.now):
        return []
    was = take_snapshot(memory, ("deleted_at", "expires_at", "last_accessed_at", "trash_reason"))
    was["merged_into"] = memory.merged_into_id
    revive_memory(memory, context.now)
    left = take_snapshot(memory, ("expires_at", "updated_at"))
    return [context.journal_row("restore", memory, was=was, left=left)]


def _expire(memory: Memory, context: ActionContext) -> list[journal.Change]:
    refuse_if_trashed(memory)
    if memory.is_expired(context.now):
        return []
    was = take_snapshot(memory, ["expires_at"])
    memory.expires_at = context.now
    memory.save(update_fields=["expires_at"])
    return [context.journal_row("expire", memory, was=was)]


def _demote(memory: Memory, context: ActionContext) -> list[journal.Change]:
    return _change(memory, context, to_patch({"importance": memory.importance * DEMOTE_FACTOR}))


def _demote_and_approve(memory: Memory, context: ActionContext) -> list[journal.Change]:
    return _demote(memory, context) + _approve(memory, context)


def _promote(memory: Memory, context: ActionContext) -> list[journal.Change]:
    importance = memory.importance + (1 - memory.importance) * PROMOTE_FACTOR
    return _change(memory, context, to_patch({"importance": min(importance, 1)}))


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
        changes[0].detail.update(act=context.id, kind=context.kind, was=was, left=left)
        if "project" in patch.given:
            evict_over_cap([memory], context.actor, context.now)
    return changes


@dataclass(frozen=True)
class ActionKind:
    """The change that a kind of action makes, and the names of the values that it takes."""

    apply: Callable[[Memory, ActionContext], list[journal.Change]]
    values: tuple[str, ...] = ()

    def memories(self, actor: Actor) -> MemoryQuerySet:
        """The memories that the actor may change, with their lists if the action needs them."""
        visible: MemoryQuerySet = Memory.objects.visible_to(actor.clearance)
        return visible.with_details() if self.values else visible


ACTION_KINDS: dict[str, ActionKind] = {
    "approve": ActionKind(_approve),
    "demote": ActionKind(_demote),
    "demote_and_approve": ActionKind(_demote_and_approve),
    "promote": ActionKind(_promote),
    "trash": ActionKind(_trash),
    "restore": ActionKind(_restore),
    "expire": ActionKind(_expire),
    "tag": ActionKind(_tag, ("tag",)),
    "untag": ActionKind(_untag, ("tag",)),
    "set": ActionKind(_set, tuple(sorted(MemoryPatch.model_fields))),
}
