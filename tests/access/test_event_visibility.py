"""Visibility of events that became memories, while the memory is live and afterwards."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Clearance
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Event, Memory, Session
from memoryhub.stats.timeline import load_timeline

ALL, PUBLIC = Clearance.up_to("secret", owner="ada"), Clearance()


@pytest.fixture
def captured(remember):
    memory = remember("a quiet failure", session_id="s", project="p", ttl_days=5)
    remember("something else that keeps the session in sight", session_id="s", project="p")
    return Event.objects.create(
        session=Session.objects.get(),
        event="tool:post",
        tool_name="Bash",
        memory=memory,
        preview="a quiet failure",
        keywords=["quiet"],
        files=["src/quiet.py"],
        handlers=[{"name": "capture", "status": "ok", "detail": "a quiet failure"}],
    )


def seen(clearance=ALL):
    return list(Event.objects.visible_to(clearance))


def test_event_of_a_live_memory_is_visible(captured):
    assert seen() == [captured]


def test_event_is_hidden_while_its_memory_is_in_the_trash(captured, actor):
    memories.trash_memories([captured.memory.uid], actor)
    assert seen() == []
    entries, _ = load_timeline(ALL, MemoryFilter(session_id="s"))
    assert not [entry for entry in entries if entry.kind == "event"]
    memories.restore_memories([captured.memory.uid], actor)
    assert seen() == [captured]


def test_event_expires_with_its_memory(captured):
    Memory.objects.filter(pk=captured.memory.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert seen() == []


def test_event_of_an_erased_memory_has_no_text(captured, actor):
    memories.erase_memories([captured.memory.uid], actor)
    [left] = seen()
    assert (left.preview, left.keywords, left.files, left.handlers) == ("", [], [], [])
    assert left.tool_name == "Bash"


def test_event_of_an_erased_memory_keeps_the_level(captured, actor):
    memories.update_memory(captured.memory.uid, MemoryPatch(sensitivity="secret"), actor)
    memories.erase_memories([captured.memory.uid], actor)
    assert seen(PUBLIC) == []
    assert [event.sensitivity for event in seen()] == ["secret"]


def test_event_stricter_than_its_memory_keeps_its_level(captured, actor):
    Event.objects.update(sensitivity="private")
    memories.erase_memories([captured.memory.uid], actor)
    assert [event.sensitivity for event in seen()] == ["private"]


@pytest.mark.parametrize("level", ["private", "secret", "cosmic"])
def test_event_of_a_hidden_level_is_hidden(captured, level):
    Event.objects.update(sensitivity=level)
    assert seen(PUBLIC) == []
    assert len(seen()) == (level != "cosmic")
