"""Historical fields of imported memories (accesses, revisions, evidence) that API clients cannot set."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Self

from django.db.models import Model
from django.utils import timezone
from pydantic import ValidationError

from memoryhub.access.policy import LEVELS, Actor
from memoryhub.audit import journal
from memoryhub.core.dates import expiry_time
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories.errors import Conflict, NotFound, StoreError
from memoryhub.memories.replacements import SUPERSEDED_BY, refuse_cycle
from memoryhub.memories.rows import CHUNK_SIZE, LIST_FIELDS, SCALAR_FIELDS, fetch_by_uid, visible_replacements
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.memories.secret_check import MEMORY_FIELDS, find_refusal
from memoryhub.models import AbsenceSpan, CodeReference, Evidence, Memory, Revision

# Accepted only from actors with permission to restore a store.
RESTORE_ONLY_FIELDS = ("uid", "author", "owner", "copy", "flags", "reviewed_at", "scale", "consolidated_at")


@dataclass(frozen=True, slots=True)
class ImportedHistory:
    """The history of a memory or fact that is new here. ``None``, 0 and empty mean unknown.

    Moments have a time zone. ``deleted_at``: in the trash since then, for ``trash_reason``. ``expires_at``
    replaces the expiry that follows from ``ttl_days``; if it is in the past, the memory is expired.
    ``valid_from`` and ``valid_until`` belong to facts. With a ``uid`` the memory or fact gets this id, by
    which a second import finds it, and the number ``copy`` among those with the same content.
    """

    updated_at: datetime | None = None
    accessed_count: int = 0
    last_accessed_at: datetime | None = None
    expires_at: datetime | None = None
    deleted_at: datetime | None = None
    trash_reason: str = ""
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    created_at: datetime | None = None
    uid: str = ""
    author: str = ""
    owner: str = ""
    copy: int = 0
    flags: tuple[str, ...] = ()
    reviewed_at: datetime | None = None
    scale: str = ""
    consolidated_at: datetime | None = None
    consolidated_accesses: int = 0
    outdated_at: datetime | None = None
    shown_count: int = 0
    helped_count: int = 0

    def anonymous(self) -> Self:
        """Return the history without the fields that need the permission to restore a store."""
        blank: dict[str, Any] = {f.name: f.default for f in fields(self) if f.name in RESTORE_ONLY_FIELDS}
        return replace(self, **blank)

    def has_ended(self, now: datetime) -> bool:
        """In the trash, or expired."""
        is_expired = self.expires_at is not None and self.expires_at <= expiry_time(now)
        return self.deleted_at is not None or is_expired


_TIMESTAMP_FIELDS = ("updated_at", "last_accessed_at", "reviewed_at", "consolidated_at", "outdated_at")
_MAX_COUNT = 2_000_000_000
_REVISION_FIELDS = frozenset({*SCALAR_FIELDS, *LIST_FIELDS, "superseded_by"})


def apply_history(memory: Memory, past: ImportedHistory, now: datetime) -> None:
    """Set the history of an unsaved memory. Moments in the future become now."""
    for name in _TIMESTAMP_FIELDS:
        if moment := getattr(past, name):
            setattr(memory, name, min(moment, now))
    memory.accessed_count = min(max(past.accessed_count, 0), _MAX_COUNT)
    memory.consolidated_accesses = min(max(past.consolidated_accesses, 0), _MAX_COUNT)
    memory.shown_count = min(max(past.shown_count, 0), _MAX_COUNT)
    memory.helped_count = min(max(past.helped_count, 0), memory.shown_count)
    if past.expires_at and not memory.pinned:
        memory.expires_at = past.expires_at
    if past.deleted_at:
        memory.deleted_at = min(past.deleted_at, now)
        known = past.trash_reason in TrashReason._value2member_map_
        memory.trash_reason = past.trash_reason if known else TrashReason.FORGOTTEN.value
    memory.author = past.author or memory.author
    memory.flags = list(past.flags)
    memory.scale = past.scale
    memory.copy = max(past.copy, 0)


FoundRow = tuple[str, dict[str, Any]]  # the id of a memory, and the values of a row about it
Outcome = bool | StoreError  # of an imported row: whether it is new, or why it is refused


def _import_rows(
    found: Sequence[FoundRow], actor: Actor, store: Callable[[Memory, dict[str, Any]], bool]
) -> list[Outcome]:
    """Call ``store`` with the memory and the values of each row."""
    memories = fetch_by_uid(Memory.objects.visible_to(actor.clearance), (uid for uid, _ in found))
    results: list[Outcome] = []
    for uid, values in found:
        try:
            if uid not in memories:
                raise NotFound("its memory is not in this store", "memory_id")
            results.append(store(memories[uid], values))
        except StoreError as refusal:
            results.append(refusal)
    return results


def import_revisions(found: Sequence[FoundRow], actor: Actor) -> list[Outcome]:
    """Store earlier versions, inside a transaction. False: already stored."""
    return _import_new_rows(Revision, ("number",), found, actor, _validate_revision)


def import_evidence(found: Sequence[FoundRow], actor: Actor) -> list[Outcome]:
    """Store which sessions stored a memory, inside a transaction. False: already stored."""
    return _import_new_rows(Evidence, ("session_id",), found, actor)


def import_absences(found: Sequence[FoundRow], actor: Actor) -> list[Outcome]:
    """Store times in the trash, inside a transaction. False: already stored."""
    return _import_new_rows(AbsenceSpan, ("began_at", "ended_at"), found, actor)


def _import_new_rows(
    model: type[Model],
    key: tuple[str, ...],
    found: Sequence[FoundRow],
    actor: Actor,
    check: Callable[[dict[str, Any]], None] = lambda values: None,
) -> list[Outcome]:
    """Store rows about memories, except those with the ``key`` of a stored one.

    The keys are compared here: SQLite compares moments as texts, and its trigger writes more digits than
    Django.
    """
    rows = model._default_manager.filter(memory__uid__in={uid for uid, _ in found})
    known = set(rows.values_list("memory__uid", *key))
    fresh = []

    def store(memory: Memory, values: dict[str, Any]) -> bool:
        identity = (memory.uid, *(values[name] for name in key))
        if identity in known:
            return False
        check(values)
        known.add(identity)
        fresh.append(model(memory=memory, **values))
        return True

    results = _import_rows(found, actor, store)
    model._default_manager.bulk_create(fresh, CHUNK_SIZE)
    return results


def _validate_revision(values: dict[str, Any]) -> None:
    """Refuse fields that no memory has, and values of the wrong kind."""
    before = values["before"]
    if strange := sorted(before.keys() - _REVISION_FIELDS):
        raise StoreError(f"names {len(strange)} things that no memory has", "before")
    try:
        MemoryPatch.model_validate(before)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        message = first["msg"].removeprefix("Value error, ")
        raise StoreError(message, ".".join(map(str, ("before", *first["loc"])))) from None
    if values["sensitivity"] not in LEVELS:
        raise StoreError(f"must be one of: {', '.join(LEVELS)}", "sensitivity")


def find_revision_refusal(revision: Any) -> StoreError | None:
    """Return the refusal of a revision that contains a secret. Call this before the transaction."""
    refusal = find_refusal(revision, ("actor", "reason"))
    try:
        patch = MemoryPatch.model_validate(revision.before)
    except ValidationError:
        return refusal  # import_revisions refuses it
    names = [name for name in (*MEMORY_FIELDS, "superseded_by") if name in patch.given]
    return refusal or find_refusal(patch, names)


def import_code_references(found: Sequence[FoundRow], actor: Actor) -> list[Outcome]:
    """Store what memories know of lines of code, inside a transaction.

    False: the memory has lines of this file already.
    """

    def store(memory: Memory, values: dict[str, Any]) -> bool:
        rest = {**values, "basename": posixpath.basename(values["path"])}
        path = rest.pop("path")
        return CodeReference.objects.get_or_create(memory=memory, path=path, defaults=rest)[1]

    return _import_rows(found, actor, store)


def import_merges(found: Sequence[tuple[str, str]], actor: Actor) -> list[Outcome]:
    """Store ``(memory, merged into)`` of trashed memories, inside a transaction. False if already stored."""
    visible = Memory.objects.visible_to(actor.clearance)
    memories = fetch_by_uid(visible, (uid for pair in found for uid in pair))
    results: list[Outcome] = []
    for one, into in found:
        memory, target = memories.get(one), memories.get(into)
        if memory is None or target is None:
            results.append(NotFound("a memory of this merge is not in this store", "memory_id"))
        elif memory.merged_into_id == target.pk:
            results.append(False)
        elif memory.deleted_at is None or memory.merged_into_id or memory == target:
            results.append(Conflict("this memory did not become another one here", "memory_id"))
        else:
            memory.merged_into = target
            memory.save(update_fields=["merged_into"])
            results.append(True)
    return results


def import_replacement(uid: str, by: str, actor: Actor) -> bool:
    """Store the replacement of a memory, inside a transaction. False: already stored.

    Makes a journal row, but no revision: the memories came with theirs. Raise StoreError.
    """
    visible, now = Memory.objects.visible_to(actor.clearance), timezone.now()
    memory, target = visible.filter(uid=uid).first(), visible.filter(uid=by).first()
    if memory is None or target is None:
        raise NotFound("a memory of this replacement is not in this store", "memory_id")
    if memory.superseded_by_id == target.pk:
        return False
    if visible_replacements([memory], actor.clearance):
        raise Conflict("this memory is replaced by another one here", "memory_id")
    changes = refuse_cycle(memory, target.pk, actor, now)
    memory.superseded_by = target
    memory.save(update_fields=[SUPERSEDED_BY])
    change = journal.memory_change("update", memory, fields=[SUPERSEDED_BY], reason="import")
    journal.record(actor, [*changes, change], now)
    return True
