"""Visibility by project and owner."""

from __future__ import annotations

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.facts import queries, services
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import JournalEntry, Memory, Session
from memoryhub.search.hybrid import search_memories
from memoryhub.stats import counts
from memoryhub.stats.timeline import load_timeline, serialize_entries


def test_confined_token_sees_only_its_projects(remember, confined):
    inside = remember("words inside", project="zoo", session_id="s1", files_read=["a.py"], tags=["t"])
    remember("words outside", project="shop", session_id="s2", files_read=["a.py"], tags=["t"])
    remember("words of no project", session_id="s3")
    assert list(Memory.objects.visible_to(confined.clearance)) == [inside]
    found = search_memories(
        MemoryFilter(file="a.py", tag="t").select(confined.clearance), "words", min_score=0.0
    )
    assert [hit.memory for hit in found.hits] == [inside]
    entries, _ = load_timeline(confined.clearance, MemoryFilter())
    shown = serialize_entries(entries, confined.clearance)
    assert {entry["project"] for entry in shown} == {"zoo"}
    assert {row.object_id for row in JournalEntry.objects.visible_to(confined.clearance)} == {inside.uid}
    assert set(counts.store_statistics(confined.clearance)["by_project"]) == {"zoo"}
    assert [s.session_id for s in Session.objects.visible_to(confined.clearance)] == ["s1"]


def test_confined_token_does_not_see_a_moved_memory(remember, actor, confined):
    memory = remember("moving", project="zoo")
    memories.update_memory(memory.uid, MemoryPatch(project="shop"), actor)
    assert not Memory.objects.visible_to(confined.clearance).exists()
    assert not JournalEntry.objects.visible_to(confined.clearance).exists()


def test_facts_of_other_projects_are_hidden(db, actor, confined, remember):
    elsewhere = remember("outside", project="shop")
    for draft in (
        {"object": "inside", "project": "zoo"},
        {"object": "outside", "project": "shop"},
        {"object": "on a memory outside", "project": "zoo", "memory_id": elsewhere.uid},
    ):
        services.create_fact(FactDraft(subject="s", predicate="p", **draft), actor)
    assert [fact.object for fact in queries.query_facts(confined.clearance)] == ["inside"]


def test_confined_token_cannot_write_to_other_projects(confined, remember):
    memory = remember("inside", project="zoo")
    with pytest.raises(memories.Forbidden, match="zoo"):
        memories.create_memory(MemoryDraft(content="x", project="shop"), confined)
    with pytest.raises(memories.Forbidden):
        memories.update_memory(memory.uid, MemoryPatch(project="shop"), confined)
    with pytest.raises(memories.Forbidden):
        services.create_fact(FactDraft(subject="s", predicate="p", object="o", project="shop"), confined)
    memory.refresh_from_db()
    assert memory.project == "zoo"


def test_token_with_one_project_writes_there_by_default(confined, db):
    assert memories.create_memory(MemoryDraft(content="x"), confined).memory.project == "zoo"


def test_token_with_several_projects_must_name_one(db):
    two = Actor("token:two", Clearance.up_to("public", projects=["a", "b"]))
    with pytest.raises(memories.Forbidden, match="a, b"):
        memories.create_memory(MemoryDraft(content="x"), two)


def test_token_without_projects_sees_and_writes_nothing(remember):
    remember("x")
    none = Actor("token:none", Clearance.up_to("secret", projects=[]))
    assert not Memory.objects.visible_to(none.clearance).exists()
    with pytest.raises(memories.Forbidden):
        memories.create_memory(MemoryDraft(content="x"), none)


def test_personal_memories_are_visible_only_to_their_owner(remember, actor, stranger):
    mine = remember("for me alone", scope="personal", session_id="s")
    for clearance in (stranger.clearance, Clearance.up_to("secret"), Clearance.up_to("secret", owner="Ada")):
        assert not Memory.objects.visible_to(clearance).exists()
        assert not JournalEntry.objects.visible_to(clearance).exists()
        assert not Session.objects.visible_to(clearance).exists()
        assert counts.store_statistics(clearance)["total"] == 0
    assert Memory.objects.visible_to(actor.clearance).get() == mine


def test_personal_memory_without_owner_is_hidden(remember):
    memory = remember("lost", scope="personal")
    Memory.objects.filter(pk=memory.pk).update(owner="")
    assert not Memory.objects.visible_to(Clearance.up_to("secret")).exists()
    assert not Memory.objects.visible_to(Clearance.up_to("secret", owner="ada")).exists()


def test_memory_made_personal_is_hidden_from_others(remember, actor, stranger):
    memory = remember("shared", scope="team")
    memories.update_memory(memory.uid, MemoryPatch(scope="personal"), actor)
    assert Memory.objects.get().owner == "ada"
    assert not Memory.objects.visible_to(stranger.clearance).exists()
    memories.update_memory(memory.uid, MemoryPatch(scope="team"), actor)
    assert Memory.objects.get().owner == ""


def test_facts_of_a_personal_memory_are_visible_only_to_its_owner(remember, actor, stranger):
    memory = remember("mine", scope="personal")
    services.create_fact(FactDraft(subject="s", predicate="p", object="o", memory_id=memory.uid), actor)
    assert not queries.query_facts(stranger.clearance).exists()
    assert not JournalEntry.objects.visible_to(stranger.clearance).exists()
