"""What a person does to one memory or to many at once: an act, journaled under its id and taken back as one.

:func:`apply_bulk_action` applies it, :func:`.undo_bulk_action` undoes it. Every journal row of an act
carries ``act: <id>`` and what it takes to go back: numbers and moments. Texts that were replaced are in the
memory's revision, as with every change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from pydantic import ValidationError

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.core.chunks import batched
from memoryhub.core.transactions import write_transaction
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories import vectors as memories_vectors
from memoryhub.memories.delete import TRASH_FIELDS, evict_over_cap, revive_memory
from memoryhub.memories.errors import Conflict, StoreError
from memoryhub.memories.rows import fetch_by_uids, is_unchanged, list_values
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.memories.secret_check import MEMORY_FIELDS, journal_refusals, refuse_secrets
from memoryhub.memories.update import apply_patch, refuse_if_ended, refuse_if_trashed
from memoryhub.models import Memory
from memoryhub.models.fields import new_uid
from memoryhub.models.querysets import MemoryQuerySet

MAX_MEMORIES = 2000  # memories of one act
CHUNK_SIZE = 50  # changes in one transaction: other writers wait no longer than for these
PAUSE_SECONDS = (
    0.02  # seconds between two: who waits looks every millisecond, and would else find the next one there
)
DEMOTE_FACTOR, PROMOTE_FACTOR = (
    0.5,
    0.5,
)  # the share of its importance that is left; of what it lacks that is given
NUMBER_FIELDS = ("updated_at", "consolidated_at", "expires_at", "copy", "importance")


@dataclass(frozen=True)
class BulkResult:
    """What became of each memory. ``same``: ids of those where there was nothing to change.

    ``refused``: an id and why, as words to show; ``outdated``: ids of those among them that were changed
    since the person read them. ``first`` and ``last``: the numbers of its first and last journal rows, 0
    where nothing was done; :func:`undo_act` wants them beside the ``id``.
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
    """The memory is not any more as the person read it."""


@dataclass(frozen=True)
class ActionContext:
    """One act while it is done."""

    id: str
    kind: str
    actor: Actor
    now: datetime
    reason: str
    vectors: memories_vectors.PreparedVectors
    seen: Mapping[str, datetime]


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
    """Do one thing to each of these memories, at most :data:`MOST`; a refusal of one does not stop the rest.

    ``kind`` is one of :data:`KINDS`: ``approve`` (looked at, and no flags any more), ``demote`` and
    ``promote`` (importance, half the way down or up), ``demote_and_approve``, ``trash``, ``restore``,
    ``expire``, ``tag`` and ``untag`` (with ``tag``), ``set`` (with fields of
    :class:`~memoryhub.memories.schemas.MemoryPatch`).

    ``seen``: ``updated_at`` of memories as the person read them; what was changed since is refused.
    ``reason``: for the revision, in a word; the kind when left out. :class:`StoreError` for what cannot be
    done to any memory: an unknown kind, a value out of range, too many; :class:`SecretDetected` for a
    credential among the values. What the actor may not see is refused as if it were not there.
    """
    now = now or timezone.now()
    wanted = list(dict.fromkeys(uids))
    patch = _validate(kind, wanted, values)
    texts = [memories_vectors.embedding_text(patch)] if patch and "content" in patch.given else []
    with journal_refusals(patch, actor, uid=wanted[0] if len(wanted) == 1 else ""):
        if patch:
            refuse_secrets(patch, [name for name in MEMORY_FIELDS if name in patch.given])
    doing = ActionContext(
        new_uid(), kind, actor, now, reason or kind, memories_vectors.PreparedVectors(texts), seen or {}
    )
    return run_in_chunks(
        doing.id, kind, wanted, ACTION_KINDS[kind].reach(actor), _make_step(doing, patch), actor, now
    )


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
    """Take a step with each memory, in chunks of one transaction each; an act, or one taken back."""
    acted = BulkResult(uid, kind)
    first = last = 0
    for number, uids in enumerate(batched(wanted, CHUNK_SIZE)):
        time.sleep(PAUSE_SECONDS if number else 0)
        with write_transaction():
            before = journal.last_seq()
            found = {memory.uid: memory for memory in fetch_by_uids(memories, uids)}
            changes = [change for one in uids for change in _take_step(step, one, found.get(one), acted)]
            journal.record(actor, changes, now)
            if journal.last_seq() > before:
                first, last = first or before + 1, journal.last_seq()
    return replace(acted, first=first, last=last)


def _take_step(step: Step, uid: str, memory: Memory | None, acted: BulkResult) -> list[journal.Change]:
    if memory is None:
        acted.refused.append((uid, "there is no such memory"))
        return []
    try:
        with write_transaction():  # a savepoint: what is refused halfway leaves nothing
            changes = step(memory)
    except StoreError as refusal:
        acted.refused.append((uid, refusal.message))
        if isinstance(refusal, _ChangedSinceRead):
            acted.outdated.append(uid)
        return []
    if changes:
        acted.done.append(memory)
    else:
        acted.same.append(uid)
    return changes


def _validate(kind: str, wanted: list[str], values: Mapping[str, Any]) -> MemoryPatch | None:
    """The values as a patch, for the kinds that take some; StoreError names what is wrong."""
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
    given = {"tags": [values["tag"]]} if "tag" in values else values
    return to_patch(given)


def to_patch(values: Mapping[str, Any]) -> MemoryPatch:
    """StoreError names the field and what is wrong with it."""
    try:
        return MemoryPatch.model_validate(dict(values))
    except ValidationError as wrong:
        error = wrong.errors()[0]
        name = str(error["loc"][0]) if error["loc"] else ""
        words = error["msg"].removeprefix("Value error, ")
        raise StoreError(f"{name}: {words[:1].lower()}{words[1:]}" if name else words, name) from None


def _make_step(doing: ActionContext, patch: MemoryPatch | None) -> Step:
    """The kind's own step, for memories that are as the person read them."""

    def take(memory: Memory) -> list[journal.Change]:
        if not is_unchanged(memory, doing.seen):
            raise _ChangedSinceRead(
                "someone changed this memory since you opened it; look at it again", "updated_at"
            )
        return ACTION_KINDS[doing.kind].do(memory, doing, patch)

    return take


def _approve(memory: Memory, doing: ActionContext, patch: MemoryPatch | None) -> list[journal.Change]:
    refuse_if_trashed(memory)
    was = {"reviewed_at": format_moment(memory.reviewed_at), "flags": memory.flags}
    memory.reviewed_at, memory.flags = doing.now, []
    memory.save(update_fields=["reviewed_at", "flags"])
    return [journal.memory_change("review", memory, act=doing.id, kind=doing.kind, was=was)]


def _trash(memory: Memory, doing: ActionContext, patch: MemoryPatch | None) -> list[journal.Change]:
    if memory.deleted_at:
        return []
    memory.deleted_at, memory.trash_reason, memory.merged_into = doing.now, TrashReason.FORGOTTEN.value, None
    memory.save(update_fields=TRASH_FIELDS)
    return [journal.memory_change("delete", memory, act=doing.id, kind=doing.kind)]


def _restore(memory: Memory, doing: ActionContext, patch: MemoryPatch | None) -> list[journal.Change]:
    if memory.deleted_at is None and not (memory.expires_at and memory.expires_at <= doing.now):
        return []
    was = {
        **{
            name: format_moment(getattr(memory, name))
            for name in ("deleted_at", "expires_at", "last_accessed_at")
        },
        "trash_reason": memory.trash_reason,
        "merged_into": memory.merged_into_id,
    }
    revive_memory(memory, doing.now)
    left = {"expires_at": format_moment(memory.expires_at), "updated_at": format_moment(memory.updated_at)}
    return [journal.memory_change("restore", memory, act=doing.id, kind=doing.kind, was=was, left=left)]


def _expire(memory: Memory, doing: ActionContext, patch: MemoryPatch | None) -> list[journal.Change]:
    refuse_if_trashed(memory)
    if memory.expires_at and memory.expires_at <= doing.now:
        return []
    was = {"expires_at": format_moment(memory.expires_at)}
    memory.expires_at = doing.now
    memory.save(update_fields=["expires_at"])
    return [journal.memory_change("expire", memory, act=doing.id, kind=doing.kind, was=was)]


def _demote(memory: Memory, doing: ActionContext, patch: MemoryPatch | None) -> list[journal.Change]:
    return _apply_change(memory, doing, to_patch({"importance": memory.importance * DEMOTE_FACTOR}))


def _demote_and_approve(
    memory: Memory, doing: ActionContext, patch: MemoryPatch | None
) -> list[journal.Change]:
    return _demote(memory, doing, patch) + _approve(memory, doing, patch)


def _promote(memory: Memory, doing: ActionContext, patch: MemoryPatch | None) -> list[journal.Change]:
    more = memory.importance + (1 - memory.importance) * PROMOTE_FACTOR
    return _apply_change(memory, doing, to_patch({"importance": min(more, 1)}))


def _tag(memory: Memory, doing: ActionContext, patch: MemoryPatch | None) -> list[journal.Change]:
    [tag] = patch.tags if patch else []
    tags = list_values(memory, "tags")
    return [] if tag in tags else _apply_change(memory, doing, to_patch({"tags": [*tags, tag]}))


def _untag(memory: Memory, doing: ActionContext, patch: MemoryPatch | None) -> list[journal.Change]:
    [tag] = patch.tags if patch else []
    tags = list_values(memory, "tags")
    left = [one for one in tags if one != tag]
    return [] if tag not in tags else _apply_change(memory, doing, to_patch({"tags": left}))


def _set(memory: Memory, doing: ActionContext, patch: MemoryPatch | None) -> list[journal.Change]:
    return _apply_change(memory, doing, patch) if patch else []


def _apply_change(memory: Memory, doing: ActionContext, patch: MemoryPatch) -> list[journal.Change]:
    """As :func:`memoryhub.memories.update` does it, with what it takes to go back in the journal."""
    refuse_if_ended(memory, patch, doing.now)
    was = journaled_numbers(memory)
    changes = apply_patch(memory, patch, patch.given, doing.actor, doing.now, reason=doing.reason[:20])
    if changes:
        memory.updated_at = doing.now
        memory.save()
        doing.vectors.renew(memory)
        changes[0].detail.update(act=doing.id, kind=doing.kind, was=was, left=journaled_numbers(memory))
        if "project" in patch.given:
            evict_over_cap([memory], doing.actor, doing.now)
    return changes


def journaled_numbers(memory: Memory) -> dict[str, Any]:
    """What a change moves beside the fields that its revision keeps; all of them numbers and moments."""
    return {
        name: format_moment(value) if isinstance(value := getattr(memory, name), datetime) else value
        for name in NUMBER_FIELDS
    }


def format_moment(moment: datetime | None) -> str | None:
    """As the journal keeps a moment."""
    return moment.astimezone(UTC).isoformat() if moment else None


@dataclass(frozen=True)
class ActionKind:
    """How an act of this kind changes one memory, and the values that it takes."""

    do: Callable[[Memory, ActionContext, MemoryPatch | None], list[journal.Change]]
    values: tuple[str, ...] = ()

    def reach(self, actor: Actor) -> MemoryQuerySet:
        """Memories that it may change: with their lists, where these are its matter."""
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
