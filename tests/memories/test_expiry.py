"""Expiry: expired memories are invisible, can be revived, and are purged."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from memoryhub import memories
from memoryhub.access.policy import system_actor
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Entity, Fact, FileLink, JournalEntry, Label, Memory, Revision
from memoryhub.search.hybrid import search_memories
from memoryhub.stats.timeline import load_timeline
from tests.cases import each, rolled_back
from tests.database import index_is_sound

DAY = timedelta(days=1)


@pytest.mark.conformance("guide-110")
def test_memory_without_ttl_expires_after_the_default(remember):
    memory = remember("x")
    assert (memory.ttl_days, memory.expires_at - memory.updated_at) == (90, 90 * DAY)


def test_default_ttl_is_configurable(remember, configure):
    configure(default_ttl_days=7)
    memory = remember("x")
    assert memory.expires_at - memory.updated_at == 7 * DAY


def test_default_ttl_of_zero_means_never(remember, configure):
    configure(default_ttl_days=0)
    assert remember("x").expires_at is None


@each("never", [0, None, 0.0])
def test_ttl_of_zero_or_null_means_never(remember, never):
    memory = remember("x", ttl_days=never)
    assert (memory.ttl_days, memory.expires_at) == (None, None)


def test_fractional_ttl_counts(remember):
    memory = remember("x", ttl_days=0.5)
    assert memory.expires_at - memory.updated_at == DAY / 2


@pytest.mark.parametrize("bad", [-1, 36_501, float("inf"), float("nan"), "soon", 1e300])
def test_invalid_ttl_is_refused(bad):
    with pytest.raises(ValidationError):
        MemoryDraft(content="x", ttl_days=bad)


def test_imported_memory_expires_counted_from_now(remember):
    memory = remember("x", created_at="2015-03-01T12:00:00+02:00", ttl_days=10)
    assert memory.created_at.isoformat() == "2015-03-01T10:00:00+00:00"
    assert memory.updated_at == memory.created_at
    assert memory.expires_at > timezone.now() + 9 * DAY


@pytest.mark.parametrize(
    "bad", ["1899-12-31T00:00:00Z", "2999-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "yesterday", 1e18]
)
def test_invalid_date_is_refused(bad):
    with pytest.raises(ValidationError):
        MemoryDraft(content="x", created_at=bad)


def test_expired_memory_is_invisible(remember, actor):
    memory = remember("zebra", ttl_days=1, session_id="s")
    later = timezone.now() + 2 * DAY
    Memory.objects.filter(pk=memory.pk).update(expires_at=timezone.now())
    everything = Memory.objects.visible_to(actor.clearance)
    assert not everything.live().exists()
    assert not MemoryFilter().select(actor.clearance).exists()
    assert not MemoryFilter(trashed=True).select(actor.clearance).exists()
    assert search_memories(MemoryFilter().select(actor.clearance), "zebra", min_score=0).total == 0
    assert load_timeline(actor.clearance, MemoryFilter())[0] == []
    assert everything.expired(later).get() == memory


def test_memory_expires_exactly_at_expires_at(remember):
    memory = remember("x", ttl_days=1)
    at = memory.expires_at
    assert Memory.objects.live(at - timedelta(microseconds=1)).exists()
    assert not Memory.objects.live(at).exists()
    assert Memory.objects.expired(at).exists()


@given(st.integers(-5, 5), st.booleans(), st.booleans())
def test_memory_is_either_live_or_expired_or_trashed(remember, offset, forever, trashed):
    with rolled_back():
        memory = remember("x")
        now = timezone.now()
        expires = None if forever else now + timedelta(microseconds=offset)
        Memory.objects.filter(pk=memory.pk).update(expires_at=expires, deleted_at=now if trashed else None)
        sets = [Memory.objects.live(now), Memory.objects.expired(now), Memory.objects.trashed()]
        assert [rows.exists() for rows in sets].count(True) == 1


def test_expire_action_expires_and_restore_revives(remember, actor):
    memory = remember("x", ttl_days=5)
    assert memories.apply_bulk_action("expire", [memory.uid], actor).done == [memory]
    assert not Memory.objects.live().exists()
    assert memories.apply_bulk_action("expire", [memory.uid], actor).done == []
    [revived] = memories.restore_memories([memory.uid], actor)
    assert revived.expires_at > timezone.now() + 4 * DAY
    assert Memory.objects.live().exists()


def test_expire_action_works_on_memories_that_never_expire(remember, actor):
    memory = remember("x", ttl_days=0)
    memories.apply_bulk_action("expire", [memory.uid], actor)
    assert not Memory.objects.live().exists()
    [revived] = memories.restore_memories([memory.uid], actor)
    assert revived.expires_at is None


@pytest.mark.conformance("guide-65", "store-37")
def test_purge_deletes_expired_memories_with_journal_rows(remember, actor):
    gone = [
        remember(f"gone {n}", ttl_days=1, tags=["t"], files_read=["f"], entities=[{"entity": "e"}])
        for n in range(3)
    ]
    Fact.objects.create(subject="s", predicate="p", object="o", memory=gone[0])
    kept = remember("kept")
    trashed = remember("trashed", ttl_days=1)
    memories.trash_memories([trashed.uid], actor)
    memories.update_memory(gone[0].uid, store_patch(importance=0.9), actor)
    later = timezone.now() + 2 * DAY
    assert memories.purge_expired(actor, now=later) == 3
    assert set(Memory.objects.all()) == {kept, trashed}
    for model in (Label, FileLink, Entity, Revision, Fact):
        assert not model.objects.exists(), model
    rows = JournalEntry.objects.filter(operation="purge", object_type="memory")
    assert {row.object_id for row in rows} == {memory.uid for memory in gone}
    assert not Memory.objects.search("gone").exists()
    assert index_is_sound()
    assert memories.purge_expired(actor, now=later) == 0


def store_patch(**fields):
    from memoryhub.memories.schemas import MemoryPatch

    return MemoryPatch(**fields)


def test_purge_waits_for_the_grace_period(remember):
    memory = remember("x", ttl_days=1)
    system = system_actor("purge")
    assert memories.purge_expired(system, 30, memory.expires_at + 29 * DAY) == 0
    assert memories.purge_expired(system, 30, memory.expires_at + 30 * DAY) == 1


def test_purge_runs_in_several_transactions(db, actor, configure):
    configure(max_memories=0)
    memories.create_memories([MemoryDraft(content=f"{n}", ttl_days=1) for n in range(1200)], actor)
    assert memories.purge_expired(actor, now=timezone.now() + 2 * DAY) == 1200
    assert JournalEntry.objects.filter(operation="purge").count() == 1200


def test_time_zone_does_not_change_an_expiry(remember, actor, settings):
    memory = remember("x", ttl_days=1)
    with timezone.override("Pacific/Kiritimati"):
        assert Memory.objects.live(memory.expires_at - timedelta(seconds=1)).exists()
        assert not Memory.objects.live(memory.expires_at + timedelta(seconds=1)).exists()
