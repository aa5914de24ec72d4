"""Memories that were merged into one follow its level when that is raised."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit.journal import verify
from memoryhub.backends import schema
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.memories.versions import undo_last_change
from memoryhub.models import JournalEntry, Memory

Remember = Callable[..., Memory]
SECRET = MemoryPatch(sensitivity="secret")


@pytest.fixture
def kept(remember: Remember) -> Memory:
    return remember("Deploy with make ship")


@pytest.fixture
def merged(kept: Memory, remember: Remember, actor: Actor) -> Memory:
    """A memory in the trash that was merged into ``kept``."""
    other = remember("Deploy with `make ship`")
    memories.merge_memories(kept.uid, [other.uid], actor)
    return other


def level_of(memory: Memory) -> str:
    return Memory.objects.get(pk=memory.pk).sensitivity


def test_update_that_raises_the_level_raises_merged_memories(
    kept: Memory, merged: Memory, actor: Actor
) -> None:
    memories.update_memory(kept.uid, SECRET, actor)
    assert level_of(merged) == "secret"
    assert not Memory.objects.visible_to(Clearance()).filter(pk=merged.pk).exists()


def test_memories_merged_into_a_merged_memory_are_raised_too(
    kept: Memory, merged: Memory, remember: Remember, actor: Actor
) -> None:
    outer = remember("Deploy by make ship")
    memories.merge_memories(outer.uid, [kept.uid], actor)
    memories.update_memory(outer.uid, SECRET, actor)
    assert [level_of(one) for one in (outer, kept, merged)] == ["secret"] * 3


def test_storing_again_at_a_higher_level_raises_merged_memories(
    kept: Memory, merged: Memory, remember: Remember
) -> None:
    assert remember(kept.content, sensitivity="private").pk == kept.pk
    assert level_of(merged) == "private"


def test_storing_again_by_key_at_a_higher_level_raises_merged_memories(
    remember: Remember, actor: Actor
) -> None:
    kept, other = remember("one text", key="k"), remember("another text")
    memories.merge_memories(kept.uid, [other.uid], actor)
    remember("a third text", key="k", sensitivity="secret")
    assert level_of(other) == "secret"


def test_raise_is_a_journal_row_and_a_revision_of_the_merged_memory(
    kept: Memory, merged: Memory, actor: Actor
) -> None:
    memories.update_memory(kept.uid, SECRET, actor)
    row = JournalEntry.objects.filter(object_id=merged.uid).latest("seq")
    assert (row.operation, row.sensitivity, row.detail["fields"]) == ("update", "secret", ["sensitivity"])
    revision = merged.revisions.get(number=row.detail["revision"])
    assert (revision.before, revision.sensitivity) == ({"sensitivity": "public"}, "public")
    assert verify().ok


def test_merged_memory_with_the_same_text_gets_a_copy_number(remember: Remember, actor: Actor) -> None:
    kept, other = remember("one text"), remember("another text")
    memories.merge_memories(kept.uid, [other.uid], actor, content="another text")
    memories.update_memory(kept.uid, SECRET, actor)
    assert level_of(kept) == level_of(other) == "secret"
    assert schema.find_problems() == []


def test_lower_level_leaves_merged_memories_as_they_are(remember: Remember, actor: Actor) -> None:
    kept, other = remember("one text", sensitivity="secret"), remember("another text", sensitivity="public")
    memories.merge_memories(kept.uid, [other.uid], actor)
    memories.update_memory(kept.uid, MemoryPatch(sensitivity="private"), actor)
    assert level_of(other) == "public"


def test_merge_leaves_the_levels_of_its_members(kept: Memory, remember: Remember, actor: Actor) -> None:
    """The text of a member was as visible before, and people who see it can take it out of the trash."""
    public, secret = remember("one text"), remember("another text", sensitivity="secret")
    done = memories.merge_memories(kept.uid, [public.uid, secret.uid], actor)
    assert [level_of(one) for one in (kept, public, secret)] == ["secret", "public", "secret"]
    memories.undo_merge(done.uid, actor)
    assert [level_of(one) for one in (kept, public, secret)] == ["public", "public", "secret"]


def test_undo_of_the_raise_leaves_merged_memories_raised(kept: Memory, merged: Memory, actor: Actor) -> None:
    memories.update_memory(kept.uid, SECRET, actor)
    undo_last_change(kept.uid, kept.revisions.latest("number").number, actor)
    assert [level_of(one) for one in (kept, merged)] == ["public", "secret"]


def test_bulk_raise_can_be_undone(kept: Memory, merged: Memory, actor: Actor) -> None:
    result = memories.apply_bulk_action("set", [kept.uid], actor, sensitivity="secret")
    assert level_of(merged) == "secret"
    undone = memories.undo_bulk_action(result.id, actor, result.first, result.last)
    assert (undone.refused, level_of(kept), level_of(merged)) == ([], "public", "secret")


def test_merge_can_be_undone_after_the_raise_was_undone(
    kept: Memory, remember: Remember, actor: Actor
) -> None:
    other = remember("another text")
    done = memories.merge_memories(kept.uid, [other.uid], actor)
    result = memories.apply_bulk_action("set", [kept.uid], actor, sensitivity="secret")
    memories.undo_bulk_action(result.id, actor, result.first, result.last)
    memories.undo_merge(done.uid, actor)
    restored = Memory.objects.get(pk=other.pk)
    assert (restored.deleted_at, restored.content, restored.sensitivity) == (None, "another text", "secret")
    assert verify().ok


def test_raise_in_a_batch_is_not_reverted_by_a_later_draft_of_it(remember: Remember, actor: Actor) -> None:
    kept, other = remember("one text"), remember("another text")
    memories.merge_memories(kept.uid, [other.uid], actor)
    drafts = [MemoryDraft(content="one text", sensitivity="secret"), MemoryDraft(content="another text")]
    memories.create_memories(drafts, actor)
    assert level_of(other) == "secret"


def test_statements_of_a_raise_do_not_grow_with_the_merged_memories(
    kept: Memory, remember: Remember, actor: Actor
) -> None:
    statements = []
    for number, level in ((2, "private"), (30, "secret")):
        others = [remember(f"text {level} {n}", sensitivity=level) for n in range(number)]
        memories.update_memory(kept.uid, MemoryPatch(sensitivity="public"), actor)
        Memory.objects.filter(pk__in=[one.pk for one in others]).update(
            merged_into=kept, deleted_at=timezone.now(), sensitivity="public"
        )
        with CaptureQueriesContext(connection) as queries:
            memories.update_memory(kept.uid, MemoryPatch(sensitivity=level), actor)
        statements.append(len(queries))
    assert statements[0] == statements[1]


def test_merge_cannot_be_undone_while_the_level_is_raised(
    kept: Memory, remember: Remember, actor: Actor
) -> None:
    other = remember("another text")
    done = memories.merge_memories(kept.uid, [other.uid], actor)
    memories.update_memory(kept.uid, SECRET, actor)
    with pytest.raises(memories.Conflict, match=r"was changed: sensitivity"):
        memories.undo_merge(done.uid, actor)
    assert level_of(other) == "secret"
