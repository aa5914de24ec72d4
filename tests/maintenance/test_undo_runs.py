"""Test undoing runs."""

from __future__ import annotations

import pytest
from django.utils import timezone

from memoryhub import memories
from memoryhub.maintenance import executor, runs
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import JournalEntry, MaintenanceRun, Memory
from tests.maintenance.fixtures import execute_run, importances, seconds_ago

Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause


def test_undo_is_a_separate_run(five, actor):
    run = execute_run(runs.enqueue("lift", {}, actor))
    undoing = execute_run(runs.undo(run.uid, actor))
    assert importances() == [0.5] * 5
    run.refresh_from_db()
    assert run.undone_at
    assert undoing.undoes == run
    assert (undoing.done, undoing.total, undoing.result["counts"]) == (5, 5, {"undone": 5})


def test_consolidation_can_be_undone(remember, actor):
    memory = remember("seldom read")
    Memory.objects.update(updated_at=seconds_ago(86_400 * 10))
    run = execute_run(runs.enqueue("consolidate", {}, actor))
    memory.refresh_from_db()
    assert memory.importance < 0.5
    execute_run(runs.undo(run.uid, actor))
    memory.refresh_from_db()
    assert memory.importance == 0.5


def test_undo_counts_the_changes_that_the_run_has_counted(aged, actor):
    aged("read long ago", days=10)
    aged("too small a change for two decimals", days=0.1)
    before = importances()
    run = execute_run(runs.enqueue("consolidate", {}, actor))
    assert (importances() != before, run.result["changes"]) == (True, 1)
    undoing = execute_run(runs.undo(run.uid, actor))
    assert (undoing.done, undoing.total, undoing.result["counts"]) == (1, 1, {"undone": 1})
    assert importances() == before


def test_run_is_undone_only_once(five, actor):
    run = execute_run(runs.enqueue("lift", {}, actor))
    runs.undo(run.uid, actor)
    with pytest.raises(memories.Conflict):
        runs.undo(run.uid, actor)


def test_replacement_of_a_summarised_memory_is_the_summary_until_undone(remember, actor):
    old, *new = (remember(f"deploys with pipeline number {n}", session_id="s" if n else "") for n in range(7))
    memories.update_memory(old.uid, MemoryPatch(superseded_by=new[0].uid), actor)
    Memory.objects.exclude(pk=old.pk).update(updated_at=seconds_ago(86_400 * 90))
    run = execute_run(runs.enqueue("summarize_old", {}, actor))
    old.refresh_from_db()
    assert old.superseded_by.type == "compressed_summary"
    execute_run(runs.undo(run.uid, actor))
    old.refresh_from_db()
    assert old.superseded_by == new[0]


def test_undone_run_cannot_be_resumed(five, actor, lifting):
    run = runs.enqueue("lift", {}, actor)
    lifting.before = lambda number: runs.stop(run.uid, actor) if number == 2 else None
    executor.execute(run)
    execute_run(runs.undo(run.uid, actor))
    run.refresh_from_db()
    assert not runs.is_resumable(run)
    with pytest.raises(memories.Conflict, match="was undone"):
        runs.resume(run.uid, actor)
    assert importances() == [0.5] * 5


def test_resumed_run_uses_the_time_of_its_resumption(remember, actor):
    memory = remember("seldom read")
    Memory.objects.update(updated_at=seconds_ago(86_400 * 10))
    run = runs.enqueue("consolidate", {}, actor)
    MaintenanceRun.objects.update(
        started_at=seconds_ago(86_400 * 3), status=Status.FAILED, cause=Cause.INTERRUPTED
    )
    before = timezone.now()
    execute_run(runs.resume(run.uid, actor))
    memory.refresh_from_db()
    assert memory.consolidated_at >= before
    assert JournalEntry.objects.get(operation="consolidate").at >= before
    assert round(0.5 - memory.importance, 3) == 0.2


def test_resumed_undo_counts_each_memory_once(remember, actor, configure):
    configure(maintenance_step_ms=1)
    for n in range(30):
        remember(f"long forgotten number {n}")
    Memory.objects.update(updated_at=seconds_ago(86_400 * 200), importance=0.2)
    run = execute_run(runs.enqueue("consolidate", {}, actor))
    assert run.result["counts"] == {"evict": 30}
    undoing = runs.undo(run.uid, actor)
    executor.execute(
        undoing, watcher=lambda one: runs.stop(one.uid, actor) if one.status == Status.RUNNING else None
    )
    assert 0 < undoing.result["changed"] < 30
    execute_run(runs.resume(undoing.uid, actor))
    undoing.refresh_from_db()
    assert undoing.result["counts"] == {"undone": 30}
    assert set(Memory.objects.live().values_list("importance", flat=True)) == {0.2}


def test_only_undoable_changes_can_be_undone(five, actor, lifting):
    dry = execute_run(runs.enqueue("lift", {}, actor, dry_run=True))
    waiting = runs.enqueue("lift", {}, actor)
    for run in (dry, waiting):
        with pytest.raises(memories.Conflict):
            runs.undo(run.uid, actor)
    execute_run(waiting)
    lifting.inverse_records = ()
    with pytest.raises(memories.Conflict, match="cannot be undone"):
        runs.undo(waiting.uid, actor)


def test_undo_run_cannot_be_undone(five, actor):
    undoing = execute_run(runs.undo(execute_run(runs.enqueue("lift", {}, actor)).uid, actor))
    with pytest.raises(memories.Conflict):
        runs.undo(undoing.uid, actor)
