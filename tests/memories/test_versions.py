"""Versions: visible ones, restore, and undo of the last change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit.journal import verify
from memoryhub.memories.schemas import EntityDraft, MemoryPatch
from memoryhub.memories.versions import VERSIONED_FIELDS, HiddenValue, current_value, load_versions
from memoryhub.models import JournalEntry, Memory
from tests.cases import each

Remember = Callable[..., Memory]
ALL = Clearance.up_to("secret", "ada")
PUBLIC = Clearance.up_to("public", "ada")


def change(memory: Memory, actor: Actor, **fields: Any) -> Memory:
    return memories.update_memory(memory.uid, MemoryPatch(**fields), actor)


def said(memory: Memory) -> dict[str, Any]:
    """Return the current values of all versioned fields."""
    fresh = Memory.objects.get(pk=memory.pk)
    return {name: current_value(fresh, name, ALL) for name in VERSIONED_FIELDS}


@pytest.fixture
def story(remember: Remember, actor: Actor) -> tuple[Memory, list[dict[str, Any]]]:
    """A memory with three changes, and all its versions."""
    memory = remember("first text", tags=["a", "b"], importance=0.2, project="p")
    states = [said(memory)]
    for fields in (
        {"content": "second text", "tags": ["b", "c"]},
        {"title": "A title", "importance": 0.9, "entities": [EntityDraft(entity="Ann")]},
        {"content": "third text", "category": "odd", "key": "k", "files_read": ["a.py"]},
    ):
        memory = change(memory, actor, **fields)
        states.append(said(memory))
    return memory, states


class TestReading:
    def test_version_is_the_whole_memory(self, story: tuple[Memory, list[dict[str, Any]]]) -> None:
        memory, states = story
        found = load_versions(memory, [0, 1, 2, 3], ALL)
        assert [found[number].values for number in (1, 2, 3, 0)] == states

    def test_missing_versions_are_left_out(self, story: tuple[Memory, list[dict[str, Any]]]) -> None:
        assert load_versions(story[0], [4, 99, -1], ALL) == {}

    def test_version_of_a_hidden_level_is_left_out(self, remember: Remember, actor: Actor) -> None:
        memory = remember("open words")
        memory = change(memory, actor, content="closed words", sensitivity="private")
        memory = change(memory, actor, content="open again", sensitivity="public")
        assert set(load_versions(memory, [1, 2], PUBLIC)) == {1}
        assert load_versions(memory, [2], ALL)[2].values["content"] == "closed words"
        assert load_versions(memory, [2], ALL)[2].levels["content"] == "private"

    def test_value_replaced_by_a_hidden_change_is_hidden(self, remember: Remember, actor: Actor) -> None:
        memory = remember("words", title="one", category="old")
        memory = change(memory, actor, title="two")
        memory = change(memory, actor, sensitivity="private")
        memory = change(memory, actor, category="closed", sensitivity="public")
        version = load_versions(memory, [1], PUBLIC)[1]
        assert version.values["title"] == "one"
        assert version.values["category"] == HiddenValue(3)
        assert version.hidden == ["category"]


class TestRestoring:
    @pytest.mark.parametrize("number", [1, 2, 3])
    def test_restore_restores_all_fields(
        self, story: tuple[Memory, list[dict[str, Any]]], actor: Actor, number: int
    ) -> None:
        memory, states = story
        memories.restore_version(memory.uid, number, actor)
        assert said(memory) == states[number - 1]
        assert verify().ok

    def test_restore_adds_a_revision_and_a_journal_row(
        self, story: tuple[Memory, list[dict[str, Any]]], actor: Actor
    ) -> None:
        memory, states = story
        memories.restore_version(memory.uid, 1, actor)
        last = memory.revisions.first()
        assert last is not None
        assert (last.number, last.reason, last.actor) == (4, "restore of 1", actor.name)
        assert last.before["content"] == "third text"
        row = JournalEntry.objects.latest("seq")
        assert (row.operation, row.object_id) == ("update", memory.uid)
        assert (row.detail["revision"], row.detail["reason"]) == (4, "restore of 1")
        assert load_versions(Memory.objects.get(pk=memory.pk), [4], ALL)[4].values == states[3]

    def test_search_finds_the_restored_content(
        self, story: tuple[Memory, list[dict[str, Any]]], actor: Actor
    ) -> None:
        memory, _ = story
        memories.restore_version(memory.uid, 1, actor)
        found = Memory.objects.search("first")
        assert [one.pk for one in found] == [memory.pk]

    def test_restore_never_lowers_the_level(self, remember: Remember, actor: Actor) -> None:
        memory = remember("one")
        change(memory, actor, content="two", sensitivity="secret")
        back = memories.restore_version(memory.uid, 1, actor)
        assert (back.content, back.sensitivity) == ("one", "secret")

    def test_secret_version_is_restored_as_secret(self, remember: Remember, actor: Actor) -> None:
        memory = remember("one", sensitivity="secret")
        change(memory, actor, content="two", sensitivity="public")
        back = memories.restore_version(memory.uid, 1, actor)
        assert (back.content, back.sensitivity) == ("one", "secret")

    def test_personal_memory_stays_personal(self, remember: Remember, actor: Actor) -> None:
        memory = remember("one", scope="team")
        memory = change(memory, actor, title="mine", scope="personal")
        back = memories.restore_version(memory.uid, 1, actor)
        assert (back.title, back.scope, back.owner) == ("one", "personal", "ada")

    def test_restore_does_not_change_the_expiry(self, remember: Remember, actor: Actor) -> None:
        memory = remember("one", ttl_days=1)
        memory = change(memory, actor, title="t", ttl_days=90)
        back = memories.restore_version(memory.uid, 1, actor)
        assert (back.title, back.ttl_days, back.expires_at) == ("one", 90, memory.expires_at)

    def test_restore_of_equal_values_changes_nothing(self, remember: Remember, actor: Actor) -> None:
        memory = remember("one", title="t")
        change(memory, actor, title="u")
        change(memory, actor, title="t")
        rows = JournalEntry.objects.count()
        memories.restore_version(memory.uid, 1, actor)
        assert JournalEntry.objects.count() == rows
        assert memory.revisions.count() == 2

    @each("number", [0, -1, 4, 99])
    def test_missing_version_is_not_found(
        self, story: tuple[Memory, list[dict[str, Any]]], actor: Actor, number: int
    ) -> None:
        with pytest.raises(memories.NotFound):
            memories.restore_version(story[0].uid, number, actor)


class TestRefusals:
    def test_hidden_version_cannot_be_restored(self, remember: Remember, actor: Actor) -> None:
        memory = remember("open")
        change(memory, actor, content="closed", sensitivity="private")
        change(memory, actor, content="open again", sensitivity="public")
        with pytest.raises(memories.NotFound, match="no such version"):
            memories.restore_version(memory.uid, 2, Actor("user:bob", PUBLIC))
        assert Memory.objects.get(pk=memory.pk).content == "open again"

    def test_partly_hidden_version_cannot_be_restored(self, remember: Remember, actor: Actor) -> None:
        memory = remember("words", title="one", category="old")
        change(memory, actor, title="two")
        change(memory, actor, sensitivity="private")
        change(memory, actor, category="closed", sensitivity="public")
        with pytest.raises(memories.Conflict, match=r"you cannot see: category"):
            memories.restore_version(memory.uid, 1, Actor("user:bob", PUBLIC))
        assert Memory.objects.get(pk=memory.pk).title == "two"

    def test_hidden_memory_is_not_found(self, remember: Remember, actor: Actor) -> None:
        memory = remember("one", project="zoo")
        change(memory, actor, content="two")
        confined = Actor("user:bob", Clearance.up_to("secret", "bob", ["farm"]))
        for operation in (memories.restore_version, memories.undo_last_change):
            with pytest.raises(memories.NotFound):
                operation(memory.uid, 1, confined)

    def test_version_from_another_project_is_not_found(self, remember: Remember, actor: Actor) -> None:
        memory = remember("one", project="zoo")
        change(memory, actor, content="two", project="farm")
        confined = Actor("user:bob", Clearance.up_to("secret", "bob", ["farm"]))
        for operation in (memories.restore_version, memories.undo_last_change):
            with pytest.raises(memories.NotFound):
                operation(memory.uid, 1, confined)

    def test_concurrent_change_is_a_conflict(self, remember: Remember, actor: Actor) -> None:
        memory = remember("one")
        seen = change(memory, actor, content="two").updated_at
        change(memory, actor, content="three")
        with pytest.raises(memories.Conflict, match="someone has changed"):
            memories.restore_version(memory.uid, 1, actor, unchanged_since=seen)
        assert Memory.objects.get(pk=memory.pk).content == "three"

    def test_conflict_names_the_memory_with_the_content(self, remember: Remember, actor: Actor) -> None:
        memory = remember("one")
        change(memory, actor, content="two")
        other = remember("one")
        with pytest.raises(memories.Conflict, match=other.uid):
            memories.restore_version(memory.uid, 1, actor)

    def test_version_with_a_secret_is_refused(self, remember: Remember, actor: Actor) -> None:
        memory = remember("one")
        change(memory, actor, content="two")
        token = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"
        memory.revisions.update(before={"content": f"the token is {token}"})
        with pytest.raises(memories.SecretDetected):
            memories.restore_version(memory.uid, 1, actor)

    def test_invalid_old_values_are_named(self, remember: Remember, actor: Actor) -> None:
        memory = remember("one")
        change(memory, actor, type="decision")
        memory.revisions.update(before={"type": "poem", "title": "x" * 501})
        with pytest.raises(memories.Conflict, match="title, type"):
            memories.restore_version(memory.uid, 1, actor)

    @pytest.mark.parametrize("operation", [memories.restore_version, memories.undo_last_change])
    def test_trashed_memory_must_be_restored_first(
        self, remember: Remember, actor: Actor, operation: Any
    ) -> None:
        memory = remember("one")
        change(memory, actor, content="two")
        memories.trash_memories([memory.uid], actor)
        with pytest.raises(memories.Conflict, match="in the trash"):
            operation(memory.uid, 1, actor)


class TestTakingBack:
    def test_undo_restores_all_fields_and_the_level(
        self, story: tuple[Memory, list[dict[str, Any]]], actor: Actor
    ) -> None:
        memory, states = story
        change(memory, actor, content="fourth", sensitivity="secret", tags=[])
        memories.undo_last_change(memory.uid, 4, actor)
        assert said(memory) == states[3]
        last = memory.revisions.first()
        assert last is not None
        assert (last.number, last.reason) == (5, "undo")

    def test_restore_can_be_undone(self, story: tuple[Memory, list[dict[str, Any]]], actor: Actor) -> None:
        memory, states = story
        memories.restore_version(memory.uid, 1, actor)
        memories.undo_last_change(memory.uid, 4, actor)
        assert said(memory) == states[3]

    def test_later_change_prevents_undo(
        self, story: tuple[Memory, list[dict[str, Any]]], actor: Actor
    ) -> None:
        with pytest.raises(memories.Conflict, match="changed since"):
            memories.undo_last_change(story[0].uid, 2, actor)

    def test_later_change_without_revision_prevents_undo(self, remember: Remember, actor: Actor) -> None:
        memory = remember("one")
        change(memory, actor, title="t")
        later = timezone.now() + timedelta(seconds=1)
        Memory.objects.filter(pk=memory.pk).update(updated_at=later)
        with pytest.raises(memories.Conflict, match="changed since"):
            memories.undo_last_change(memory.uid, 1, actor)

    def test_hidden_values_cannot_be_undone(self, remember: Remember, actor: Actor) -> None:
        memory = remember("closed", sensitivity="private")
        change(memory, actor, content="open", sensitivity="public")
        with pytest.raises(memories.NotFound):
            memories.undo_last_change(memory.uid, 1, Actor("user:bob", PUBLIC))

    def test_change_of_ttl_days_cannot_be_undone(self, remember: Remember, actor: Actor) -> None:
        memory = remember("one", ttl_days=3)
        change(memory, actor, ttl_days=9)
        with pytest.raises(memories.Conflict, match="expiry"):
            memories.undo_last_change(memory.uid, 1, actor)

    @pytest.mark.parametrize("number", [1, 7])
    def test_missing_change_is_not_found(self, remember: Remember, actor: Actor, number: int) -> None:
        with pytest.raises(memories.NotFound):
            memories.undo_last_change(remember("one").uid, number, actor)
