"""Pinned memories: they never end by themselves, and a pin is a change like any other."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub import memories
from memoryhub.maintenance.operations.compress import Compress
from memoryhub.maintenance.operations.consolidate import Consolidate
from memoryhub.maintenance.operations.evict import Evict
from memoryhub.maintenance.operations.summarize_old import SummarizeOld
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import JournalEntry, Memory

OLD = timezone.now() - timedelta(days=400)


def patch(memory, actor, **fields):
    return memories.update_memory(memory.uid, MemoryPatch(**fields), actor)


def run(operation, actor):
    for step in operation.steps(operation.Params(), actor, timezone.now()):
        step.apply("run")


@pytest.fixture
def pinned(remember):
    def store(content="Deploy with make ship", **fields):
        return remember(content, pinned=True, **fields)

    return store


def test_pinned_memory_does_not_expire(pinned):
    assert pinned(ttl_days=1).expires_at is None


def test_pinning_stops_the_expiry_and_unpinning_starts_it_again(remember, actor):
    memory = remember("Deploy with make ship", ttl_days=3)
    assert patch(memory, actor, pinned=True).expires_at is None
    unpinned = patch(memory, actor, pinned=False)
    assert timedelta(days=2) < unpinned.expires_at - timezone.now() <= timedelta(days=3)


def test_days_to_live_of_a_pinned_memory_count_from_its_unpinning(pinned, actor):
    memory = pinned()
    assert patch(memory, actor, ttl_days=5).expires_at is None
    assert patch(memory, actor, pinned=False).expires_at is not None


def test_repeated_store_does_not_give_a_pinned_memory_an_expiry(pinned, remember):
    memory = pinned(ttl_days=3)
    again = remember("Deploy with make ship", ttl_days=3)
    assert (again.pk, again.pinned, again.expires_at) == (memory.pk, True, None)


def test_repeated_store_with_a_pin_pins_the_stored_memory(remember):
    memory = remember("Deploy with make ship")
    assert remember("Deploy with make ship", pinned=True).pinned
    memory.refresh_from_db()
    assert memory.pinned
    assert JournalEntry.objects.latest("seq").detail["pinned"] is True


def test_repeated_store_by_key_keeps_the_pin(pinned, remember):
    pinned(key="deploy", ttl_days=3)
    again = remember("Deploy with make release", key="deploy")
    assert (again.pinned, again.expires_at) == (True, None)


def test_restored_memory_is_still_pinned(pinned, actor):
    memory = pinned(ttl_days=3)
    memories.trash_memories([memory.uid], actor)
    [restored] = memories.restore_memories([memory.uid], actor)
    assert (restored.pinned, restored.expires_at) == (True, None)


def test_expiring_a_pinned_memory_is_refused(pinned, actor):
    memory = pinned()
    [(uid, reason)] = memories.apply_bulk_action("expire", [memory.uid], actor).refused
    assert uid == memory.uid
    assert "unpin it first" in reason


def test_pinned_memory_with_a_past_expiry_is_not_purged(pinned, actor):
    memory = pinned()
    Memory.objects.filter(pk=memory.pk).update(expires_at=OLD)
    assert memories.purge_expired(actor) == 0


def test_cap_evicts_other_memories_than_pinned_ones(pinned, remember, configure):
    configure(max_memories=2)
    oldest = pinned()
    other = remember("Tests run with pytest")
    remember("Docs are built with Sphinx")
    oldest.refresh_from_db()
    other.refresh_from_db()
    assert (oldest.deleted_at, other.trash_reason) == (None, "evicted")


def test_store_beyond_a_cap_of_pinned_memories_warns(pinned, remember, configure):
    configure(max_memories=1)
    pinned()
    assert pinned("Tests run with pytest").over_cap


@pytest.mark.parametrize("operation", [Consolidate(), Evict()])
def test_faded_pinned_memory_does_not_decay_and_is_not_evicted(pinned, actor, operation):
    memory = pinned(importance=0.01, created_at=OLD)
    run(operation, actor)
    memory.refresh_from_db()
    assert (memory.importance, memory.deleted_at, memory.consolidated_at) == (0.01, None, None)


def test_run_over_the_cap_evicts_no_pinned_memory(pinned, remember, actor, configure):
    memory = pinned()
    remember("Tests run with pytest")
    configure(max_memories=1)
    run(Evict(), actor)
    assert list(Memory.objects.live()) == [memory]


@pytest.mark.parametrize("operation", [Compress(), SummarizeOld()])
def test_pinned_memory_is_not_condensed(pinned, remember, actor, configure, operation):
    configure(summarize_min_entries=3, compression_min_members=3)
    texts = [f"The deploy of the shop failed with exit code {n}" for n in range(4)]
    memory = pinned(texts[0], created_at=OLD)
    others = [remember(text, created_at=OLD) for text in texts[1:]]
    run(operation, actor)
    assert not Memory.objects.get(pk=memory.pk).deleted_at
    assert all(Memory.objects.get(pk=one.pk).deleted_at for one in others)


def test_importance_decays_only_from_the_unpinning_on(pinned, actor):
    memory = pinned(importance=0.6, created_at=OLD)
    patch(memory, actor, pinned=False)
    run(Consolidate(), actor)
    memory.refresh_from_db()
    assert memory.importance == 0.6


def test_pin_is_journaled_and_has_a_revision(remember, actor):
    memory = remember("Deploy with make ship")
    patch(memory, actor, pinned=True)
    assert JournalEntry.objects.latest("seq").detail["fields"] == ["pinned"]
    assert memory.revisions.get().before == {"pinned": False}


def test_last_change_undone_is_a_pin_removed(remember, actor):
    memory = remember("Deploy with make ship", ttl_days=3)
    patch(memory, actor, pinned=True)
    undone = memories.undo_last_change(memory.uid, 1, actor)
    assert not undone.pinned
    assert undone.expires_at


def test_restored_version_keeps_the_pin(remember, actor):
    memory = remember("Deploy with make ship")
    patch(memory, actor, content="Deploy with make release", pinned=True)
    restored = memories.restore_version(memory.uid, 1, actor)
    assert (restored.content, restored.pinned) == ("Deploy with make ship", True)


def test_merge_with_a_pinned_memory_is_pinned_and_its_undo_is_not(pinned, remember, actor):
    kept, other = remember("Deploy with make", ttl_days=3), pinned()
    ends = kept.expires_at
    merged = memories.merge_memories(kept.uid, [other.uid], actor)
    assert (merged.memory.pinned, merged.memory.expires_at) == (True, None)
    undone = memories.undo_merge(merged.uid, actor)
    assert (undone.memory.pinned, undone.memory.expires_at) == (False, ends)


def test_filter_returns_pinned_or_other_memories(pinned, remember, actor):
    memory, other = pinned(), remember("Tests run with pytest")
    assert list(MemoryFilter(pinned=True).select(actor.clearance)) == [memory]
    assert list(MemoryFilter(pinned=False).select(actor.clearance)) == [other]
    assert MemoryFilter(pinned="").select(actor.clearance).count() == 2


def test_pin_of_a_memory_above_the_clearance_is_not_found(remember, actor, low):
    memory = remember("The vault is in Bern", sensitivity="secret")
    with pytest.raises(memories.NotFound):
        patch(memory, low, pinned=True)


def test_draft_is_not_pinned_by_default():
    assert MemoryDraft(content="x").pinned is False


def test_journal_says_that_a_memory_was_pinned_or_unpinned(pinned, actor):
    patch(pinned(), actor, pinned=False)
    rows = JournalEntry.objects.filter(object_type="memory").order_by("seq")
    assert [(row.operation, row.detail.get("pinned")) for row in rows] == [
        ("insert", True),
        ("update", False),
    ]
