"""Updates: revisions, conflicts with concurrent changes, and conflicts with equal memories."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pydantic import ValidationError

from memoryhub import memories
from memoryhub.memories import Conflict, NotFound
from memoryhub.memories.rows import list_values
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import JournalEntry, Memory, Revision, Session
from tests.cases import each
from tests.database import index_is_sound


def change(memory, actor, now=None, **fields):
    return memories.update_memory(memory.uid, MemoryPatch(**fields), actor, now)


NEW_VALUES = {
    "title": "A new title",
    "subtitle": "s",
    "abstract": "a",
    "overview": "o",
    "category": "c",
    "type": "decision",
    "importance": 0.9,
    "trust": 0.1,
    "confidence": 1.0,
    "sensitivity": "secret",
    "scope": "team",
    "project": "elsewhere",
    "session_id": "s-9",
    "key": "k",
    "discovery_tokens": 12,
    "ttl_days": 3.0,
    "pinned": True,
    "content": "new content",
}
NEW_LISTS = {
    "tags": ["x", "y"],
    "concepts": ["gotcha"],
    "aliases": ["K8s", "kube"],
    "files_read": ["a/b.py"],
    "files_modified": ["c.py"],
    "entities": [{"entity": "Ada", "entity_type": "person"}],
}


def test_every_settable_field_is_covered():
    tested_in_test_replacements = {"superseded_by"}
    assert set(NEW_VALUES) | set(NEW_LISTS) | tested_in_test_replacements == set(MemoryPatch.model_fields)


@pytest.mark.conformance("pigo-25")
@each("name", NEW_VALUES)
def test_field_is_set_and_a_revision_stores_the_old_value(remember, actor, name):
    memory = remember("old content")
    was = getattr(memory, name)
    change(memory, actor, **{name: NEW_VALUES[name]})
    stored = Memory.objects.get()
    assert getattr(stored, name) == NEW_VALUES[name]
    revision = Revision.objects.get()
    assert revision.before[name] == was
    assert (revision.number, revision.actor, revision.sensitivity) == (1, "token:tests", "public")
    assert name in JournalEntry.objects.get(operation="update").detail["fields"]


@each("name", NEW_LISTS)
def test_list_is_replaced_and_a_revision_stores_the_old_value(remember, actor, name):
    old = [{"entity": "Bob", "entity_type": "person"}] if name == "entities" else ["old"]
    memory = remember("content", **{name: old})
    change(memory, actor, **{name: NEW_LISTS[name]})
    assert list_values(Memory.objects.get(), name) == NEW_LISTS[name]
    assert Revision.objects.get().before == {name: old}
    change(memory, actor, **{name: []})
    assert list_values(Memory.objects.get(), name) == []


def test_fields_not_given_are_kept(remember, actor):
    memory = remember("content", importance=0.9, tags=["t"], title="Mine", key="k")
    before = Memory.objects.values().get()
    change(memory, actor, category="other")
    after = Memory.objects.values().get()
    assert {name for name in before if before[name] != after[name]} == {"category", "updated_at"}
    assert list_values(memory, "tags") == ["t"]


def test_equal_values_change_nothing(remember, actor):
    memory = remember("content", tags=["a", "b"], entities=[{"entity": "Ada"}, {"entity": "Bob"}])
    at = memory.updated_at
    again = change(
        memory, actor, content="content", tags=["b", "a"], entities=[{"entity": "Bob"}, {"entity": "Ada"}]
    )
    assert again.updated_at == at
    assert not Revision.objects.exists()


def test_revisions_are_numbered_and_store_their_level(remember, actor):
    memory = remember("one", sensitivity="secret")
    change(memory, actor, content="two")
    change(memory, actor, sensitivity="public")
    change(memory, actor, content="three")
    rows = Revision.objects.order_by("number").values_list("number", "sensitivity", "before__content")
    assert list(rows) == [(1, "secret", "one"), (2, "secret", None), (3, "public", "two")]


def test_update_changes_updated_at_and_read_does_not(remember, actor):
    memory = remember("content")
    later = timezone.now() + timedelta(hours=1)
    memories.count_accesses([memory], later)
    assert Memory.objects.get().updated_at == memory.updated_at
    change(memory, actor, later, importance=0.9)
    stored = Memory.objects.get()
    assert (stored.updated_at, stored.accessed_count, stored.last_accessed_at) == (later, 1, later)


def test_generated_title_and_abstract_follow_the_content(remember, actor):
    memory = remember("first words of the memory")
    change(memory, actor, content="other words now")
    stored = Memory.objects.get()
    assert (stored.title, stored.abstract) == ("other words now", "other words now")


def test_written_title_and_abstract_are_kept(remember, actor):
    memory = remember("first words", title="Mine", abstract="By hand")
    change(memory, actor, content="other words")
    stored = Memory.objects.get()
    assert (stored.title, stored.abstract) == ("Mine", "By hand")


def test_emptied_title_is_generated_again(remember, actor):
    memory = remember("first words", title="Mine")
    for nothing in ("", "   ", None):
        change(memory, actor, title="Mine")
        change(memory, actor, title=nothing)
        assert Memory.objects.get().title == "first words"


@pytest.mark.conformance("mcp-4")
def test_index_follows_an_update(remember, actor):
    memory = remember("xylophone")
    change(memory, actor, content="trombone", title="tuba")
    assert not Memory.objects.search("xylophone").exists()
    assert Memory.objects.search("trombone").get() == Memory.objects.search("tuba").get() == memory
    assert index_is_sound()


def test_change_since_opened_is_a_conflict(remember, actor):
    memory = remember("content")
    opened = memory.updated_at
    change(memory, actor, importance=0.9)
    with pytest.raises(Conflict) as refused:
        memories.update_memory(memory.uid, MemoryPatch(importance=0.1), actor, unchanged_since=opened)
    assert refused.value.field == "updated_at"
    assert Memory.objects.get().importance == 0.9


def test_read_since_opened_is_no_conflict(remember, actor):
    memory = remember("content")
    memories.count_accesses([memory])
    memories.update_memory(memory.uid, MemoryPatch(importance=0.1), actor, unchanged_since=memory.updated_at)
    assert Memory.objects.get().importance == 0.1


def test_content_of_another_memory_is_a_conflict(remember, actor):
    first, second = remember("one"), remember("two")
    with pytest.raises(Conflict, match=first.uid) as refused:
        change(second, actor, content="one")
    assert refused.value.field == "content"
    assert Memory.objects.get(pk=second.pk).content == "two"
    assert not Revision.objects.exists()


def test_content_of_a_trashed_memory_is_a_conflict(remember, actor):
    first, second = remember("one"), remember("two")
    memories.trash_memories([first.uid], actor)
    with pytest.raises(Conflict, match="in the trash"):
        change(second, actor, content="one")


def test_content_of_a_hidden_memory_is_no_conflict(remember, low):
    remember("one", sensitivity="private")
    second = remember("two")
    change(second, low, content="one", sensitivity="private")
    assert Memory.objects.filter(content="one", sensitivity="private").count() == 2


@each("move", [{"project": "b"}, {"scope": "team"}, {"sensitivity": "secret"}])
def test_move_to_the_place_of_an_equal_memory_is_a_conflict(remember, actor, move):
    place = {"project": "a", "scope": "project", "sensitivity": "public"}
    level = move.get("sensitivity", "public")
    twin = remember("one", **{**place, **move})
    mine = Memory.objects.get(pk=twin.pk)
    Memory.objects.filter(pk=twin.pk).update(sensitivity="cosmic")  # out of the way of deduplication
    other = remember("one", **place)
    Memory.objects.filter(pk=twin.pk).update(sensitivity=level)
    with pytest.raises(Conflict, match=mine.uid):
        change(other, actor, **move)


def test_trashed_memory_cannot_be_updated(remember, actor):
    memory = remember("content")
    memories.trash_memories([memory.uid], actor)
    with pytest.raises(Conflict, match="restore"):
        change(memory, actor, importance=0.9)


def test_expired_memory_needs_ttl_days_to_be_updated(remember, actor):
    memory = remember("content", ttl_days=1)
    later = timezone.now() + timedelta(days=2)
    with pytest.raises(Conflict, match="expired"):
        change(memory, actor, later, importance=0.9)
    change(memory, actor, later, ttl_days=1)
    assert Memory.objects.get().expires_at == later + timedelta(days=1)


def test_same_ttl_days_restart_the_expiry(remember, actor):
    memory = remember("content", ttl_days=5)
    later = timezone.now() + timedelta(days=2)
    change(memory, actor, later, ttl_days=5)
    assert Memory.objects.get().expires_at == later + timedelta(days=5)
    assert JournalEntry.objects.get(operation="update").detail["fields"] == ["ttl_days"]


def test_missing_memory_is_not_found(db, actor):
    with pytest.raises(NotFound):
        memories.update_memory("nosuchmemory", MemoryPatch(title="x"), actor)


def test_empty_patch_is_refused():
    with pytest.raises(ValidationError, match="at least one of"):
        MemoryPatch()


def test_memory_moved_to_a_session_is_visible_there(remember, actor):
    memory = remember("content", session_id="s1", project="p")
    change(memory, actor, session_id="s2")
    assert Session.objects.filter(session_id="s2", project="p").exists()
    change(memory, actor, project="q")
    assert Session.objects.filter(session_id="s2", project="q").exists()


def test_refused_update_changes_nothing(remember, actor):
    remember("taken")
    memory = remember("content", tags=["t"], session_id="s1")
    before = Memory.objects.values().get(pk=memory.pk)
    with pytest.raises(Conflict):
        change(memory, actor, content="taken", tags=["u"], session_id="s2", importance=1)
    assert Memory.objects.values().get(pk=memory.pk) == before
    assert list_values(memory, "tags") == ["t"]
    assert not Session.objects.filter(session_id="s2").exists()
    assert JournalEntry.objects.count() == 2


def test_writer_below_the_new_level_cannot_update_again(remember, low):
    """An actor may raise a memory above their clearance, but cannot change it afterwards."""
    memory = remember("content")
    change(memory, low, sensitivity="secret")
    with pytest.raises(NotFound):
        change(memory, low, importance=0.9)


def test_upsert_in_a_batch_counts_once(remember, actor):
    remember("one", key="k")
    memories.create_memory(MemoryDraft(content="two", key="k", tags=["t"]), actor)
    assert Revision.objects.get().before["content"] == "one"
