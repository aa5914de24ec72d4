"""Merging memories, and refused merges."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit.journal import verify
from memoryhub.backends import schema
from memoryhub.facts import queries, services
from memoryhub.memories.rows import LIST_FIELDS, list_values
from memoryhub.memories.schemas import FactDraft, MemoryPatch
from memoryhub.memories.versions import visible_revisions
from memoryhub.models import JournalEntry, Memory
from tests.cases import each
from tests.memories.merge_scenarios import public, uids, whole

Remember = Callable[..., Memory]


class TestMerging:
    def test_others_go_to_the_trash_with_merged_into(self, three: list[Memory], actor: Actor) -> None:
        kept, *others = three
        memories.merge_memories(kept.uid, uids(others), actor)
        assert Memory.objects.get(pk=kept.pk).deleted_at is None
        for other in Memory.objects.filter(pk__in=[one.pk for one in others]):
            assert (other.merged_into_id, other.trash_reason) == (kept.pk, "merged")

    def test_lists_are_combined(self, three: list[Memory], actor: Actor) -> None:
        merged = memories.merge_memories(three[0].uid, uids(three[1:]), actor).memory
        assert {name: list_values(merged, name) for name in LIST_FIELDS} == {
            "tags": ["cache", "ci"],
            "concepts": ["gotcha"],
            "aliases": ["CI", "runner"],
            "files_read": ["ci.yml"],
            "files_modified": ["Dockerfile"],
            "entities": [{"entity": "runner", "entity_type": "concept"}],
        }

    def test_numbers_are_the_highest_and_accesses_add_up(self, three: list[Memory], actor: Actor) -> None:
        memories.merge_memories(three[0].uid, uids(three[1:]), actor)
        merged = Memory.objects.get(pk=three[0].pk)
        names = (
            "sensitivity",
            "importance",
            "trust",
            "confidence",
            "accessed_count",
            "consolidated_accesses",
        )
        assert [getattr(merged, name) for name in names] == ["secret", 0.8, 0.9, 0.7, 9, 3]
        assert merged.last_accessed_at == datetime(2026, 1, 4, tzinfo=UTC)
        assert (merged.expires_at, merged.ttl_days) == (None, None)

    def test_kept_memory_keeps_its_text(self, three: list[Memory], actor: Actor) -> None:
        merged = memories.merge_memories(three[1].uid, [three[0].uid], actor).memory
        assert (merged.content, merged.title) == (three[1].content, three[1].title)

    def test_given_text_replaces_it_and_a_revision_stores_the_old_one(
        self, three: list[Memory], actor: Actor
    ) -> None:
        merged = memories.merge_memories(
            three[0].uid, [three[1].uid], actor, content="Caches live on runners"
        ).memory
        assert (merged.content, merged.title) == ("Caches live on runners", "Caches live on runners")
        [version] = visible_revisions(merged, actor.clearance)
        assert version.before["content"] == three[0].content

    def test_given_text_is_checked_for_secrets(self, three: list[Memory], actor: Actor) -> None:
        with pytest.raises(memories.SecretDetected):
            memories.merge_memories(
                three[0].uid, [three[1].uid], actor, content="key AKIA" + "QWERTYUIOPASDFGH"
            )
        assert not Memory.objects.trashed().exists()

    def test_facts_move_to_the_kept_memory(self, three: list[Memory], actor: Actor) -> None:
        draft = FactDraft(subject="cache", predicate="on", object="runner", memory_id=three[1].uid)
        fact, _ = services.create_fact(draft, actor)
        memories.merge_memories(three[0].uid, [three[1].uid], actor)
        [known] = queries.query_facts(actor.clearance, subject="cache")
        assert (known.uid, known.memory_id) == (fact.uid, three[0].pk)

    def test_merge_is_journaled_without_text(self, three: list[Memory], actor: Actor) -> None:
        done = memories.merge_memories(three[0].uid, uids(three[1:]), actor, content="Words of the person")
        rows = JournalEntry.objects.order_by("-seq")[:4]
        assert [(row.operation, row.object_id) for row in rows] == [
            ("merge", done.uid),
            ("merged", three[2].uid),
            ("merged", three[1].uid),
            ("update", three[0].uid),
        ]
        assert not any("runner" in str(row.detail) or "Words" in str(row.detail) for row in rows)
        assert verify().ok

    def test_journal_does_not_name_hidden_memories(self, remember: Remember, actor: Actor) -> None:
        plain, secret = remember("the words"), remember("the words, nearly", sensitivity="secret")
        memories.merge_memories(secret.uid, [plain.uid], actor)
        shown = JournalEntry.objects.visible_to(Clearance())
        assert {row.object_id for row in shown} == {plain.uid}
        assert not any(secret.uid in str(row.detail) for row in shown)

    def test_equal_contents_of_two_levels_can_be_merged(self, remember: Remember, actor: Actor) -> None:
        secret = remember("the same words", sensitivity="secret")
        plain = remember("the same words", by=public())
        merged = memories.merge_memories(plain.uid, [secret.uid], actor)
        assert Memory.objects.get(pk=plain.pk).sensitivity == "secret"
        memories.undo_merge(merged.uid, actor)
        assert Memory.objects.get(pk=plain.pk).sensitivity == "public"

    def test_search_finds_the_new_text(self, three: list[Memory], actor: Actor) -> None:
        memories.merge_memories(three[0].uid, [three[1].uid], actor, content="marmalade")
        assert list(Memory.objects.search("marmalade")) == [three[0]]
        assert schema.find_problems() == []


class TestRefusals:
    @each("field, value", [("project", "elsewhere"), ("scope", "team"), ("scope", "personal")])
    def test_different_place_is_refused(
        self, remember: Remember, actor: Actor, field: str, value: str
    ) -> None:
        one, other = remember("one", project="p"), remember("other", **{"project": "p", field: value})
        with pytest.raises(memories.Conflict, match=f"memory {other.uid} has another {field}"):
            memories.merge_memories(one.uid, [other.uid], actor)

    @pytest.mark.parametrize("category", ["events", "cases"])
    def test_category_that_never_merges_is_refused(
        self, remember: Remember, actor: Actor, category: str
    ) -> None:
        one, other = remember("one", category=category), remember("other", category=category)
        with pytest.raises(memories.Conflict, match="never merge"):
            memories.merge_memories(one.uid, [other.uid], actor)

    def test_merge_that_would_lose_a_key_is_refused(self, remember: Remember, actor: Actor) -> None:
        plain, keyed = remember("one"), remember("other", key="k")
        with pytest.raises(memories.Conflict, match="found by its key"):
            memories.merge_memories(plain.uid, [keyed.uid], actor)
        assert memories.merge_memories(keyed.uid, [plain.uid], actor).memory.key == "k"

    def test_trashed_or_expired_memory_is_refused(self, remember: Remember, actor: Actor) -> None:
        one, trashed, expired = remember("one"), remember("two"), remember("three")
        memories.trash_memories([trashed.uid], actor)
        memories.apply_bulk_action("expire", [expired.uid], actor)
        for ended in (trashed, expired):
            with pytest.raises(memories.Conflict, match=ended.uid):
                memories.merge_memories(one.uid, [ended.uid], actor)

    @pytest.mark.parametrize("others", [[], ["self"]])
    def test_merge_without_others_is_refused(
        self, remember: Remember, actor: Actor, others: list[str]
    ) -> None:
        one = remember("one")
        with pytest.raises(memories.Conflict):
            memories.merge_memories(one.uid, [one.uid for _ in others], actor)

    def test_memory_changed_since_read_is_refused(self, three: list[Memory], actor: Actor) -> None:
        seen = {memory.uid: memory.updated_at for memory in three}
        memories.update_memory(three[1].uid, MemoryPatch(title="another"), actor)
        with pytest.raises(memories.Conflict, match=f"changed since you opened it: memory {three[1].uid}"):
            memories.merge_memories(three[0].uid, uids(three[1:]), actor, seen=seen)

    def test_refusal_writes_nothing(self, three: list[Memory], actor: Actor) -> None:
        before, rows = [whole(memory) for memory in three], JournalEntry.objects.count()
        with pytest.raises(memories.NotFound):
            memories.merge_memories(three[0].uid, [three[1].uid, "nothing"], actor, content="new")
        assert [whole(memory) for memory in three] == before
        assert JournalEntry.objects.count() == rows

    def test_hidden_memories_are_refused_like_missing_ones(
        self, remember: Remember, four_levels: dict[str, Memory]
    ) -> None:
        said = set()
        for uid in (*(four_levels[level].uid for level in ("private", "secret", "cosmic")), "nothing"):
            with pytest.raises(memories.NotFound) as caught:
                memories.merge_memories(four_levels["public"].uid, [uid], public())
            said.add(caught.value.message.replace(uid, "X"))
            with pytest.raises(memories.NotFound):
                memories.merge_memories(uid, [four_levels["public"].uid], public())
        assert len(said) == 1

    def test_memory_of_unknown_level_is_refused(self, four_levels: dict[str, Memory], actor: Actor) -> None:
        with pytest.raises(memories.NotFound):
            memories.merge_memories(four_levels["public"].uid, [four_levels["cosmic"].uid], actor)

    def test_personal_memory_of_another_is_refused(self, remember: Remember, actor: Actor) -> None:
        mine = remember("mine", scope="personal")
        theirs = remember("theirs", by=Actor("token:b", Clearance.up_to("secret", "bob")), scope="personal")
        with pytest.raises(memories.NotFound):
            memories.merge_memories(mine.uid, [theirs.uid], actor)
