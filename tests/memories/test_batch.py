"""Batches: results in order, one for each memory, in one transaction."""

from __future__ import annotations

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit import journal
from memoryhub.memories import StoreError, StoreResult
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import JournalEntry, Label, Memory, Session
from tests.database import index_is_sound


def batch(actor, *drafts, **options):
    return memories.create_memories([MemoryDraft(**draft) for draft in drafts], actor, **options)


def outcomes(results):
    return [r.outcome if isinstance(r, StoreResult) else r.code for r in results]


def test_empty_batch_changes_nothing(db, actor):
    assert batch(actor) == []
    assert not JournalEntry.objects.exists()


def test_batch_of_a_thousand_keeps_its_order(db, actor, configure):
    configure(max_memories=0)
    results = batch(actor, *({"content": f"memory {n}", "tags": [f"t{n}"]} for n in range(1000)))
    assert [r.memory.content for r in results] == [f"memory {n}" for n in range(1000)]
    assert Memory.objects.count() == Label.objects.count() == JournalEntry.objects.count() == 1000
    stored = dict(Memory.objects.values_list("uid", "content"))
    assert all(stored[r.memory.uid] == f"memory {n}" for n, r in enumerate(results))
    assert index_is_sound()


def test_refused_item_does_not_affect_the_others(db, confined):
    results = batch(
        confined, {"content": "a", "project": "zoo"}, {"content": "b", "project": "shop"}, {"content": "c"}
    )
    assert outcomes(results) == ["created", "forbidden", "created"]
    assert set(Memory.objects.values_list("content", flat=True)) == {"a", "c"}
    assert results[1].field == "project"


def test_batch_of_refused_items_writes_nothing(db, confined):
    results = batch(confined, {"content": "b", "project": "shop"})
    assert isinstance(results[0], StoreError)
    assert not JournalEntry.objects.exists()


def test_repeated_content_in_a_batch_refreshes(db, actor):
    results = batch(actor, {"content": "a"}, {"content": "a", "sensitivity": "secret"}, {"content": "a"})
    assert outcomes(results) == ["created", "refreshed", "refreshed"]
    assert Memory.objects.get().sensitivity == "secret"
    assert journal.verify().ok


def test_repeated_key_in_a_batch_updates(db, actor):
    results = batch(
        actor, {"content": "a", "key": "k", "tags": ["x"]}, {"content": "b", "key": "k", "tags": ["y"]}
    )
    assert outcomes(results) == ["created", "updated"]
    memory = Memory.objects.get()
    assert memory.content == "b"
    assert [label.value for label in memory.labels.all()] == ["y"]


def test_content_replaced_by_an_upsert_can_be_stored_again(remember, actor):
    remember("old words", key="k")
    results = batch(actor, {"content": "new words", "key": "k"}, {"content": "old words"})
    assert outcomes(results) == ["updated", "created"]
    assert set(Memory.objects.values_list("content", flat=True)) == {"old words", "new words"}


def test_next_item_finds_content_of_an_upsert(remember, actor):
    remember("old words", key="k")
    results = batch(actor, {"content": "new words", "key": "k"}, {"content": "new words"})
    assert outcomes(results) == ["updated", "refreshed"]
    assert Memory.objects.count() == 1


def test_next_item_finds_key_of_a_refresh(remember, actor):
    remember("words")
    results = batch(actor, {"content": "words", "key": "k"}, {"content": "newer words", "key": "k"})
    assert outcomes(results) == ["refreshed", "updated"]
    assert Memory.objects.get().content == "newer words"


def test_new_memory_that_takes_a_key_is_found_by_it(db, actor):
    results = batch(
        actor, {"content": "words"}, {"content": "words", "key": "k"}, {"content": "newer", "key": "k"}
    )
    assert outcomes(results) == ["created", "refreshed", "updated"]
    assert Memory.objects.get().content == "newer"


def test_batch_does_not_touch_hidden_copies(remember, low):
    remember("same words", sensitivity="private")
    results = batch(low, {"content": "same words", "sensitivity": "private"}, {"content": "same words"})
    assert outcomes(results) == ["created", "refreshed"]
    assert Memory.objects.filter(sensitivity="private").count() == 2


def test_sessions_span_the_memories_of_a_batch(db, actor):
    batch(
        actor,
        {"content": "a", "session_id": "s", "created_at": "2024-05-01T10:00:00Z"},
        {"content": "b", "session_id": "s", "created_at": "2024-05-01T09:00:00Z"},
        {"content": "c", "session_id": "t", "created_at": "2024-05-02T09:00:00Z"},
    )
    session = Session.objects.get(session_id="s")
    assert session.started_at.isoformat() == "2024-05-01T09:00:00+00:00"
    assert session.last_at.isoformat() == "2024-05-01T10:00:00+00:00"
    assert Session.objects.count() == 2


def test_personal_memory_without_owner_is_refused(db):
    without_owner = Actor("token:x", Clearance.up_to("secret"))
    [refused] = batch(without_owner, {"content": "a", "scope": "personal"})
    assert (refused.code, refused.field) == ("forbidden", "scope")


@pytest.mark.parametrize("size", [1, 40])
def test_number_of_statements_does_not_grow_with_the_batch(db, actor, django_assert_max_num_queries, size):
    with django_assert_max_num_queries(24):
        batch(actor, *({"content": f"{n}", "tags": ["a"], "session_id": "s"} for n in range(size)))
