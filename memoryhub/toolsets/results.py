"""Results of writes, for the API and the tools.

Writers may store rows above their clearance, but not read them. If such a row exists already, the response
only repeats the input of the writer.
"""

from __future__ import annotations

from collections.abc import Set
from datetime import datetime
from typing import Any

from django.http import Http404
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.facts import services
from memoryhub.memories import serializers
from memoryhub.memories.rows import LIST_FIELDS, list_values, unite_values
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.memories.versions import current_value
from memoryhub.models import Fact, Memory


def trash_memory(uid: str, actor: Actor) -> dict[str, Any]:
    """Move a memory to the trash. Raise Http404 if the actor sees no such memory."""
    if not memories.trash_memories([uid], actor):
        raise Http404
    return {"id": uid, "outcome": "trashed"}


_IDENTITY_FIELDS = frozenset({"content", "project", "scope", "key"})  # fields that identify a repeat


def merge_repeat(
    result: memories.StoreResult,
    draft: MemoryDraft,
    actor: Actor,
    *,
    replaced: Set[str] = frozenset(),
    applied: Set[str] = frozenset(),
) -> list[str]:
    """Merge the given fields into a memory that was stored again with the same content.

    Lists are united, a higher importance and the ``replaced`` fields are set. Return the names of the given
    fields that differ from those of the memory, except ``applied`` ones. A hidden memory stays as it is.
    """
    if result.outcome == "created":
        return []
    given = draft.given - _IDENTITY_FIELDS - applied
    memory = Memory.objects.visible_to(actor.clearance).filter(pk=result.memory.pk).first()
    if memory is None:  # storing by key has set the fields, storing the content has not
        given &= {"created_at"} if result.outcome == "updated" else given - {"ttl_days", "sensitivity"}
        return sorted(given)
    values: dict[str, Any] = {}
    if result.outcome == "refreshed":
        values = {name: getattr(draft, name) for name in given & replaced}
        for name in given & set(LIST_FIELDS) - replaced:
            values[name] = unite_values(name, list_values(memory, name), draft.model_dump()[name])
        if "importance" in given - replaced and draft.importance > memory.importance:
            values["importance"] = draft.importance
    if values:
        memory = memories.update_memory(memory.uid, MemoryPatch.model_validate(values), actor)
        result.memory.refresh_from_db()
    return sorted(name for name in given if _differs(memory, name, draft, actor))


def _differs(memory: Memory, name: str, draft: MemoryDraft, actor: Actor) -> bool:
    """Return whether a memory lacks a given value or item. Nothing lacks an empty value."""
    value = draft.model_dump(include={name})[name]
    if name == "ttl_days":
        return bool(memory.ttl_days != (value or None))
    if value in (None, "", []):
        return False
    current = getattr(memory, name) if name == "created_at" else current_value(memory, name, actor.clearance)
    return any(item not in current for item in value) if name in LIST_FIELDS else value != current


def update_with_outcome(
    uid: str, patch: MemoryPatch, actor: Actor, unchanged_since: datetime | None = None
) -> tuple[Memory, str]:
    """Update a memory; return it with ``updated`` or ``unchanged``."""
    now = timezone.now()
    memory = memories.update_memory(uid, patch, actor, now, unchanged_since=unchanged_since)
    return memory, "updated" if memory.updated_at == now else "unchanged"


def store_fact_with_outcome(draft: FactDraft, actor: Actor) -> dict[str, Any]:
    """Store a fact; return ``outcome``, ``id`` and ``fact``.

    An existing fact that the writer may not read looks like a new one.
    """
    fact, created = services.create_fact(draft, actor)
    if created or Fact.objects.visible_to(actor.clearance).filter(pk=fact.pk).exists():
        return {
            "outcome": "created" if created else "updated",
            "id": fact.uid,
            "fact": serializers.fact(fact),
        }
    sent = draft.model_dump(mode="json", exclude=set(draft.model_extra or {}))
    return {"outcome": "created", "id": fact.uid, "fact": {"id": fact.uid, **sent, "project": fact.project}}
