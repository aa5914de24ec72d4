"""What the tests of ``doctor`` do again and again: fill a store, and look at one check."""

from __future__ import annotations

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.management.commands.doctor import CHECKS
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Memory
from memoryhub.ops.doctor import Check, Finding

WRITER = Actor("token:writer", Clearance.up_to("secret", "ada"))


def remember(content: str = "words", **fields: object) -> Memory:
    return memories.create_memory(MemoryDraft(content=content, **fields), WRITER).memory


def look(one: Check) -> Finding:
    """The only finding of a check."""
    [found] = one.findings()
    return found


def look_first(name: str) -> Finding:
    return named(name).findings()[0]


def named(name: str) -> Check:
    return next(one for one in CHECKS if one.name == name)
