"""Test the maintenance of a project at the end of a session."""

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


def test_session_end_consolidates_importances(agent_session, remember):
    idle, used = aged(remember("idle words", project="shop")), remember("used words", project="shop")
    Memory.objects.filter(pk=used.pk).update(accessed_count=5)
    agent_session.end()
    idle.refresh_from_db()
    used.refresh_from_db()
    assert idle.importance == pytest.approx(0.3, abs=0.01)
    assert used.importance > 0.5


def test_other_projects_are_not_maintained(agent_session, remember):
    other, nameless = aged(remember("other", project="elsewhere")), aged(remember("nameless"))
    agent_session.end()
    assert {Memory.objects.get(pk=one.pk).importance for one in (other, nameless)} == {0.5}


def test_session_without_project_maintains_memories_without_project(open_session, remember):
    other, nameless = aged(remember("other", project="elsewhere")), aged(remember("nameless"))
    open_session(project="").end()
    assert Memory.objects.get(pk=other.pk).importance == 0.5
    assert Memory.objects.get(pk=nameless.pk).importance < 0.5


def test_second_session_end_changes_nothing(agent_session, remember):
    idle = aged(remember("idle words", project="shop"))
    agent_session.end()
    before = Memory.objects.get(pk=idle.pk).importance
    agent_session.end()
    assert Memory.objects.get(pk=idle.pk).importance == pytest.approx(before, abs=1e-4)


def test_maintenance_keeps_the_update_time(agent_session, remember):
    idle = aged(remember("idle words", project="shop"))
    agent_session.end()
    assert Memory.objects.get(pk=idle.pk).updated_at < timezone.now() - timedelta(days=9)


def test_consolidation_is_journaled_with_the_session_id(agent_session, remember):
    aged(remember("idle words", project="shop"))
    agent_session.end()
    row = JournalEntry.objects.get(operation="consolidate")
    assert row.object_id == "s1"
    assert row.actor == "system:session-end"


@pytest.mark.conformance("guide-22", "guide-23")
@pytest.mark.parametrize("operation", ["consolidation", "compression"])
def test_manual_mode_skips_the_operation(agent_session, remember, configure, operation):
    idle = aged(remember("idle words", project="shop"))
    configure(**{"session_end_consolidation": "manual", f"session_end_{operation}": "manual"})
    status, detail = reports(agent_session.end())[operation]
    assert status == "skipped"
    assert "manual" in detail
    assert Memory.objects.get(pk=idle.pk).importance == 0.5


@pytest.mark.parametrize("operation", ["consolidation", "compression"])
def test_disabled_operation_is_skipped_with_a_reason(agent_session, configure, operation):
    configure(**{f"capability_{operation}": False})
    assert reports(agent_session.end())[operation] == ("skipped", f"memory.{operation} is switched off")


def test_large_project_is_maintained_by_a_run(agent_session, remember, configure):
    idle = aged(remember("idle words", project="shop"))
    configure(inline_maintenance_limit=0)
    answer = reports(agent_session.end())
    runs = {run.operation: run for run in MaintenanceRun.objects.all()}
    assert set(runs) == {"consolidate", "compress"}
    assert runs["consolidate"].project == "shop"
    assert runs["consolidate"].uid in answer["consolidation"][1]
    assert Memory.objects.get(pk=idle.pk).importance == 0.5


def test_similar_memories_are_merged(agent_session, remember):
    words = "the ledger planner scans every partition of the journal index"
    for n in range(3):
        aged(remember(f"{words} number{'abc'[n]}", project="shop"))
    agent_session.end()
    assert Memory.objects.live().filter(type="compressed_summary").count() == 1


def test_summary_is_stored_when_maintenance_fails(agent_session, monkeypatch):
    def explode(*args, **kwargs):
        raise RuntimeError

    monkeypatch.setattr("memoryhub.capture.services.run_now", explode)
    agent_session.commit(FIX)
    answer = reports(agent_session.end())
    assert answer["capture"][0] == "ok"
    assert answer["consolidation"][0] == answer["compression"][0] == "failed"
    assert len(agent_session.memories("session_summary")) == 1
