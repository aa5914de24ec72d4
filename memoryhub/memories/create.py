"""Storing: deduplication by content, upsert by key, sessions, the cap."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import OperationalError, connection
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.utils import timezone

from memoryhub.access.filters import memory_filter
from memoryhub.access.policy import LEVELS, Actor, level_rank, stricter_level
from memoryhub.audit import journal
from memoryhub.backends import bulk
from memoryhub.core.chunks import batched
from memoryhub.core.transactions import is_database_busy, write_transaction
from memoryhub.memories import imported_history, rows
from memoryhub.memories import vectors as memories_vectors
from memoryhub.memories.delete import evict_over_cap
from memoryhub.memories.errors import Busy, SecretDetected, StoreError
from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.memories.secret_check import MEMORY_FIELDS, find_refusal, refusal_change
from memoryhub.memories.update import apply_patch, find_twins
from memoryhub.models import Memory

CHUNK_SIZE = 100  # drafts stored in one transaction
PAUSE_SECONDS = 0.02  # seconds between two transactions, so that waiting writers get their turn
_GroupKey = tuple[str, str, str, str]  # content hash or key, project, scope, owner


@dataclass(frozen=True)
class StoreResult:
    """``created``, ``refreshed`` (same content), ``updated`` (same key), ``merged`` or ``skipped``.

    Of what comes with a past also ``unchanged``: it is here as it is, or ``kept``: it is here, and was
    changed on either side. ``revived``: it lay in the trash or had expired.
    """

    outcome: str
    memory: Memory
    revived: bool = False


def create_memory(draft: MemoryDraft, actor: Actor, now: datetime | None = None) -> StoreResult:
    """Store one memory; :class:`StoreError` when it is refused."""
    [result] = create_memories([draft], actor, now)
    if isinstance(result, StoreError):
        raise result
    return result


def create_memories(
    drafts: Sequence[MemoryDraft],
    actor: Actor,
    now: datetime | None = None,
    *,
    hold_cap: bool = True,
    refusals: Sequence[StoreError | None] | None = None,
    imported_at: datetime | None = None,
    vectors: memories_vectors.PreparedVectors | None = None,
    pasts: Sequence[ImportedHistory | None] | None = None,
) -> list[StoreResult | StoreError]:
    """Store drafts in order, in transactions of :data:`CHUNK` drafts; a refused one does not lose the others.

    If the database stays busy after some chunks were stored, the other drafts are refused as :class:`Busy`.

    ``hold_cap=False`` is for imports by a person: the cap bounds what agents pile up. ``refusals``: the
    result of :func:`screen_ahead`, for callers that are inside a transaction; ``[None] * len(drafts)`` for
    drafts that were checked before, or that are made of stored memories. ``vectors``: of :func:`embed_ahead`,
    for these callers too. ``imported_at``: from when upkeep counts the age of new memories, instead of their
    ``created_at``. ``pasts``: the history of each draft, for those that are new here.
    """
    now = now or timezone.now()
    pasts = pasts or [None] * len(drafts)
    refusals = check_drafts(drafts, pasts) if refusals is None else refusals
    clean = (draft for draft, refusal in zip(drafts, refusals, strict=True) if refusal is None)
    vectors = vectors or embed_drafts(clean)
    results: list[StoreResult | StoreError] = []
    is_nested = connection.in_atomic_block
    for chunk in batched(zip(drafts, pasts, refusals, strict=True), CHUNK_SIZE):
        if results and not is_nested:
            time.sleep(PAUSE_SECONDS)
        batch = _Batch(actor, now, vectors, imported_at)
        try:
            results += _store_chunk(batch, chunk, hold_cap)
        except OperationalError as error:
            if is_nested or not results or not is_database_busy(error):
                raise
            results += [refusal or Busy() for refusal in refusals[len(results) :]]
            break
    return results


_BatchItem = tuple[MemoryDraft, ImportedHistory | None, StoreError | None]


def _store_chunk(
    batch: _Batch, items: Sequence[_BatchItem], hold_cap: bool
) -> list[StoreResult | StoreError]:
    results: list[StoreResult | StoreError] = []
    with write_transaction():
        batch.look_up(
            [draft for draft, _, _ in items], {past.uid for _, past, _ in items if past and past.uid}
        )
        for draft, past, refusal in items:
            if isinstance(refusal, SecretDetected):
                batch.changes.append(refusal_change(refusal, draft, batch.actor))
            try:
                results.append(refusal or batch.take(draft, past))
            except StoreError as error:
                results.append(error)
        batch.save()
        if hold_cap:
            evict_over_cap(batch.added(), batch.actor, batch.now)
    return results


def check_drafts(
    drafts: Sequence[MemoryDraft], pasts: Sequence[ImportedHistory | None] | None = None
) -> list[StoreError | None]:
    """Check the drafts for secrets, before a transaction is opened. Return the refusal of each, or None."""
    pasts = pasts or [None] * len(drafts)
    return [
        find_refusal(draft, MEMORY_FIELDS)
        or (find_refusal(past, imported_history.HISTORY_TEXT_FIELDS) if past else None)
        for draft, past in zip(drafts, pasts, strict=True)
    ]


def embed_drafts(drafts: Iterable[MemoryDraft]) -> memories_vectors.PreparedVectors:
    """The drafts' vectors, made before a transaction is opened, where that can be done in this process."""
    return memories_vectors.PreparedVectors(map(memories_vectors.embedding_text, drafts))


# Not the texts: an UPDATE that names these has both indexes written anew.
_REFRESHED_FIELDS = (
    *("updated_at", "ttl_days", "expires_at", "deleted_at", "trash_reason", "merged_into"),
    *("key", "sensitivity", "copy"),
)


@dataclass
class _Batch:
    """The writes of one call, collected so that a thousand memories take a handful of statements."""

    actor: Actor
    now: datetime
    vectors: memories_vectors.PreparedVectors
    imported_at: datetime | None = None
    fresh: list[tuple[Memory, MemoryDraft]] = field(default_factory=list)
    saved: int = 0
    revived: list[Memory] = field(default_factory=list)
    changes: list[journal.Change] = field(default_factory=list)
    by_uid: dict[str, Memory] = field(default_factory=dict)
    by_hash: dict[_GroupKey, list[Memory]] = field(default_factory=lambda: defaultdict(list))
    by_key: dict[_GroupKey, list[Memory]] = field(default_factory=lambda: defaultdict(list))

    def look_up(self, drafts: Sequence[MemoryDraft], uids: set[str]) -> None:
        """Every stored twin of the drafts, and what has these ids; ``known``: the actor may know of it."""
        hashes = [rows.hash_content(draft.content) for draft in drafts]
        keys = [draft.key for draft in drafts if draft.key]
        if not keys and not uids and not bulk.any_exists(Memory, "content_hash", hashes):
            return  # the usual case, told by a query much cheaper than the one below
        same = Q(content_hash__in=hashes)
        if keys:
            same |= Q(key__in=keys) & ~Q(key="")  # the second condition lets SQLite use the index of keys
        if uids:
            same |= Q(uid__in=uids)
        known = memory_filter(self.actor.clearance) | rows.written_only_by(self.actor)
        found = Memory.objects.filter(same).annotate(known=ExpressionWrapper(known, BooleanField()))
        for memory in found:
            self._shelve(memory)

    def _shelve(self, memory: Memory) -> None:
        self.by_uid[memory.uid] = memory
        for shelf in self._shelves(memory):
            shelf.append(memory)

    def _unshelve(self, memory: Memory) -> None:
        """Before its words or its key change."""
        for shelf in self._shelves(memory):
            shelf.remove(memory)

    def _shelves(self, memory: Memory) -> list[list[Memory]]:
        place = (memory.project, memory.scope, memory.owner)
        of_words = self.by_hash[(memory.content_hash, *place)]
        return [of_words, self.by_key[(memory.key, *place)]] if memory.key else [of_words]

    def take(self, draft: MemoryDraft, past: ImportedHistory | None = None) -> StoreResult:
        owner = imported_history.resolve_imported_owner(draft.scope, past, self.actor)
        memory = rows.build_memory(draft, self.actor, self.now, self.imported_at, owner)
        if past is not None and (there := self._there(memory, past)):
            return StoreResult("unchanged" if there.content_hash == memory.content_hash else "kept", there)
        if past is not None:
            imported_history.apply_history(memory, past, self.actor, self.now)
        if past is not None and past.uid:
            return self._create(memory, draft, memory.copy)
        return self._take_new(memory, draft)

    def _there(self, memory: Memory, past: ImportedHistory) -> Memory | None:
        """What a memory with a past is here already: the one of its id, or in its very place.

        Without an id: one of the same words that is as new, or, for what has ended, any.
        """
        if past.uid:
            if (there := self.by_uid.get(past.uid)) is None:
                memory.uid = past.uid
            elif _is_known(there):
                return there
            slot = (memory.sensitivity, max(past.copy, 0))
            return next(
                (
                    twin
                    for shelf in self._shelves(memory)
                    for twin in shelf
                    if (twin.sensitivity, twin.copy, twin.key) == (*slot, memory.key) and _is_known(twin)
                ),
                None,
            )
        twin = _strictest_known(self._equals(memory), memory.content_hash)
        if twin is None or past.has_ended(self.now):
            return twin
        is_live = twin.deleted_at is None and not _is_expired(twin, self.now)
        return twin if is_live and past.updated_at and past.updated_at <= twin.updated_at else None

    def _take_new(self, memory: Memory, draft: MemoryDraft) -> StoreResult:
        place = (memory.project, memory.scope, memory.owner)
        same_key = self.by_key.get((memory.key, *place), []) if memory.key else []
        if keyed := _strictest_known(same_key, memory.content_hash):
            return self._upsert(keyed, draft)
        if twin := _strictest_known(self._equals(memory), memory.content_hash):
            return self._refresh(twin, draft)
        return self._create(memory, draft)

    def _equals(self, memory: Memory) -> list[Memory]:
        """A memory without a key is the same as any with its words; a key of its own makes it another."""
        copies = self.by_hash.get((memory.content_hash, memory.project, memory.scope, memory.owner), [])
        return [twin for twin in copies if not memory.key or not twin.key]

    def _create(self, memory: Memory, draft: MemoryDraft, copy: int | None = None) -> StoreResult:
        """``copy``: the place beside its twins that it would take, if that is free."""
        memory.known = True  # type: ignore[attr-defined]
        self._stand_apart(memory, copy)
        self.fresh.append((memory, draft))
        self._shelve(memory)
        self.changes.append(journal.memory_change("insert", memory))
        return StoreResult("created", memory)

    def _refresh(self, memory: Memory, draft: MemoryDraft) -> StoreResult:
        """The same words again: a newer date, the higher level, a new lease of life."""
        detail = self._revive(memory)
        memory.updated_at = max(memory.updated_at, draft.created_at or self.now)
        if "ttl_days" in draft.given:
            memory.ttl_days = draft.ttl_days or None
        memory.expires_at = rows.compute_expiry(memory.ttl_days, self.now)
        self._unshelve(memory)
        key, level = memory.key or draft.key, stricter_level(memory.sensitivity, draft.sensitivity.value)
        if (key, level) != (memory.key, memory.sensitivity):
            memory.key, memory.sensitivity = key, level
            self._stand_apart(memory)
        self._shelve(memory)
        self._save_unless_fresh(memory)
        self.changes.append(journal.memory_change("dedup_refresh", memory, **detail))
        return StoreResult("refreshed", memory, revived=bool(detail))

    def _upsert(self, memory: Memory, draft: MemoryDraft) -> StoreResult:
        """The same key again: what is given replaces what was; the level never falls."""
        if memory.pk is None:
            self.save()
        level = draft.sensitivity.value if "sensitivity" in draft.given else memory.sensitivity
        patch = draft.model_copy(update={"sensitivity": stricter_level(level, memory.sensitivity)})
        detail = self._revive(memory)
        memory.expires_at = rows.compute_expiry(memory.ttl_days, self.now)
        self._unshelve(memory)
        changes = apply_patch(memory, patch, draft.given, self.actor, self.now, reason="upsert", **detail)
        self._shelve(memory)
        memory.updated_at = max(memory.updated_at, self.now)
        memory.save()
        self.vectors.renew(memory)
        self.changes += changes or [journal.memory_change("dedup_refresh", memory, **detail)]
        return StoreResult("updated", memory, revived=bool(detail))

    def _revive(self, memory: Memory) -> dict[str, Any]:
        """Out of the trash; says so for the journal if it was there or had expired."""
        ended = memory.deleted_at or _is_expired(memory, self.now)
        memory.deleted_at, memory.trash_reason, memory.merged_into = None, "", None
        if not ended:
            return {}
        self.revived.append(memory)
        return {"revived": True}

    def _stand_apart(self, memory: Memory, copy: int | None = None) -> None:
        """A free number beside twins of the same level that the writer may not know of."""
        beside = [twin for shelf in self._shelves(memory) for twin in shelf]
        if memory.pk:  # it takes a place that was not looked at before
            beside += find_twins(memory)
        taken = {(twin.copy, twin.key) for twin in beside if twin.sensitivity == memory.sensitivity}
        if copy is None or (copy, memory.key) in taken:
            copy = max((number for number, _ in taken), default=-1) + 1
        memory.copy = copy

    def _save_unless_fresh(self, memory: Memory) -> None:
        if memory.pk is not None:
            memory.save(update_fields=_REFRESHED_FIELDS)

    def added(self) -> list[Memory]:
        """Return the memories that are new and those that came back from the trash or had expired."""
        return [*(memory for memory, _ in self.fresh), *self.revived]

    def save(self) -> None:
        """Write what was collected so far."""
        pending = self.fresh[self.saved :]
        bulk.insert_objects([memory for memory, _ in pending])
        self.vectors.write([memory for memory, _ in pending])
        rows.save_lists(pending)
        rows.extend_sessions((memory for memory, _ in pending), self.actor)
        journal.record(self.actor, self.changes, self.now)
        self.saved, self.changes = len(self.fresh), []


def _strictest_known(twins: Iterable[Memory], content_hash: str) -> Memory | None:
    """Of the twins the actor may know of, the one under the strictest level; an unknown level is nobody's."""
    known = [twin for twin in twins if _is_known(twin)]
    return max(
        known,
        key=lambda twin: (level_rank(twin.sensitivity), twin.content_hash == content_hash),
        default=None,
    )


def _is_known(twin: Memory) -> bool:
    return twin.known and twin.sensitivity in LEVELS  # type: ignore[attr-defined]


def _is_expired(memory: Memory, now: datetime) -> bool:
    return memory.expires_at is not None and memory.expires_at <= now
