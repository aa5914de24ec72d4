"""Memories that may be outdated, in injections: later, marked or withheld."""

from __future__ import annotations

import pytest
from django.utils import timezone

from memoryhub.injection.candidates import OUTDATED_FACTOR
from memoryhub.injection.requests import InjectionRequest
from memoryhub.injection.services import inject_at_session_start
from memoryhub.models import Memory
from memoryhub.search.hybrid import search_memories
from tests.injection.conftest import reasons, uids

ZEBRA = "Zebra stripes confuse flies"
NOTE = 'note="may be outdated'


@pytest.fixture
def marked(remember) -> Memory:
    memory = remember(ZEBRA)
    Memory.objects.filter(pk=memory.pk).update(outdated_at=timezone.now())
    return memory


def test_memory_is_injected_with_the_mark(marked, ask):
    found = ask()
    assert uids(found) == {marked.uid}
    assert NOTE in found.context


def test_memory_without_the_mark_has_no_note(remember, ask):
    remember(ZEBRA)
    assert "note=" not in ask().context


def test_setting_withholds_marked_memories(marked, ask, configure):
    configure(outdated_memories="withhold")
    found = ask()
    assert found.context == ""
    assert reasons(found) == {marked.uid: "may be outdated"}


def test_pinned_memory_is_injected_although_it_is_marked(marked, actor, configure):
    configure(outdated_memories="withhold")
    Memory.objects.update(pinned_at=timezone.now(), project="p")
    found = inject_at_session_start(InjectionRequest("", session_id="s", project="p"), actor)
    assert NOTE in found.context


def test_marked_memory_comes_after_an_equal_one_and_keeps_its_score(marked, remember, ask):
    fresh = remember("Zebra stripes confuse lions")
    found = ask()
    assert [one.uid for one in found.injected] == [fresh.uid, marked.uid]
    assert found.injected[1].factor == OUTDATED_FACTOR
    assert abs(found.injected[0].score - found.injected[1].score) < 0.05


@pytest.mark.parametrize(("setting", "shown"), [("mark", True), ("withhold", False)])
def test_line_of_the_page_has_the_mark_or_is_withheld(remember, actor, configure, setting, shown):
    configure(outdated_memories=setting)
    remember("We deploy on Mondays", type="decision", project="p", importance=0.5)
    Memory.objects.update(outdated_at=timezone.now())
    found = inject_at_session_start(InjectionRequest("", session_id="s", project="p"), actor)
    assert ("We deploy on Mondays (may be outdated)" in found.context) == shown


def test_search_keeps_the_documented_scores(marked, remember):
    def found():
        return search_memories(Memory.objects.all(), "zebra stripes").hits

    remember("Zebra stripes confuse lions")
    before = [(hit.memory.uid, round(hit.score, 3)) for hit in found()]
    Memory.objects.update(outdated_at=None)
    assert [(hit.memory.uid, round(hit.score, 3)) for hit in found()] == before
