"""Duplicates: merge memories, or record that they are not duplicates. Both can be undone.

A merge keeps one memory, the others go to the trash. Contradictions of facts use the same decisions.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

from django.db.models import Max, QuerySet
from django.utils import timezone

from memoryhub.access.policy import Actor, Clearance, stricter_level
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.core.text import new_uid
from memoryhub.core.vocabulary import NEVER_MERGED, TrashReason
from memoryhub.memories import evidence
from memoryhub.memories.delete import move_to_trash, restore_memories
from memoryhub.memories.errors import Conflict, NotFound
from memoryhub.memories.replacements import find_successors, return_replacements
from memoryhub.memories.rows import (
    LIST_FIELDS,
    PreparedVectors,
    fetch_by_uids,
    field_value,
    is_unchanged,
    list_values,
    union_list_values,
    unite_values,
)
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.memories.secret_check import find_refusal, journal_refusals
from memoryhub.memories.undo import (
    AccessKey,
    Inverse,
    Undo,
    access_key,
    action_rows,
    apply_snapshot,
    inverse_of,
    record_action,
    restore_copy_number,
    restore_fields,
    revert_numbers,
    take_snapshot,
)
from memoryhub.memories.update import apply_patch, get_memory
from memoryhub.models import Fact, JournalEntry, Memory

MAX_MERGED = 100  # memories merged into one
MERGE, UNDO_MERGE = "merge", "undo_merge"
_PLACE_FIELDS = ("project", "scope", "owner")
# Fields of the kept memory that its revision does not store.
_COUNT_FIELDS = ("accessed_count", "consolidated_accesses", "shown_count", "helped_count")
_SNAPSHOT_FIELDS = (
    *("ttl_days", "importance", "copy", *_COUNT_FIELDS),
    *("last_accessed_at", "consolidated_at", "expires_at", "updated_at"),
)


@dataclass(frozen=True)
class MergeResult:
    """A merge of ``others`` into ``memory``, or its undo. ``uid`` identifies it."""

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
) -> MergeResult:
    """Merge memories into one. The others go to the trash with ``merged_into``.

    The kept memory gets the lists of all, the highest level, importance, trust and confidence, the sum of the
    accesses, the latest expiry, a pin, the evidence of all sessions, and the facts of the others. ``content``
    replaces its text; a revision stores the old one. ``seen``: ``updated_at`` of memories as the person read
    them.

    Raise :class:`NotFound` for a memory that the actor may not see, and :class:`Conflict` for memories that
    are in the trash, differ in project, scope, owner or key, never merge, or were changed since the person
    read them.
    """
    now = timezone.now()
    vectors = PreparedVectors([content] if content else ())
    others = list(dict.fromkeys(others))
    with journal_refusals(None, actor, uid=keep):
        if content and (refusal := find_refusal(SimpleNamespace(content=content), ["content"])):
            _load_memories(keep, others, actor, now)  # its refusals come before the one about the text
            raise refusal
    with write_transaction():
        memory, found = _load_memories(keep, others, actor, now)
        _refuse_unmergeable(memory, found)
        _refuse_changed([memory, *found], seen or {})
        before = take_snapshot(memory, _SNAPSHOT_FIELDS)
        patch = _build_patch(memory, found, content)
        other_pks = [other.pk for other in found]
        changes = apply_patch(memory, patch, patch.given, actor, now, reason="merge", equal_to=other_pks)
        _add_up_counts(memory, found, now)
        memory.save()
        evidence.merge_evidence(memory, found, now)
        vectors.refresh(memory)
        facts = Fact.objects.filter(memory__in=other_pks)  # also hidden ones
        changes += [_move_fact(fact, memory, MERGE) for fact in facts.select_related("memory")]
        journal.record(actor, changes, now)
        move_to_trash(found, actor, TrashReason.MERGED, now, memory)
        done = MergeResult(new_uid(), memory, found)
        detail = {
            "into": memory.uid,
            "members": [other.uid for other in found],
            "revision": memory.revisions.aggregate(last=Max("number"))["last"] if changes else None,
            "before": before,
            "after": take_snapshot(memory, _SNAPSHOT_FIELDS),
        }
        record_action(MERGE, done.uid, {access_key(memory): detail}, actor, now)
    return done


def _load_memories(keep: str, others: list[str], actor: Actor, now: datetime) -> tuple[Memory, list[Memory]]:
    """Return the memories, which must all be live."""
    if not others or keep in others or len(others) > MAX_MERGED:
        raise Conflict(f"choose 1 to {MAX_MERGED} memories other than the one that is kept", "others")
    memory = get_memory(keep, actor)
    found = fetch_by_uids(Memory.objects.visible_to(actor.clearance).with_details(), others)
    if len(found) < len(others):
        missing = sorted(set(others) - {other.uid for other in found})
        raise NotFound(f"there is no memory {', '.join(missing)}; leave it out", "others")
    ended = [one.uid for one in (memory, *found) if one.has_ended(now)]
    if ended:
        raise Conflict(f"in the trash or expired: {', '.join(ended)}; restore it first", "others")
    return memory, found


def refuse_different_place(memory: Memory, others: Iterable[Memory]) -> None:
    """Raise :class:`Conflict` unless all memories have the same project, scope and owner."""
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
            raise Conflict(
                f"memory {other.uid} is found by its key; keep that one, or clear its key first", "others"
            )
    for one in (memory, *others):
        if one.category in NEVER_MERGED:
            raise Conflict(
                f"memory {one.uid} has the category {one.category}, which never merges; change the category"
                " if it is wrong",
                "others",
            )


def _refuse_changed(memories: Iterable[Memory], seen: Mapping[str, datetime]) -> None:
    if changed := [one.uid for one in memories if not is_unchanged(one, seen)]:
        raise Conflict(
            f"changed since you opened it: memory {', '.join(changed)}; reload the page", "updated_at"
        )


def _build_patch(memory: Memory, others: Sequence[Memory], content: str) -> MemoryPatch:
    """Return the change of the kept memory. Its own list items come first."""
    everyone = [memory, *others]
    values: dict[str, Any] = {}
    for name in LIST_FIELDS:
        values[name] = unite_values(name, list_values(memory, name), union_list_values(others, name))
    for name in ("importance", "trust"):
        values[name] = max(getattr(one, name) for one in everyone)
    values["confidence"] = evidence.combine_confidence(everyone)
    values["sensitivity"] = reduce(stricter_level, (one.sensitivity for one in everyone))
    if any(one.pinned for one in others):
        values["pinned"] = True
    longest = _longest_lived(everyone)
    if longest.expires_at != memory.expires_at:
        values["ttl_days"] = longest.ttl_days
    if not {other.pk for other in others}.isdisjoint(find_successors(memory.pk)):
        values["superseded_by"] = None  # the replacement becomes a part of this memory
    if content:
        values["content"] = content
    return MemoryPatch.model_validate(values)


def _longest_lived(memories: Iterable[Memory]) -> Memory:
    """Return the memory with the latest expiry, the first of several."""
    return max(memories, key=lambda one: one.expires_at.timestamp() if one.expires_at else math.inf)


def _add_up_counts(memory: Memory, others: Sequence[Memory], now: datetime) -> None:
    for name in _COUNT_FIELDS:
        setattr(memory, name, getattr(memory, name) + sum(getattr(other, name) for other in others))
    everyone = [memory, *others]
    accesses = [one.last_accessed_at for one in everyone if one.last_accessed_at]
    memory.last_accessed_at = max(accesses, default=None)
    memory.expires_at = _longest_lived(everyone).expires_at
    memory.updated_at = now


def _move_fact(fact: Any, memory: Memory, operation: str) -> journal.Change:
    was, fact.memory = fact.memory, memory
    fact.save(update_fields=["memory"])
    return journal.fact_change(operation, fact, was=was.uid, into=memory.uid)


def undo_merge(uid: str, actor: Actor, now: datetime | None = None) -> MergeResult:
    """Undo a merge. Accesses since then stay counted.

    Raise :class:`NotFound` if the actor may not know of the merge, and :class:`Conflict` with the changes
    since.
    """
    undo = Undo.of_action(uid, actor, [MERGE], now)
    if not undo.rows:
        _refuse_undone(uid, actor)
        raise NotFound("there is no such merge")
    memory, *others = undo.run().restored
    return MergeResult(uid, memory, others)


def _refuse_undone(uid: str, actor: Actor) -> None:
    """Raise :class:`Conflict` if the merge was undone, and name who undid it."""
    if rows := action_rows(uid, actor, [UNDO_MERGE]):
        raise Conflict(f"this merge was already undone by {rows[0].actor}", "id")


def _restore_merged(undo: Undo, entries: Sequence[JournalEntry]) -> int:
    _refuse_undone(undo.id, undo.actor)  # by another caller, since the rows were read
    [entry] = entries
    memory, others = _load_merged(entry, undo.actor)
    key = access_key(memory)
    changes = return_replacements(memory, others, entry.at, undo.actor, undo.now)
    changes += _restore_kept(memory, others, entry, undo)
    evidence.undo_merge_evidence(memory, entry.at)
    changes += _return_facts(memory, others, entry)
    journal.record(undo.actor, changes, undo.now)
    restored = restore_memories([other.uid for other in others], undo.actor, undo.now)
    detail = {"into": memory.uid, "members": entry.detail["members"]}
    record_action(UNDO_MERGE, undo.id, {key: detail}, undo.actor, undo.now)
    undo.restored += [memory, *restored]
    return 1 + len(restored)


inverse_of(Inverse(list, _restore_merged, UNDO_MERGE), MERGE)


def last_merge(memory: Memory, clearance: Clearance) -> str:
    """Return the id of the last merge into a memory that was not undone, or an empty string."""
    rows = JournalEntry.objects.visible_as_recorded(clearance).filter(
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
    """Return the memories of a merge if they have not changed since."""
    visible = Memory.objects.visible_to(actor.clearance)
    memory = visible.filter(uid=entry.detail["into"]).first()
    others = fetch_by_uids(visible.with_details(), entry.detail["members"])
    if memory is None or len(others) < len(entry.detail["members"]):
        raise Conflict("a memory of this merge no longer exists; restore the others from the trash", "id")
    changed = _changes_since(memory, entry, actor)
    for other in others:
        if (other.deleted_at, other.merged_into_id) != (entry.at, memory.pk):
            changed.append(f"memory {other.uid} was restored or trashed again")
    if changed:
        raise Conflict(
            f"{'; '.join(changed)}. Undo these changes, or restore the others from the trash", "id"
        )
    return memory, others


def _changes_since(memory: Memory, entry: JournalEntry, actor: Actor) -> list[str]:
    """Describe the changes of the kept memory since the merge. An undone change does not count."""
    changed = []
    if memory.deleted_at:
        changed.append(f"memory {memory.uid} is in the trash")
    if last_merge(memory, actor.clearance) != entry.object_id:
        changed.append(f"other memories were merged into memory {memory.uid}")
    elif names := _edited_fields(memory, entry):
        changed.append(f"memory {memory.uid} was changed: {', '.join(names)}")
    elif _was_stored_again(memory, entry):
        changed.append(f"memory {memory.uid} was stored again, which cannot be undone")
    before, after = entry.detail["before"], entry.detail["after"]
    current = take_snapshot(memory, _SNAPSHOT_FIELDS)
    for name in ("importance", "expires_at"):
        if before[name] != after[name] != current[name] and not changed:
            changed.append(f"{name} of memory {memory.uid} was changed")
    return changed


def _edited_fields(memory: Memory, entry: JournalEntry) -> list[str]:
    """Return the names of fields whose value differs from the one after the merge."""
    was: dict[str, Any] = {}
    number = entry.detail["revision"]  # numbers have an order even if the clock went back
    newer = memory.revisions.filter(number__gt=number) if number else memory.revisions.filter(at__gt=entry.at)
    newer = newer.order_by("-number")
    for before in newer.values_list("before", flat=True):
        was |= before
    return sorted(name for name, old in was.items() if field_value(memory, name) != old)


def _was_stored_again(memory: Memory, entry: JournalEntry) -> bool:
    """Whether the memory was stored again, which may have set the level that the merge set too."""
    again = JournalEntry.objects.filter(
        operation="dedup_refresh", object_type="memory", object_id=memory.uid, seq__gt=entry.seq
    )
    return again.exists() or memory.revisions.filter(at__gt=entry.at, reason="upsert").exists()


def _restore_kept(
    memory: Memory, others: Sequence[Memory], entry: JournalEntry, undo: Undo
) -> list[journal.Change]:
    """Restore the kept memory, with a revision and a journal row of its own."""
    detail, current = entry.detail, take_snapshot(memory, _SNAPSHOT_FIELDS)
    other_pks = [other.pk for other in others]
    changes: list[journal.Change] = []
    if revision := memory.revisions.filter(number=detail["revision"]).first():
        changes = restore_fields(
            memory, revision, undo.actor, undo.now, reason="undo merge", equal_to=other_pks
        )
    apply_snapshot(memory, _restored_numbers(detail["before"], detail["after"], current))
    restore_copy_number(memory, memory.copy)
    memory.save()
    PreparedVectors().refresh(memory)
    return changes


def _restored_numbers(
    before: Mapping[str, Any], after: Mapping[str, Any], current: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the numbers from before the merge, except those that maintenance and readers changed since."""
    back = revert_numbers(before, after, current, before)
    for name in _COUNT_FIELDS:
        back[name] = max(current[name] - (after[name] - before[name]), 0)
    back["consolidated_accesses"] = min(back["consolidated_accesses"], back["accessed_count"])
    return back


def _return_facts(memory: Memory, others: Sequence[Memory], entry: JournalEntry) -> list[journal.Change]:
    """Move facts that still belong to the kept memory back to the memories they came from."""
    moved = JournalEntry.objects.filter(
        operation=MERGE, object_type="fact", at=entry.at, seq__lt=entry.seq
    ).values_list("object_id", "detail")
    was = {uid: detail["was"] for uid, detail in moved if detail["into"] == memory.uid}
    memories = {other.uid: other for other in others}
    facts = Fact.objects.filter(uid__in=was, memory=memory).select_related("memory")
    return [_move_fact(fact, memories[was[fact.uid]], UNDO_MERGE) for fact in facts]


@dataclass(frozen=True)
class PairDecisions:
    """Decisions of one kind about pairs of ids, stored in the journal.

    ``about``: the object type of the rows. ``operation`` records a decision, ``undo_operation`` its undo.
    """

    about: str
    operation: str
    undo_operation: str

    def __post_init__(self) -> None:
        inverse_of(Inverse(list, self._revoke, self.undo_operation), self.operation, about=self.about)

    def record(self, pairs: Iterable[tuple[AccessKey, tuple[str, str]]], actor: Actor) -> str:
        """Record pairs of ids, each with the access key that its row gets. Return the id of the decision."""
        grouped: dict[AccessKey, list[list[str]]] = defaultdict(list)
        for key, pair in pairs:
            grouped[key].append(list(pair))
        decision = new_uid()
        details = {key: {"pairs": found} for key, found in grouped.items()}
        record_action(self.operation, decision, details, actor, timezone.now(), about=self.about)
        return decision

    def undo(self, decision: str, actor: Actor) -> None:
        """Revoke a decision. Raise NotFound if the actor sees no such decision, or if it was revoked."""
        undo = Undo.of_action(decision, actor, [self.operation], about=self.about)
        if not undo.rows:
            raise NotFound("there is no such decision")
        undo.run()

    def _revoke(self, undo: Undo, rows: Sequence[JournalEntry]) -> int:
        details = {access_key(row): {"pairs": row.detail["pairs"]} for row in rows}
        record_action(self.undo_operation, undo.id, details, undo.actor, undo.now, about=self.about)
        return sum(len(detail["pairs"]) for detail in details.values())

    def recorded(self, clearance: Clearance) -> QuerySet[JournalEntry]:
        """Return the journal rows of decisions and of their undo, if this clearance may see them."""
        rows = JournalEntry.objects.visible_as_recorded(clearance).filter(object_type=self.about)
        return rows.filter(operation__in=(self.operation, self.undo_operation))

    def decided(self, clearance: Clearance) -> set[frozenset[str]]:
        """Return the decided pairs of ids, if this clearance may know of both objects."""
        recorded = self.recorded(clearance).order_by("seq")
        pairs: dict[tuple[str, frozenset[str]], bool] = {}
        for uid, operation, detail in recorded.values_list("object_id", "operation", "detail"):
            for pair in detail["pairs"]:
                pairs[(uid, frozenset(pair))] = operation == self.operation
        return {pair for (_, pair), is_decided in pairs.items() if is_decided}


MAX_DISMISSED = 100  # memories in one decision, which stores every pair of them
UNDO_NOT_DUPLICATES = "undo_not_duplicates"
_NOT_DUPLICATES = PairDecisions("memories", "not_duplicates", UNDO_NOT_DUPLICATES)


def dismiss_duplicates(uids: Iterable[str], actor: Actor) -> str:
    """Record that these memories are not duplicates of each other. Return the id of the decision."""
    with write_transaction():
        wanted = list(dict.fromkeys(uids))
        if not 2 <= len(wanted) <= MAX_DISMISSED:
            raise Conflict(f"name 2 to {MAX_DISMISSED} memories", "others")
        memories = fetch_by_uids(Memory.objects.visible_to(actor.clearance), wanted)
        if len(memories) < len(wanted):
            raise NotFound("one of these memories no longer exists; reload the page", "others")
        refuse_different_place(memories[0], memories[1:])
        pairs = (
            (
                (one.project, stricter_level(one.sensitivity, other.sensitivity), one.owner),
                (one.uid, other.uid),
            )
            for one, other in combinations(memories, 2)
        )
        return _NOT_DUPLICATES.record(pairs, actor)


def undo_dismissal(decision: str, actor: Actor) -> None:
    """Revoke :func:`dismiss_duplicates`. Raise NotFound if the actor sees no such decision."""
    _NOT_DUPLICATES.undo(decision, actor)


def dismissed_pairs(clearance: Clearance) -> set[frozenset[str]]:
    """Return the pairs of ids that are not duplicates, if this clearance may know of both memories."""
    return _NOT_DUPLICATES.decided(clearance)
