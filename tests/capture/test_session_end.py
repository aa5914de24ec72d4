"""The end of a session tends its project."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub.models import JournalEntry, MaintenanceRun, Memory
from tests.capture.conftest import FIX


def aged(memory, days=10, accessed=0):
    old = timezone.now() - timedelta(days=days)
    Memory.objects.filter(pk=memory.pk).update(updated_at=old, created_at=old, accessed_count=accessed)
    return memory


def reports(answer):
    return {one["name"]: (one["status"], one["detail"]) for one in answer["handlers"]}


def test_what_was_not_used_counts_less_and_what_was_used_more(sitting, remember):
    idle, used = aged(remember("idle words", project="shop")), remember("used words", project="shop")
    Memory.objects.filter(pk=used.pk).update(accessed_count=5)
    sitting.end()
    idle.refresh_from_db()
    used.refresh_from_db()
    assert idle.importance == pytest.approx(0.3, abs=0.01)
    assert used.importance > 0.5


def test_another_project_is_left_alone(sitting, remember):
    other, nameless = aged(remember("other", project="elsewhere")), aged(remember("nameless"))
    sitting.end()
    assert {Memory.objects.get(pk=one.pk).importance for one in (other, nameless)} == {0.5}


def test_a_session_without_a_project_tends_what_has_none(sit, remember):
    other, nameless = aged(remember("other", project="elsewhere")), aged(remember("nameless"))
    sit(project="").end()
    assert Memory.objects.get(pk=other.pk).importance == 0.5
    assert Memory.objects.get(pk=nameless.pk).importance < 0.5


def test_ending_twice_changes_nothing_more(sitting, remember):
    idle = aged(remember("idle words", project="shop"))
    sitting.end()
    before = Memory.objects.get(pk=idle.pk).importance
    sitting.end()
    assert Memory.objects.get(pk=idle.pk).importance == pytest.approx(before, abs=1e-4)


def test_maintenance_does_not_make_memories_look_new(sitting, remember):
    idle = aged(remember("idle words", project="shop"))
    sitting.end()
    assert Memory.objects.get(pk=idle.pk).updated_at < timezone.now() - timedelta(days=9)


def test_consolidation_is_journaled_under_the_session(sitting, remember):
    aged(remember("idle words", project="shop"))
    sitting.end()
    row = JournalEntry.objects.get(operation="consolidate")
    assert row.object_id == "s1"
    assert row.actor == "system:session-end"


@pytest.mark.parametrize("operation", ["consolidation", "compression"])
def test_manual_means_not_now(sitting, remember, configure, operation):
    idle = aged(remember("idle words", project="shop"))
    configure(**{"session_end_consolidation": "manual", f"session_end_{operation}": "manual"})
    status, detail = reports(sitting.end())[operation]
    assert status == "skipped"
    assert "manual" in detail
    assert Memory.objects.get(pk=idle.pk).importance == 0.5


@pytest.mark.parametrize("operation", ["consolidation", "compression"])
def test_switched_off_is_skipped_and_said(sitting, configure, operation):
    configure(**{f"capability_{operation}": False})
    assert reports(sitting.end())[operation] == ("skipped", f"memory.{operation} is switched off")


def test_a_large_project_is_left_to_a_run(sitting, remember, configure):
    idle = aged(remember("idle words", project="shop"))
    configure(inline_maintenance_limit=0)
    answer = reports(sitting.end())
    runs = {run.operation: run for run in MaintenanceRun.objects.all()}
    assert set(runs) == {"consolidate", "compress"}
    assert runs["consolidate"].project == "shop"
    assert runs["consolidate"].uid in answer["consolidation"][1]
    assert Memory.objects.get(pk=idle.pk).importance == 0.5


def test_alike_memories_become_one(sitting, remember):
    words = "the ledger planner scans every partition of the journal index"
    for n in range(3):
        aged(remember(f"{words} number{'abc'[n]}", project="shop"))
    sitting.end()
    assert Memory.objects.live().filter(type="compressed_summary").count() == 1


def test_the_summary_is_made_even_when_tending_fails(sitting, monkeypatch):
    def explode(*args, **kwargs):
        raise RuntimeError

    monkeypatch.setattr("memoryhub.capture.pipeline.run_now", explode)
    sitting.commit(FIX)
    answer = reports(sitting.end())
    assert answer["capture"][0] == "ok"
    assert answer["consolidation"][0] == answer["compression"][0] == "failed"
    assert len(sitting.memories("session_summary")) == 1
