"""``max_memories`` for each project and owner: the least used memories are evicted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.db.models import Q
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub import memories as store
from memoryhub.access.policy import Actor, Clearance, system_actor
from memoryhub.backends import statements
from memoryhub.capture.projects import configure_project
from memoryhub.core.text import new_uid
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories.delete import evict_memories
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import JournalEntry, Memory
from memoryhub.stats import counts

ADMIN = system_actor("tests")
DAY = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture
def fill(remember):
    """Store memories ``a b c …`` with these ages, accesses and importances."""

    def make(*rows):
        for number, (accessed, day, importance) in enumerate(rows):
            memory = remember("abcdefgh"[number], importance=importance)
            Memory.objects.filter(pk=memory.pk).update(
                accessed_count=accessed, updated_at=DAY + timedelta(days=day)
            )

    return make


def live():
    return "".join(sorted(Memory.objects.live().values_list("content", flat=True)))


@pytest.mark.conformance("guide-66", "guide-67", "guide-68")
@pytest.mark.parametrize(
    ("rows", "left"),
    [
        ([(1, 0, 0.1), (0, 9, 0.9), (2, 0, 0.1)], "acz"),  # least accessed
        ([(0, 3, 0.1), (0, 1, 0.9), (0, 2, 0.1)], "acz"),  # then changed longest ago
        ([(0, 1, 0.5), (0, 1, 0.2), (0, 1, 0.9)], "acz"),  # then least important
        ([(0, 1, 0.5), (0, 1, 0.5), (0, 1, 0.5)], "bcz"),  # then oldest row
    ],
)
def test_eviction_order(fill, remember, configure, rows, left):
    configure(max_memories=3)
    fill(*rows)
    remember("z")
    assert live() == left


def test_evicted_memory_is_in_trash_with_reason_and_journal_row(fill, remember, configure):
    configure(max_memories=2)
    fill((0, 1, 0.5), (0, 2, 0.5))
    remember("z")
    gone = Memory.objects.trashed().get()
    assert (gone.content, gone.trash_reason) == ("a", TrashReason.EVICTED.value)
    assert JournalEntry.objects.get(operation="evict").object_id == gone.uid


def test_new_memory_is_not_evicted_before_accessed_ones(fill, remember, configure):
    configure(max_memories=2)
    fill((5, 1, 0.5), (9, 2, 0.5))
    remember("z", importance=0.0, created_at="2001-01-01T00:00:00Z")
    assert live() == "bz"


def test_batch_over_the_cap_stores_as_many_as_fit(db, actor, configure):
    configure(max_memories=3)
    store.create_memories([MemoryDraft(content=f"{n}") for n in range(8)], actor)
    assert Memory.objects.live().count() == 3
    assert Memory.objects.trashed().count() == 5


def test_each_project_has_its_own_cap(remember, configure):
    configure(max_memories=2)
    for project in ("p", "q"):
        for n in range(2):
            remember(f"{n}", project=project)
    assert not Memory.objects.trashed().exists()
    remember("more", project="p")
    assert Memory.objects.trashed().get().project == "p"


def test_cap_of_zero_means_none(remember, configure):
    configure(max_memories=0)
    for n in range(20):
        remember(f"{n}")
    assert not Memory.objects.trashed().exists()


def test_expired_and_trashed_memories_do_not_count(remember, actor, configure):
    configure(max_memories=2)
    expired, trashed = remember("a"), remember("b")
    store.apply_bulk_action("expire", [expired.uid], actor)
    store.trash_memories([trashed.uid], actor)
    remember("c")
    remember("d")
    assert Memory.objects.live().count() == 2


def test_refresh_evicts_nothing(remember, configure):
    configure(max_memories=2)
    remember("a")
    remember("b")
    remember("a")
    assert live() == "ab"


def test_revived_memory_counts_as_new(remember, actor, configure):
    configure(max_memories=2)
    first = remember("a")
    store.trash_memories([first.uid], actor)
    remember("b")
    remember("c")
    remember("a")
    assert live() == "ac"


def test_lowering_the_cap_does_not_empty_a_project(remember, configure):
    for n in "abcde":
        remember(n)
    configure(max_memories=2)
    remember("z")
    assert Memory.objects.live().count() == 5


def test_import_may_exceed_the_cap(db, actor, configure):
    configure(max_memories=2)
    store.create_memories([MemoryDraft(content=f"{n}") for n in range(5)], actor, enforce_cap=False)
    assert Memory.objects.live().count() == 5


def test_eviction_can_be_undone(fill, remember, actor, configure):
    configure(max_memories=1)
    fill((0, 1, 0.5))
    remember("z")
    store.restore_memories([Memory.objects.trashed().get().uid], actor)
    assert live() == "az"


def test_dashboard_warns_at_90_percent(remember, actor, configure):
    configure(max_memories=10)
    for n in range(8):
        remember(f"{n}", project="p")
    assert counts.store_statistics(actor.clearance)["near_cap"] == {}
    remember("9", project="p")
    assert counts.store_statistics(actor.clearance)["near_cap"] == {"p": 9}


def by(name, level="secret", owner="ada", **more):
    return Actor(f"token:{name}", Clearance.up_to(level, owner=owner), **more)


@pytest.fixture
def others(remember):
    """Memories of another agent in project p, one of each kind."""
    bob = by("bob", owner="bob")
    fields = [{"sensitivity": level} for level in ("public", "private", "secret")] + [{"scope": "personal"}]
    return [remember(f"bob {n}", bob, project="p", **more) for n, more in enumerate(fields)]


def trashed():
    return sorted(Memory.objects.trashed().values_list("content", flat=True))


def test_store_evicts_only_memories_of_the_same_author(others, remember, configure):
    configure(max_memories=3)
    for n in range(5):
        remember(f"mine {n}", by("eve", "public", "eve"), project="p")
    assert trashed() == ["mine 0", "mine 1"]


def test_batch_evicts_only_memories_of_the_same_author(others, configure):
    configure(max_memories=3)
    drafts = [MemoryDraft(content=f"mine {n}", project="p") for n in range(5)]
    store.create_memories(drafts, by("eve", "public", "eve"))
    assert trashed() == ["mine 0", "mine 1"]


def test_each_author_has_a_cap_in_a_project(remember, configure):
    configure(max_memories=2)
    for name in ("one", "two"):
        for n in range(2):
            remember(f"{name} {n}", by(name), project="p")
    assert trashed() == []
    remember("one more", by("one"), project="p")
    assert trashed() == ["one 0"]


def test_personal_memories_count_for_their_owner(remember, configure):
    configure(max_memories=2)
    for agent in ("one", "two"):
        remember(f"of ada by {agent}", by(agent), scope="personal")
        remember(f"shared by {agent}", by(agent))
    assert trashed() == []
    remember("of ada by three", by("three"), scope="personal")
    assert trashed() == ["of ada by one"]


def test_hidden_memories_of_the_same_author_are_neither_counted_nor_evicted(remember, configure):
    configure(max_memories=2)
    for n in range(3):
        remember(f"secret {n}", by("bot"), sensitivity="secret")
    Memory.objects.update(deleted_at=None, trash_reason="")
    memories = [remember(f"public {n}", by("bot", "public")) for n in range(2)]
    assert trashed() == []
    assert not any(memory.over_cap for memory in memories)
    remember("public 2", by("bot", "public"))
    assert trashed() == ["public 0"]


def test_store_above_clearance_succeeds_over_the_cap(db, configure):
    configure(max_memories=2)
    drafts = [MemoryDraft(content=f"{n}", sensitivity="secret") for n in range(3)]
    results = store.create_memories(drafts, by("eve", "public"))
    assert [done.memory.over_cap for done in results] == [True, True, True]
    assert trashed() == []


def test_store_that_can_evict_is_not_over_the_cap(remember, configure):
    configure(max_memories=1)
    remember("a")
    assert not remember("b").over_cap


def test_store_stays_over_a_cap_that_was_lowered(remember, configure):
    for n in "abc":
        remember(n)
    configure(max_memories=1)
    assert remember("d").over_cap


def test_actor_without_permission_to_delete_evicts_nothing(remember, configure):
    configure(max_memories=1)
    clerk = by("clerk", may_delete=False)
    remember("a", clerk)
    assert remember("b", clerk).over_cap
    assert trashed() == []


def test_move_evicts_only_memories_of_the_same_author(others, remember, configure):
    configure(max_memories=1)
    eve = by("eve", "public", "eve")
    remember("mine", eve, project="p")
    store.update_memory(remember("moved", eve).uid, MemoryPatch(project="p"), eve)
    assert trashed() == ["mine"]


def test_evict_leaves_memories_that_the_actor_cannot_see(others):
    evict_memories(Q(project="p"), 9, by("eve", "public", "eve"), timezone.now())
    assert trashed() == ["bob 0"]


def test_dashboard_counts_per_project_and_owner(remember, actor, configure):
    configure(max_memories=10)
    for name in ("one", "two"):
        for n in range(8):
            remember(f"{name} {n}", by(name), project="p")
    assert counts.store_statistics(actor.clearance)["near_cap"] == {}
    remember("one 8", by("one"), project="p")
    assert counts.store_statistics(actor.clearance)["near_cap"] == {"p": 9}
    assert counts.projects_near_cap(Memory.objects.live()) == {"p": 9}


# Caps of projects


def test_store_over_a_raised_cap_evicts_nothing(remember, configure):
    configure(max_memories=2)
    configure_project("p", ADMIN, max_memories=4)
    for n in range(4):
        remember(f"{n}", project="p")
    assert not Memory.objects.trashed().exists()
    remember("one more", project="p")
    assert Memory.objects.trashed().count() == 1


def test_lower_cap_of_a_project_evicts_at_its_number(remember, configure):
    configure(max_memories=9)
    configure_project("p", ADMIN, max_memories=2)
    for n in range(3):
        remember(f"{n}", project="p")
        remember(f"{n}", project="q")
    assert Memory.objects.live().filter(project="p").count() == 2
    assert Memory.objects.live().filter(project="q").count() == 3


def test_cap_of_a_project_counts_where_the_hub_has_none(remember, configure):
    configure(max_memories=0)
    configure_project("p", ADMIN, max_memories=1)
    for project in ("p", "q", "p", "q"):
        remember(f"{Memory.objects.count()}", project=project)
    assert Memory.objects.trashed().get().project == "p"
    assert counts.store_statistics(Clearance())["near_cap"] == {"p": 1}


def test_project_without_a_cap_evicts_nothing_and_is_not_near_it(remember, configure):
    configure(max_memories=1)
    configure_project("p", ADMIN, max_memories=0)
    for n in range(3):
        remember(f"{n}", project="p")
    assert not Memory.objects.trashed().exists()
    assert counts.store_statistics(Clearance())["near_cap"] == {}


def test_each_project_of_a_batch_has_its_own_cap(db, actor, configure):
    configure(max_memories=3)
    configure_project("p", ADMIN, max_memories=1)
    configure_project("q", ADMIN, max_memories=5)
    drafts = [MemoryDraft(content=f"{n}", project=project) for n in range(5) for project in "pqr"]
    store.create_memories(drafts, actor)
    live = Memory.objects.live().order_by("project").values_list("project", flat=True)
    assert "".join(live) == "pqqqqqrrr"


def test_memory_that_moves_to_a_project_over_its_cap_evicts_there(remember, actor, configure):
    configure(max_memories=9)
    configure_project("p", ADMIN, max_memories=1)
    remember("old", project="p")
    moved = remember("moved", project="q")
    store.update_memory(moved.uid, MemoryPatch(project="p"), actor)
    assert Memory.objects.trashed().get().content == "old"


@pytest.mark.parametrize("stored", [1, 6])
def test_storing_reads_the_cap_of_the_project_in_its_one_read(remember, actor, configure, stored):
    configure(max_memories=2)
    configure_project("p", ADMIN, max_memories=8)
    for n in range(stored):
        remember(f"{n}", project="p")
    with CaptureQueriesContext(connection) as queries:
        store.create_memory(MemoryDraft(content="zebra", project="p"), actor)
    assert [row["sql"].split()[0] for row in queries].count("SELECT") == 1


@pytest.fixture
def committed(transactional_db, configure, remember):
    """A project with a cap of 10 and three memories, whose number the process knows."""
    configure(max_memories=10)
    remember("0", project="p")
    statements._rooms.clear()  # an emptied change log starts at any number
    for number in (1, 2):
        remember(f"{number}", project="p")
    assert [room.memories for room in statements._rooms.values()] == [9]
    return "p"


def count_live(project):
    return Memory.objects.live().filter(project=project).count()


def test_memories_are_not_counted_again_while_there_is_room(committed, remember):
    [room] = statements._rooms.values()
    for number in range(7):
        remember(f"more {number}", project=committed)
    assert [*statements._rooms.values()] == [room]
    assert count_live(committed) == 10


def test_cap_is_noticed_although_the_room_was_counted_earlier(committed, remember):
    for number in range(9):
        remember(f"more {number}", project=committed)
    assert count_live(committed) == 10


def test_memories_of_other_processes_are_counted(committed, remember, actor):
    others = (
        Memory(uid=new_uid(), content_hash=f"{n}", project=committed, author=actor.name) for n in range(7)
    )
    Memory.objects.bulk_create(others)
    remember("one too many", project=committed)
    assert count_live(committed) == 10


def test_restored_memories_are_counted(committed, remember, actor):
    first = list(Memory.objects.filter(project=committed))
    store.trash_memories([memory.uid for memory in first], actor)
    for number in range(10):
        remember(f"more {number}", project=committed)
    store.restore_memories([memory.uid for memory in first], actor)
    remember("one too many", project=committed)
    assert count_live(committed) == 13  # a store evicts no more memories than it adds


def test_lower_cap_of_a_project_is_noticed(committed, remember):
    configure_project(committed, ADMIN, max_memories=3)
    remember("one too many", project=committed)
    assert count_live(committed) == 3


def test_count_of_a_rolled_back_transaction_is_not_used(committed, remember, actor):
    statements._rooms.clear()
    with transaction.atomic():
        store.trash_memories(Memory.objects.values_list("uid", flat=True), actor)
        remember("rolled back", project=committed)
        transaction.set_rollback(True)
    for number in range(9):
        remember(f"more {number}", project=committed)
    assert count_live(committed) == 10
