"""Storing: deduplication by content, upsert by key, sessions, the cap."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.utils import timezone

from memoryhub import journal
from memoryhub.drafts import MemoryDraft
from memoryhub.models import Memory, Session
from memoryhub.querysets import memory_gate
from memoryhub.search import bulk
from memoryhub.sensitivity import LEVELS, Actor, higher, rank
from memoryhub.store import rows
from memoryhub.store.change import apply
from memoryhub.store.errors import StoreError
from memoryhub.store.removal import evict_over_cap

_Group = tuple[str, str, str, str]  # content hash or key, project, scope, owner


@dataclass(frozen=True)
class Outcome:
    """``created``, ``refreshed`` (same content), ``updated`` (same key), ``merged`` or ``skipped``."""

    outcome: str
    memory: Memory


def remember(draft: MemoryDraft, actor: Actor, now: datetime | None = None) -> Outcome:
    """Store one memory; :class:`StoreError` when it is refused."""
    [result] = remember_many([draft], actor, now)
    if isinstance(result, StoreError):
        raise result
    return result


def remember_many(
    drafts: Sequence[MemoryDraft], actor: Actor, now: datetime | None = None, *, hold_cap: bool = True
) -> list[Outcome | StoreError]:
    """Store drafts in order in one transaction; a refused one does not lose the others.

    ``hold_cap=False`` is for imports by a person: the cap bounds what agents pile up.
    """
    now = now or timezone.now()
    results: list[Outcome | StoreError] = []
    with transaction.atomic():
        batch = _Batch(actor, now)
        batch.look_up(drafts)
        for draft in drafts:
            try:
                results.append(batch.take(draft))
            except StoreError as refusal:
                results.append(refusal)
        batch.save()
        if hold_cap:
            evict_over_cap(batch.added(), actor, now)
    return results


@dataclass
class _Batch:
    """The writes of one call, collected so that a thousand memories take a handful of statements."""

    actor: Actor
    now: datetime
    fresh: list[tuple[Memory, MemoryDraft]] = field(default_factory=list)
    saved: int = 0
    changes: list[journal.Change] = field(default_factory=list)
    by_hash: dict[_Group, list[Memory]] = field(default_factory=lambda: defaultdict(list))
    by_key: dict[_Group, list[Memory]] = field(default_factory=lambda: defaultdict(list))

    def look_up(self, drafts: Sequence[MemoryDraft]) -> None:
        """Every stored twin of the drafts; ``known`` tells those that the actor may know of."""
        hashes = [rows.content_hash(draft.content) for draft in drafts]
        keys = [draft.key for draft in drafts if draft.key]
        if not keys and not Memory.objects.filter(content_hash__in=hashes).exists():
            return  # the usual case, told by a query that costs a quarter of the one below
        twins = Q(content_hash__in=hashes)
        if keys:
            twins |= Q(key__in=keys)
        known = memory_gate(self.actor.clearance) | Q(author=self.actor.name)
        found = Memory.objects.filter(twins).annotate(known=ExpressionWrapper(known, BooleanField()))
        for memory in found:
            self._shelve(memory)

    def _shelve(self, memory: Memory) -> None:
        place = (memory.project, memory.scope, memory.owner)
        self.by_hash[(memory.content_hash, *place)].append(memory)
        if memory.key:
            self.by_key[(memory.key, *place)].append(memory)

    def take(self, draft: MemoryDraft) -> Outcome:
        memory = rows.build(draft, self.actor, self.now)
        place = (memory.project, memory.scope, memory.owner)
        same_key = self.by_key.get((memory.key, *place), []) if memory.key else []
        if keyed := _highest(same_key):
            return self._upsert(keyed, draft)
        copies = self.by_hash.get((memory.content_hash, *place), [])
        # A memory without a key is the same as any with these words; a key of its own makes it another.
        twins = [twin for twin in copies if not memory.key or not twin.key]
        if twin := _highest(twins):
            return self._refresh(twin, draft)
        memory.copy = _free_copy([*copies, *same_key], memory.sensitivity)
        return self._create(memory, draft)

    def _create(self, memory: Memory, draft: MemoryDraft) -> Outcome:
        memory.known = True  # type: ignore[attr-defined]
        self.fresh.append((memory, draft))
        self._shelve(memory)
        self.changes.append(journal.of_memory("insert", memory))
        return Outcome("created", memory)

    def _refresh(self, memory: Memory, draft: MemoryDraft) -> Outcome:
        """The same words again: a newer date, the higher level, a new lease of life."""
        detail = {"revived": True} if memory.deleted_at or _is_expired(memory, self.now) else {}
        memory.updated_at = max(memory.updated_at, draft.created_at or self.now)
        if "ttl_days" in draft.given:
            memory.ttl_days = draft.ttl_days or None
        memory.expires_at = rows.expiry(memory.ttl_days, self.now)
        memory.deleted_at, memory.trash_reason, memory.merged_into = None, "", None
        memory.key = memory.key or draft.key
        self._raise_level(memory, draft.sensitivity.value)
        self._save_unless_fresh(memory)
        self.changes.append(journal.of_memory("dedup_refresh", memory, **detail))
        return Outcome("refreshed", memory)

    def _upsert(self, memory: Memory, draft: MemoryDraft) -> Outcome:
        """The same key again: what is given replaces what was; the level never falls."""
        if memory.pk is None:
            self.save()
        level = draft.sensitivity.value if "sensitivity" in draft.given else memory.sensitivity
        patch = draft.model_copy(update={"sensitivity": higher(level, memory.sensitivity)})
        memory.deleted_at, memory.trash_reason, memory.merged_into = None, "", None
        memory.expires_at = rows.expiry(memory.ttl_days, self.now)
        changes = apply(memory, patch, draft.given, self.actor, self.now, reason="upsert")
        memory.updated_at = max(memory.updated_at, self.now)
        memory.save()
        self.changes += changes or [journal.of_memory("dedup_refresh", memory)]
        return Outcome("updated", memory)

    def _raise_level(self, memory: Memory, level: str) -> None:
        if rank(level) > rank(memory.sensitivity):
            place = (memory.project, memory.scope, memory.owner)
            others = [m for m in self.by_hash[(memory.content_hash, *place)] if m is not memory]
            memory.copy = _free_copy(others, level)
            memory.sensitivity = level

    def _save_unless_fresh(self, memory: Memory) -> None:
        if memory.pk is not None:
            memory.save()

    def added(self) -> Counter[str]:
        """How many new memories each project got."""
        return Counter(memory.project for memory, _ in self.fresh)

    def save(self) -> None:
        """Write what was collected so far."""
        pending = self.fresh[self.saved :]
        bulk.insert_objects([memory for memory, _ in pending])
        rows.save_details(pending)
        widen_sessions((memory for memory, _ in pending), self.actor)
        journal.record(self.actor, self.changes, self.now)
        self.saved, self.changes = len(self.fresh), []


def widen_sessions(memories: Iterable[Memory], actor: Actor) -> None:
    """A session row for each session that the memories name, spanning their times."""
    spans: dict[tuple[str, str], list[datetime]] = defaultdict(list)
    for memory in memories:
        if memory.session_id:
            spans[(memory.session_id, memory.project)].append(memory.created_at)
    if spans:
        Session.widen([(sid, project, min(times), max(times)) for (sid, project), times in spans.items()], actor.name)


def _highest(twins: Iterable[Memory]) -> Memory | None:
    """Of the twins the actor may know of, the one under the strictest level; an unknown level is nobody's."""
    known = [twin for twin in twins if twin.known and twin.sensitivity in LEVELS]  # type: ignore[attr-defined]
    return max(known, key=lambda twin: rank(twin.sensitivity), default=None)


def _free_copy(twins: Iterable[Memory], level: str) -> int:
    """0, or the next number beside twins of this level that the writer may not know of."""
    return max((twin.copy + 1 for twin in twins if twin.sensitivity == level), default=0)


def _is_expired(memory: Memory, now: datetime) -> bool:
    return memory.expires_at is not None and memory.expires_at <= now
