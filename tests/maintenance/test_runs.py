"""Test the run queue: enqueue, execute, stop and resume."""

from __future__ import annotations

import pytest
from django.db import OperationalError

from memoryhub import memories
from memoryhub.access.policy import Clearance, system_actor
from memoryhub.maintenance import executor, results, runs
from memoryhub.maintenance.operations import OPERATIONS
from memoryhub.models import JournalEntry, MaintenanceRun, RunChanges
from tests.cases import each
from tests.maintenance.fixtures import execute_run, importances, seconds_ago

Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause


# Asking for one


def test_an_unknown_operation_is_refused_by_its_field(db, actor):
    with pytest.raises(memories.StoreError, match="choose one of") as refused:
        runs.enqueue("frobnicate", {}, actor)
    assert refused.value.field == "operation"


def test_an_unknown_parameter_is_named(five, actor):
    with pytest.raises(memories.StoreError, match="has no such parameter; it has project") as refused:
        runs.enqueue("lift", {"colour": "red"}, actor)
    assert refused.value.field == "colour"
    assert not MaintenanceRun.objects.exists()


def test_a_parameter_of_the_wrong_kind_is_named(five, actor):
    with pytest.raises(memories.StoreError) as refused:
        runs.enqueue("lift", {"project": ["p"]}, actor)
    assert refused.value.field == "project"


def test_hidden_project_is_refused(five, confined):
    with pytest.raises(memories.Forbidden):
        runs.enqueue("lift", {"project": "p"}, confined)


@pytest.mark.parametrize("operation", ["consolidate", "compress"])
def test_disabled_operation_is_refused(db, actor, configure, operation):
    configure(capability_consolidation=False, capability_compression=False)
    with pytest.raises(memories.StoreError, match="is switched off in the configuration") as refused:
        runs.enqueue(operation, {}, actor)
    assert refused.value.field == "operation"


def test_second_run_of_an_operation_is_refused(five, actor):
    first = runs.enqueue("lift", {}, actor)
    with pytest.raises(memories.Conflict, match=f"run {first.uid} of lift is queued"):
        runs.enqueue("lift", {"project": "p"}, actor)
    execute_run(first)
    assert runs.enqueue("lift", {"project": "p"}, actor)


def test_other_projects_operations_and_dry_runs_do_not_conflict(five, actor):
    runs.enqueue("lift", {"project": "p"}, actor)
    runs.enqueue("lift", {"project": "q"}, actor)
    runs.enqueue("consolidate", {"project": "p"}, actor)
    for _ in range(2):
        runs.enqueue("lift", {"project": "p"}, actor, dry_run=True)


def test_runs_confined_to_different_projects_do_not_conflict(five, actor, confined):
    runs.enqueue("lift", {}, confined)
    assert runs.enqueue("lift", {"project": "p"}, actor)
    with pytest.raises(memories.Conflict):
        runs.enqueue("lift", {"project": "zoo"}, actor)


def test_lost_run_does_not_block_new_ones(five, actor):
    dead = runs.enqueue("lift", {}, actor)
    MaintenanceRun.objects.update(
        status=Status.RUNNING, worker="elsewhere/1/1/1", heartbeat_at=seconds_ago(60)
    )
    runs.enqueue("lift", {}, actor)
    dead.refresh_from_db()
    assert dead.cause == Cause.INTERRUPTED


def test_enqueueing_is_journaled_with_its_requester(five, actor):
    run = runs.enqueue("lift", {"project": "p"}, actor)
    row = JournalEntry.objects.get(object_type="run")
    assert (row.actor, row.operation, row.object_id, row.project) == (actor.name, "run", run.uid, "p")
    assert row.detail == {"operation": "lift", "dry_run": False}


# Working on it


def test_run_counts_its_changes(five, actor):
    run = execute_run(runs.enqueue("lift", {}, actor))
    assert importances() == [0.6] * 5
    assert (run.done, run.total) == (5, 5)
    assert run.result == {"counts": {"boost": 5}, "changes": 5, "changed": 5, "listed": 5}
    assert run.finished_at
    assert run.worker == ""


def test_a_dry_run_changes_nothing_and_lists_the_same(five, actor):
    dry = execute_run(runs.enqueue("lift", {}, actor, dry_run=True))
    assert importances() == [0.5] * 5
    wet = execute_run(runs.enqueue("lift", {}, actor))
    listed = [[one.change for one in results.list_changes(run, actor.clearance)] for run in (dry, wet)]
    assert listed[0] == listed[1]
    assert len(listed[0]) == 5


def test_run_has_the_clearance_of_its_requester(five, remember, low):
    remember("hidden", project="p", sensitivity="secret")
    execute_run(runs.enqueue("lift", {}, low))
    assert importances() == [0.6] * 5 + [0.5]


def test_clearance_survives_the_database():
    clearance = Clearance.up_to("private", owner="ada", projects=["b", "a"])
    assert results.clearance_of(MaintenanceRun(reach=results.clearance_to_json(clearance))) == clearance
    assert (
        results.clearance_of(MaintenanceRun(reach=results.clearance_to_json(system_actor("x").clearance)))
        == system_actor("x").clearance
    )
    assert results.clearance_of(MaintenanceRun()) == Clearance(frozenset(), projects=frozenset())


def test_unknown_level_in_a_stored_clearance_allows_nothing():
    kept = {"levels": ["cosmic", "public"], "owner": "", "projects": None}
    assert results.clearance_of(MaintenanceRun(reach=kept)).levels == {"public"}


def test_only_a_queued_run_can_be_claimed(five, actor):
    run = execute_run(runs.enqueue("lift", {}, actor))
    assert not executor.execute(run)
    assert importances() == [0.6] * 5


def test_failure_is_logged_and_stored_without_its_message(five, actor, lifting, caplog):
    lifting.before = lambda number: 1 / 0 if number == 3 else None
    run = runs.enqueue("lift", {}, actor)
    assert executor.execute(run)
    assert (run.status, run.cause) == (Status.FAILED, Cause.ERROR)
    assert run.error == "ZeroDivisionError; see the log of the hub"
    assert "division by zero" in caplog.text
    assert importances() == [0.6] * 3 + [0.5] * 2, "what was done stays"
    assert run.done == 3


def test_failed_run_can_be_resumed(five, actor, lifting):
    lifting.before = lambda number: 1 / 0 if number == 3 else None
    run = runs.enqueue("lift", {}, actor)
    executor.execute(run)
    lifting.before = lambda number: None
    execute_run(runs.resume(run.uid, actor))
    assert importances() == [0.6] * 5
    run.refresh_from_db()
    assert run.result == {"counts": {"boost": 5}, "changes": 5, "changed": 5, "listed": 5}
    assert len(results.list_changes(run, actor.clearance)) == 5
    assert (run.error, run.cause) == ("", "")


def test_busy_database_is_retried(five, actor, lifting, monkeypatch):
    calls = []

    def busy_once(self, changes):
        calls.append(changes)
        if len(calls) == 2:
            raise OperationalError("database is locked")
        return list_changes(self, changes)

    list_changes = executor._Execution._list_changes
    monkeypatch.setattr(executor._Execution, "_list_changes", busy_once)
    run = execute_run(runs.enqueue("lift", {}, actor))
    assert importances() == [0.6] * 5
    assert run.result["changed"] == 5
    assert len(calls) == 6


def test_lost_run_writes_nothing_more(five, actor, lifting):
    """The run was marked as lost during a step, so another worker may have it."""

    def give_up(number: int) -> None:
        if number == 2:
            MaintenanceRun.objects.update(status=Status.FAILED, cause=Cause.INTERRUPTED, worker="")

    lifting.before = give_up
    run = runs.enqueue("lift", {}, actor)
    executor.execute(run)
    assert importances() == [0.6] * 2 + [0.5] * 3
    assert (run.status, run.done) == (Status.FAILED, 2)


def test_list_of_changes_is_limited_but_not_the_count(five, actor, lifting, monkeypatch):
    monkeypatch.setattr(executor, "MAX_LISTED_CHANGES", 3)
    lifting.size = 2
    for dry_run in (True, False):
        run = execute_run(runs.enqueue("lift", {}, actor, dry_run=dry_run))
        assert sum(len(step.changes) for step in RunChanges.objects.filter(run=run)) == 3
        assert run.result["changes"] == 5


def test_dry_run_saves_its_progress(five, actor, lifting, monkeypatch):
    monkeypatch.setattr(executor, "SAVE_INTERVAL", 0)
    seen = []
    lifting.before = lambda number: seen.append(MaintenanceRun.objects.get().done)
    run = execute_run(runs.enqueue("lift", {}, actor, dry_run=True))
    assert seen == [0, 1, 2, 3, 4]
    assert len(results.list_changes(run, actor.clearance)) == 5


# Stopping and resuming


def test_running_run_stops_between_steps(five, actor, lifting):
    run = runs.enqueue("lift", {}, actor)
    lifting.before = lambda number: runs.stop(run.uid, actor) if number == 2 else None
    assert executor.execute(run)
    assert (run.status, run.cause) == (Status.FAILED, Cause.STOPPED)
    assert importances() == [0.6] * 2 + [0.5] * 3
    lifting.before = lambda number: None
    execute_run(runs.resume(run.uid, actor))
    assert importances() == [0.6] * 5


def test_queued_run_stops_immediately(five, actor):
    run = runs.stop(runs.enqueue("lift", {}, actor).uid, actor)
    assert (run.status, run.cause) == (Status.FAILED, Cause.STOPPED)
    assert not executor.execute(run)


def test_keyboard_interrupt_stops_the_run(five, actor, lifting):
    def press(number: int) -> None:
        if number == 2:
            raise KeyboardInterrupt

    lifting.before = press
    run = runs.enqueue("lift", {}, actor)
    with pytest.raises(KeyboardInterrupt):
        executor.execute(run)
    run.refresh_from_db()
    assert run.cause == Cause.STOPPED


def test_stopping_server_requeues_the_run(five, actor):
    run = runs.enqueue("lift", {}, actor)
    looked = []
    executor.execute(run, is_stopping=lambda: looked.append(1) or len(looked) > 2)
    assert (run.status, run.cause, run.done) == (Status.QUEUED, "", 2)
    execute_run(run)
    assert importances() == [0.6] * 5


def test_finished_run_can_neither_stop_nor_resume(five, actor):
    run = execute_run(runs.enqueue("lift", {}, actor))
    for action in (runs.stop, runs.resume):
        with pytest.raises(memories.Conflict):
            action(run.uid, actor)


def test_run_cannot_resume_during_another(five, actor):
    run = runs.stop(runs.enqueue("lift", {}, actor).uid, actor)
    runs.enqueue("lift", {}, actor)
    with pytest.raises(memories.Conflict):
        runs.resume(run.uid, actor)


@each("action", [runs.stop, runs.resume, runs.undo])
def test_missing_run_is_not_found(db, actor, action):
    with pytest.raises(memories.NotFound):
        action("nothing", actor)


def test_every_operation_is_registered():
    wire = "purge_expired consolidate compress summarize_old evict reindex empty_trash prune_events embed"
    assert set(wire.split()) == set(OPERATIONS)


def test_run_of_an_unknown_operation_fails_with_a_message(five, actor):
    run = runs.enqueue("lift", {}, actor)
    MaintenanceRun.objects.update(operation="of_tomorrow")
    run.refresh_from_db()
    assert executor.execute(run)
    assert (run.status, run.error) == (Status.FAILED, "unknown operation")
