"""Several memories that say the same become one of them: merged, journaled and taken back as one.

One is kept and says what it said, or what the person wrote. The others go to the trash and name it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from itertools import product
from typing import Any

from django.db.models import Max
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from memoryhub.access.policy import Actor, Clearance, stricter_level
from memoryhub.audit import journal
from memoryhub.core.transactions import write_transaction
from memoryhub.core.vocabulary import NEVER_MERGED, TrashReason
from memoryhub.memories import evidence
from memoryhub.memories import vectors as memories_vectors
from memoryhub.memories.delete import move_to_trash, restore_memories
from memoryhub.memories.errors import Conflict, NotFound
from memoryhub.memories.maintenance_updates import ACCESS_FIELDS, grouped_rows, record_grouped
from memoryhub.memories.rows import LIST_FIELDS, fetch_by_uids, list_values, union_list_values
from memoryhub.memories.schemas import MAX_LIST, MemoryPatch
from memoryhub.memories.secret_check import find_refusal, journal_refusals
from memoryhub.memories.update import apply_patch, find_twins, get_memory
from memoryhub.models import Fact, JournalEntry, Memory
from memoryhub.models.fields import new_uid
from memoryhub.models.querysets import FactQuerySet

MAX_MERGED = 100  # memories that become one at once
MERGE, UNDO_MERGE = "merge", "undo_merge"
_PLACE_FIELDS = ("project", "scope", "owner")
# Of the one that is kept, beside what its revision holds; all of them are numbers and moments.
_TIMESTAMP_FIELDS = ("last_accessed_at", "consolidated_at", "expires_at", "updated_at")
_COUNT_FIELDS = ("accessed_count", "consolidated_accesses")
_NUMBER_FIELDS = ("ttl_days", "importance", "copy", *_COUNT_FIELDS)


@dataclass(frozen=True)
class _ContentOnly:
    content: str


@dataclass(frozen=True)
class MergeResult:
    """``memory`` stands for ``others``, or stood; ``uid`` names the merge, for :func:`unmerge`."""

    uid: str
    memory: Memory
    others: list[Memory]


def merge_memories(
    keep: str,
    others: Iterable[str],
    actor: Actor,
    *,
    content: str = "",
    seen: Mapping[str, datetime] | None = None,
    now: datetime | None = None,
) -> MergeResult:
    """Keep one memory in the place of all; the others go to the trash with ``merged_into``.

    It unites their lists, takes the highest level, importance, trust and confidence, adds up their accesses,
    lives as long as the one that would have lived longest, was said in all of their sessions, which makes it
    surer, and takes over their facts. ``content`` replaces its text; what it said stays as a revision.
    ``seen``: each memory's ``updated_at`` as the person read it; a later change is a :class:`Conflict`.

    :class:`NotFound` for a memory that the actor may not see; :class:`Conflict`, naming the mend, for those
    that lie in the trash, in different places, under different keys, or in a category that never merges.
    """
    now = now or timezone.now()
    vectors = memories_vectors.PreparedVectors([content] if content else ())
    others = list(dict.fromkeys(others))
    with journal_refusals(None, actor, uid=keep):
        if content and (refusal := find_refusal(_ContentOnly(content), ["content"])):
            _load_memories(
                keep, others, actor, now
            )  # what may not be merged at all is refused for that reason
            raise refusal
    with write_transaction():
        memory, found = _load_memories(keep, others, actor, now)
        _refuse_unmergeable(memory, found)
        _refuse_changed([memory, *found], seen or {})
        before = _merge_numbers(memory)
        patch = _build_patch(memory, found, content)
        beside = [other.pk for other in found]
        changes = apply_patch(memory, patch, patch.given, actor, now, reason="merge", beside=beside)
        _add_up_counts(memory, found, now)
        memory.save()
        evidence.merge_evidence(memory, found, now)
        vectors.renew(memory)
        changes += _move_facts(Fact.objects.filter(memory__in=beside), memory)
        journal.record(actor, changes, now)
        move_to_trash(found, actor, TrashReason.MERGED, now, TrashReason.MERGED.value, memory)
        done = MergeResult(new_uid(), memory, found)
        detail = {
            "into": memory.uid,
            "members": [other.uid for other in found],
            "revision": memory.revisions.aggregate(last=Max("number"))["last"] if changes else None,
            "before": before,
            "after": _merge_numbers(memory),
        }
        record_grouped(MERGE, done.uid, {_access_key(memory): detail}, actor, now)
    return done


def _load_memories(keep: str, others: list[str], actor: Actor, now: datetime) -> tuple[Memory, list[Memory]]:
    """The memories, all of them alive."""
    if not others or keep in others or len(others) > MAX_MERGED:
        raise Conflict(f"name 1 to {MAX_MERGED} other memories, and not the one that is kept", "others")
    memory = get_memory(keep, actor)
    found = fetch_by_uids(Memory.objects.visible_to(actor.clearance).with_details(), others)
    if len(found) < len(others):
        missing = sorted(set(others) - {other.uid for other in found})
        raise NotFound(f"there is no memory {', '.join(missing)}; leave it out", "others")
    ended = [m.uid for m in (memory, *found) if m.deleted_at or (m.expires_at and m.expires_at <= now)]
    if ended:
        raise Conflict(f"in the trash or expired: {', '.join(ended)}; restore it first", "others")
    return memory, found


def refuse_different_place(memory: Memory, others: Iterable[Memory]) -> None:
    """:class:`Conflict` unless all are in one project, of one scope and one owner."""
    for other, name in product(others, _PLACE_FIELDS):
        if getattr(other, name) != getattr(memory, name):
            raise Conflict(
                f"memory {other.uid} has another {name}; only memories of one project, scope and owner can be"
                " duplicates of each other",
                "others",
            )


def _refuse_unmergeable(memory: Memory, others: Sequence[Memory]) -> None:
    refuse_different_place(memory, others)
    for other in others:
        if other.key and other.key != memory.key:
            mend = "keep that one, or clear its key first"
            raise Conflict(f"memory {other.uid} is found by its key; {mend}", "others")
    for one in (memory, *others):
        if one.category in NEVER_MERGED:
            mend = "give it another category if it is none of them"
            raise Conflict(
                f"memory {one.uid} is among the {one.category}, which never merge; {mend}", "others"
            )


def _refuse_changed(memories: Iterable[Memory], seen: Mapping[str, datetime]) -> None:
    changed = [one.uid for one in memories if one.uid in seen and seen[one.uid] != one.updated_at]
    if changed:
        raise Conflict(
            f"changed since you opened it: memory {', '.join(changed)}; look at it again", "updated_at"
        )


def _build_patch(memory: Memory, others: Sequence[Memory], content: str) -> MemoryPatch:
    """What the one that is kept takes over from the others, its own values first."""
    everyone = [memory, *others]
    values: dict[str, Any] = {}
    for name in LIST_FIELDS:
        own = list_values(memory, name)
        values[name] = [*own, *(value for value in union_list_values(others, name) if value not in own)][
            :MAX_LIST
        ]
    for name in ("importance", "trust"):
        values[name] = max(getattr(one, name) for one in everyone)
    values["confidence"] = evidence.combine_confidence(everyone)
    values["sensitivity"] = reduce(stricter_level, (one.sensitivity for one in everyone))
    longest = _longest_lived(everyone)
    if longest.expires_at != memory.expires_at:
        values["ttl_days"] = longest.ttl_days
    if content:
        values["content"] = content
    return MemoryPatch.model_validate(values)


def _longest_lived(memories: Iterable[Memory]) -> Memory:
    """The one that lives longest; the first of several."""
    return max(memories, key=lambda one: one.expires_at.timestamp() if one.expires_at else math.inf)


def _add_up_counts(memory: Memory, others: Sequence[Memory], now: datetime) -> None:
    for name in _COUNT_FIELDS:
        setattr(memory, name, getattr(memory, name) + sum(getattr(other, name) for other in others))
    everyone = [memory, *others]
    accesses = [one.last_accessed_at for one in everyone if one.last_accessed_at]
    memory.last_accessed_at = max(accesses, default=None)
    memory.expires_at = _longest_lived(everyone).expires_at
    memory.updated_at = now


def _move_facts(facts: FactQuerySet, memory: Memory) -> list[journal.Change]:
    """What was drawn from the others is known from the one that stands for them; hidden facts too."""
    changes = []
    for fact in facts.select_related("memory"):
        was, fact.memory = fact.memory, memory
        fact.save(update_fields=["memory"])
        changes.append(journal.fact_change(MERGE, fact, was=was.uid, into=memory.uid))
    return changes


def undo_merge(uid: str, actor: Actor, now: datetime | None = None) -> MergeResult:
    """Take a merge back: all is as it was, but for accesses since then, which stay counted.

    :class:`NotFound` when the actor may not know of it; :class:`Conflict` names what was changed since.
    """
    now = now or timezone.now()
    with write_transaction():
        entry = next(grouped_rows(MERGE, uid, actor), None)
        if entry is None:
            raise NotFound("there is no such merge")
        if next(grouped_rows(UNDO_MERGE, uid, actor), None):
            raise Conflict("this merge was taken back already", "id")
        memory, others = _load_merged(entry, actor)
        gate = _access_key(memory)
        changes = _restore_kept(memory, others, entry, actor, now)
        evidence.undo_merge_evidence(memory, entry.at)
        changes += _return_facts(memory, others, entry)
        journal.record(actor, changes, now)
        back = restore_memories([other.uid for other in others], actor, now)
        record_grouped(
            UNDO_MERGE, uid, {gate: {"into": memory.uid, "members": entry.detail["members"]}}, actor, now
        )
    return MergeResult(uid, memory, back)


def last_merge(memory: Memory, clearance: Clearance) -> str:
    """The id of the last merge into a memory that was not taken back; empty where there is none."""
    rows = JournalEntry.objects.of_reach(clearance).filter(
        operation__in=(MERGE, UNDO_MERGE), object_type="memories", detail__into=memory.uid
    )
    undone = set()
    for operation, uid in rows.order_by("-seq").values_list("operation", "object_id"):
        if operation == UNDO_MERGE:
            undone.add(uid)
        elif uid not in undone:
            return str(uid)
    return ""


def _load_merged(entry: JournalEntry, actor: Actor) -> tuple[Memory, list[Memory]]:
    """The memories of a merge, if they are as it left them."""
    visible = Memory.objects.visible_to(actor.clearance)
    memory = visible.filter(uid=entry.detail["into"]).first()
    others = fetch_by_uids(visible.with_details(), entry.detail["members"])
    if memory is None or len(others) < len(entry.detail["members"]):
        raise Conflict(
            "a memory of this merge is not there any more; restore the others from the trash", "id"
        )
    changed = _changes_since(memory, entry, actor)
    for other in others:
        if (other.deleted_at, other.merged_into_id) != (entry.at, memory.pk):
            changed.append(f"memory {other.uid} was taken out of the trash or put there again")
    if changed:
        raise Conflict(
            f"{'; '.join(changed)}. Take back what can be, or restore the others from the trash", "id"
        )
    return memory, others


def _changes_since(memory: Memory, entry: JournalEntry, actor: Actor) -> list[str]:
    """What became of the one that was kept since the merge, in words; a change taken back is none."""
    changed = []
    if memory.deleted_at:
        changed.append(f"memory {memory.uid} is in the trash")
    if last_merge(memory, actor.clearance) != entry.object_id:
        changed.append(f"other memories were merged into memory {memory.uid}")
    elif names := _edited_fields(memory, entry):
        changed.append(f"memory {memory.uid} was changed: {', '.join(names)}")
    elif _was_stored_again(memory, entry):
        changed.append(f"memory {memory.uid} was stored again, which cannot be taken back")
    before, after = entry.detail["before"], entry.detail["after"]
    current = _merge_numbers(memory)
    for name in ("importance", "expires_at"):
        if before[name] != after[name] != current[name] and not changed:
            changed.append(f"{name} of memory {memory.uid} was changed")
    return changed


def _edited_fields(memory: Memory, entry: JournalEntry) -> list[str]:
    """Names of the fields that do not say what they said after the merge."""
    was: dict[str, Any] = {}
    for before in (
        memory.revisions.filter(at__gt=entry.at).order_by("number").values_list("before", flat=True)
    ):
        was = {**before, **was}
    now = {name: list_values(memory, name) if name in LIST_FIELDS else getattr(memory, name) for name in was}
    return sorted(name for name in was if now[name] != was[name])


def _was_stored_again(memory: Memory, entry: JournalEntry) -> bool:
    """Whether somebody said the same again: that may have given it the level that the merge gave it too."""
    again = JournalEntry.objects.filter(
        operation="dedup_refresh", object_type="memory", object_id=memory.uid, seq__gt=entry.seq
    )
    return again.exists() or memory.revisions.filter(at__gt=entry.at, reason="upsert").exists()


def _restore_kept(
    memory: Memory, others: Sequence[Memory], entry: JournalEntry, actor: Actor, now: datetime
) -> list[journal.Change]:
    """The one that was kept as it was before; its own journal row and revision tell of it."""
    detail, current = entry.detail, _merge_numbers(memory)
    beside = [other.pk for other in others]
    changes: list[journal.Change] = []
    revision = memory.revisions.filter(number=detail["revision"]).first()
    if revision:
        old = {"title": memory.title, "abstract": memory.abstract, **revision.before}
        patch = MemoryPatch.model_validate(old)
        changes = apply_patch(memory, patch, patch.given, actor, now, reason="undo merge", beside=beside)
    for name, value in _restored_numbers(detail["before"], detail["after"], current).items():
        setattr(memory, name, parse_datetime(value) if name in _TIMESTAMP_FIELDS and value else value)
    if find_twins(memory).filter(copy=memory.copy).exists():
        memory.copy = 1 + (find_twins(memory).aggregate(last=Max("copy"))["last"] or 0)
    memory.save()
    memories_vectors.PreparedVectors().renew(memory)
    return changes


def _restored_numbers(
    before: Mapping[str, Any], after: Mapping[str, Any], current: Mapping[str, Any]
) -> dict[str, Any]:
    """What the merge changed is as before; what upkeep and readers changed since is kept."""
    back = {name: before[name] if current[name] == after[name] else current[name] for name in before}
    for name in _COUNT_FIELDS:
        back[name] = max(current[name] - (after[name] - before[name]), 0)
    back["consolidated_accesses"] = min(back["consolidated_accesses"], back["accessed_count"])
    return back


def _return_facts(memory: Memory, others: Sequence[Memory], entry: JournalEntry) -> list[journal.Change]:
    """Facts that the merge moved, and that still hang on the one that was kept, go back."""
    moved = JournalEntry.objects.filter(
        operation=MERGE, object_type="fact", at=entry.at, seq__lt=entry.seq
    ).values_list("object_id", "detail")
    was = {uid: detail["was"] for uid, detail in moved if detail["into"] == memory.uid}
    homes = {other.uid: other for other in others}
    changes = []
    for fact in Fact.objects.filter(uid__in=was, memory=memory).select_related("memory"):
        fact.memory = homes[was[fact.uid]]
        fact.save(update_fields=["memory"])
        changes.append(journal.fact_change(UNDO_MERGE, fact, was=memory.uid, into=fact.memory.uid))
    return changes


def _merge_numbers(memory: Memory) -> dict[str, Any]:
    """What a merge adds up or moves, as the journal keeps it."""
    moments = {name: getattr(memory, name) for name in _TIMESTAMP_FIELDS}
    return {name: getattr(memory, name) for name in _NUMBER_FIELDS} | {
        name: at.astimezone(UTC).isoformat() if at else None for name, at in moments.items()
    }


def _access_key(memory: Memory) -> tuple[str, str, str]:
    project, level, owner = (getattr(memory, name) for name in ACCESS_FIELDS)
    return project, level, owner
