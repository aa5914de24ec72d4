"""Test which results of a run are visible, and who can control it."""

from __future__ import annotations

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance, system_actor
from memoryhub.maintenance import executor, results, runs
from memoryhub.models import Memory
from tests.cases import each
from tests.maintenance.fixtures import execute_run


def test_viewer_with_less_clearance_sees_only_visible_changes(four_levels, lifting, actor, low):
    run = execute_run(runs.enqueue("lift", {}, actor))
    assert results.visible_result(run, actor.clearance) == results.VisibleResult(
        3, 3, {"boost": 3}, 3, 3, True
    )
    assert results.visible_result(run, low.clearance) == results.VisibleResult(
        100, 100, {"boost": 1}, 1, 1, False
    )
    [shown] = results.list_changes(run, low.clearance)
    assert shown.memory == four_levels["public"]


@each("level, seen", [("public", 1), ("private", 2), ("secret", 3), ("cosmic", 0)])
def test_changes_of_hidden_memories_are_hidden(four_levels, lifting, actor, level, seen):
    run = execute_run(runs.enqueue("lift", {}, actor))
    assert len(results.list_changes(run, Clearance.up_to(level, "ada"))) == seen


def test_change_of_a_memory_that_became_secret_is_hidden(five, actor, low):
    run = execute_run(runs.enqueue("lift", {}, low))
    Memory.objects.filter(pk=five[0].pk).update(sensitivity="cosmic")
    assert len(results.list_changes(run, actor.clearance)) == 4


def test_running_run_shows_only_a_percentage(four_levels, lifting, actor, low):
    run = runs.enqueue("lift", {}, actor)
    percents = []
    executor.execute(
        run,
        watcher=lambda run: percents.append(results.visible_result(run, low.clearance, counted=False).done),
    )
    assert percents == [33, 66, 100]


def test_changes_of_other_peoples_personal_memories_are_hidden(remember, lifting, actor, stranger):
    remember("a shared one")
    remember("mine alone", scope="personal")
    run = execute_run(runs.enqueue("lift", {}, system_actor("schedule")))
    assert len(results.list_changes(run, actor.clearance)) == 2
    assert len(results.list_changes(run, stranger.clearance)) == 1
    assert results.visible_result(run, stranger.clearance).whole is False


def test_change_of_an_erased_memory_is_visible_with_its_journal_entry(four_levels, lifting, actor, low):
    run = execute_run(runs.enqueue("lift", {}, actor))
    memories.erase_memories([memory.uid for memory in four_levels.values()], actor)
    assert len(results.list_changes(run, actor.clearance)) == 3
    [shown] = results.list_changes(run, low.clearance)
    assert (shown.change.uid, shown.memory) == (four_levels["public"].uid, None)


def test_runs_of_other_projects_are_hidden(five, actor, confined):
    elsewhere = runs.enqueue("lift", {"project": "p"}, actor)
    everywhere = runs.enqueue("consolidate", {}, actor)
    other = Actor("token:other", Clearance.up_to("secret", projects=["q"]))
    theirs = runs.enqueue("lift", {}, other)
    own = runs.enqueue("lift", {}, confined)
    assert set(results.visible_runs(confined.clearance)) == {everywhere, own}
    assert set(results.visible_runs(actor.clearance)) == {elsewhere, everywhere, theirs, own}
    with pytest.raises(memories.NotFound):
        runs.get_run(elsewhere.uid, confined)


def test_viewer_with_less_clearance_cannot_control_the_run(four_levels, lifting, actor, low, confined):
    run = runs.enqueue("lift", {}, actor)
    for other in (low, confined):
        with pytest.raises(memories.Forbidden):
            runs.stop(run.uid, other)
    assert runs.stop(run.uid, actor)


def test_scheduled_runs_can_be_controlled_with_full_clearance(five, actor):
    run = execute_run(runs.enqueue("lift", {}, system_actor("schedule")))
    assert runs.undo(run.uid, actor)


def test_changes_are_paged(five, actor):
    run = execute_run(runs.enqueue("lift", {}, actor))
    pages = [results.list_changes(run, actor.clearance, start, 2) for start in (0, 2, 4, 6)]
    assert [one.memory for page in pages for one in page] == five
    assert [len(page) for page in pages] == [2, 2, 1, 0]
