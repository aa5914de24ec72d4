"""The hub's own upkeep reaches everyone's personal memories; nobody else does."""

from memoryhub import memories
from memoryhub.access.policy import Clearance, system_actor
from memoryhub.models import JournalEntry, Memory


def test_the_system_sees_everyones_personal_memories(remember):
    mine = remember("for ada alone", scope="personal")
    assert Memory.objects.visible_to(system_actor("purge").clearance).get() == mine
    assert (
        JournalEntry.objects.visible_to(system_actor("purge").clearance).filter(object_id=mine.uid).exists()
    )


def test_full_clearance_without_an_owner_sees_no_personal_memory(remember):
    remember("for ada alone", scope="personal")
    assert not Memory.objects.visible_to(Clearance.up_to("secret")).exists()
    assert not JournalEntry.objects.visible_to(Clearance.up_to("secret")).exists()


def test_the_system_does_not_see_an_unknown_level(four_levels):
    seen = {memory.sensitivity for memory in Memory.objects.visible_to(system_actor("purge").clearance)}
    assert seen == {"public", "private", "secret"}


def test_an_expired_personal_memory_is_purged_by_the_system(remember):
    remember("short lived", scope="personal", ttl_days=1)
    Memory.objects.update(expires_at="2001-01-01T00:00:00Z")
    assert memories.purge_expired(system_actor("purge")) == 1
    assert not Memory.objects.exists()
