"""Test eviction, purge and pruning: their order and undo."""

from __future__ import annotations

from datetime import timedelta

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance, system_actor
from memoryhub.maintenance.operations import OPERATIONS
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Event, Injection, JournalEntry, Memory, Project, Session
from tests.maintenance.conftest import DAY, whole_store

LOW = Actor("low", Clearance.up_to("public"))


def live():
    return "".join(Memory.objects.live().order_by("content").values_list("content", flat=True))


def test_faded_memories_are_evicted(aged, run, configure):
    configure(max_memories=0)
    faded = aged("a", days=100, importance=0.04)
    aged("b", days=100, importance=0.05)
    aged("c", days=80, importance=0.01)
    aged("d", days=100, importance=0.01, accesses=1)  # today
    [change] = run("evict")
    assert (change.uid, change.action) == (faded.uid, "evict")
    assert change.reason == "faded to 0.04 and not used for 100 days: to the trash"
    assert live() == "bcd"


def test_project_over_the_cap_loses_its_least_useful_memories(aged, run, configure):
    aged("a", days=1, accesses=5)
    aged("b", days=3)
    aged("c", days=2, importance=0.9)
    aged("d", days=2, importance=0.1)
    aged("z", project="other")
    configure(max_memories=2)
    changes = run("evict")
    assert live() == "acz"
    assert [Memory.objects.get(uid=change.uid).content for change in changes] == ["b", "d"]
    assert changes[0].reason.startswith(
        "2 over the cap of 2 for its project and owner; used 0 times, changed "
    )


def test_faded_memories_do_not_count_against_the_cap(aged, planned, run, configure):
    for name in "abc":
        aged(name, days=5)
    aged("x", days=100, importance=0.01)
    configure(max_memories=3)
    assert len(planned("evict")) == 1
    assert len(run("evict")) == 1
    assert live() == "abc"


def test_a_second_eviction_finds_nothing(aged, run, configure):
    for name in "abcdef":
        aged(name, days=100, importance=0.01 if name < "c" else 0.5)
    configure(max_memories=2)
    assert len(run("evict")) == 4
    before = whole_store()
    assert run("evict") == []
    assert whole_store() == before


def test_a_dry_eviction_lists_what_a_run_evicts_in_its_order(aged, planned, run, configure):
    for n in range(60):
        aged(f"{n}", days=n * 3, importance=0.01 if n % 4 else 0.6, project="pq"[n % 2])
    configure(max_memories=7)
    before = whole_store()
    listed = planned("evict")
    assert whole_store() == before
    assert listed == run("evict")


def test_memory_used_since_the_plan_stays(aged, actor, configure, now):
    chosen, other = aged("a", days=9), aged("b", days=8)
    aged("c", days=7)
    configure(max_memories=1)
    [step] = list(OPERATIONS["evict"].steps(OPERATIONS["evict"].Params(), actor, now))
    memories.count_accesses([chosen])
    assert step.apply("run") == 1
    assert [change.uid for change in step.applied] == [other.uid]


def test_only_the_remaining_excess_is_evicted(aged, actor, configure, now):
    for n, name in enumerate("abcd"):
        aged(name, days=9 - n)
    configure(max_memories=2)
    [step] = list(OPERATIONS["evict"].steps(OPERATIONS["evict"].Params(), actor, now))
    memories.trash_memories([Memory.objects.get(content="d").uid], actor)
    assert step.apply("run") == 1
    assert live() == "bc"


def test_eviction_is_undone_from_the_trash(aged, run, undo, actor, configure):
    for n, name in enumerate("abcd"):
        aged(name, days=9 - n)
    configure(max_memories=1)
    run("evict")
    gone = Memory.objects.get(content="a")
    memories.erase_memories([gone.uid], actor)
    assert undo("evict") == 2
    assert live() == "bcd"
    assert undo("evict") == 0


def test_undo_skips_memories_deleted_again_later(aged, run, undo, actor, configure, now):
    memory = aged("a", days=9)
    aged("b")
    configure(max_memories=1)
    run("evict")
    memories.restore_memories([memory.uid], actor, now + timedelta(seconds=1))
    memories.trash_memories([memory.uid], actor, now=now + timedelta(seconds=2))
    assert undo("evict") == 0
    assert live() == "b"


def test_restored_memory_is_not_evicted_again_immediately(aged, run, undo, configure, now):
    configure(max_memories=0)
    aged("a", days=100, importance=0.01)
    run("evict")
    assert undo("evict") == 1
    assert run("evict", at=now + DAY) == []
    assert run("evict", at=now + 91 * DAY) != []


def test_only_visible_memories_are_evicted(four_levels, planned, run, configure):
    configure(max_memories=1)
    assert planned("evict", by=LOW) == []  # only the one public memory counts
    assert len(run("evict", by=system_actor("daily"))) == 2
    assert Memory.objects.get(pk=four_levels["cosmic"].pk).deleted_at is None


def test_purge_deletes_expired_memories_after_the_grace_period(aged, planned, run, actor, now):
    long_ago, lately, alive = aged("a"), aged("b"), aged("c")
    memories.apply_bulk_action("expire", [long_ago.uid], actor, now=now - 40 * DAY)
    memories.apply_bulk_action("expire", [lately.uid], actor, now=now - 2 * DAY)
    [change] = planned("purge_expired", grace_days=30)
    assert (change.action, change.uid, change.reason) == ("purge", long_ago.uid, "expired 40 days ago")
    assert run("purge_expired", grace_days=30) == [change]
    assert [c.uid for c in run("purge_expired")] == [lately.uid]
    assert Memory.objects.get() == alive
    assert JournalEntry.objects.filter(operation="purge").count() == 2


def test_memory_revived_since_the_plan_is_not_purged(aged, actor, now):
    memory = aged("a", ttl_days=5)
    memories.apply_bulk_action("expire", [memory.uid], actor, now=now - DAY)
    purge = OPERATIONS["purge_expired"]
    [step] = list(purge.steps(purge.Params(), actor, now))
    memories.restore_memories([memory.uid], actor)
    assert step.apply("run") == 0
    assert Memory.objects.live().get() == memory


def test_memory_of_an_unknown_level_is_not_purged(four_levels, run, now):
    Memory.objects.update(expires_at=now - DAY)
    assert len(run("purge_expired", by=LOW)) == 1
    assert len(run("purge_expired", by=system_actor("daily"))) == 2
    assert Memory.objects.get() == four_levels["cosmic"]


@pytest.mark.parametrize("name", ["purge_expired", "empty_trash", "prune_events", "reindex"])
def test_irreversible_operations_say_so(name, actor):
    operation = OPERATIONS[name]
    assert not operation.undoable
    assert list(operation.undo("run", actor)) == []
    if name != "reindex":
        assert "cannot be undone" in operation.help


@pytest.fixture
def happened(db, now):
    """``happened("s", 200, 10)``: a session with events of this many days ago."""

    def make(name, *days, **fields):
        session, _ = Session.objects.get_or_create(
            session_id=name, project=fields.pop("project", ""), defaults={"last_at": now - min(days) * DAY}
        )
        for day in days:
            Event.objects.create(session=session, event="tool:post", at=now - day * DAY, **fields)
        return session

    return make


def test_old_events_and_empty_sessions_are_pruned(happened, run, planned, now):
    happened("long-ago", 300, 250)
    happened("now", 200, 10)
    listed = planned("prune_events")
    assert [(change.action, change.count) for change in listed] == [("prune", 3), ("prune", 1)]
    assert listed[0].reason.startswith("3 events from ")
    assert run("prune_events") == listed
    assert (Event.objects.count(), Session.objects.get().session_id) == (1, "now")
    row = JournalEntry.objects.filter(operation="prune").earliest("seq")
    assert (row.object_type, row.detail) == ("events", {"events": 3, "run": "run"})


def test_a_session_with_memories_stays(happened, aged, run):
    happened("s", 300)
    aged("a", days=300, session_id="s")
    run("prune_events")
    assert (Event.objects.count(), Session.objects.count()) == (0, 1)


def test_old_injections_are_pruned(happened, run, now):
    session = happened("s", 1)
    Injection.objects.create(session=session, at=now - 200 * DAY)
    Injection.objects.create(session=session, at=now - 100 * DAY)
    assert sum(change.count for change in run("prune_events")) == 1
    assert Injection.objects.count() == 1


def test_hidden_events_stay_with_their_session(happened, run):
    happened("s", 300, sensitivity="secret")
    happened("s", 300)
    happened("odd", 300, sensitivity="cosmic")
    run("prune_events", by=LOW)
    assert set(Event.objects.values_list("sensitivity", flat=True)) == {"secret", "cosmic"}
    assert Session.objects.count() == 2
    run("prune_events", by=system_actor("daily"))
    assert list(Event.objects.values_list("sensitivity", flat=True)) == ["cosmic"]


def test_zero_retention_keeps_events(happened, run, configure):
    configure(event_retention_days=0)
    happened("s", 9000)
    assert run("prune_events") == []


def test_pruning_is_limited_to_the_project(happened, run):
    happened("s", 300, project="p")
    happened("t", 300, project="q")
    run("prune_events", project="p")
    assert Event.objects.get().session.project == "q"


def test_edited_importance_restarts_the_decay(aged, run, actor, now):
    memory = aged("a", days=60, importance=0.5)
    run("consolidate", at=now - 20 * DAY)  # decayed to zero twenty days ago
    memories.update_memory(memory.uid, MemoryPatch(importance=0.6), actor, now)
    run("consolidate", at=now + DAY)
    memory.refresh_from_db()
    assert memory.importance == pytest.approx(0.58)


def test_undo_works_in_small_batches(aged, run, actor, now, configure):
    configure(maintenance_step_ms=1000)
    for n in range(60):
        aged(f"faded {n}", days=200, importance=0.01)
    assert len(run("evict")) == 60
    configure(maintenance_step_ms=1)
    given = list(OPERATIONS["evict"].undo("run", actor, now))
    assert sum(given) == 60
    assert max(given) <= 20
    assert Memory.objects.live(now).count() == 60


def test_cap_of_a_project_counts_instead_of_the_configured_one(aged, run, configure):
    for content, project in zip("abcdefgh", ["wide"] * 3 + ["narrow"] * 2 + ["usual"] * 3, strict=True):
        aged(content, days=9, project=project)
    configure(max_memories=2)
    Project.objects.create(name="wide", max_memories=9)
    Project.objects.create(name="narrow", max_memories=1)
    changes = run("evict")
    assert [change.reason[:22] for change in changes] == ["1 over the cap of 1 fo", "1 over the cap of 2 fo"]
    projects = Memory.objects.live().order_by("project").values_list("project", flat=True)
    assert list(projects) == ["narrow", "usual", "usual", "wide", "wide", "wide"]
