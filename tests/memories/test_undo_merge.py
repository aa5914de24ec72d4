"""Undo of a merge restores everything, or names the changes that prevent it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit.journal import verify
from memoryhub.backends import schema
from memoryhub.embeddings import Embedder
from memoryhub.facts import services
from memoryhub.memories import merge
from memoryhub.memories.rows import list_values
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.memories.undo import Undo
from memoryhub.models import Embedding, Fact, JournalEntry, Memory
from tests.memories.merge_scenarios import public, uids, whole

Remember = Callable[..., Memory]


class TestUndo:
    @pytest.mark.parametrize("content", ["", "A text of my own"])
    def test_undo_restores_everything(self, three: list[Memory], actor: Actor, content: str) -> None:
        draft = FactDraft(subject="cache", predicate="on", object="runner", memory_id=three[1].uid)
        fact, _ = services.create_fact(draft, actor)
        before = [whole(memory) for memory in three]
        merged = memories.merge_memories(three[0].uid, uids(three[1:]), actor, content=content)
        memories.undo_merge(merged.uid, actor)
        assert [whole(memory) for memory in three] == before
        assert Fact.objects.get(pk=fact.pk).memory_id == three[1].pk
        assert schema.find_problems() == []
        assert verify().ok

    def test_written_title_is_kept(self, remember: Remember, actor: Actor) -> None:
        one, other = remember("first text", title="second text"), remember("other")
        before = whole(one)
        merged = memories.merge_memories(one.uid, [other.uid], actor, content="second text")
        memories.undo_merge(merged.uid, actor)
        assert whole(one) == before

    def test_later_accesses_stay_counted(self, three: list[Memory], actor: Actor) -> None:
        merged = memories.merge_memories(three[0].uid, uids(three[1:]), actor)
        memories.count_accesses([Memory.objects.get(pk=three[0].pk)])
        memories.undo_merge(merged.uid, actor)
        kept = Memory.objects.get(pk=three[0].pk)
        assert kept.accessed_count == 3
        assert kept.last_accessed_at is not None
        assert kept.last_accessed_at.year != 2026 or kept.last_accessed_at > three[0].updated_at

    def test_edit_after_the_clock_went_back_is_not_overwritten(
        self, three: list[Memory], actor: Actor
    ) -> None:
        keep = three[0].uid
        merged = memories.merge_memories(keep, uids(three[1:]), actor, content="merged text")
        an_hour_ago = timezone.now() - timedelta(hours=1)
        memories.update_memory(keep, MemoryPatch(content="text of a person"), actor, an_hour_ago)
        with pytest.raises(memories.Conflict, match=r"was changed: .*content"):
            memories.undo_merge(merged.uid, actor)
        assert Memory.objects.get(uid=keep).content == "text of a person"

    def test_undo_is_journaled_and_works_once(self, three: list[Memory], actor: Actor) -> None:
        merged = memories.merge_memories(three[0].uid, uids(three[1:]), actor)
        memories.undo_merge(merged.uid, actor)
        assert JournalEntry.objects.latest("seq").operation == "undo_merge"
        with pytest.raises(memories.Conflict, match=f"already undone by {actor.name}"):
            memories.undo_merge(merged.uid, actor)

    def test_undo_that_loses_a_race_names_the_other(
        self, three: list[Memory], actor: Actor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        merged = memories.merge_memories(three[0].uid, uids(three[1:]), actor)
        read = Undo.of_action(merged.uid, actor, [merge.MERGE])
        memories.undo_merge(merged.uid, replace(actor, name="ann"))
        monkeypatch.setattr(Undo, "of_action", lambda *arguments: read)
        with pytest.raises(memories.Conflict, match=r"^this merge was already undone by ann$"):
            memories.undo_merge(merged.uid, actor)

    def test_later_change_prevents_undo(self, three: list[Memory], actor: Actor) -> None:
        merged = memories.merge_memories(three[0].uid, uids(three[1:]), actor)
        memories.update_memory(three[0].uid, MemoryPatch(content="edited", tags=["mine"]), actor)
        with pytest.raises(memories.Conflict, match=rf"memory {three[0].uid} was changed: .*content.*tags"):
            memories.undo_merge(merged.uid, actor)
        assert Memory.objects.get(pk=three[0].pk).content == "edited"
        assert Memory.objects.trashed().count() == 2

    def test_undone_change_does_not_prevent_undo(self, three: list[Memory], actor: Actor) -> None:
        before = [whole(memory) for memory in three]
        merged = memories.merge_memories(three[0].uid, uids(three[1:]), actor, content="A text of my own")
        tags = list_values(merged.memory, "tags")
        memories.update_memory(three[0].uid, MemoryPatch(content="edited", tags=["mine"]), actor)
        memories.update_memory(three[0].uid, MemoryPatch(content="edited twice"), actor)
        memories.update_memory(three[0].uid, MemoryPatch(content="A text of my own", tags=tags), actor)
        memories.undo_merge(merged.uid, actor)
        after = [whole(memory) for memory in three]
        changed = after[0].pop("updated_at")
        assert changed > before[0].pop("updated_at")
        assert after == before

    def test_repeat_since_prevents_undo(self, three: list[Memory], actor: Actor) -> None:
        merged = memories.merge_memories(three[0].uid, uids(three[1:]), actor)
        memories.create_memory(MemoryDraft(content=three[0].content, sensitivity="secret"), actor)
        with pytest.raises(memories.Conflict, match=f"memory {three[0].uid} was stored again"):
            memories.undo_merge(merged.uid, actor)

    def test_upsert_since_prevents_undo(self, remember: Remember, actor: Actor) -> None:
        keyed, other = remember("one", key="k"), remember("other", sensitivity="private")
        merged = memories.merge_memories(keyed.uid, [other.uid], actor)
        remember("two", key="k", sensitivity="private")
        memories.update_memory(keyed.uid, MemoryPatch(content="one"), actor)
        with pytest.raises(memories.Conflict, match=f"memory {keyed.uid} was stored again"):
            memories.undo_merge(merged.uid, actor)

    def test_restored_source_prevents_undo(self, three: list[Memory], actor: Actor) -> None:
        merged = memories.merge_memories(three[0].uid, uids(three[1:]), actor)
        memories.restore_memories([three[1].uid], actor)
        with pytest.raises(memories.Conflict, match=f"memory {three[1].uid} was restored or trashed again"):
            memories.undo_merge(merged.uid, actor)

    def test_trashed_target_prevents_undo(self, three: list[Memory], actor: Actor) -> None:
        merged = memories.merge_memories(three[0].uid, uids(three[1:]), actor)
        memories.trash_memories([three[0].uid], actor)
        with pytest.raises(memories.Conflict, match=f"memory {three[0].uid} is in the trash"):
            memories.undo_merge(merged.uid, actor)

    def test_erased_source_prevents_undo(self, three: list[Memory], actor: Actor) -> None:
        merged = memories.merge_memories(three[0].uid, uids(three[1:]), actor)
        Memory.objects.get(pk=three[1].pk).delete()
        with pytest.raises(memories.Conflict, match="no longer exists"):
            memories.undo_merge(merged.uid, actor)

    def test_changed_importance_prevents_undo(self, three: list[Memory], actor: Actor) -> None:
        merged = memories.merge_memories(three[0].uid, uids(three[1:]), actor)
        Memory.objects.filter(pk=three[0].pk).update(importance=0.5)  # as a consolidation does
        with pytest.raises(memories.Conflict, match="importance"):
            memories.undo_merge(merged.uid, actor)

    def test_later_merge_must_be_undone_first(self, three: list[Memory], actor: Actor) -> None:
        before = [whole(memory) for memory in three]
        first = memories.merge_memories(three[0].uid, [three[1].uid], actor)
        second = memories.merge_memories(three[0].uid, [three[2].uid], actor)
        with pytest.raises(memories.Conflict, match="other memories were merged into"):
            memories.undo_merge(first.uid, actor)
        memories.undo_merge(second.uid, actor)
        memories.undo_merge(first.uid, actor)
        assert [whole(memory) for memory in three] == before

    def test_undo_of_hidden_memories_is_not_found(self, three: list[Memory], actor: Actor) -> None:
        merged = memories.merge_memories(three[0].uid, uids(three[1:]), actor)
        for clearance in (Clearance(), Clearance.up_to("private")):
            with pytest.raises(memories.NotFound):
                memories.undo_merge(merged.uid, Actor("token:less", clearance))

    def test_taken_copy_number_is_replaced(self, remember: Remember, actor: Actor) -> None:
        plain, secret = remember("the words"), remember("the words, nearly", sensitivity="secret")
        merged = memories.merge_memories(plain.uid, [secret.uid], actor)
        again = remember("the words", by=public())
        assert again.pk != plain.pk
        with pytest.raises(memories.Conflict, match=f"memory {again.uid} has this content already"):
            memories.undo_merge(merged.uid, actor)

    def test_expired_source_is_revived(self, remember: Remember, actor: Actor) -> None:
        one, other = remember("one", ttl_days=5), remember("other", ttl_days=5)
        merged = memories.merge_memories(one.uid, [other.uid], actor)
        later = timezone.now() + timedelta(days=9)
        memories.undo_merge(merged.uid, actor, later)
        other.refresh_from_db()
        assert other.expires_at == later + timedelta(days=5)


def test_vectors_follow_merge_and_undo(embedding: Embedder, three: list[Memory], actor: Actor) -> None:
    def vectors() -> dict[int, bytes]:
        return {row.memory_id: bytes(row.vector) for row in Embedding.objects.filter(model=embedding.name)}

    before = vectors()
    assert len(before) == 3
    merged = memories.merge_memories(
        three[0].uid, uids(three[1:]), actor, content="Marmalade is made of oranges"
    )
    assert vectors()[three[0].pk] != before[three[0].pk]
    memories.undo_merge(merged.uid, actor)
    assert vectors() == before
