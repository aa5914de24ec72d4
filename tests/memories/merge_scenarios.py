"""Helpers for the tests of merging."""

from __future__ import annotations

from typing import Any

from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.rows import LIST_FIELDS, list_values
from memoryhub.models import Memory


def whole(memory: Memory) -> dict[str, Any]:
    """Return everything that is stored about a memory, except its revisions."""
    fresh = Memory.objects.get(pk=memory.pk)
    columns = {field.attname: getattr(fresh, field.attname) for field in Memory._meta.concrete_fields}
    return columns | {name: list_values(fresh, name) for name in LIST_FIELDS}


def public() -> Actor:
    return Actor("token:public", Clearance())


def uids(memories: list[Memory]) -> list[str]:
    return [memory.uid for memory in memories]
