"""Keys: storing again under a key updates the memory in the same project, scope and owner."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from memoryhub import memories
from memoryhub.memories import Conflict
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import JournalEntry, Memory
from tests.cases import each


def store(actor, content, **fields):
    return memories.create_memory(MemoryDraft(content=content, **fields), actor)


def test_same_key_updates(remember, actor):
    first = remember("old words", key="k")
    again = store(actor, "new words", key="k")
    assert (again.outcome, again.memory.uid) == ("updated", first.uid)
    stored = Memory.objects.get()
    assert (stored.content, stored.title) == ("new words", "new words")


def test_replaced_content_is_in_a_revision(remember, actor):
    memory = remember("old words", key="k")
    store(actor, "new words", key="k")
    [revision] = memory.revisions.all()
    assert revision.before["content"] == "old words"
    assert revision.reason == "upsert"


def test_fields_not_given_are_kept(remember, actor):
    remember("old words", key="k", importance=0.9, tags=["kept"], title="Named")
    memory = store(actor, "new words", key="k").memory
    assert (memory.importance, memory.title) == (0.9, "Named")
    assert memory.labels.get().value == "kept"


def test_upsert_never_lowers_the_level(remember, actor):
    remember("old words", key="k", sensitivity="secret")
    assert store(actor, "new words", key="k", sensitivity="public").memory.sensitivity == "secret"


@each("other", [{"project": "b"}, {"scope": "team"}, {"scope": "personal"}])
def test_same_key_in_another_place_is_another_memory(remember, other):
    assert remember("words", key="k").uid != remember("other words", key="k", **other).uid


def test_same_content_under_two_keys_is_two_memories(remember):
    assert remember("words", key="k1").uid != remember("words", key="k2").uid


def test_content_without_key_matches_content_with_key(remember):
    keyed = remember("words", key="k")
    assert remember("words").uid == keyed.uid
    assert Memory.objects.get().key == "k"


def test_memory_without_key_takes_key_of_its_repeat(remember):
    first = remember("words")
    assert remember("words", key="k").uid == first.uid
    assert Memory.objects.get().key == "k"


def test_upsert_revives_trashed_or_expired_memory(remember, actor):
    memory = remember("old words", key="k", ttl_days=1)
    memories.trash_memories([memory.uid], actor)
    later = timezone.now() + timedelta(days=9)
    again = memories.create_memory(MemoryDraft(content="new words", key="k"), actor, later).memory
    assert (again.uid, again.deleted_at) == (memory.uid, None)
    assert again.expires_at == later + timedelta(days=1)


def test_revival_by_key_is_journaled_once(remember, actor):
    memory = remember("old words", key="k")
    memories.trash_memories([memory.uid], actor)
    store(actor, "new words", key="k")
    assert JournalEntry.objects.get(operation="update").detail["revived"] is True


def test_hidden_key_is_not_revealed(remember, low):
    hidden = remember("hidden words", key="k", sensitivity="secret")
    own = store(low, "own words", key="k")
    assert own.outcome == "created"
    assert Memory.objects.get(uid=hidden.uid).content == "hidden words"
    assert store(low, "newer words", key="k").memory.uid == own.memory.uid


@each("level", ["public", "private", "secret"])
def test_hidden_key_is_not_revealed_at_any_level(remember, low, level):
    remember("hidden words", key="k", sensitivity="private")
    remember("hidden words too", key="k", sensitivity="secret", project="p")
    assert store(low, "own words", key="k", sensitivity=level).outcome == "created"


def test_raising_to_the_level_of_a_hidden_key_keeps_both(remember, low):
    remember("hidden words", key="k", sensitivity="private")
    own = store(low, "own words", key="k").memory
    raised = store(low, "own words", sensitivity="private")
    assert (raised.outcome, raised.memory.uid) == ("refreshed", own.uid)
    assert Memory.objects.filter(key="k", sensitivity="private").count() == 2


def test_taking_a_hidden_key_and_its_level_keeps_both(remember, low):
    remember("hidden words", key="k", sensitivity="private")
    own = store(low, "own words").memory
    raised = store(low, "own words", key="k", sensitivity="private")
    assert (raised.outcome, raised.memory.uid) == ("refreshed", own.uid)
    assert Memory.objects.filter(key="k", sensitivity="private").count() == 2


def test_upsert_works_with_two_memories_of_one_key(remember, low, actor):
    remember("words of ada", key="k", sensitivity="private")
    store(low, "words of lou", key="k", sensitivity="private")
    again = store(actor, "new words", key="k")
    assert again.outcome == "updated"
    assert Memory.objects.filter(content="new words").count() == 1


def test_either_of_two_memories_of_one_key_can_be_changed(remember, low, actor):
    ours = remember("words of ada", key="k", sensitivity="private")
    theirs = store(low, "words of lou", key="k", sensitivity="private").memory
    memories.update_memory(ours.uid, MemoryPatch(content="newer words of ada"), actor)
    memories.update_memory(theirs.uid, MemoryPatch(content="newer words of lou"), actor)
    assert set(Memory.objects.values_list("content", flat=True)) == {
        "newer words of ada",
        "newer words of lou",
    }


def test_key_of_another_memory_is_a_conflict(remember, actor):
    remember("one", key="k")
    other = remember("two", key="l")
    with pytest.raises(Conflict) as refused:
        memories.update_memory(other.uid, MemoryPatch(key="k"), actor)
    assert refused.value.field == "key"


def test_database_refuses_a_second_key(remember):
    remember("words", key="k")
    with pytest.raises(IntegrityError), transaction.atomic():
        Memory.objects.create(content="others", content_hash="0" * 64, key="k")


def test_upsert_into_another_session_is_visible_there(remember, actor):
    remember("old words", key="k", session_id="s1", project="p")
    store(actor, "new words", key="k", session_id="s2", project="p")
    from memoryhub.models import Session

    assert Session.objects.filter(session_id="s2", project="p").exists()
