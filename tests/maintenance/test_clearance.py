"""Test that only system actors have access to all personal memories."""

from dataclasses import replace

import pytest

from memoryhub import memories
from memoryhub.access.policy import Clearance, system_actor
from memoryhub.maintenance import runs
from memoryhub.models import JournalEntry, Memory
from tests.maintenance.fixtures import execute_run

pytestmark = pytest.mark.django_db


def test_system_actor_sees_all_personal_memories(remember):
    mine = remember("for ada alone", scope="personal")
    assert Memory.objects.visible_to(system_actor("purge").clearance).get() == mine
    assert (
        JournalEntry.objects.visible_to(system_actor("purge").clearance).filter(object_id=mine.uid).exists()
    )


def test_full_clearance_without_an_owner_sees_no_personal_memory(remember):
    remember("for ada alone", scope="personal")
    assert not Memory.objects.visible_to(Clearance.up_to("secret")).exists()
    assert not JournalEntry.objects.visible_to(Clearance.up_to("secret")).exists()


def test_system_actor_does_not_see_unknown_levels(four_levels):
    seen = {memory.sensitivity for memory in Memory.objects.visible_to(system_actor("purge").clearance)}
    assert seen == {"public", "private", "secret"}


def test_system_actor_purges_expired_personal_memories(remember):
    remember("short lived", scope="personal", ttl_days=1)
    Memory.objects.update(expires_at="2001-01-01T00:00:00Z")
    assert memories.purge_expired(system_actor("purge")) == 1
    assert not Memory.objects.exists()


@pytest.mark.parametrize("operation", ["evict", "consolidate", "compress", "summarize_old"])
def test_run_of_a_person_without_permission_to_delete_trashes_nothing(aged, actor, configure, operation):
    for n in range(5):
        aged(f"the nightly build of the search service fails on host {n}", days=200, importance=0.01)
    configure(max_memories=2)
    execute_run(runs.enqueue(operation, {}, replace(actor, may_delete=False)))
    assert Memory.objects.live().count() == 5


def test_run_of_a_person_with_permission_to_delete_trashes_faded_memories(aged, actor):
    aged("faded", days=200, importance=0.01)
    execute_run(runs.enqueue("evict", {}, actor))
    assert not Memory.objects.live().exists()


def test_queued_run_is_not_shared_with_a_person_without_permission_to_delete(actor):
    queued = runs.enqueue("evict", {}, actor, may_wait=True)
    assert runs.enqueue("evict", {}, replace(actor, may_delete=False), may_wait=True) != queued
