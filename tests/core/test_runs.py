"""Runs of maintenance: asked for, worked on, stopped, resumed, taken back, and who is told what of them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from memoryhub import store
from memoryhub.lifecycle import outcome, reach, runs, working
from memoryhub.lifecycle.operations import OPERATIONS
from memoryhub.models import JournalEntry, MaintenanceRun, Memory, RunChanges
from memoryhub.sensitivity import Actor, Clearance, system
from tests.core.stepping import importances, lifting  # noqa: F401 a fixture

Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause


@pytest.fixture
def five(remember, lifting):  # noqa: F811
    return [remember(f"memory {n}", project="p") for n in range(5)]


def done(run: MaintenanceRun) -> MaintenanceRun:
    """The run after its work."""
    assert runs.work(run)
    assert run.status == Status.DONE, run.error
    return run


# Asking for one


def test_an_unknown_operation_is_refused_by_its_field(db, actor):
    with pytest.raises(store.StoreError, match="choose one of") as refused:
        runs.start("frobnicate", {}, actor)
    assert refused.value.field == "operation"


def test_an_unknown_parameter_is_named(five, actor):
    with pytest.raises(store.StoreError, match="has no such parameter; it knows project") as refused:
        runs.start("lift", {"colour": "red"}, actor)
    assert refused.value.field == "colour"
    assert not MaintenanceRun.objects.exists()


def test_a_parameter_of_the_wrong_kind_is_named(five, actor):
    with pytest.raises(store.StoreError) as refused:
        runs.start("lift", {"project": ["p"]}, actor)
    assert refused.value.field == "project"


def test_a_project_out_of_reach_is_refused(five, confined):
    with pytest.raises(store.Forbidden):
        runs.start("lift", {"project": "p"}, confined)


@pytest.mark.parametrize("operation", ["consolidate", "compress"])
def test_what_is_switched_off_is_refused(db, actor, configure, operation):
    configure(capability_consolidation=False, capability_compression=False)
    with pytest.raises(store.StoreError, match="is switched off in the configuration") as refused:
        runs.start(operation, {}, actor)
    assert refused.value.field == "operation"


def test_one_run_of_an_operation_at_a_time(five, actor):
    first = runs.start("lift", {}, actor)
    with pytest.raises(store.Conflict, match=f"run {first.uid} of lift is queued"):
        runs.start("lift", {"project": "p"}, actor)
    done(first)
    assert runs.start("lift", {"project": "p"}, actor)


def test_other_projects_other_operations_and_dry_runs_are_free(five, actor):
    runs.start("lift", {"project": "p"}, actor)
    runs.start("lift", {"project": "q"}, actor)
    runs.start("consolidate", {"project": "p"}, actor)
    for _ in range(2):
        runs.start("lift", {"project": "p"}, actor, dry_run=True)


def test_those_confined_to_other_projects_do_not_meet(five, actor, confined):
    runs.start("lift", {}, confined)
    assert runs.start("lift", {"project": "p"}, actor)
    with pytest.raises(store.Conflict):
        runs.start("lift", {"project": "zoo"}, actor)


def test_one_that_died_is_no_obstacle(five, actor):
    dead = runs.start("lift", {}, actor)
    MaintenanceRun.objects.update(status=Status.RUNNING, worker="elsewhere/1/1/1", heartbeat_at=_ago(60))
    runs.start("lift", {}, actor)
    dead.refresh_from_db()
    assert dead.cause == Cause.INTERRUPTED


def test_asking_is_journaled_under_the_asker(five, actor):
    run = runs.start("lift", {"project": "p"}, actor)
    row = JournalEntry.objects.get(object_type="run")
    assert (row.actor, row.operation, row.object_id, row.project) == (actor.name, "run", run.uid, "p")
    assert row.detail == {"operation": "lift", "dry_run": False}


def _ago(seconds: float):
    return timezone.now() - timedelta(seconds=seconds)


# Working on it


def test_it_does_its_work_and_counts_it(five, actor):
    run = done(runs.start("lift", {}, actor))
    assert importances() == [0.6] * 5
    assert (run.done, run.total) == (5, 5)
    assert run.result == {"counts": {"boost": 5}, "changes": 5, "changed": 5, "listed": 5}
    assert run.finished_at
    assert run.worker == ""


def test_a_dry_run_changes_nothing_and_lists_the_same(five, actor):
    dry = done(runs.start("lift", {}, actor, dry_run=True))
    assert importances() == [0.5] * 5
    wet = done(runs.start("lift", {}, actor))
    listed = [[one.change for one in runs.changes_of(run, actor.clearance)] for run in (dry, wet)]
    assert listed[0] == listed[1]
    assert len(listed[0]) == 5


def test_it_works_under_the_reach_of_the_asker(five, remember, low):
    remember("hidden", project="p", sensitivity="secret")
    done(runs.start("lift", {}, low))
    assert importances() == [0.6] * 5 + [0.5]


def test_its_reach_survives_the_database():
    clearance = Clearance.up_to("private", owner="ada", projects=["b", "a"])
    assert reach.of(MaintenanceRun(reach=reach.as_json(clearance))) == clearance
    assert reach.of(MaintenanceRun(reach=reach.as_json(system("x").clearance))) == system("x").clearance
    assert reach.of(MaintenanceRun()) == Clearance(frozenset(), projects=frozenset())


def test_an_unknown_level_in_a_kept_reach_opens_nothing():
    kept = {"levels": ["cosmic", "public"], "owner": "", "projects": None}
    assert reach.of(MaintenanceRun(reach=kept)).levels == {"public"}


def test_only_a_waiting_run_can_be_taken(five, actor):
    run = done(runs.start("lift", {}, actor))
    assert not runs.work(run)
    assert importances() == [0.6] * 5


def test_a_failure_is_told_without_its_words_and_logged(five, actor, lifting, caplog):  # noqa: F811
    lifting.before = lambda number: 1 / 0 if number == 3 else None
    run = runs.start("lift", {}, actor)
    assert runs.work(run)
    assert (run.status, run.cause) == (Status.FAILED, Cause.ERROR)
    assert run.error == "ZeroDivisionError; the log of the hub has the details"
    assert "division by zero" in caplog.text
    assert importances() == [0.6] * 3 + [0.5] * 2, "what was done stays"
    assert run.done == 3


def test_a_failed_run_goes_on_where_it_was(five, actor, lifting):  # noqa: F811
    lifting.before = lambda number: 1 / 0 if number == 3 else None
    run = runs.start("lift", {}, actor)
    runs.work(run)
    lifting.before = lambda number: None
    done(runs.resume(run.uid, actor))
    assert importances() == [0.6] * 5
    run.refresh_from_db()
    assert run.result == {"counts": {"boost": 5}, "changes": 5, "changed": 5, "listed": 5}
    assert len(runs.changes_of(run, actor.clearance)) == 5
    assert (run.error, run.cause) == ("", "")


def test_a_busy_database_is_tried_again(five, actor, lifting, monkeypatch):  # noqa: F811
    met = []

    def busy_once(self, changes):
        met.append(changes)
        if len(met) == 2:
            raise OperationalError("database is locked")
        return keep(self, changes)

    keep = working._AtWork._keep
    monkeypatch.setattr(working._AtWork, "_keep", busy_once)
    run = done(runs.start("lift", {}, actor))
    assert importances() == [0.6] * 5
    assert run.result["changed"] == 5
    assert len(met) == 6


def test_one_that_was_given_up_writes_nothing_more(five, actor, lifting):  # noqa: F811
    """It was taken for dead in the middle of a step, and somebody else may be at it."""

    def give_up(number: int) -> None:
        if number == 2:
            MaintenanceRun.objects.update(status=Status.FAILED, cause=Cause.INTERRUPTED, worker="")

    lifting.before = give_up
    run = runs.start("lift", {}, actor)
    runs.work(run)
    assert importances() == [0.6] * 2 + [0.5] * 3
    assert (run.status, run.done) == (Status.FAILED, 2)


def test_the_list_of_changes_is_bounded_and_the_count_is_not(five, actor, lifting, monkeypatch):  # noqa: F811
    monkeypatch.setattr(working, "KEPT", 3)
    lifting.size = 2
    for dry_run in (True, False):
        run = done(runs.start("lift", {}, actor, dry_run=dry_run))
        assert sum(len(step.changes) for step in RunChanges.objects.filter(run=run)) == 3
        assert run.result["changes"] == 5


def test_a_dry_run_writes_down_what_it_has_found_so_far(five, actor, lifting, monkeypatch):  # noqa: F811
    monkeypatch.setattr(working, "SAVES", 0)
    seen = []
    lifting.before = lambda number: seen.append(MaintenanceRun.objects.get().done)
    run = done(runs.start("lift", {}, actor, dry_run=True))
    assert seen == [0, 1, 2, 3, 4]
    assert len(runs.changes_of(run, actor.clearance)) == 5


# Stopping and resuming


def test_a_running_one_stops_between_two_steps(five, actor, lifting):  # noqa: F811
    run = runs.start("lift", {}, actor)
    lifting.before = lambda number: runs.stop(run.uid, actor) if number == 2 else None
    assert runs.work(run)
    assert (run.status, run.cause) == (Status.FAILED, Cause.STOPPED)
    assert importances() == [0.6] * 2 + [0.5] * 3
    lifting.before = lambda number: None
    done(runs.resume(run.uid, actor))
    assert importances() == [0.6] * 5


def test_a_waiting_one_stops_at_once(five, actor):
    run = runs.stop(runs.start("lift", {}, actor).uid, actor)
    assert (run.status, run.cause) == (Status.FAILED, Cause.STOPPED)
    assert not runs.work(run)


def test_ctrl_c_stops_it(five, actor, lifting):  # noqa: F811
    def press(number: int) -> None:
        if number == 2:
            raise KeyboardInterrupt

    lifting.before = press
    run = runs.start("lift", {}, actor)
    with pytest.raises(KeyboardInterrupt):
        runs.work(run)
    run.refresh_from_db()
    assert run.cause == Cause.STOPPED


def test_a_server_that_ends_puts_it_back_into_the_queue(five, actor):
    run = runs.start("lift", {}, actor)
    looked = []
    runs.work(run, leaving=lambda: looked.append(1) or len(looked) > 2)
    assert (run.status, run.cause, run.done) == (Status.QUEUED, "", 2)
    done(run)
    assert importances() == [0.6] * 5


def test_what_is_done_can_neither_stop_nor_go_on(five, actor):
    run = done(runs.start("lift", {}, actor))
    for deed in (runs.stop, runs.resume):
        with pytest.raises(store.Conflict):
            deed(run.uid, actor)


def test_it_cannot_go_on_beside_another(five, actor):
    run = runs.stop(runs.start("lift", {}, actor).uid, actor)
    runs.start("lift", {}, actor)
    with pytest.raises(store.Conflict):
        runs.resume(run.uid, actor)


@pytest.mark.parametrize("deed", [runs.stop, runs.resume, runs.undo])
def test_what_is_not_there_is_not_found(db, actor, deed):
    with pytest.raises(store.NotFound):
        deed("nothing", actor)


# Taking it back


def test_it_is_taken_back_by_a_run_of_its_own(five, actor):
    run = done(runs.start("lift", {}, actor))
    undoing = done(runs.undo(run.uid, actor))
    assert importances() == [0.5] * 5
    run.refresh_from_db()
    assert run.undone_at
    assert undoing.undoes == run
    assert (undoing.done, undoing.total, undoing.result["counts"]) == (5, 5, {"undone": 5})


def test_a_real_consolidation_is_taken_back(remember, actor):
    memory = remember("seldom read")
    Memory.objects.update(updated_at=_ago(86_400 * 10))
    run = done(runs.start("consolidate", {}, actor))
    memory.refresh_from_db()
    assert memory.importance < 0.5
    done(runs.undo(run.uid, actor))
    memory.refresh_from_db()
    assert memory.importance == 0.5


def test_it_is_taken_back_once(five, actor):
    run = done(runs.start("lift", {}, actor))
    runs.undo(run.uid, actor)
    with pytest.raises(store.Conflict):
        runs.undo(run.uid, actor)


def test_what_was_taken_back_does_not_go_on(five, actor, lifting):  # noqa: F811
    run = runs.start("lift", {}, actor)
    lifting.before = lambda number: runs.stop(run.uid, actor) if number == 2 else None
    runs.work(run)
    done(runs.undo(run.uid, actor))
    run.refresh_from_db()
    assert not runs.is_resumable(run)
    with pytest.raises(store.Conflict, match="taken back"):
        runs.resume(run.uid, actor)
    assert importances() == [0.5] * 5


def test_what_goes_on_later_is_dated_by_when_it_was_done(remember, actor):
    memory = remember("seldom read")
    Memory.objects.update(updated_at=_ago(86_400 * 10))
    run = runs.start("consolidate", {}, actor)
    MaintenanceRun.objects.update(started_at=_ago(86_400 * 3), status=Status.FAILED, cause=Cause.INTERRUPTED)
    before = timezone.now()
    done(runs.resume(run.uid, actor))
    memory.refresh_from_db()
    assert memory.consolidated_at >= before
    assert JournalEntry.objects.get(operation="consolidate").at >= before
    assert round(0.5 - memory.importance, 3) == 0.2


def test_taking_back_that_was_stopped_and_goes_on_counts_each_memory_once(remember, actor, configure):
    configure(maintenance_step_ms=1)
    for n in range(30):
        remember(f"long forgotten number {n}")
    Memory.objects.update(updated_at=_ago(86_400 * 200), importance=0.2)
    run = done(runs.start("consolidate", {}, actor))
    assert run.result["counts"] == {"evict": 30}
    undoing = runs.undo(run.uid, actor)
    runs.work(
        undoing, watcher=lambda one: runs.stop(one.uid, actor) if one.status == Status.RUNNING else None
    )
    assert 0 < undoing.result["changed"] < 30
    done(runs.resume(undoing.uid, actor))
    undoing.refresh_from_db()
    assert undoing.result["counts"] == {"undone": 30}
    assert set(Memory.objects.live().values_list("importance", flat=True)) == {0.2}


def test_only_what_was_done_and_can_be_undone_is_taken_back(five, actor, lifting):  # noqa: F811
    dry = done(runs.start("lift", {}, actor, dry_run=True))
    waiting = runs.start("lift", {}, actor)
    for run in (dry, waiting):
        with pytest.raises(store.Conflict):
            runs.undo(run.uid, actor)
    done(waiting)
    lifting.undoable = False
    with pytest.raises(store.Conflict, match="cannot be undone"):
        runs.undo(waiting.uid, actor)


def test_taking_back_is_not_taken_back(five, actor):
    undoing = done(runs.undo(done(runs.start("lift", {}, actor)).uid, actor))
    with pytest.raises(store.Conflict):
        runs.undo(undoing.uid, actor)


# Who is told what


def test_who_sees_less_is_told_of_what_they_see(four_levels, lifting, actor, low):  # noqa: F811
    run = done(runs.start("lift", {}, actor))
    assert runs.told(run, actor.clearance) == outcome.Told(3, 3, {"boost": 3}, 3, 3, True)
    assert runs.told(run, low.clearance) == outcome.Told(100, 100, {"boost": 1}, 1, 1, False)
    [shown] = runs.changes_of(run, low.clearance)
    assert shown.memory == four_levels["public"]


@pytest.mark.parametrize(("level", "seen"), [("public", 1), ("private", 2), ("secret", 3), ("cosmic", 0)])
def test_changes_are_behind_the_gate(four_levels, lifting, actor, level, seen):  # noqa: F811
    run = done(runs.start("lift", {}, actor))
    assert len(runs.changes_of(run, Clearance.up_to(level, "ada"))) == seen


def test_what_became_secret_since_is_not_told(five, actor, low):
    run = done(runs.start("lift", {}, low))
    Memory.objects.filter(pk=five[0].pk).update(sensitivity="cosmic")
    assert len(runs.changes_of(run, actor.clearance)) == 4


def test_a_share_is_all_that_is_told_while_it_runs(four_levels, lifting, actor, low):  # noqa: F811
    run = runs.start("lift", {}, actor)
    told = []
    runs.work(run, watcher=lambda run: told.append(runs.told(run, low.clearance, counted=False).done))
    assert told == [33, 66, 100]


def test_other_peoples_personal_memories_stay_theirs(remember, lifting, actor, stranger):  # noqa: F811
    remember("a shared one")
    remember("mine alone", scope="personal")
    run = done(runs.start("lift", {}, system("schedule")))
    assert len(runs.changes_of(run, actor.clearance)) == 2
    assert len(runs.changes_of(run, stranger.clearance)) == 1
    assert runs.told(run, stranger.clearance).whole is False


def test_what_is_gone_shows_to_those_who_may_see_its_end(four_levels, lifting, actor, low):  # noqa: F811
    run = done(runs.start("lift", {}, actor))
    store.erase([memory.uid for memory in four_levels.values()], actor)
    assert len(runs.changes_of(run, actor.clearance)) == 3
    [shown] = runs.changes_of(run, low.clearance)
    assert (shown.change.uid, shown.memory) == (four_levels["public"].uid, None)


def test_runs_of_other_projects_are_not_seen(five, actor, confined):
    elsewhere = runs.start("lift", {"project": "p"}, actor)
    everywhere = runs.start("consolidate", {}, actor)
    other = Actor("token:other", Clearance.up_to("secret", projects=["q"]))
    theirs = runs.start("lift", {}, other)
    own = runs.start("lift", {}, confined)
    assert set(runs.visible_runs(confined.clearance)) == {everywhere, own}
    assert set(runs.visible_runs(actor.clearance)) == {elsewhere, everywhere, theirs, own}
    with pytest.raises(store.NotFound):
        runs.find(elsewhere.uid, confined)


def test_who_sees_less_does_not_steer(four_levels, lifting, actor, low, confined):  # noqa: F811
    run = runs.start("lift", {}, actor)
    for other in (low, confined):
        with pytest.raises(store.Forbidden):
            runs.stop(run.uid, other)
    assert runs.stop(run.uid, actor)


def test_the_hubs_own_runs_are_steered_by_those_who_see_every_level(five, actor):
    run = done(runs.start("lift", {}, system("schedule")))
    assert runs.undo(run.uid, actor)


def test_pages_of_changes_follow_each_other(five, actor):
    run = done(runs.start("lift", {}, actor))
    pages = [runs.changes_of(run, actor.clearance, start, 2) for start in (0, 2, 4, 6)]
    assert [one.memory for page in pages for one in page] == five
    assert [len(page) for page in pages] == [2, 2, 1, 0]


def test_every_operation_of_the_wire_is_there():
    wire = "purge_expired consolidate compress summarize_old evict reindex empty_trash prune_events embed"
    assert set(wire.split()) == set(OPERATIONS)


def test_a_run_whose_operation_this_hub_does_not_know_fails_in_words(five, actor):
    run = runs.start("lift", {}, actor)
    MaintenanceRun.objects.update(operation="of_tomorrow")
    run.refresh_from_db()
    assert runs.work(run)
    assert (run.status, run.error) == (Status.FAILED, "this hub knows no operation of this name")
