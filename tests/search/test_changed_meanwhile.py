"""A memory whose level rises during a search or an injection is not returned."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.injection import candidates, project_page
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.rows import load_lists
from memoryhub.models import Memory
from memoryhub.search import hybrid
from memoryhub.search.hybrid import search_memories
from memoryhub.stats.timeline import load_timeline, serialize_entries


@pytest.fixture
def zebra(remember: Callable[..., Memory]) -> Memory:
    fields: dict[str, Any] = {"project": "zoo", "type": "decision", "files_read": ["zoo.py"]}
    return remember("The zebra in the zoo eats grass", importance=0.9, **fields)


@pytest.fixture
def raise_level_before(monkeypatch: pytest.MonkeyPatch, zebra: Memory) -> Callable[[ModuleType, str], None]:
    """Let another caller make the memory secret just before a function of a module is called."""

    def patch(module: ModuleType, name: str) -> None:
        usual = getattr(module, name)

        def call(*arguments: Any) -> Any:
            Memory.objects.filter(pk=zebra.pk).update(sensitivity="secret", content="The zebra escaped")
            return usual(*arguments)

        monkeypatch.setattr(module, name, call)

    return patch


def public() -> Any:
    return Memory.objects.visible_to(Clearance()).live()


def test_search_does_not_return_it(zebra, raise_level_before):
    assert [hit.memory for hit in search_memories(public(), "zebra").hits] == [zebra]
    raise_level_before(hybrid, "load_memories")
    assert search_memories(public(), "zebra").hits == []


def test_prompt_does_not_receive_it(zebra, raise_level_before):
    prompt, now = "What does the zebra eat?", timezone.now()
    assert [one.memory for one in candidates.find_candidates(public(), prompt, now)] == [zebra]
    raise_level_before(candidates, "load_memories")
    assert candidates.find_candidates(public(), prompt, now) == []


def test_tool_call_does_not_receive_it(zebra, raise_level_before):
    call = (Clearance(), ["zoo.py"], "", "zoo", "s", timezone.now())
    assert [one.memory for one in candidates.find_about_files(*call)] == [zebra]
    raise_level_before(candidates, "load_memories")
    assert candidates.find_about_files(*call) == []


def test_page_of_the_project_does_not_contain_its_new_text(zebra, raise_level_before):
    def lines() -> str:
        return str(project_page.find_entries("zoo", Clearance(), timezone.now()))

    assert "zebra" in lines()
    raise_level_before(project_page, "_memory_entries")
    assert "escaped" not in lines()


def test_lists_of_a_memory_that_becomes_secret_are_not_read_later(zebra):
    listed = list(public())
    assert load_lists(listed)[zebra.pk]["files_read"] == ["zoo.py"]
    Memory.objects.filter(pk=zebra.pk).update(sensitivity="secret")
    assert load_lists(listed)[zebra.pk]["files_read"] == []


def test_timeline_does_not_contain_its_new_lists(zebra):
    entries, _ = load_timeline(Clearance(), MemoryFilter(), limit=10, cursor=None)
    Memory.objects.filter(pk=zebra.pk).update(sensitivity="secret")
    [shown] = [entry["memory"] for entry in serialize_entries(entries, Clearance()) if "memory" in entry]
    assert shown["files_read"] == []
