"""Search and recall of what was stored at a moment (``as_of``)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub.access.policy import Clearance
from memoryhub.memories import (
    apply_bulk_action,
    erase_memories,
    restore_memories,
    trash_memories,
    undo_bulk_action,
    update_memory,
)
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.memories.versions import load_snapshot
from memoryhub.models import AbsenceSpan, Memory, Revision
from memoryhub.search.hybrid import search_snapshot
from tests.cases import each

CLEARANCE = Clearance.up_to("secret", "ada")
NOW = timezone.now()
MARCH, APRIL, MAY = (NOW - timedelta(days=days) for days in (90, 60, 30))


def search(query, moment=APRIL, clearance=CLEARANCE, **filters):
    snapshot = load_snapshot(MemoryFilter(**filters), clearance, moment)
    return [hit.memory.content for hit in search_snapshot(snapshot, query, limit=10).hits]


@pytest.fixture
def stored_in_march(remember):
    def store(content, **fields):
        memory = remember(content, **fields)
        Memory.objects.filter(pk=memory.pk).update(created_at=MARCH, updated_at=MARCH)
        return Memory.objects.get(pk=memory.pk)

    return store


@pytest.fixture
def edited(stored_in_march, actor):
    """A memory that was stored in March and edited in May."""
    memory = stored_in_march("Readings are stored in InfluxDB", title="Storage", project="meters")
    change(memory, actor, content="Readings are stored in Timescale")
    return memory


def change(memory, actor, **values):
    update_memory(memory.uid, MemoryPatch(**values), actor)
    Revision.objects.filter(memory=memory, at__gt=MAY).update(at=MAY)


def test_edited_memory_is_found_by_its_words_of_that_time(edited):
    assert search("InfluxDB") == ["Readings are stored in InfluxDB"]


def test_edited_memory_is_not_found_by_later_words(edited):
    assert search("Timescale") == []


def test_edited_memory_has_its_new_text_after_the_change(edited):
    assert search("Timescale", NOW) == ["Readings are stored in Timescale"]


def test_memory_that_was_stored_later_is_not_found(remember):
    remember("The valve is closed at night")
    assert search("valve") == []


def test_memory_that_was_trashed_later_is_found(stored_in_march, actor):
    trash_memories([stored_in_march("The valve is closed at night").uid], actor)
    assert search("valve") == ["The valve is closed at night"]
    assert search("valve", timezone.now()) == []


def test_memory_that_was_trashed_or_expired_then_is_not_found(stored_in_march):
    for content, column in (("The valve leaks", "deleted_at"), ("The valve rusts", "expires_at")):
        Memory.objects.filter(pk=stored_in_march(content).pk).update(**{column: MARCH})
    assert search("valve") == []


@each("way", ["restore", "store again", "undo"])
def test_memory_that_came_back_from_the_trash_is_not_found_in_between(stored_in_march, remember, actor, way):
    memory = stored_in_march("The valve is closed at night")
    if way == "undo":
        action = apply_bulk_action("trash", [memory.uid], actor)
    else:
        trash_memories([memory.uid], actor)
    during = timezone.now()
    if way == "restore":
        restore_memories([memory.uid], actor)
    elif way == "undo":
        undo_bulk_action(action.id, actor, action.first, action.last)
    else:
        remember("The valve is closed at night")
    found = ["The valve is closed at night"]
    assert search("valve", during) == []
    assert search("valve", APRIL) == search("valve", timezone.now()) == found


def test_memory_whose_expiry_was_moved_is_not_found_while_it_was_expired(stored_in_march, actor):
    memory = stored_in_march("The valve is closed at night")
    Memory.objects.filter(pk=memory.pk).update(expires_at=MAY)
    assert search("valve", NOW) == []
    Memory.objects.filter(pk=memory.pk).update(expires_at=NOW + timedelta(days=30))
    assert search("valve", NOW) == []
    assert search("valve", APRIL) == search("valve", timezone.now()) == ["The valve is closed at night"]


def test_erasing_a_memory_forgets_when_it_was_in_the_trash(stored_in_march, actor):
    memory = stored_in_march("The valve is closed at night")
    trash_memories([memory.uid], actor)
    restore_memories([memory.uid], actor)
    assert AbsenceSpan.objects.filter(memory=memory).count() == 1
    erase_memories([memory.uid], actor)
    assert not AbsenceSpan.objects.exists()


def test_replaced_memory_is_found_before_its_replacement_took_over(stored_in_march, remember, actor):
    old, new = stored_in_march("The valve opens at noon"), remember("The valve opens at dawn")
    change(old, actor, superseded_by=new.uid)
    assert search("valve") == ["The valve opens at noon"]
    assert search("valve", timezone.now()) == ["The valve opens at dawn"]


def test_filters_compare_the_values_of_that_time(stored_in_march, actor):
    memory = stored_in_march("The valve opens at noon", project="old", type="fact", tags=["water"])
    change(memory, actor, project="new", type="decision", tags=["gas"])
    assert search("valve", project="old", type="fact", tag="water") == ["The valve opens at noon"]
    assert search("valve", project="new") == search("valve", tag="gas") == []


def test_filter_by_file_matches_ends_and_folders(stored_in_march, actor):
    memory = stored_in_march("The valve opens at noon", files_read=["src/valve/open.py"])
    change(memory, actor, files_read=["src/other.py"])
    for path in ("src/valve/open.py", "open.py", "valve/open.py", "src/valve", "src"):
        assert search("valve", file=path), path
    assert search("valve", file="other.py") == search("valve", file="alve/open.py") == []


def test_meaning_finds_an_earlier_version(embedding, stored_in_march, actor):
    memory = stored_in_march("Customers pay their invoices with a credit card")
    change(memory, actor, content="The cafeteria serves soup on Mondays")
    assert search("how do clients settle bills by card")


def test_version_whose_level_is_hidden_is_not_found(stored_in_march, actor):
    memory = stored_in_march("The valve code is 4711", sensitivity="secret")
    change(memory, actor, content="The valve has a code", sensitivity="public")
    assert search("4711", clearance=Clearance()) == []
    assert search("4711") == ["The valve code is 4711"]


def test_memory_that_became_hidden_stays_hidden(stored_in_march, actor):
    memory = stored_in_march("The valve code is 4711")
    change(memory, actor, sensitivity="secret")
    assert search("valve", clearance=Clearance()) == []


def test_number_of_queries_does_not_grow(stored_in_march, actor, django_assert_max_num_queries):
    for number in range(12):
        change(stored_in_march(f"Valve {number} opens"), actor, content=f"Valve {number} shuts")
    search("valve")
    with django_assert_max_num_queries(16):
        assert len(search("valve opens")) == 10


def test_number_of_queries_does_not_grow_with_replacements(
    stored_in_march, actor, django_assert_max_num_queries
):
    new = stored_in_march("The valve opens at dawn")
    for number in range(12):
        change(stored_in_march(f"Valve {number} opens at noon"), actor, superseded_by=new.uid)
        cleared = stored_in_march(f"Valve {number} opens at night")
        Memory.objects.filter(pk=cleared.pk).update(superseded_by=new)
        change(cleared, actor, superseded_by=None)
    with django_assert_max_num_queries(7):
        snapshot = load_snapshot(MemoryFilter(), CLEARANCE, APRIL)
    assert {one.superseded_by for one in snapshot.versions} == {None, new}
    assert snapshot.is_complete


class TestPins:
    """A pin comes first if it matches as well as any other result must."""

    QUERY = "how is the shop deployed to production servers with make ship from main"

    @pytest.fixture
    def memories(self, stored_in_march):
        stored_in_march("The shop is deployed to production servers from main with make ship", title="Deploy")
        stored_in_march(
            "Lunch is at noon, and the kitchen is above the shop",
            title="Lunch",
            pinned=True,
        )

    def find(self, min_score):
        snapshot = load_snapshot(MemoryFilter(), CLEARANCE, APRIL)
        found = search_snapshot(snapshot, self.QUERY, limit=10, min_score=min_score, pinned_first=True)
        return [hit.memory.title for hit in found.hits]

    def test_weak_pin_is_not_first(self, memories):
        assert self.find(0.0) == ["Deploy", "Lunch"]

    def test_weak_pin_is_not_found_above_the_floor(self, memories):
        assert self.find(None) == ["Deploy"]

    def test_weak_pin_of_an_earlier_version_is_not_first(self, memories, actor):
        change(Memory.objects.get(title="Lunch"), actor, content="Lunch is at one")
        assert self.find(0.0) == ["Deploy", "Lunch"]

    def test_matching_pin_is_first(self, memories, stored_in_march):
        stored_in_march(
            "Deployed the shop to production servers from main? Ask Mara",
            title="Ask",
            pinned=True,
            importance=0.1,
        )
        assert self.find(0.0)[0] == "Ask"
