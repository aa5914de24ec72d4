"""Merging: one memory stands for several, and all of it can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from memoryhub import facts, store
from memoryhub.drafts import EntityDraft, FactDraft, MemoryDraft, MemoryPatch
from memoryhub.embeddings import Embedder
from memoryhub.journal import verify
from memoryhub.models import Embedding, Fact, JournalEntry, Memory
from memoryhub.retrieval.history import revisions
from memoryhub.search import schema
from memoryhub.sensitivity import Actor, Clearance
from memoryhub.store.apart import apart
from memoryhub.store.rows import LISTS, listed

Remember = Callable[..., Memory]


def whole(memory: Memory) -> dict[str, Any]:
    """Everything that is stored of a memory but its revisions."""
    fresh = Memory.objects.get(pk=memory.pk)
    columns = {field.attname: getattr(fresh, field.attname) for field in Memory._meta.concrete_fields}
    return columns | {name: listed(fresh, name) for name in LISTS}


def public() -> Actor:
    return Actor("token:public", Clearance())


@pytest.fixture
def three(remember: Remember) -> list[Memory]:
    """Alike, and different in everything that a merge unites."""
    one = remember(
        "The build cache lives on the runner", tags=["ci"], files_read=["ci.yml"], importance=0.3, trust=0.9
    )
    two = remember(
        "The build cache lives on the runner itself",
        tags=["cache", "ci"],
        concepts=["gotcha"],
        files_modified=["Dockerfile"],
        entities=[EntityDraft(entity="runner")],
        sensitivity="private",
        importance=0.8,
        confidence=0.7,
        ttl_days=None,
    )
    three = remember("The build cache is on the runner", sensitivity="secret", category="ops")
    for memory, count in ((one, 2), (two, 3), (three, 4)):
        Memory.objects.filter(pk=memory.pk).update(
            accessed_count=count,
            consolidated_accesses=1,
            last_accessed_at=datetime(2026, 1, count, tzinfo=UTC),
            updated_at=datetime(2026, 2, count, tzinfo=UTC),
        )
        memory.refresh_from_db()
    return [one, two, three]


def uids(memories: list[Memory]) -> list[str]:
    return [memory.uid for memory in memories]


class TestMerging:
    def test_one_is_kept_and_the_others_go_to_the_trash_and_name_it(
        self, three: list[Memory], actor: Actor
    ) -> None:
        kept, *others = three
        store.merge(kept.uid, uids(others), actor)
        assert Memory.objects.get(pk=kept.pk).deleted_at is None
        for other in Memory.objects.filter(pk__in=[one.pk for one in others]):
            assert (other.merged_into_id, other.trash_reason) == (kept.pk, "merged")

    def test_lists_are_united(self, three: list[Memory], actor: Actor) -> None:
        merged = store.merge(three[0].uid, uids(three[1:]), actor).memory
        assert {name: listed(merged, name) for name in LISTS} == {
            "tags": ["cache", "ci"],
            "concepts": ["gotcha"],
            "files_read": ["ci.yml"],
            "files_modified": ["Dockerfile"],
            "entities": [{"entity": "runner", "entity_type": "concept"}],
        }

    def test_what_can_be_compared_is_the_highest_and_accesses_add_up(
        self, three: list[Memory], actor: Actor
    ) -> None:
        store.merge(three[0].uid, uids(three[1:]), actor)
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

    def test_the_text_is_that_of_the_one_that_is_kept(self, three: list[Memory], actor: Actor) -> None:
        merged = store.merge(three[1].uid, [three[0].uid], actor).memory
        assert (merged.content, merged.title) == (three[1].content, three[1].title)

    def test_a_text_that_was_given_replaces_it_and_the_old_one_is_a_revision(
        self, three: list[Memory], actor: Actor
    ) -> None:
        merged = store.merge(three[0].uid, [three[1].uid], actor, content="Caches live on runners").memory
        assert (merged.content, merged.title) == ("Caches live on runners", "Caches live on runners")
        [version] = revisions(merged, actor.clearance)
        assert version.before["content"] == three[0].content

    def test_a_given_text_is_looked_at_for_credentials(self, three: list[Memory], actor: Actor) -> None:
        with pytest.raises(store.SecretDetected):
            store.merge(three[0].uid, [three[1].uid], actor, content="key AKIA" + "QWERTYUIOPASDFGH")
        assert not Memory.objects.trashed().exists()

    def test_facts_of_the_others_are_known_from_the_one_that_is_kept(
        self, three: list[Memory], actor: Actor
    ) -> None:
        draft = FactDraft(subject="cache", predicate="on", object="runner", memory_id=three[1].uid)
        fact, _ = facts.store_fact(draft, actor)
        store.merge(three[0].uid, [three[1].uid], actor)
        [known] = facts.query_facts(actor.clearance, subject="cache")
        assert (known.uid, known.memory_id) == (fact.uid, three[0].pk)

    def test_it_is_journaled_without_a_text(self, three: list[Memory], actor: Actor) -> None:
        done = store.merge(three[0].uid, uids(three[1:]), actor, content="Words of the person")
        rows = JournalEntry.objects.order_by("-seq")[:4]
        assert [(row.operation, row.object_id) for row in rows] == [
            ("merge", done.uid),
            ("merged", three[2].uid),
            ("merged", three[1].uid),
            ("update", three[0].uid),
        ]
        assert not any("runner" in str(row.detail) or "Words" in str(row.detail) for row in rows)
        assert verify().ok

    def test_the_journal_names_no_hidden_memory_to_those_who_saw_the_other(
        self, remember: Remember, actor: Actor
    ) -> None:
        plain, secret = remember("the words"), remember("the words, nearly", sensitivity="secret")
        store.merge(secret.uid, [plain.uid], actor)
        shown = JournalEntry.objects.visible_to(Clearance())
        assert {row.object_id for row in shown} == {plain.uid}
        assert not any(secret.uid in str(row.detail) for row in shown)

    def test_identical_words_under_two_levels_become_one(self, remember: Remember, actor: Actor) -> None:
        secret = remember("the same words", sensitivity="secret")
        plain = remember("the same words", by=public())
        merged = store.merge(plain.uid, [secret.uid], actor)
        assert Memory.objects.get(pk=plain.pk).sensitivity == "secret"
        store.unmerge(merged.uid, actor)
        assert Memory.objects.get(pk=plain.pk).sensitivity == "public"

    def test_the_index_finds_the_new_text(self, three: list[Memory], actor: Actor) -> None:
        store.merge(three[0].uid, [three[1].uid], actor, content="marmalade")
        assert list(Memory.objects.search("marmalade")) == [three[0]]
        assert schema.problems() == []


class TestRefusals:
    @pytest.mark.parametrize(
        ("field", "value"), [("project", "elsewhere"), ("scope", "team"), ("scope", "personal")]
    )
    def test_another_place(self, remember: Remember, actor: Actor, field: str, value: str) -> None:
        one, other = remember("one", project="p"), remember("other", **{"project": "p", field: value})
        with pytest.raises(store.Conflict, match=f"memory {other.uid} has another {field}"):
            store.merge(one.uid, [other.uid], actor)

    @pytest.mark.parametrize("category", ["events", "cases"])
    def test_a_category_that_never_merges(self, remember: Remember, actor: Actor, category: str) -> None:
        one, other = remember("one", category=category), remember("other", category=category)
        with pytest.raises(store.Conflict, match="never merge"):
            store.merge(one.uid, [other.uid], actor)

    def test_a_key_would_be_lost(self, remember: Remember, actor: Actor) -> None:
        plain, keyed = remember("one"), remember("other", key="k")
        with pytest.raises(store.Conflict, match="found by its key"):
            store.merge(plain.uid, [keyed.uid], actor)
        assert store.merge(keyed.uid, [plain.uid], actor).memory.key == "k"

    def test_what_lies_in_the_trash_or_has_expired(self, remember: Remember, actor: Actor) -> None:
        one, trashed, expired = remember("one"), remember("two"), remember("three")
        store.trash([trashed.uid], actor)
        store.expire([expired.uid], actor)
        for ended in (trashed, expired):
            with pytest.raises(store.Conflict, match=ended.uid):
                store.merge(one.uid, [ended.uid], actor)

    @pytest.mark.parametrize("others", [[], ["self"]])
    def test_nothing_to_merge(self, remember: Remember, actor: Actor, others: list[str]) -> None:
        one = remember("one")
        with pytest.raises(store.Conflict):
            store.merge(one.uid, [one.uid for _ in others], actor)

    def test_what_was_changed_since_it_was_seen(self, three: list[Memory], actor: Actor) -> None:
        seen = {memory.uid: memory.updated_at for memory in three}
        store.update(three[1].uid, MemoryPatch(title="another"), actor)
        with pytest.raises(store.Conflict, match=f"changed since you opened it: memory {three[1].uid}"):
            store.merge(three[0].uid, uids(three[1:]), actor, seen=seen)

    def test_a_refusal_writes_nothing(self, three: list[Memory], actor: Actor) -> None:
        before, rows = [whole(memory) for memory in three], JournalEntry.objects.count()
        with pytest.raises(store.NotFound):
            store.merge(three[0].uid, [three[1].uid, "nothing"], actor, content="new")
        assert [whole(memory) for memory in three] == before
        assert JournalEntry.objects.count() == rows

    def test_hidden_memories_are_as_unknown_as_those_that_are_not_there(
        self, remember: Remember, four_levels: dict[str, Memory]
    ) -> None:
        said = set()
        for uid in (*(four_levels[level].uid for level in ("private", "secret", "cosmic")), "nothing"):
            with pytest.raises(store.NotFound) as caught:
                store.merge(four_levels["public"].uid, [uid], public())
            said.add(caught.value.message.replace(uid, "X"))
            with pytest.raises(store.NotFound):
                store.merge(uid, [four_levels["public"].uid], public())
        assert len(said) == 1

    def test_nobody_merges_a_memory_of_an_unknown_level(
        self, four_levels: dict[str, Memory], actor: Actor
    ) -> None:
        with pytest.raises(store.NotFound):
            store.merge(four_levels["public"].uid, [four_levels["cosmic"].uid], actor)

    def test_personal_memories_of_another(self, remember: Remember, actor: Actor) -> None:
        mine = remember("mine", scope="personal")
        theirs = remember("theirs", by=Actor("token:b", Clearance.up_to("secret", "bob")), scope="personal")
        with pytest.raises(store.NotFound):
            store.merge(mine.uid, [theirs.uid], actor)


class TestUndo:
    @pytest.mark.parametrize("content", ["", "A text of my own"])
    def test_everything_is_as_it_was(self, three: list[Memory], actor: Actor, content: str) -> None:
        draft = FactDraft(subject="cache", predicate="on", object="runner", memory_id=three[1].uid)
        fact, _ = facts.store_fact(draft, actor)
        before = [whole(memory) for memory in three]
        merged = store.merge(three[0].uid, uids(three[1:]), actor, content=content)
        store.unmerge(merged.uid, actor)
        assert [whole(memory) for memory in three] == before
        assert Fact.objects.get(pk=fact.pk).memory_id == three[1].pk
        assert schema.problems() == []
        assert verify().ok

    def test_a_title_of_its_own_stays(self, remember: Remember, actor: Actor) -> None:
        one, other = remember("first text", title="second text"), remember("other")
        before = whole(one)
        merged = store.merge(one.uid, [other.uid], actor, content="second text")
        store.unmerge(merged.uid, actor)
        assert whole(one) == before

    def test_accesses_since_then_stay_counted(self, three: list[Memory], actor: Actor) -> None:
        merged = store.merge(three[0].uid, uids(three[1:]), actor)
        store.touch(Memory.objects.get(pk=three[0].pk))
        store.unmerge(merged.uid, actor)
        kept = Memory.objects.get(pk=three[0].pk)
        assert kept.accessed_count == 3
        assert kept.last_accessed_at is not None
        assert kept.last_accessed_at.year != 2026 or kept.last_accessed_at > three[0].updated_at

    def test_it_is_journaled_and_cannot_be_done_twice(self, three: list[Memory], actor: Actor) -> None:
        merged = store.merge(three[0].uid, uids(three[1:]), actor)
        store.unmerge(merged.uid, actor)
        assert JournalEntry.objects.latest("seq").operation == "undo_merge"
        with pytest.raises(store.Conflict, match="taken back already"):
            store.unmerge(merged.uid, actor)

    def test_a_change_since_then_is_named_and_kept(self, three: list[Memory], actor: Actor) -> None:
        merged = store.merge(three[0].uid, uids(three[1:]), actor)
        store.update(three[0].uid, MemoryPatch(content="edited", tags=["mine"]), actor)
        with pytest.raises(store.Conflict, match=rf"memory {three[0].uid} was changed: .*content.*tags"):
            store.unmerge(merged.uid, actor)
        assert Memory.objects.get(pk=three[0].pk).content == "edited"
        assert Memory.objects.trashed().count() == 2

    def test_a_change_that_was_taken_back_is_none(self, three: list[Memory], actor: Actor) -> None:
        before = [whole(memory) for memory in three]
        merged = store.merge(three[0].uid, uids(three[1:]), actor, content="A text of my own")
        tags = listed(merged.memory, "tags")
        store.update(three[0].uid, MemoryPatch(content="edited", tags=["mine"]), actor)
        store.update(three[0].uid, MemoryPatch(content="edited twice"), actor)
        store.update(three[0].uid, MemoryPatch(content="A text of my own", tags=tags), actor)
        store.unmerge(merged.uid, actor)
        after = [whole(memory) for memory in three]
        changed = after[0].pop("updated_at")
        assert changed > before[0].pop("updated_at")
        assert after == before

    def test_one_that_was_stored_again_since_is_named(self, three: list[Memory], actor: Actor) -> None:
        merged = store.merge(three[0].uid, uids(three[1:]), actor)
        store.remember(MemoryDraft(content=three[0].content, sensitivity="secret"), actor)
        with pytest.raises(store.Conflict, match=f"memory {three[0].uid} was stored again"):
            store.unmerge(merged.uid, actor)

    def test_one_that_was_stored_again_under_its_key_is_named(self, remember: Remember, actor: Actor) -> None:
        keyed, other = remember("one", key="k"), remember("other", sensitivity="private")
        merged = store.merge(keyed.uid, [other.uid], actor)
        remember("two", key="k", sensitivity="private")
        store.update(keyed.uid, MemoryPatch(content="one"), actor)
        with pytest.raises(store.Conflict, match=f"memory {keyed.uid} was stored again"):
            store.unmerge(merged.uid, actor)

    def test_one_that_was_restored_since_is_named(self, three: list[Memory], actor: Actor) -> None:
        merged = store.merge(three[0].uid, uids(three[1:]), actor)
        store.restore([three[1].uid], actor)
        with pytest.raises(store.Conflict, match=f"memory {three[1].uid} was taken out of the trash"):
            store.unmerge(merged.uid, actor)

    def test_one_that_was_thrown_away_since_is_named(self, three: list[Memory], actor: Actor) -> None:
        merged = store.merge(three[0].uid, uids(three[1:]), actor)
        store.trash([three[0].uid], actor)
        with pytest.raises(store.Conflict, match=f"memory {three[0].uid} is in the trash"):
            store.unmerge(merged.uid, actor)

    def test_one_that_was_erased_since_is_told(self, three: list[Memory], actor: Actor) -> None:
        merged = store.merge(three[0].uid, uids(three[1:]), actor)
        Memory.objects.get(pk=three[1].pk).delete()
        with pytest.raises(store.Conflict, match="not there any more"):
            store.unmerge(merged.uid, actor)

    def test_an_importance_that_was_changed_since_is_named(self, three: list[Memory], actor: Actor) -> None:
        merged = store.merge(three[0].uid, uids(three[1:]), actor)
        Memory.objects.filter(pk=three[0].pk).update(importance=0.5)  # as a consolidation does
        with pytest.raises(store.Conflict, match="importance"):
            store.unmerge(merged.uid, actor)

    def test_the_last_of_two_merges_is_taken_back_first(self, three: list[Memory], actor: Actor) -> None:
        before = [whole(memory) for memory in three]
        first = store.merge(three[0].uid, [three[1].uid], actor)
        second = store.merge(three[0].uid, [three[2].uid], actor)
        with pytest.raises(store.Conflict, match="other memories were merged into"):
            store.unmerge(first.uid, actor)
        store.unmerge(second.uid, actor)
        store.unmerge(first.uid, actor)
        assert [whole(memory) for memory in three] == before

    def test_who_may_not_see_what_was_merged_may_not_take_it_back(
        self, three: list[Memory], actor: Actor
    ) -> None:
        merged = store.merge(three[0].uid, uids(three[1:]), actor)
        for clearance in (Clearance(), Clearance.up_to("private")):
            with pytest.raises(store.NotFound):
                store.unmerge(merged.uid, Actor("token:less", clearance))

    def test_a_place_that_was_taken_meanwhile_is_stepped_beside(
        self, remember: Remember, actor: Actor
    ) -> None:
        plain, secret = remember("the words"), remember("the words, nearly", sensitivity="secret")
        merged = store.merge(plain.uid, [secret.uid], actor)
        again = remember("the words", by=public())
        assert again.pk != plain.pk
        with pytest.raises(store.Conflict, match=f"memory {again.uid} has this content already"):
            store.unmerge(merged.uid, actor)

    def test_what_expired_meanwhile_lives_anew(self, remember: Remember, actor: Actor) -> None:
        one, other = remember("one", ttl_days=5), remember("other", ttl_days=5)
        merged = store.merge(one.uid, [other.uid], actor)
        later = timezone.now() + timedelta(days=9)
        store.unmerge(merged.uid, actor, later)
        other.refresh_from_db()
        assert other.expires_at == later + timedelta(days=5)


def test_vectors_follow_the_texts_there_and_back(
    embedding: Embedder, three: list[Memory], actor: Actor
) -> None:
    def vectors() -> dict[int, bytes]:
        return {row.memory_id: bytes(row.vector) for row in Embedding.objects.filter(model=embedding.name)}

    before = vectors()
    assert len(before) == 3
    merged = store.merge(three[0].uid, uids(three[1:]), actor, content="Marmalade is made of oranges")
    assert vectors()[three[0].pk] != before[three[0].pk]
    store.unmerge(merged.uid, actor)
    assert vectors() == before


class TestNotDuplicates:
    def test_every_pair_is_remembered_and_can_be_taken_back(self, three: list[Memory], actor: Actor) -> None:
        decision = store.not_duplicates(uids(three), actor)
        a, b, c = uids(three)
        assert apart(actor.clearance) == {frozenset(pair) for pair in ((a, b), (a, c), (b, c))}
        store.undo_not_duplicates(decision, actor)
        assert apart(actor.clearance) == set()
        with pytest.raises(store.NotFound):
            store.undo_not_duplicates(decision, actor)

    def test_a_pair_that_somebody_told_apart_twice_stays_so_when_one_takes_it_back(
        self, three: list[Memory], actor: Actor
    ) -> None:
        first = store.not_duplicates(uids(three[:2]), actor)
        store.not_duplicates(uids(three[:2]), actor)
        store.undo_not_duplicates(first, actor)
        assert apart(actor.clearance) == {frozenset(uids(three[:2]))}

    def test_pairs_are_known_to_those_who_see_both(self, three: list[Memory], actor: Actor) -> None:
        store.not_duplicates(uids(three), actor)
        assert apart(Clearance()) == set()
        assert apart(Clearance.up_to("private")) == {frozenset(uids(three[:2]))}

    def test_hidden_and_absent_ones_are_refused_alike(self, four_levels: dict[str, Memory]) -> None:
        said = set()
        for uid in ("nothing", four_levels["secret"].uid, four_levels["cosmic"].uid):
            with pytest.raises(store.NotFound) as caught:
                store.not_duplicates([four_levels["public"].uid, uid], public())
            said.add(caught.value.message)
        assert len(said) == 1
