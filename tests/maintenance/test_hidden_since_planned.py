"""Test journal rows about several memories, one of which got a higher level later."""

from __future__ import annotations

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import JournalEntry, Memory

LOW = Actor("token:low", Clearance.up_to("public"))


@pytest.fixture
def two(aged):
    return aged("a", days=10), aged("b", days=10)


def groups(actor):
    rows = JournalEntry.objects.visible_to(actor.clearance).filter(object_type="memories")
    return sorted(row.operation for row in rows)


def hide(memory, actor):
    memories.update_memory(memory.uid, MemoryPatch(sensitivity="secret"), actor)


def test_row_with_a_memory_that_became_secret_is_hidden(two, run, actor):
    run("consolidate")
    assert groups(LOW) == ["consolidate"]
    hide(two[0], actor)
    assert groups(LOW) == []
    assert groups(actor) == ["consolidate"]


def test_row_stays_hidden_after_that_memory_is_erased(two, run, actor):
    run("consolidate")
    hide(two[0], actor)
    memories.erase_memories([two[0].uid], actor)
    assert groups(LOW) == []
    assert groups(actor) == ["consolidate"]


def test_row_with_erased_public_memories_is_shown(two, run, actor):
    run("consolidate")
    memories.erase_memories([memory.uid for memory in two], actor)
    assert groups(LOW) == ["consolidate"]


def test_memory_moved_to_a_hidden_project_hides_the_row(aged, run, actor):
    memory = aged("a", days=10, project="open")
    confined = Actor("token:c", Clearance.up_to("secret", projects=frozenset({"open"})))
    run("consolidate")
    assert groups(confined) == ["consolidate"]
    memories.update_memory(memory.uid, MemoryPatch(project="closed"), actor)
    assert groups(confined) == []


def test_rows_of_a_later_run_without_that_memory_are_shown(two, run, actor, now):
    run("consolidate")
    hide(two[0], actor)
    Memory.objects.filter(pk=two[1].pk).update(accessed_count=1)
    run("consolidate", by=LOW, uid="later")
    assert groups(LOW) == ["consolidate"]


def test_merged_and_evicted_ones_are_named_in_rows_too(aged, run, actor):
    alike = [aged(f"the same old words about the pump and valve {n}", days=40) for n in range(3)]
    faded = aged("long gone", days=200, importance=0.01)
    run("compress")
    run("evict")
    assert groups(LOW) == ["compress", "evict"]
    Memory.objects.filter(pk__in=[alike[0].pk, faded.pk]).update(sensitivity="secret")
    assert groups(LOW) == []


def test_undo_uses_rows_that_were_hidden_since(two, run, undo, actor):
    run("consolidate", by=LOW)
    hide(two[0], actor)
    assert undo("consolidate", by=LOW) == 1
    worths = [Memory.objects.get(pk=memory.pk).importance for memory in two]
    assert worths == [pytest.approx(0.3), 0.5]


@pytest.mark.parametrize(("level", "named"), [("public", True), ("secret", False)])
def test_a_row_names_what_a_memory_became_only_where_all_its_readers_may_see_that(
    aged, remember, actor, level, named
):
    memory, target = aged("a"), remember("replaces it", sensitivity=level)
    memories.trash_memories([memory.uid], actor, TrashReason.MERGED, into=target)
    row = JournalEntry.objects.visible_to(LOW.clearance).get(operation="merged", object_id=memory.uid)
    assert ("merged_into" in row.detail) is named
    memory.refresh_from_db()
    assert memory.merged_into == target
