"""What a person does to one memory or to many at once: an act, journaled under its id and taken back as one.

:func:`act` does it, :func:`memoryhub.memories.bulk_undo.undo_act` takes it back. Every journal row of an act
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
from memoryhub.core.transactions import write
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories import vectors as memories_vectors
from memoryhub.memories.delete import ENDING, evict_over_cap, revive
from memoryhub.memories.errors import Conflict, StoreError
from memoryhub.memories.rows import is_as_read, listed, pick
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.memories.secret_check import MEMORY_FIELDS, noting_refusals, refuse_secrets
from memoryhub.memories.update import apply, refuse_ended, refuse_trashed
from memoryhub.models import Memory
from memoryhub.models.fields import new_uid
from memoryhub.models.querysets import MemoryQuerySet

MOST = 2000  # memories of one act
CHUNK = 50  # changes in one transaction: other writers wait no longer than for these
REST = 0.02  # seconds between two: who waits looks every millisecond, and would else find the next one there
DEMOTED, PROMOTED = 0.5, 0.5  # the share of its importance that is left; of what it lacks that is given
NUMBERS = ("updated_at", "consolidated_at", "expires_at", "copy", "importance")


@dataclass(frozen=True)
class Acted:
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


class _Outdated(Conflict):
    """The memory is not any more as the person read it."""


@dataclass(frozen=True)
class Doing:
    """One act while it is done."""

    id: str
    kind: str
    actor: Actor
    now: datetime
    reason: str
    vectors: memories_vectors.Ahead
    seen: Mapping[str, datetime]


def act(
    kind: str,
    uids: Iterable[str],
    actor: Actor,
    *,
    seen: Mapping[str, datetime] | None = None,
    reason: str = "",
    now: datetime | None = None,
    **values: Any,
) -> Acted:
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
    patch = _checked(kind, wanted, values)
    texts = [memories_vectors.passage(patch)] if patch and "content" in patch.given else []
    with noting_refusals(patch, actor, uid=wanted[0] if len(wanted) == 1 else ""):
        if patch:
            refuse_secrets(patch, [name for name in MEMORY_FIELDS if name in patch.given])
    doing = Doing(new_uid(), kind, actor, now, reason or kind, memories_vectors.Ahead(texts), seen or {})
    return carry_out(doing.id, kind, wanted, KINDS[kind].reach(actor), _step(doing, patch), actor, now)


Step = Callable[[Memory], list[journal.Change]]


def carry_out(
    uid: str,
    kind: str,
    wanted: Iterable[str],
    memories: MemoryQuerySet,
    step: Step,
    actor: Actor,
    now: datetime,
) -> Acted:
    """Take a step with each memory, in chunks of one transaction each; an act, or one taken back."""
    acted = Acted(uid, kind)
    first = last = 0
    for number, uids in enumerate(batched(wanted, CHUNK)):
        time.sleep(REST if number else 0)
        with write():
            before = journal.last_number()
            found = {memory.uid: memory for memory in pick(memories, uids)}
            changes = [change for one in uids for change in _taken(step, one, found.get(one), acted)]
            journal.record(actor, changes, now)
            if journal.last_number() > before:
                first, last = first or before + 1, journal.last_number()
    return replace(acted, first=first, last=last)


def _taken(step: Step, uid: str, memory: Memory | None, acted: Acted) -> list[journal.Change]:
    if memory is None:
        acted.refused.append((uid, "there is no such memory"))
        return []
    try:
        with write():  # a savepoint: what is refused halfway leaves nothing
            changes = step(memory)
    except StoreError as refusal:
        acted.refused.append((uid, refusal.message))
        if isinstance(refusal, _Outdated):
            acted.outdated.append(uid)
        return []
    if changes:
        acted.done.append(memory)
    else:
        acted.same.append(uid)
    return changes


def _checked(kind: str, wanted: list[str], values: Mapping[str, Any]) -> MemoryPatch | None:
    """The values as a patch, for the kinds that take some; StoreError names what is wrong."""
    if kind not in KINDS:
        raise StoreError(f"there is no such act; use one of: {', '.join(KINDS)}", "act")
    if not wanted:
        raise StoreError("name at least one memory", "uid")
    if len(wanted) > MOST:
        raise StoreError(f"at most {MOST} memories at once; narrow the selection", "uid")
    allowed = KINDS[kind].values
    if unknown := sorted(set(values) - set(allowed)):
        raise StoreError(f"{kind} does not take {', '.join(unknown)}", unknown[0])
    if not allowed:
        return None
    if not values:
        raise StoreError(f"{kind} needs a value: {', '.join(allowed)}", allowed[0])
    given = {"tags": [values["tag"]]} if "tag" in values else values
    return patch_of(given)


def patch_of(values: Mapping[str, Any]) -> MemoryPatch:
    """StoreError names the field and what is wrong with it."""
    try:
        return MemoryPatch.model_validate(dict(values))
    except ValidationError as wrong:
        error = wrong.errors()[0]
        name = str(error["loc"][0]) if error["loc"] else ""
        words = error["msg"].removeprefix("Value error, ")
        raise StoreError(f"{name}: {words[:1].lower()}{words[1:]}" if name else words, name) from None


def _step(doing: Doing, patch: MemoryPatch | None) -> Step:
    """The kind's own step, for memories that are as the person read them."""

    def take(memory: Memory) -> list[journal.Change]:
        if not is_as_read(memory, doing.seen):
            raise _Outdated("someone changed this memory since you opened it; look at it again", "updated_at")
        return KINDS[doing.kind].do(memory, doing, patch)

    return take


def _approve(memory: Memory, doing: Doing, patch: MemoryPatch | None) -> list[journal.Change]:
    refuse_trashed(memory)
    was = {"reviewed_at": as_text(memory.reviewed_at), "flags": memory.flags}
    memory.reviewed_at, memory.flags = doing.now, []
    memory.save(update_fields=["reviewed_at", "flags"])
    return [journal.of_memory("review", memory, act=doing.id, kind=doing.kind, was=was)]


def _trash(memory: Memory, doing: Doing, patch: MemoryPatch | None) -> list[journal.Change]:
    if memory.deleted_at:
        return []
    memory.deleted_at, memory.trash_reason, memory.merged_into = doing.now, TrashReason.FORGOTTEN.value, None
    memory.save(update_fields=ENDING)
    return [journal.of_memory("delete", memory, act=doing.id, kind=doing.kind)]


def _restore(memory: Memory, doing: Doing, patch: MemoryPatch | None) -> list[journal.Change]:
    if memory.deleted_at is None and not (memory.expires_at and memory.expires_at <= doing.now):
        return []
    was = {
        **{name: as_text(getattr(memory, name)) for name in ("deleted_at", "expires_at", "last_accessed_at")},
        "trash_reason": memory.trash_reason,
        "merged_into": memory.merged_into_id,
    }
    revive(memory, doing.now)
    left = {"expires_at": as_text(memory.expires_at), "updated_at": as_text(memory.updated_at)}
    return [journal.of_memory("restore", memory, act=doing.id, kind=doing.kind, was=was, left=left)]


def _expire(memory: Memory, doing: Doing, patch: MemoryPatch | None) -> list[journal.Change]:
    refuse_trashed(memory)
    if memory.expires_at and memory.expires_at <= doing.now:
        return []
    was = {"expires_at": as_text(memory.expires_at)}
    memory.expires_at = doing.now
    memory.save(update_fields=["expires_at"])
    return [journal.of_memory("expire", memory, act=doing.id, kind=doing.kind, was=was)]


def _demote(memory: Memory, doing: Doing, patch: MemoryPatch | None) -> list[journal.Change]:
    return _change(memory, doing, patch_of({"importance": memory.importance * DEMOTED}))


def _demote_and_approve(memory: Memory, doing: Doing, patch: MemoryPatch | None) -> list[journal.Change]:
    return _demote(memory, doing, patch) + _approve(memory, doing, patch)


def _promote(memory: Memory, doing: Doing, patch: MemoryPatch | None) -> list[journal.Change]:
    more = memory.importance + (1 - memory.importance) * PROMOTED
    return _change(memory, doing, patch_of({"importance": min(more, 1)}))


def _tag(memory: Memory, doing: Doing, patch: MemoryPatch | None) -> list[journal.Change]:
    [tag] = patch.tags if patch else []
    tags = listed(memory, "tags")
    return [] if tag in tags else _change(memory, doing, patch_of({"tags": [*tags, tag]}))


def _untag(memory: Memory, doing: Doing, patch: MemoryPatch | None) -> list[journal.Change]:
    [tag] = patch.tags if patch else []
    tags = listed(memory, "tags")
    left = [one for one in tags if one != tag]
    return [] if tag not in tags else _change(memory, doing, patch_of({"tags": left}))


def _set(memory: Memory, doing: Doing, patch: MemoryPatch | None) -> list[journal.Change]:
    return _change(memory, doing, patch) if patch else []


def _change(memory: Memory, doing: Doing, patch: MemoryPatch) -> list[journal.Change]:
    """As :func:`memoryhub.memories.update` does it, with what it takes to go back in the journal."""
    refuse_ended(memory, patch, doing.now)
    was = numbers(memory)
    changes = apply(memory, patch, patch.given, doing.actor, doing.now, reason=doing.reason[:20])
    if changes:
        memory.updated_at = doing.now
        memory.save()
        doing.vectors.renew(memory)
        changes[0].detail.update(act=doing.id, kind=doing.kind, was=was, left=numbers(memory))
        if "project" in patch.given:
            evict_over_cap([memory], doing.actor, doing.now)
    return changes


def numbers(memory: Memory) -> dict[str, Any]:
    """What a change moves beside the fields that its revision keeps; all of them numbers and moments."""
    return {
        name: as_text(value) if isinstance(value := getattr(memory, name), datetime) else value
        for name in NUMBERS
    }


def as_text(moment: datetime | None) -> str | None:
    """As the journal keeps a moment."""
    return moment.astimezone(UTC).isoformat() if moment else None


@dataclass(frozen=True)
class Kind:
    """How an act of this kind changes one memory, and the values that it takes."""

    do: Callable[[Memory, Doing, MemoryPatch | None], list[journal.Change]]
    values: tuple[str, ...] = ()

    def reach(self, actor: Actor) -> MemoryQuerySet:
        """Memories that it may change: with their lists, where these are its matter."""
        visible: MemoryQuerySet = Memory.objects.visible_to(actor.clearance)
        return visible.with_details() if self.values else visible


KINDS: dict[str, Kind] = {
    "approve": Kind(_approve),
    "demote": Kind(_demote),
    "demote_and_approve": Kind(_demote_and_approve),
    "promote": Kind(_promote),
    "trash": Kind(_trash),
    "restore": Kind(_restore),
    "expire": Kind(_expire),
    "tag": Kind(_tag, ("tag",)),
    "untag": Kind(_untag, ("tag",)),
    "set": Kind(_set, tuple(sorted(MemoryPatch.model_fields))),
}
