"""Test that emptying the trash takes short steps and leaves no byte."""

from __future__ import annotations

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance, system_actor
from memoryhub.facts import services
from memoryhub.maintenance.operations import OPERATIONS
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import Event, JournalEntry, Memory, Session
from tests.database import index_is_sound
from tests.maintenance.conftest import DAY, whole_store
from tests.memories.test_erase import bytes_of_the_store

LOW = Actor("low", Clearance.up_to("public"))


def test_trash_is_listed_and_erased(aged, planned, run, actor, now):
    gone, kept = aged("gone"), aged("kept")
    memories.trash_memories([gone.uid], actor, now=now - 3 * DAY)
    before = whole_store()
    listed = planned("empty_trash")
    assert whole_store() == before
    assert [(c.action, c.uid, c.reason) for c in listed] == [("erase", gone.uid, "forgotten, 3 days ago")]
    assert run("empty_trash") == listed
    assert Memory.objects.get() == kept
    assert JournalEntry.objects.get(operation="erase").object_id == gone.uid
    assert run("empty_trash") == []


def test_recently_deleted_memories_can_be_spared(aged, run, actor, now):
    old, young = aged("old"), aged("young")
    memories.trash_memories([old.uid], actor, now=now - 31 * DAY)
    memories.trash_memories([young.uid], actor, now=now - 29 * DAY)
    assert [change.uid for change in run("empty_trash", older_than_days=30)] == [old.uid]


def test_memory_restored_since_the_plan_stays(aged, actor, now):
    memory = aged("a")
    memories.trash_memories([memory.uid], actor, now=now)
    operation = OPERATIONS["empty_trash"]
    step = next(operation.steps(operation.Params(), actor, now))
    memories.restore_memories([memory.uid], actor)
    assert step.apply("run") == 0
    assert Memory.objects.live().get() == memory


def test_only_visible_memories_are_erased(four_levels, planned, run, now):
    Memory.objects.update(deleted_at=now - DAY)
    assert [change.uid for change in planned("empty_trash", by=LOW)] == [four_levels["public"].uid]
    run("empty_trash", by=LOW)
    assert Memory.objects.count() == 3
    run("empty_trash", by=system_actor("daily"))
    assert Memory.objects.get() == four_levels["cosmic"]


def test_long_texts_make_smaller_steps(aged, actor, now, configure):
    configure(maintenance_step_ms=1)  # any step takes longer than this
    memories.trash_memories([aged(f"a{n} " + "word " * 15_000).uid for n in range(6)], actor, now=now)
    operation = OPERATIONS["empty_trash"]
    sizes = []
    for step in operation.steps(operation.Params(), actor, now):
        step.apply("run")
        sizes += [len(step.applied)] * bool(step.applied)
    assert sum(sizes) == 6
    assert max(sizes) == 1


def test_resumed_run_repeats_the_cleanup(aged, actor, now):
    memory = aged("a")
    memories.trash_memories([memory.uid], actor, now=now)
    operation = OPERATIONS["empty_trash"]
    first = next(operation.steps(operation.Params(), actor, now))
    first.apply("run")
    rest = list(operation.steps(operation.Params(), actor, now, first.position))
    assert rest
    assert all(step.chore for step in rest)


@pytest.mark.slow
@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("compact", [False, True])
def test_no_byte_is_left_in_the_file(remember, actor, run, now, compact):
    fillers = [
        MemoryDraft(content=f"filler number {n} with words of its own {n * 7919}", tags=[f"filler{n}"])
        for n in range(300)
    ]
    memories.create_memories(fillers, actor)
    for n in range(40):
        memory = remember(
            f"the xylophonequark{n} content of old " + "xylophonequark padding " * (n * 20),
            title="xylophonequark title",
            tags=["xylophonequark-tag"],
            files_read=["src/xylophonequark.py"],
            entities=[{"entity": "xylophonequark entity"}],
            session_id="s",
            created_at=now - DAY,
        )
        memories.update_memory(
            memory.uid, MemoryPatch(content=f"the xylophonequark{n} content of today"), actor
        )
        remember(f"more filler after {n}")
    services.create_fact(
        FactDraft(subject="xylophonequark", predicate="p", object="o", memory_id=memory.uid), actor
    )
    Event.objects.create(
        session=Session.objects.get(), event="tool:post", memory=memory, preview="xylophonequark"
    )
    uids = Memory.objects.filter(content__contains="xylophonequark").values_list("uid", flat=True)
    memories.trash_memories(list(uids), actor, now=now - DAY)
    assert bytes_of_the_store().lower().count(b"xylop") > 8
    assert len(run("empty_trash", compact=compact)) == 40
    left = bytes_of_the_store()
    assert b"filler number 7" in left
    assert b"xylop" not in left.lower()
    assert index_is_sound()
