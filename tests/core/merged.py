"""What the tests of merging look at: all that is stored of a memory, and who sees little of it."""

from __future__ import annotations

from typing import Any

from memoryhub.models import Memory
from memoryhub.sensitivity import Actor, Clearance
from memoryhub.store.rows import LISTS, listed


def whole(memory: Memory) -> dict[str, Any]:
    """Everything that is stored of a memory but its revisions."""
    fresh = Memory.objects.get(pk=memory.pk)
    columns = {field.attname: getattr(fresh, field.attname) for field in Memory._meta.concrete_fields}
    return columns | {name: listed(fresh, name) for name in LISTS}


def public() -> Actor:
    return Actor("token:public", Clearance())


def uids(memories: list[Memory]) -> list[str]:
    return [memory.uid for memory in memories]
