"""``superseded_by``: what it may be set to, who sees it, revisions, undo, merges and erasure."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories import StoreError, serializers
from memoryhub.memories.imported_history import import_replacement
from memoryhub.memories.rows import visible_replacements
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.memories.versions import load_versions, visible_revisions
from memoryhub.models import JournalEntry, Memory, Revision

Remember = Callable[..., Memory]
PUBLIC = Clearance.up_to("public", "ada")
LOW = Actor("token:low", PUBLIC)


def replace(memory: Memory, uid: str | None, actor: Actor) -> Memory:
    return memories.update_memory(memory.uid, MemoryPatch(superseded_by=uid), actor)


def shown(memory: Memory, clearance: Clearance) -> Any:
    row = Memory.objects.get(pk=memory.pk)
    return serializers.memory(row, visible_replacements([row], clearance))["superseded_by"]


def superseded_by(memory: Memory) -> Memory | None:
    return Memory.objects.get(pk=memory.pk).superseded_by


@pytest.fixture
def pair(remember: Remember) -> tuple[Memory, Memory]:
    return remember("we deploy with Jenkins"), remember("we deploy with Actions")


class TestSetting:
    def test_a_new_memory_names_its_replacement(self, remember: Remember, actor: Actor) -> None:
        new = remember("we deploy with Actions")
        old = remember("we deploy with Jenkins", superseded_by=new.uid)
        assert superseded_by(old) == new
        assert list(new.supersedes.all()) == [old]

    def test_an_update_stores_the_old_value_and_journals_the_field(
        self, pair: tuple[Memory, Memory], actor: Actor
    ) -> None:
        old, new = pair
        replace(old, new.uid, actor)
        replace(old, None, actor)
        assert superseded_by(old) is None
        assert [row.before for row in Revision.objects.order_by("number")] == [
            {"superseded_by": None},
            {"superseded_by": new.uid},
        ]
        detail = JournalEntry.objects.filter(operation="update").order_by("seq")[0].detail
        assert detail["fields"] == ["superseded_by"]
        assert new.uid not in str(detail)

    def test_the_same_replacement_again_is_no_change(self, pair: tuple[Memory, Memory], actor: Actor) -> None:
        old, new = pair
        replace(old, new.uid, actor)
        replace(old, new.uid, actor)
        assert old.revisions.count() == 1

    def test_an_empty_id_clears_it(self, pair: tuple[Memory, Memory], actor: Actor) -> None:
        replace(pair[0], pair[1].uid, actor)
        replace(pair[0], " ", actor)
        assert superseded_by(pair[0]) is None

    def test_a_hidden_id_is_refused_like_an_unknown_one(self, remember: Remember) -> None:
        old, hidden = remember("open"), remember("closed", sensitivity="secret")
        said = []
        for uid in (hidden.uid, "nothing-has-this-id"):
            with pytest.raises(StoreError) as refused:
                replace(old, uid, LOW)
            said.append((type(refused.value), refused.value.message, refused.value.field))
        assert said[0] == said[1]
        assert said[0][2] == "superseded_by"
        assert superseded_by(old) is None

    def test_a_draft_with_an_unknown_id_is_refused_and_the_others_are_stored(
        self, db: None, actor: Actor
    ) -> None:
        drafts = [MemoryDraft(content="a", superseded_by="nowhere"), MemoryDraft(content="b")]
        refused, _ = memories.create_memories(drafts, actor)
        assert isinstance(refused, StoreError)
        assert refused.field == "superseded_by"
        assert Memory.objects.get().content == "b"

    def test_a_memory_cannot_replace_itself(self, pair: tuple[Memory, Memory], actor: Actor) -> None:
        with pytest.raises(StoreError, match="itself"):
            replace(pair[0], pair[0].uid, actor)

    def test_replacements_have_no_cycles(self, remember: Remember, actor: Actor) -> None:
        one, two, three = (remember(f"number {n}") for n in range(3))
        replace(one, two.uid, actor)
        replace(two, three.uid, actor)
        for uid in (one.uid, two.uid):
            with pytest.raises(StoreError, match="replaces that one already"):
                replace(three, uid, actor)

    def test_a_cycle_through_a_hidden_memory_is_not_revealed_and_not_stored(
        self, remember: Remember, actor: Actor
    ) -> None:
        """The last hidden memory of the cycle is current again. The caller sees only the new link."""
        first, target = remember("we deploy with Jenkins"), remember("we deploy with Actions")
        hidden = [remember(f"closed {n}", sensitivity="secret") for n in range(2)]
        for old, new in itertools.pairwise([target, *hidden, first]):
            replace(old, new.uid, actor)
        journal = JournalEntry.objects.visible_as_recorded(PUBLIC)
        known = journal.count()
        replace(first, target.uid, LOW)
        assert [superseded_by(one) for one in (first, target, *hidden)] == [target, *hidden, None]
        assert journal.count() == known + 1
        assert [row.before for row in visible_revisions(first, PUBLIC)] == [{"superseded_by": None}]
        assert visible_revisions(hidden[1], actor.clearance)[0].before == {"superseded_by": first.uid}

    def test_an_imported_replacement_does_not_reveal_a_hidden_memory(
        self, remember: Remember, actor: Actor
    ) -> None:
        first, target = remember("we deploy with Jenkins"), remember("we deploy with Actions")
        hidden = remember("closed", sensitivity="secret")
        replace(target, hidden.uid, actor)
        replace(hidden, first.uid, actor)
        assert import_replacement(first.uid, target.uid, LOW)
        assert superseded_by(first) == target
        assert import_replacement(target.uid, remember("another").uid, LOW)  # it has a hidden replacement

    def test_storing_under_the_same_key_sets_it(self, remember: Remember, actor: Actor) -> None:
        old, new = remember("Jenkins", key="ci"), remember("Actions")
        remember("Jenkins!", key="ci", superseded_by=new.uid)
        assert superseded_by(old) == new


class TestVisibility:
    @pytest.fixture
    def old(self, remember: Remember, actor: Actor) -> Memory:
        """A public memory that a secret one replaces."""
        old, new = remember("open"), remember("closed", sensitivity="secret")
        replace(old, new.uid, actor)
        return old

    def test_only_callers_who_see_the_replacement_learn_of_it(self, old: Memory, actor: Actor) -> None:
        assert shown(old, PUBLIC) is None
        assert shown(old, actor.clearance) == Memory.objects.get(content="closed").uid

    def test_null_from_a_caller_who_sees_null_changes_nothing(self, old: Memory) -> None:
        replace(old, None, LOW)
        assert superseded_by(old) is not None
        assert old.revisions.count() == 1

    def test_revisions_show_no_hidden_replacement(
        self, old: Memory, remember: Remember, actor: Actor
    ) -> None:
        replace(old, remember("another").uid, actor)
        assert [row.before for row in visible_revisions(old, PUBLIC)] == [{"superseded_by": None}] * 2
        assert load_versions(old, [2], PUBLIC)[2].values["superseded_by"] is None
        hidden = Memory.objects.get(content="closed").uid
        assert load_versions(old, [2], actor.clearance)[2].values["superseded_by"] == hidden

    def test_a_restored_version_keeps_a_replacement_that_the_person_cannot_see(
        self, old: Memory, actor: Actor
    ) -> None:
        memories.update_memory(old.uid, MemoryPatch(title="Changed"), actor)
        memories.restore_version(old.uid, 2, LOW)
        assert superseded_by(old) is not None

    def test_one_query_for_any_number_of_memories(
        self, remember: Remember, actor: Actor, django_assert_num_queries: Any
    ) -> None:
        rows = [remember(f"number {n}") for n in range(5)]
        with django_assert_num_queries(0):
            visible_replacements(rows, PUBLIC)
        Memory.objects.exclude(pk=rows[0].pk).update(superseded_by=rows[0])
        with django_assert_num_queries(2):
            assert visible_replacements(Memory.objects.all(), PUBLIC) == {rows[0].pk: rows[0].uid}


class TestUndo:
    def test_undo_restores_the_earlier_replacement(self, pair: tuple[Memory, Memory], actor: Actor) -> None:
        old, new = pair
        replace(old, new.uid, actor)
        replace(old, None, actor)
        memories.undo_last_change(old.uid, 2, actor)
        assert superseded_by(old) == new

    def test_an_earlier_version_brings_its_replacement_back(
        self, pair: tuple[Memory, Memory], actor: Actor
    ) -> None:
        old, new = pair
        replace(old, new.uid, actor)
        memories.update_memory(old.uid, MemoryPatch(superseded_by=None, title="t"), actor)
        memories.restore_version(old.uid, 2, actor)
        assert superseded_by(old) == new

    def test_undo_after_the_replacement_was_erased_sets_none(
        self, pair: tuple[Memory, Memory], actor: Actor
    ) -> None:
        old, new = pair
        replace(old, new.uid, actor)
        replace(old, None, actor)
        Memory.objects.filter(pk=new.pk).delete()
        memories.undo_last_change(old.uid, 2, actor)
        assert superseded_by(old) is None


class TestEnd:
    def test_erasing_the_replacement_leaves_the_memory(
        self, db: None, actor: Actor, pair: tuple[Memory, Memory]
    ) -> None:
        old, new = pair
        replace(old, new.uid, actor)
        memories.trash_memories([new.uid], actor)
        assert superseded_by(old) == new
        memories.erase_memories([new.uid], actor)
        assert superseded_by(old) is None
        assert shown(old, actor.clearance) is None

    def test_merging_the_replacement_into_the_memory_clears_it_until_undone(
        self, pair: tuple[Memory, Memory], actor: Actor
    ) -> None:
        old, new = pair
        replace(old, new.uid, actor)
        merge = memories.merge_memories(old.uid, [new.uid], actor)
        assert superseded_by(old) is None
        memories.undo_merge(merge.uid, actor)
        assert superseded_by(old) == new

    def test_replacement_of_a_merged_memory_is_the_kept_one_until_undone(
        self, pair: tuple[Memory, Memory], actor: Actor, remember: Remember
    ) -> None:
        """Also a memory that the caller cannot see. The journal does not name the replacement."""
        old, new = pair
        hidden, kept = remember("we deploy by hand", sensitivity="secret"), remember("Actions deploys")
        for one in (old, hidden):
            replace(one, new.uid, actor)
        merge = memories.merge_memories(kept.uid, [new.uid], LOW)
        assert superseded_by(old) == superseded_by(hidden) == kept
        details = (
            JournalEntry.objects.filter(object_id=old.uid).order_by("-seq").values_list("detail", flat=True)
        )
        assert details[0]["reason"] == "merge"
        assert new.uid not in str(details[0])
        assert Revision.objects.filter(memory=hidden).latest("number").sensitivity == "secret"
        memories.undo_merge(merge.uid, LOW)
        assert superseded_by(old) == superseded_by(hidden) == new

    def test_replacement_of_a_condensed_memory_is_its_summary(
        self, pair: tuple[Memory, Memory], actor: Actor, remember: Remember
    ) -> None:
        old, new = pair
        replace(old, new.uid, actor)
        summary = remember("The pipelines of this year")
        memories.trash_memories([new.uid], actor, TrashReason.COMPRESSED, into=summary)
        assert superseded_by(old) == summary

    def test_replacement_that_changed_after_a_merge_stays_when_it_is_undone(
        self, pair: tuple[Memory, Memory], actor: Actor, remember: Remember
    ) -> None:
        old, new = pair
        replace(old, new.uid, actor)
        kept, other = remember("Actions deploys"), remember("we deploy with Argo")
        merge = memories.merge_memories(kept.uid, [new.uid], actor)
        replace(old, other.uid, actor)
        memories.undo_merge(merge.uid, actor)
        assert superseded_by(old) == other

    @pytest.mark.parametrize("level", ["public", "secret"])
    def test_merging_the_end_of_a_chain_into_its_beginning_makes_no_cycle(
        self, pair: tuple[Memory, Memory], actor: Actor, remember: Remember, level: str
    ) -> None:
        """If the caller cannot see the memory between them, it stays the replacement."""
        first, last = pair
        between = remember("we deploy with Travis", sensitivity=level)
        replace(first, between.uid, actor)
        replace(between, last.uid, actor)
        merge = memories.merge_memories(first.uid, [last.uid], LOW)
        is_hidden = level == "secret"
        assert superseded_by(first) == (between if is_hidden else None)
        assert superseded_by(between) == (last if is_hidden else first)
        memories.undo_merge(merge.uid, LOW)
        assert (superseded_by(first), superseded_by(between)) == (between, last)


@pytest.mark.sqlite
def test_the_partial_index_finds_what_a_memory_replaces(db: None) -> None:
    rows = Memory.objects.filter(superseded_by=1).values("pk").query
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {rows}")
        assert "memory_superseded" in str(cursor.fetchall())
