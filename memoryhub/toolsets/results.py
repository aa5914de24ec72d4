"""Results of writes, for the API and the tools.

Anyone may store above their clearance, but no one may read there. For an existing row above it, the writer
gets nothing back but their own input.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone

from memoryhub import memories, serializers
from memoryhub.access.policy import Actor
from memoryhub.audit.journal import record_reveals
from memoryhub.facts import services
from memoryhub.memories.replacements import visible_replacements
from memoryhub.memories.rows import LIST_FIELDS
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import Fact, Memory

_UNCHANGED_OUTCOMES = ("refreshed", "skipped")  # reads that the journal does not record as writes
_CALLER_FIELDS = ("project", "scope", "content_hash")


def serialize_written_memory(
    result: memories.StoreResult, draft: MemoryDraft, actor: Actor
) -> dict[str, Any]:
    """Return the memory; if the writer may not read it, only the id and what the writer sent.

    The rest of such a memory may have been added by someone else.
    """
    memory = result.memory
    if result.outcome == "created":
        lists = draft.model_dump(include=set(LIST_FIELDS))
        replacements = visible_replacements([memory], actor.clearance)
        sorted_lists = {name: _sort_values(values) for name, values in lists.items()}
        return serializers.memory(memory, replacements, sorted_lists)
    if Memory.objects.visible_to(actor.clearance).filter(pk=memory.pk).exists():
        if result.outcome in _UNCHANGED_OUTCOMES:
            record_reveals([memory], actor, "store")
        return serializers.memories([memory], actor.clearance)[0]
    return {"id": memory.uid, **{name: getattr(memory, name) for name in _CALLER_FIELDS}}


def serialize_memory(memory: Memory, actor: Actor) -> dict[str, Any]:
    """Return a memory as its writer may see it."""
    return serializers.memory(memory, visible_replacements([memory], actor.clearance))


def write_warnings(memory: Memory) -> dict[str, list[str]]:
    """Return the warnings about a write as a part of its response; empty if there are none."""
    return {"warnings": ["over_cap"]} if memory.over_cap else {}


def _sort_values(values: list[Any]) -> list[Any]:
    """Sort a list field as a stored memory has it."""
    return sorted(values, key=lambda value: tuple(value.values()) if isinstance(value, dict) else (value,))


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
