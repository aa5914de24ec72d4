"""The journal's rows about one memory in sight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.history import journal_of
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import JournalEntry, Memory


@pytest.mark.parametrize("level", ["public", "private", "secret"])
def test_they_are_those_that_the_whole_gate_gives(
    remember: Callable[..., Memory], actor: Actor, level: str
) -> None:
    memory = remember("first")
    memories.update(memory.uid, MemoryPatch(content="second", sensitivity="secret"), actor)
    memories.update(memory.uid, MemoryPatch(content="third", sensitivity="public"), actor)
    remember("another memory")
    clearance = Clearance.up_to(level, "bob")
    whole: Any = JournalEntry.objects.visible_to(clearance).filter(object_type="memory", object_id=memory.uid)
    assert list(journal_of(memory, clearance)) == list(whole.order_by("-seq"))
    assert whole.count() == {"public": 2, "private": 2, "secret": 3}[level]
