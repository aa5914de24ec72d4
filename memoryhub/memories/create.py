"""Store memories: deduplication by content, upsert by key, sessions and the cap."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import Any

from django.conf import settings
from django.db import OperationalError, connection
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.utils import timezone

from memoryhub.access.filters import memory_filter
from memoryhub.access.policy import Actor, stricter_level, waiting_level
from memoryhub.audit import journal
from memoryhub.backends import bulk, statements
from memoryhub.core.database import write_transaction
from memoryhub.core.database_errors import is_database_busy
from memoryhub.memories import imported_history, rows
from memoryhub.memories.delete import Caps, evict_over_cap
from memoryhub.memories.errors import Busy, SecretDetected, StoreError
from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.rows import embed_drafts
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.memories.secret_check import MEMORY_FIELDS, check_drafts, refusal_change
from memoryhub.memories.update import RAISED_REASON, apply_patch, find_twins, raise_merged
from memoryhub.models import Memory

CHUNK_SIZE = 100  # drafts stored in one transaction; an update by key counts as UPDATE_COST of them
UPDATE_COST = 20
CHUNK_CHARACTERS = 30_000  # of the texts stored in one transaction, unless it is a single draft
ITEM_CHARACTERS = 60  # one tag, file or entity counts as this many
NESTED_CHUNK_SIZE = 1000  # drafts stored together inside a transaction of the caller
PAUSE_SECONDS = 0.02  # between two transactions, so that waiting writers get a chance
_GroupKey = tuple[str, str, str, str]  # content hash or key, project, scope, owner


@dataclass(frozen=True)
class StoreResult:
    """The stored memory and the ``outcome``.

    ``created``, ``refreshed`` (same content), ``updated`` (same key), ``merged``, ``skipped`` or ``waiting``
    (for approval; no agent may learn more of such a memory). An import with history also gives ``unchanged``
    (the memory is already here and equal) and ``kept`` (it is here, but changed on either side).
    ``revived``: it was in the trash or had expired.
    """

    outcome: str
    memory: Memory
    revived: bool = False


def create_memory(
    draft: MemoryDraft,
    actor: Actor,
    now: datetime | None = None,
    *,
    needs_approval: bool = False,
    imported_at: datetime | None = None,
) -> StoreResult:
    """Store one memory. Raise :class:`StoreError` if it is refused.

    With ``needs_approval``, the memory is hidden until a person approves it, and changes no other memory.
    With ``imported_at``, it is part of an import: the cap does not apply.
    """
    [result] = create_memories(
        [draft],
        actor,
        now,
        enforce_cap=not needs_approval and imported_at is None,
        imported_at=imported_at,
        needs_approval=needs_approval,
    )
    if isinstance(result, StoreError):
        raise result
    return result


def create_memories(
    drafts: Sequence[MemoryDraft],
    actor: Actor,
    now: datetime | None = None,
    *,
    enforce_cap: bool = True,
    refusals: Sequence[StoreError | None] | None = None,
    imported_at: datetime | None = None,
    vectors: rows.PreparedVectors | None = None,
    histories: Sequence[ImportedHistory | None] | None = None,
    needs_approval: bool = False,
) -> list[StoreResult | StoreError]:
    """Store drafts in order, in chunks of one transaction each. A refused draft does not affect the others.

    A chunk is so small that other writers wait for less than 100 ms: at most :data:`CHUNK_SIZE` drafts and
    :data:`CHUNK_CHARACTERS`. Inside a transaction of the caller, drafts are stored in large chunks.

    If the database stays busy after some chunks were stored, the other drafts are refused as :class:`Busy`.

    ``enforce_cap=False`` is for imports by a person: the cap limits what agents store. ``refusals``: the
    result of :func:`check_drafts`, for callers that are inside a transaction; ``[None] * len(drafts)`` for
    drafts that were checked before or are made of stored memories. ``vectors``: the result of
    :func:`embed_drafts`, for the same callers. ``imported_at``: the start of the age of new memories for
    maintenance, instead of ``created_at``. ``histories``: the history of each draft, used where the memory is
    new here. ``needs_approval``: as in :func:`create_memory`.
    """
    now = now or timezone.now()
    histories = histories or [None] * len(drafts)
    refusals = check_drafts(drafts, histories) if refusals is None else refusals
    accepted = (draft for draft, refusal in zip(drafts, refusals, strict=True) if refusal is None)
    vectors = vectors or embed_drafts(accepted)
    results: list[StoreResult | StoreError] = []
    is_nested = connection.in_atomic_block
    items = list(zip(drafts, histories, refusals, strict=True))
    while len(results) < len(items):
        if results and not is_nested:
            time.sleep(PAUSE_SECONDS)
        chunk = items[len(results) : len(results) + NESTED_CHUNK_SIZE]
        batch = _Batch(actor, now, vectors, imported_at, needs_approval)
        try:
            results += _store_chunk(
                batch, chunk if is_nested else _first_chunk(chunk), enforce_cap, is_nested
            )
        except OperationalError as error:
            if is_nested or not results or not is_database_busy(error):
                raise
            results += [refusal or Busy() for refusal in refusals[len(results) :]]
            break
    return results


_BatchItem = tuple[MemoryDraft, ImportedHistory | None, StoreError | None]


def _first_chunk(items: Sequence[_BatchItem]) -> Sequence[_BatchItem]:
    """Return the first items that are stored in one transaction."""
    sizes = accumulate(_count_characters(draft) for draft, _, _ in items[:CHUNK_SIZE])
    return items[: max(1, sum(size <= CHUNK_CHARACTERS for size in sizes))]


def _count_characters(draft: MemoryDraft) -> int:
    """Return the length of all texts of a draft, with :data:`ITEM_CHARACTERS` for each item of a list."""
    values = [value for name in MEMORY_FIELDS if (value := getattr(draft, name))]
    return sum(len(value) if isinstance(value, str) else ITEM_CHARACTERS * len(value) for value in values)


def _store_chunk(
    batch: _Batch, items: Sequence[_BatchItem], enforce_cap: bool, is_nested: bool
) -> list[StoreResult | StoreError]:
    """Store items in one transaction: all of them, or the first ones if many update a memory by its key."""
    results: list[StoreResult | StoreError] = []
    cost = 0
    with write_transaction():
        batch.prepare(
            [draft for draft, _, _ in items],
            {history.uid for _, history, _ in items if history and history.uid},
            cap=settings.MEMORYHUB.max_memories if enforce_cap else None,
        )
        for draft, history, refusal in items:
            if isinstance(refusal, SecretDetected):
                batch.changes.append(refusal_change(refusal, draft, batch.actor))
            try:
                results.append(refusal or batch.store(draft, history))
            except StoreError as error:
                results.append(error)
            cost += UPDATE_COST if getattr(results[-1], "outcome", "") == "updated" else 1
            if cost >= CHUNK_SIZE and not is_nested:
                break
        batch.save()
        if enforce_cap and not batch.has_room:
            evict_over_cap(batch.added(), batch.actor, batch.now, batch.caps)
    return results


# Without the texts: an UPDATE that names them rewrites both full-text indexes.
_REFRESHED_FIELDS = (
    *("updated_at", "ttl_days", "expires_at", "deleted_at", "trash_reason", "merged_into"),
    *("key", "sensitivity", "copy", "pinned_at"),
)


@dataclass
class _Batch:
    """The writes of one transaction, collected so that many memories take a handful of statements.

    A twin is a stored memory with the same content or key in the same project, scope and owner. ``has_room``:
    the caps allow for all drafts. ``journal_end``: number and hash of the newest journal row, if known.
    """

    actor: Actor
    now: datetime
    vectors: rows.PreparedVectors
    imported_at: datetime | None = None
    needs_approval: bool = False
    new: list[tuple[Memory, MemoryDraft]] = field(default_factory=list)
    saved: int = 0
    has_room: bool = False
    journal_end: tuple[int, str] | None = None
    off_projects: frozenset[str] = frozenset()
    caps: Caps = field(default_factory=Caps)
    revived: list[Memory] = field(default_factory=list)
    changes: list[journal.Change] = field(default_factory=list)
    by_uid: dict[str, Memory] = field(default_factory=dict)
    by_hash: dict[_GroupKey, list[Memory]] = field(default_factory=lambda: defaultdict(list))
    by_key: dict[_GroupKey, list[Memory]] = field(default_factory=lambda: defaultdict(list))

    def prepare(self, drafts: Sequence[MemoryDraft], uids: set[str], cap: int | None) -> None:
        """Load all twins of the drafts and the memories with these ids; compare their number with the caps.

        The annotation ``known`` says whether the actor may know of the memory.
        """
        hashes = [rows.hash_content(draft.content) for draft in drafts]
        keys = [draft.key for draft in drafts if draft.key]
        projects = {draft.project for draft in drafts} | (self.actor.clearance.projects or set())
        state = statements.read_state_before_store(hashes, projects, cap, self.now)
        self.has_room = state.has_room
        self.off_projects = state.off_projects
        self.caps = Caps(state.caps)
        self.journal_end = state.journal_end
        if not keys and not uids and not state.has_twins:
            return  # the usual case
        same = Q(content_hash__in=hashes)
        if keys:
            same |= Q(key__in=keys) & ~Q(key="")  # the second condition lets SQLite use the index on keys
        if uids:
            same |= Q(uid__in=uids)
        known = memory_filter(self.actor.clearance) | rows.written_only_by(self.actor)
        found = Memory.objects.filter(same).annotate(known=ExpressionWrapper(known, BooleanField()))
        for memory in found:
            self._index(memory)

    def _index(self, memory: Memory) -> None:
        self.by_uid[memory.uid] = memory
        for group in self._groups(memory):
            group.append(memory)

    def _unindex(self, memory: Memory) -> None:
        """Call this before the content or the key changes."""
        for group in self._groups(memory):
            group.remove(memory)

    def _groups(self, memory: Memory) -> list[list[Memory]]:
        place = (memory.project, memory.scope, memory.owner)
        same_content = self.by_hash[(memory.content_hash, *place)]
        return [same_content, self.by_key[(memory.key, *place)]] if memory.key else [same_content]

    def store(self, draft: MemoryDraft, history: ImportedHistory | None = None) -> StoreResult:
        owner = rows.resolve_owner(draft.scope, self.actor, history.owner if history else "")
        memory = rows.build_memory(draft, self.actor, self.now, self.imported_at, owner)
        rows.refuse_if_off(memory.project, self.actor, self.off_projects)
        if self.needs_approval:
            return self._store_waiting(memory, draft)
        if history is None:
            return self._store_new(memory, draft)
        if stored := self._find_imported(memory, history):
            same = stored.content_hash == memory.content_hash
            return StoreResult("unchanged" if same else "kept", stored)
        imported_history.apply_history(memory, history, self.now)
        return self._create(memory, draft, memory.copy) if history.uid else self._store_new(memory, draft)

    def _find_imported(self, memory: Memory, history: ImportedHistory) -> Memory | None:
        """Return the stored memory that an imported one equals: the same id, or the same content and place.

        Without an id: a memory with the same content that is at least as new or, if the imported one is in
        the trash or expired, any memory with the same content.
        """
        if history.uid:
            if (stored := self.by_uid.get(history.uid)) is None:
                memory.uid = history.uid
            elif rows.is_known(stored):
                return stored
            wanted = (memory.sensitivity, max(history.copy, 0), memory.key)
            return next(
                (
                    twin
                    for group in self._groups(memory)
                    for twin in group
                    if (twin.sensitivity, twin.copy, twin.key) == wanted and rows.is_known(twin)
                ),
                None,
            )
        twin = rows.strictest_known(self._same_content(memory), memory.content_hash)
        if twin is None or history.has_ended(self.now):
            return twin
        is_current = history.updated_at and history.updated_at <= twin.updated_at
        return twin if is_current and not twin.has_ended(self.now) else None

    def _store_new(self, memory: Memory, draft: MemoryDraft) -> StoreResult:
        if keyed := rows.strictest_known(self._same_key(memory), memory.content_hash):
            return self._upsert(keyed, draft)
        if twin := rows.strictest_known(self._same_content(memory), memory.content_hash):
            return self._refresh(twin, draft)
        return self._create(memory, draft)

    def _store_waiting(self, memory: Memory, draft: MemoryDraft) -> StoreResult:
        """Store a memory that waits for approval, in place of one that waits with the same key.

        The outcome is always ``waiting``: that the same content waits already, or was discarded, is hidden.
        """
        memory.sensitivity = waiting_level(memory.sensitivity)
        waiting = [twin for twin in self._same_content(memory) if twin.sensitivity == memory.sensitivity]
        if waiting:
            return StoreResult("waiting", waiting[0])
        same_key = (twin for twin in self._same_key(memory) if twin.sensitivity == memory.sensitivity)
        if earlier := next(same_key, None):
            level = draft.model_copy(update={"sensitivity": memory.sensitivity})
            return StoreResult("waiting", self._upsert(earlier, level).memory)
        return StoreResult("waiting", self._create(memory, draft).memory)

    def _same_key(self, memory: Memory) -> list[Memory]:
        return self._groups(memory)[1] if memory.key else []

    def _same_content(self, memory: Memory) -> list[Memory]:
        """Return the memories with the same content, except those with another key."""
        return [twin for twin in self._groups(memory)[0] if not memory.key or not twin.key]

    def _create(self, memory: Memory, draft: MemoryDraft, copy: int | None = None) -> StoreResult:
        """Add a new memory. ``copy``: the copy number that it takes if that is free."""
        memory.known = True  # type: ignore[attr-defined]
        self._set_copy_number(memory, copy)
        self.new.append((memory, draft))
        self._index(memory)
        pin = {"pinned": True} if memory.pinned else {}
        self.changes.append(journal.memory_change("insert", memory, **pin))
        return StoreResult("created", memory)

    def _refresh(self, memory: Memory, draft: MemoryDraft) -> StoreResult:
        """Update date, level, expiry and pin of a memory that is stored again with the same content."""
        detail = self._revive(memory)
        if draft.pinned and not memory.pinned:
            memory.pinned, detail["pinned"] = True, True
        memory.updated_at = max(memory.updated_at, draft.created_at or self.now)
        if "ttl_days" in draft.given:
            memory.ttl_days = draft.ttl_days or None
        rows.restart_expiry(memory, self.now)
        self._unindex(memory)
        was = memory.sensitivity
        key, level = memory.key or draft.key, stricter_level(was, draft.sensitivity.value)
        if (key, level) != (memory.key, was):
            memory.key, memory.sensitivity = key, level
            self._set_copy_number(memory)
        self._index(memory)
        if memory.pk is not None:
            memory.save(update_fields=_REFRESHED_FIELDS)
        self.changes.append(journal.memory_change("dedup_refresh", memory, **detail))
        if memory.pk is not None and level != was:
            self._add(raise_merged(memory, was, self.actor, self.now))
        return StoreResult("refreshed", memory, revived="revived" in detail)

    def _upsert(self, memory: Memory, draft: MemoryDraft) -> StoreResult:
        """Set the given fields of a memory that is stored again under its key. Never lowers the level."""
        if memory.pk is None:
            self.save()
        level = draft.sensitivity.value if "sensitivity" in draft.given else memory.sensitivity
        patch = draft.model_copy(update={"sensitivity": stricter_level(level, memory.sensitivity)})
        detail = self._revive(memory)
        rows.restart_expiry(memory, self.now)
        self._unindex(memory)
        changes = apply_patch(memory, patch, draft.given, self.actor, self.now, reason="upsert", **detail)
        self._index(memory)
        memory.updated_at = max(memory.updated_at, self.now)
        memory.save()
        self.vectors.refresh(memory)
        self._add(changes or [journal.memory_change("dedup_refresh", memory, **detail)])
        return StoreResult("updated", memory, revived=bool(detail))

    def _add(self, changes: list[journal.Change]) -> None:
        """Collect changes. Read the levels of memories of the batch that were raised with another one."""
        self.changes += changes
        for change in changes:
            if change.detail.get("reason") == RAISED_REASON and (one := self.by_uid.get(change.object_id)):
                one.refresh_from_db(fields=["sensitivity", "copy"])

    def _revive(self, memory: Memory) -> dict[str, Any]:
        """Take the memory out of the trash. Return the journal detail if it was there or had expired."""
        had_ended = memory.has_ended(self.now)
        memory.deleted_at, memory.trash_reason, memory.merged_into = None, "", None
        if not had_ended:
            return {}
        self.revived.append(memory)
        return {"revived": True}

    def _set_copy_number(self, memory: Memory, copy: int | None = None) -> None:
        """Set a copy number that no twin of the same level has. The actor may not know of these twins."""
        others = [twin for group in self._groups(memory) for twin in group]
        if memory.pk:  # it changes to a level or key whose twins were not loaded
            others += find_twins(memory)
        taken = {(twin.copy, twin.key) for twin in others if twin.sensitivity == memory.sensitivity}
        if copy is None or (copy, memory.key) in taken:
            copy = max((number for number, _ in taken), default=-1) + 1
        memory.copy = copy

    def added(self) -> list[Memory]:
        """Return the new memories and those that came back from the trash or had expired."""
        return [*(memory for memory, _ in self.new), *self.revived]

    def save(self) -> None:
        """Write the rows that were collected since the last call."""
        pending = self.new[self.saved :]
        memories = [memory for memory, _ in pending]
        bulk.insert_objects(memories)
        self.vectors.insert(memories)
        rows.save_lists(pending)
        rows.extend_sessions(memories, self.actor)
        journal.record(self.actor, self.changes, self.now, after=self.journal_end)
        self.saved, self.changes, self.journal_end = len(self.new), [], None
