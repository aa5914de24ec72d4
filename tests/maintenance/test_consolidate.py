"""Test consolidation: importance depends on use, and each use counts once."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub import memories as store
from memoryhub.access.policy import Actor, Clearance, system_actor
from memoryhub.audit import journal
from memoryhub.maintenance.operations import OPERATIONS, run_now
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import JournalEntry, Memory
from tests.cases import rolled_back
from tests.maintenance.conftest import DAY, whole_store


def worth(memory):
    memory.refresh_from_db()
    return memory.importance


def test_unused_memory_decays_daily(aged, run):
    memory = aged("a", days=10, importance=0.8)
    [change] = run("consolidate")
    assert worth(memory) == pytest.approx(0.6)
    assert (change.action, change.before, change.after) == ("decay", 0.8, worth(memory))
    assert change.reason == "not used for 10 days: 0.80 → 0.60"


@pytest.fixture
def history(db, actor, now):
    """A memory of three years ago that was imported just now."""
    draft = MemoryDraft(content="Old news", created_at=now - 1000 * DAY, ttl_days=None, importance=0.5)
    [made] = store.create_memories([draft], actor, now, enforce_cap=False, imported_at=now)
    return made.memory


def test_imported_memory_decays_from_its_import(history, run, now):
    assert run("consolidate") == []
    [change] = run("consolidate", at=now + 10 * DAY)
    assert (change.action, worth(history)) == ("decay", pytest.approx(0.3))


def test_imported_memory_is_evicted_ninety_days_after_its_import(history, run, now):
    Memory.objects.update(importance=0.01)
    assert run("evict", at=now + 89 * DAY) == []
    assert [change.uid for change in run("evict", at=now + 91 * DAY)] == [history.uid]


@pytest.mark.conformance("guide-96")
@pytest.mark.parametrize("kind", ["decision", "discovery"])
def test_decisions_and_discoveries_decay_at_half_rate(aged, run, kind):
    memory = aged("a", days=10, importance=0.8, type=kind)
    [change] = run("consolidate")
    assert worth(memory) == pytest.approx(0.7)
    assert change.reason == f"not used for 10 days: 0.80 → 0.70; half rate, a {kind}"


@pytest.mark.conformance("guide-41")
def test_used_memory_is_boosted_and_does_not_decay(aged, run):
    memory = aged("a", days=10, importance=0.5, accesses=3)
    [change] = run("consolidate")
    assert worth(memory) == pytest.approx(0.5 + 0.03 * math.log(4))
    assert (change.action, change.reason) == ("boost", "used 3 times: 0.50 → 0.54")


def test_access_is_counted_once(aged, run, now):
    memory = aged("a", days=10, importance=0.5, accesses=3)
    run("consolidate")
    once = worth(memory)
    Memory.objects.update(accessed_count=4)
    [change] = run("consolidate", at=now + DAY)
    assert worth(memory) == pytest.approx(once + 0.03 * math.log(2))
    assert change.reason == "used 1 time since the last consolidation: 0.54 → 0.56"


def test_days_count_from_the_last_consolidation(aged, run, now):
    memory = aged("a", days=10, importance=0.8)
    run("consolidate")
    [change] = run("consolidate", at=now + 2 * DAY)
    assert worth(memory) == pytest.approx(0.56)
    assert change.reason == "not used for 12 days, 2 of them since the last consolidation: 0.60 → 0.56"


@pytest.mark.conformance("guide-113")
def test_the_rate_can_be_configured(aged, run, configure):
    configure(consolidation_decay_rate=0.01)
    memory = aged("a", days=10, importance=0.8)
    run("consolidate")
    assert worth(memory) == pytest.approx(0.7)


@pytest.mark.parametrize("later", [timedelta(0), timedelta(seconds=30)])
def test_a_second_run_changes_nothing(aged, run, now, later):
    aged("a", days=10)
    aged("b", days=10, accesses=3)
    aged("c", days=200, importance=0.1)
    aged("d", days=10, importance=1.0, accesses=3)
    run("consolidate")
    before = whole_store()
    assert run("consolidate", at=now + later) == []
    assert whole_store() == before


def test_small_changes_accumulate(aged, run, now):
    """The decay of thirty minutes is too small to be written, but it accumulates."""
    memory = aged("a", importance=0.8)
    for n in range(1, 97):
        run("consolidate", at=now + n * timedelta(minutes=30))
    assert worth(memory) == pytest.approx(0.8 - 0.02 * 2, abs=0.0005)
    assert memory.consolidated_at > now


def test_access_at_full_importance_does_not_prevent_later_decay(aged, run, now):
    memory = aged("a", importance=1.0, accesses=2)
    run("consolidate")
    run("consolidate", at=now + 5 * DAY)
    assert worth(memory) == pytest.approx(0.9)


def test_consolidation_keeps_the_update_time(aged, run):
    memory = aged("a", days=10)
    before = memory.updated_at
    run("consolidate")
    memory.refresh_from_db()
    assert memory.updated_at == before


def test_deleted_and_expired_memories_are_not_consolidated(aged, run, actor, now):
    trashed, expired = aged("a", days=10), aged("b", days=10)
    store.trash_memories([trashed.uid], actor, now=now)
    store.apply_bulk_action("expire", [expired.uid], actor, now=now - DAY)
    assert run("consolidate") == []
    assert (worth(trashed), worth(expired)) == (0.5, 0.5)


@pytest.mark.conformance("guide-97")
def test_faded_unused_memory_goes_to_the_trash(aged, run):
    old, young = aged("a", days=90, importance=0.3), aged("b", days=89, importance=0.3)
    changes = {change.uid: change for change in run("consolidate")}
    old.refresh_from_db()
    assert (old.trash_reason, old.importance) == ("evicted", 0.0)
    assert changes[old.uid].action == "evict"
    assert changes[old.uid].reason == "faded to 0.00 and not used for 90 days: to the trash"
    assert changes[young.uid].action == "fade"
    assert Memory.objects.live().get() == young


def test_one_project_can_be_consolidated_alone(aged, run):
    mine, other = aged("a", days=10, project="p"), aged("b", days=10, project="q")
    run("consolidate", project="p")
    assert worth(mine) == pytest.approx(0.3)
    assert worth(other) == 0.5


def test_only_visible_memories_are_changed_or_listed(four_levels, planned, run, now):
    low = Actor("low", Clearance.up_to("public"))
    Memory.objects.update(updated_at=now - 10 * DAY)
    assert [change.uid for change in planned("consolidate", by=low)] == [four_levels["public"].uid]
    run("consolidate", by=low)
    assert worth(four_levels["public"]) == pytest.approx(0.3)
    assert worth(four_levels["private"]) == 0.5


def test_memory_of_an_unknown_level_is_never_changed(four_levels, run, now):
    Memory.objects.update(updated_at=now - 10 * DAY)
    assert len(run("consolidate", by=system_actor("daily"))) == 3
    assert worth(four_levels["cosmic"]) == 0.5


def test_no_row_is_skipped_by_steps_of_one(aged, configure, actor, now):
    """Rows leave the paged queryset during the run."""
    configure(maintenance_step_ms=1)
    for n in range(40):
        aged(f"{n}", days=100, importance=0.3 if n % 2 else 0.5)
    ran = run_now("consolidate", {}, actor, now=now)
    assert (ran.seen, ran.changed) == (40, 40)
    assert Memory.objects.trashed().count() == 40


def test_rows_added_and_removed_during_the_run_are_not_skipped(aged, actor, now):
    memories = [aged(f"{n}", days=10) for n in range(450)]
    steps = OPERATIONS["consolidate"].steps(OPERATIONS["consolidate"].Params(), actor, now)
    first = next(steps)
    first.apply("run")
    store.trash_memories([memory.uid for memory in memories[:150]], actor)
    aged("new", days=10)
    seen = [change.uid for step in steps for change in step.changes]
    assert set(seen) >= {memory.uid for memory in memories[len(first.changes) :]}


def test_memories_added_during_a_run_wait_for_the_next_run(aged, configure, actor, now):
    """Otherwise a run would never end while agents write as fast as it reads."""
    configure(maintenance_step_ms=1)
    for n in range(3):
        aged(f"{n}", days=10)
    steps = OPERATIONS["consolidate"].steps(OPERATIONS["consolidate"].Params(), actor, now)
    first = next(steps)
    late = aged("late", days=10)
    rest = list(
        OPERATIONS["consolidate"].steps(OPERATIONS["consolidate"].Params(), actor, now, first.position)
    )
    assert late.uid not in {change.uid for step in [*steps, *rest] for change in step.changes}


def test_memory_changed_since_the_plan_is_skipped(aged, actor, now):
    accessed, edited, calm = aged("a", days=10), aged("b", days=10), aged("c", days=10)
    [step] = list(OPERATIONS["consolidate"].steps(OPERATIONS["consolidate"].Params(), actor, now))
    store.count_accesses([accessed], now)
    store.update_memory(edited.uid, MemoryPatch(importance=0.9), actor)
    assert step.apply("run") == 1
    assert [change.uid for change in step.applied] == [calm.uid]
    assert (worth(accessed), worth(edited)) == (0.5, 0.9)


def test_repeated_step_changes_nothing_twice(aged, actor, now):
    for n in range(10):
        aged(f"{n}", days=10)
    consolidate = OPERATIONS["consolidate"]
    for step in consolidate.steps(consolidate.Params(), actor, now):
        step.apply("run")  # the position after it is lost
    before = whole_store()
    for step in consolidate.steps(consolidate.Params(), actor, now, {}):
        step.apply("run")
    assert whole_store() == before


def test_run_continues_after_its_position(aged, actor, now):
    memories = [aged(f"{n}", days=10) for n in range(300)]
    consolidate = OPERATIONS["consolidate"]
    first = next(consolidate.steps(consolidate.Params(), actor, now))
    rest = list(consolidate.steps(consolidate.Params(), actor, now, first.position))
    seen = [change.uid for step in [first, *rest] for change in step.changes]
    assert seen == [memory.uid for memory in memories]


def test_the_journal_has_a_row_for_each_project_level_and_owner(aged, run):
    aged("a", days=10, project="p")
    aged("b", days=10, project="p")
    aged("c", days=10, project="p", sensitivity="secret")
    aged("d", days=10, scope="personal")
    run("consolidate", uid="r")
    rows = JournalEntry.objects.filter(operation="consolidate").order_by("seq")
    places = [(row.project, row.sensitivity, row.owner, len(row.detail["changes"])) for row in rows]
    assert places == [("", "public", "ada", 1), ("p", "public", "", 2), ("p", "secret", "", 1)]
    assert {(row.object_type, row.object_id, row.detail["run"]) for row in rows} == {("memories", "r", "r")}
    assert journal.verify().ok


def test_undo_restores_importances(aged, run, undo):
    faded, used = aged("a", days=10), aged("b", days=10, accesses=2)
    gone = aged("c", days=100, importance=0.2)
    run("consolidate")
    assert undo("consolidate") == 3  # one of them comes out of the trash and gets its importance back
    assert (worth(faded), worth(used), worth(gone)) == (0.5, 0.5, 0.2)
    assert not Memory.objects.trashed().exists()
    assert undo("consolidate") == 0


def test_undo_skips_memories_changed_since(aged, run, undo, actor):
    mine, other = aged("a", days=10), aged("b", days=10)
    run("consolidate")
    store.update_memory(mine.uid, MemoryPatch(importance=0.9), actor)
    assert undo("consolidate") == 1
    assert (worth(mine), worth(other)) == (0.9, 0.5)


def test_next_run_does_not_repeat_undone_changes(aged, run, undo, now):
    memory = aged("a", days=10)
    run("consolidate")
    undo("consolidate")
    assert run("consolidate", at=now + timedelta(minutes=1)) == []
    assert worth(memory) == 0.5


def test_undo_is_limited_to_visible_memories(aged, run, undo):
    low = Actor("low", Clearance.up_to("public"))
    memory, secret = aged("a", days=10), aged("b", days=10, sensitivity="secret")
    run("consolidate")
    assert undo("consolidate", by=low) == 1
    assert worth(memory) == 0.5
    assert worth(secret) == pytest.approx(0.3)


def test_dry_run_lists_the_changes_of_the_run(aged, planned, run):
    for n in range(30):
        aged(
            f"{n}",
            days=n * 4,
            accesses=n % 3,
            importance=(n % 10) / 10,
            type="decision" if n % 5 else "fact",
        )
    before = whole_store()
    listed = planned("consolidate")
    assert whole_store() == before
    assert listed == run("consolidate")


splits = st.lists(st.floats(0.001, 15), min_size=1, max_size=5)  # less than 90 days: nothing is evicted


@settings(max_examples=40, deadline=None)
@given(splits, st.floats(0, 1), st.sampled_from(["change", "decision"]))
def test_runs_in_between_make_no_difference(aged, run, now, days, importance, kind):
    with rolled_back():
        often = aged("often", importance=importance, type=kind, project="often")
        once = aged("once", importance=importance, type=kind, project="once")
        at = now
        for part in days:
            at += part * DAY
            run("consolidate", at=at, project="often")
        run("consolidate", at=at, project="once")
        assert worth(often) == pytest.approx(worth(once), abs=0.0005)


def test_a_change_that_two_decimals_do_not_show_is_made_but_not_listed(aged, run, planned):
    memory = aged("a", days=0.1, importance=0.6)
    assert planned("consolidate") == []
    assert run("consolidate") == []
    assert worth(memory) == pytest.approx(0.598)


def test_an_access_that_cannot_raise_the_importance_is_counted_but_not_listed(aged, run, now):
    memory = aged("a", importance=1.0, accesses=2)
    assert run("consolidate") == []
    memory.refresh_from_db()
    assert (memory.importance, memory.consolidated_accesses) == (1.0, 2)
    [change] = run("consolidate", at=now + 10 * DAY)
    assert change.action == "decay"


class TestRecall:
    """What consolidation does to a search that matches a memory in part."""

    def test_a_memory_that_such_a_search_no_longer_finds_is_listed_as_faded(self, aged, run):
        aged("a", days=80, importance=0.5)
        [change] = run("consolidate")
        assert change.action == "fade"
        assert change.reason.endswith("0.50 → 0.00; a search that matches it in part no longer finds it")

    def test_a_memory_that_it_still_finds_only_loses_importance(self, aged, run):
        aged("young", days=10, importance=0.5)
        aged("trusted", days=80, importance=0.5, trust=1.0)
        assert [change.action for change in run("consolidate")] == ["decay", "decay"]

    def test_a_memory_that_it_did_not_find_before_does_not_fade_again(self, aged, run):
        aged("a", days=80, importance=0.05)
        assert [change.action for change in run("consolidate")] == ["decay"]

    def test_the_configured_threshold_counts(self, aged, run, configure):
        configure(min_score=0.2)
        aged("a", days=80, importance=0.5)
        assert [change.action for change in run("consolidate")] == ["decay"]
