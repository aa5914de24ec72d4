"""Runs of maintenance: who is told what of them, and who steers them."""

from __future__ import annotations

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance, system
from memoryhub.maintenance import results, runs
from memoryhub.models import Memory
from tests.maintenance.stepping import done


def test_who_sees_less_is_told_of_what_they_see(four_levels, lifting, actor, low):
    run = done(runs.start("lift", {}, actor))
    assert runs.told(run, actor.clearance) == results.Told(3, 3, {"boost": 3}, 3, 3, True)
    assert runs.told(run, low.clearance) == results.Told(100, 100, {"boost": 1}, 1, 1, False)
    [shown] = runs.changes_of(run, low.clearance)
    assert shown.memory == four_levels["public"]


@pytest.mark.parametrize(("level", "seen"), [("public", 1), ("private", 2), ("secret", 3), ("cosmic", 0)])
def test_changes_are_behind_the_gate(four_levels, lifting, actor, level, seen):
    run = done(runs.start("lift", {}, actor))
    assert len(runs.changes_of(run, Clearance.up_to(level, "ada"))) == seen


def test_what_became_secret_since_is_not_told(five, actor, low):
    run = done(runs.start("lift", {}, low))
    Memory.objects.filter(pk=five[0].pk).update(sensitivity="cosmic")
    assert len(runs.changes_of(run, actor.clearance)) == 4


def test_a_share_is_all_that_is_told_while_it_runs(four_levels, lifting, actor, low):
    run = runs.start("lift", {}, actor)
    told = []
    runs.work(run, watcher=lambda run: told.append(runs.told(run, low.clearance, counted=False).done))
    assert told == [33, 66, 100]


def test_other_peoples_personal_memories_stay_theirs(remember, lifting, actor, stranger):
    remember("a shared one")
    remember("mine alone", scope="personal")
    run = done(runs.start("lift", {}, system("schedule")))
    assert len(runs.changes_of(run, actor.clearance)) == 2
    assert len(runs.changes_of(run, stranger.clearance)) == 1
    assert runs.told(run, stranger.clearance).whole is False


def test_what_is_gone_shows_to_those_who_may_see_its_end(four_levels, lifting, actor, low):
    run = done(runs.start("lift", {}, actor))
    memories.erase([memory.uid for memory in four_levels.values()], actor)
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
    with pytest.raises(memories.NotFound):
        runs.find(elsewhere.uid, confined)


def test_who_sees_less_does_not_steer(four_levels, lifting, actor, low, confined):
    run = runs.start("lift", {}, actor)
    for other in (low, confined):
        with pytest.raises(memories.Forbidden):
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
