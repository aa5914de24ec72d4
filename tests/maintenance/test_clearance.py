"""Test that only system actors have access to all personal memories."""

from memoryhub import memories
from memoryhub.access.policy import Clearance, system_actor
from memoryhub.models import JournalEntry, Memory


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
