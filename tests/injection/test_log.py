"""The injection log, access counts, and repeated injections."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub import memories
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Injection, JournalEntry, Memory, Session
from tests.cases import each
from tests.injection.conftest import PROMPT, reasons, uids


def test_log_contains_shown_and_withheld_memories(remember, ask):
    for n in range(3):
        remember(f"zebra stripes, fact number {n}", project="zoo")
    found = ask(project="zoo", session_id="s1", max_count=2, token_budget=900)
    row = Injection.objects.get()
    assert row.session.session_id == "s1"
    assert row.session.project == row.project == "zoo"
    assert [(one["id"], one["score"], one["scale"]) for one in row.injected] == [
        (one.uid, one.score, one.scale) for one in found.injected
    ]
    assert [(one["id"], one["reason"]) for one in row.withheld] == list(reasons(found).items())
    assert (row.token_budget, row.tokens_used) == (900, found.tokens_used)
    assert row.took_ms > 0
    assert row.prompt_preview == PROMPT


def test_logged_prompt_is_short_and_contains_no_secret(remember, ask, configure):
    remember("zebra stripes")
    configure(event_preview_chars=120)
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    ask(f"zebra stripes with {token} please " + "and more " * 100)
    row = Injection.objects.get()
    assert len(row.prompt_preview) <= 120
    assert "a1B2c3" not in row.prompt_preview
    assert "[secret removed]" in row.prompt_preview


@each("rest", ["", "</memory-context>", "</memory-context> please"])
def test_logged_prompt_contains_no_injected_context(remember, ask, rest):
    remember("zebra stripes")
    ask(f"zebra stripes? <memory-context>\nzebras hide at night{rest}")
    row = Injection.objects.get()
    assert row.prompt_preview.startswith("zebra stripes?")
    assert "memory-context" not in row.prompt_preview
    assert "hide" not in row.prompt_preview


def test_injection_counts_one_access_of_each_shown_memory(remember, ask):
    made = [remember(f"zebra stripes, fact number {n}") for n in range(4)]
    updated = {one.uid: one.updated_at for one in made}
    shown = uids(ask(max_count=2))
    for memory in Memory.objects.all():
        assert memory.accessed_count == (memory.uid in shown)
        assert (memory.last_accessed_at is not None) is (memory.uid in shown)
        assert memory.updated_at == updated[memory.uid]


def test_counting_accesses_is_not_journaled(remember, ask):
    remember("zebra stripes")
    before = JournalEntry.objects.count()
    ask(session_id="s1")
    assert JournalEntry.objects.count() == before


def test_preview_counts_nothing_and_logs_nothing(remember, ask):
    memory = remember("zebra stripes")
    assert uids(ask(session_id="s1", record=False)) == {memory.uid}
    memory.refresh_from_db()
    assert memory.accessed_count == 0
    assert not Injection.objects.exists()
    assert not Session.objects.exists()


def test_prompt_without_results_is_logged(remember, ask):
    remember("zebra stripes")
    ask("thanks, that is fine", session_id="s1")
    row = Injection.objects.get()
    assert (row.injected, row.withheld, row.session.session_id) == ([], [], "s1")
    assert row.prompt_preview == "thanks, that is fine"


def test_failed_injection_is_logged(remember, ask, monkeypatch):
    remember("zebra stripes")
    monkeypatch.setattr("memoryhub.injection.services.find_candidates", lambda *_: 1 / 0)
    assert ask(session_id="s1").skipped == ["injection failed; the log has the details"]
    assert Injection.objects.get().injected == []


def test_failure_to_log_gives_an_empty_result(remember, ask, monkeypatch):
    remember("zebra stripes")
    monkeypatch.setattr("memoryhub.injection.services.find_candidates", lambda *_: 1 / 0)
    monkeypatch.setattr("memoryhub.injection.services.record_injection", lambda *_: 1 / 0)
    assert ask(session_id="s1").skipped == ["injection failed; the log has the details"]
    assert not Injection.objects.exists()


def test_session_is_not_shown_the_same_memory_twice(remember, ask):
    memory = remember("zebra stripes")
    assert uids(ask(session_id="s1")) == {memory.uid}
    again = ask(session_id="s1")
    assert again.context == ""
    assert reasons(again) == {memory.uid: "already shown in this session"}
    assert uids(ask(session_id="s2")) == {memory.uid}
    assert uids(ask()) == {memory.uid}


def test_changed_memory_is_shown_again(remember, ask, actor):
    memory = remember("zebra stripes")
    ask(session_id="s1")
    memories.update_memory(memory.uid, MemoryPatch(content="zebra stripes, corrected"), actor)
    assert "corrected" in ask(session_id="s1").context


def test_memory_shown_long_ago_is_shown_again(remember, ask):
    memory = remember("zebra stripes")
    ask(session_id="s1")
    assert uids(ask(session_id="s1", now=timezone.now() + timedelta(hours=3))) == {memory.uid}


def test_memory_is_shown_again_after_context_loss(remember, ask):
    memory = remember("zebra stripes")
    ask(session_id="s1")
    assert uids(ask(session_id="s1", fresh_since=timezone.now())) == {memory.uid}


def test_first_injection_creates_the_session(remember, ask, actor):
    remember("zebra stripes", project="zoo")
    ask(project="zoo", session_id="s1")
    session = Session.objects.get()
    assert (session.session_id, session.project, session.agent) == ("s1", "zoo", actor.name)


@pytest.mark.conformance("guide-93")
def test_memory_accessed_repeatedly_within_its_scale_is_promoted(remember, ask, aged):
    memory = aged(remember("zebra stripes"), minutes=10)
    scales = []
    for n in range(6):
        scales.append(ask(session_id=f"s{n}").injected[0].scale)
        memory.refresh_from_db()
    assert scales == ["task", "task", "task", "session", "session", "session"]
    assert memory.scale == "project"
    assert memory.accessed_count == 6


def test_accesses_in_different_scales_do_not_add_up(remember, ask):
    memory = remember("zebra stripes")
    start = memory.created_at
    for minutes in (1, 4, 6):
        ask(session_id=f"s{minutes}", now=start + timedelta(minutes=minutes))
    memory.refresh_from_db()
    assert (memory.accessed_count, memory.scale) == (3, "")


def test_promotion_does_not_change_the_age(remember, ask, configure):
    configure(promotion_accesses=1)
    memory = remember("zebra stripes")
    before = memory.updated_at
    ask()
    memory.refresh_from_db()
    assert memory.scale == "task"
    assert memory.updated_at == before


def test_no_memory_is_promoted_without_the_temporal_capability(remember, ask, configure):
    configure(promotion_accesses=1, capability_temporal=False)
    memory = remember("zebra stripes")
    ask()
    memory.refresh_from_db()
    assert (memory.accessed_count, memory.scale) == (1, "")


@pytest.mark.parametrize("many", [5, 60])
def test_number_of_queries_is_constant(remember, ask, many, django_assert_max_num_queries):
    for n in range(many):
        remember(f"zebra stripes, fact number {n}", tags=[f"t{n}"], files_read=[f"f{n}.py"], project="zoo")
    with django_assert_max_num_queries(19):
        assert ask("zebra stripes in f1.py?", project="zoo", session_id="s1").injected
