"""What a writer is told of what it wrote.

Anyone may store above their clearance and nobody may read there: of a row that was there before, such a
writer learns nothing that it did not bring.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone

from memoryhub import memories, serializers
from memoryhub.access.policy import Actor
from memoryhub.audit.reveals import record_reveals
from memoryhub.facts import services
from memoryhub.memories.rows import LIST_FIELDS
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import Fact, Memory

_UNCHANGED_OUTCOMES = ("refreshed", "skipped")  # of others the journal has what was written
_CALLER_FIELDS = ("project", "scope", "content_hash")


def serialize_written_memory(done: memories.StoreResult, draft: MemoryDraft, actor: Actor) -> dict[str, Any]:
    """The memory; of one that the writer may not read no more than it brought: a curator may have added."""
    memory = done.memory
    if done.outcome == "created":
        brought = draft.model_dump(include=set(LIST_FIELDS))
        return serializers.memory(memory, {name: _sort_values(values) for name, values in brought.items()})
    if Memory.objects.visible_to(actor.clearance).filter(pk=memory.pk).exists():
        if done.outcome in _UNCHANGED_OUTCOMES:
            record_reveals([memory], actor, "store")
        return serializers.memories([memory])[0]
    return {"id": memory.uid, **{name: getattr(memory, name) for name in _CALLER_FIELDS}}


def write_warnings(memory: Memory) -> dict[str, list[str]]:
    """Return the warnings about a write as a part of its answer; empty where there are none."""
    return {"warnings": ["over_cap"]} if memory.over_cap else {}


def _sort_values(values: list[Any]) -> list[Any]:
    """As the lists of a stored memory come."""
    return sorted(values, key=lambda value: tuple(value.values()) if isinstance(value, dict) else (value,))


def update_with_outcome(
    uid: str, patch: MemoryPatch, actor: Actor, unchanged_since: datetime | None = None
) -> tuple[Memory, str]:
    """The memory as it is now, and ``updated`` or ``unchanged``."""
    now = timezone.now()
    memory = memories.update_memory(uid, patch, actor, now, unchanged_since=unchanged_since)
    return memory, "updated" if memory.updated_at == now else "unchanged"


def store_fact_with_outcome(draft: FactDraft, actor: Actor) -> dict[str, Any]:
    """``outcome``, ``id`` and ``fact``; one that the writer may not read is never told from a new one."""
    fact, created = services.create_fact(draft, actor)
    if created or Fact.objects.visible_to(actor.clearance).filter(pk=fact.pk).exists():
        return {
            "outcome": "created" if created else "updated",
            "id": fact.uid,
            "fact": serializers.fact(fact),
        }
    brought = draft.model_dump(mode="json", exclude=set(draft.model_extra or {}))
    shown = {"id": fact.uid, **brought, "project": fact.project}
    return {"outcome": "created", "id": fact.uid, "fact": shown}
