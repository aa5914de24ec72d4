"""Bulk actions and their undo."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit import journal
from memoryhub.core.database import write_transaction
from memoryhub.core.vocabulary import TrashReason
from memoryhub.memories.bulk_actions import ACTION_KINDS, MAX_MEMORIES
from memoryhub.memories.rows import LIST_FIELDS, list_values
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.memories.undo import CHUNK_SIZE
from memoryhub.models import Embedding, Injection, JournalEntry, Memory

Remember = Callable[..., Memory]
# A value for each kind that takes one, and that the memories of these tests do not have.
VALUES: dict[str, dict[str, Any]] = {
    "tag": {"tag": "kept"},
    "untag": {"tag": "first"},
    "set": {
        "category": "patterns",
        "importance": 0.9,
        "project": "elsewhere",
        "type": "decision",
        "sensitivity": "private",
        "title": "Another title",
        "tags": ["new", "newer"],
        "ttl_days": 5,
    },
}


RATINGS = {"useful": "not_useful", "not_useful": "useful"}  # each with its opposite


def whole(memory: Memory) -> dict[str, Any]:
    """Return everything that is stored about a memory, except its revisions."""
    memory = Memory.objects.get(pk=memory.pk)
    columns = {field.attname: getattr(memory, field.attname) for field in Memory._meta.concrete_fields}
    return columns | {name: list_values(memory, name) for name in LIST_FIELDS}


def undo(result: memories.BulkResult, actor: Actor) -> memories.BulkResult:
    return memories.undo_bulk_action(result.id, actor, result.first, result.last)


@pytest.fixture
def several(remember: Remember) -> list[Memory]:
    made = [
        remember(f"memory number {n}", tags=["first"], project="p", importance=0.6, ttl_days=30)
        for n in range(3)
    ]
    Memory.objects.update(flags=["governor"], reviewed_at=timezone.now() - timedelta(days=3))
    return made


def prepare(kind: str, several: list[Memory], actor: Actor) -> None:
    """Bring the memories into a state in which the action changes each of them."""
    if kind == "restore":
        memories.trash_memories([memory.uid for memory in several], actor)
    if kind == "unpin":
        memories.apply_bulk_action("pin", [memory.uid for memory in several], actor)
    if kind in RATINGS:
        shown = [{"id": memory.uid, "score": 0.5, "scale": ""} for memory in several]
        Injection.objects.create(project="p", injected=shown)
    if kind == "still_true":
        Memory.objects.update(outdated_at=timezone.now() - timedelta(days=1))
    if ACTION_KINDS[kind].waiting:
        Memory.objects.update(sensitivity="waiting-public")


@pytest.mark.parametrize("kind", sorted(ACTION_KINDS))
def test_undo_restores_each_memory_exactly(several: list[Memory], actor: Actor, kind: str) -> None:
    if kind == "restore":
        memories.trash_memories([several[0].uid], actor, TrashReason.EVICTED)
        memories.trash_memories([several[1].uid], actor, TrashReason.MERGED, into=several[2])
        Memory.objects.filter(pk=several[2].pk).update(expires_at=timezone.now() - timedelta(days=2))
    else:
        prepare(kind, several, actor)
    before = [whole(memory) for memory in several]
    result = memories.apply_bulk_action(
        kind, [memory.uid for memory in several], actor, **VALUES.get(kind, {})
    )
    assert [memory.uid for memory in result.done] == [memory.uid for memory in several]
    assert all(whole(memory) != was for memory, was in zip(several, before, strict=True))
    back = undo(result, actor)
    assert (len(back.done), back.refused, back.kind) == (3, [], kind)
    assert [whole(memory) for memory in several] == before


@pytest.mark.parametrize("kind", sorted(ACTION_KINDS))
def test_journal_rows_have_the_action_id_and_the_chain_is_valid(
    several: list[Memory], actor: Actor, kind: str
) -> None:
    prepare(kind, several, actor)
    start = journal.last_seq()
    result = memories.apply_bulk_action(
        kind, [memory.uid for memory in several], actor, **VALUES.get(kind, {})
    )
    rows = JournalEntry.objects.filter(seq__gt=start)
    assert {row.detail["act"] for row in rows} == {result.id}
    each = 2 if kind == "demote_and_approve" else 1
    assert (result.first, result.last) == (start + 1, start + 3 * each)
    undo(result, actor)
    undone = JournalEntry.objects.filter(seq__gt=result.last)
    assert {row.detail["undoes"] for row in undone} == {result.id}
    assert journal.verify().ok


def test_journal_rows_contain_no_text(several: list[Memory], actor: Actor) -> None:
    result = memories.apply_bulk_action(
        "set", [several[0].uid], actor, **VALUES["set"], content="Other words"
    )
    undo(result, actor)
    details = str(list(JournalEntry.objects.filter(seq__gte=result.first).values_list("detail", flat=True)))
    assert "memory number" not in details
    assert "Another title" not in details
    assert "newer" not in details
    assert "Other words" not in details


def test_undo_restores_content_with_generated_title_and_abstract(
    several: list[Memory], actor: Actor, embedding: Any
) -> None:
    before = whole(several[0])
    result = memories.apply_bulk_action("set", [several[0].uid], actor, content="Other words altogether")
    changed = whole(several[0])
    assert changed["title"] == "Other words altogether"
    assert changed["content_hash"] != before["content_hash"]
    assert len(undo(result, actor).done) == 1
    assert whole(several[0]) == before
    assert several[0].pk in set(Embedding.objects.values_list("memory_id", flat=True))


def test_approve_sets_reviewed_at_and_clears_flags(several: list[Memory], actor: Actor) -> None:
    result = memories.apply_bulk_action("approve", [several[0].uid], actor)
    memory = Memory.objects.get(pk=several[0].pk)
    assert memory.flags == []
    assert memory.reviewed_at == JournalEntry.objects.get(seq=result.first).at
    assert memory.updated_at == several[0].updated_at  # reading is not writing
    assert JournalEntry.objects.get(seq=result.first).operation == "review"


def test_demote_and_promote_change_importance_by_half(several: list[Memory], actor: Actor) -> None:
    memories.apply_bulk_action("demote", [several[0].uid], actor)
    memories.apply_bulk_action("promote", [several[1].uid], actor)
    assert Memory.objects.get(pk=several[0].pk).importance == pytest.approx(0.3)
    assert Memory.objects.get(pk=several[1].pk).importance == pytest.approx(0.8)


def test_demote_and_approve_is_undone_as_one_action(several: list[Memory], actor: Actor) -> None:
    before = [whole(memory) for memory in several]
    result = memories.apply_bulk_action("demote_and_approve", [memory.uid for memory in several], actor)
    for memory in several:
        memory.refresh_from_db()
        assert (memory.importance, memory.flags, memory.reviewed_at is None) == (0.3, [], False)
    assert len(undo(result, actor).done) == 3
    assert [whole(memory) for memory in several] == before


def test_undo_of_two_steps_is_all_or_nothing(several: list[Memory], actor: Actor) -> None:
    result = memories.apply_bulk_action("demote_and_approve", [several[0].uid], actor)
    memories.update_memory(several[0].uid, MemoryPatch(importance=0.8), actor)
    undone = undo(result, actor)
    assert (undone.done, len(undone.refused)) == ([], 1)
    several[0].refresh_from_db()
    assert (several[0].importance, several[0].flags, several[0].reviewed_at is None) == (0.8, [], False)


def test_tag_adds_and_untag_removes_one_tag(several: list[Memory], actor: Actor) -> None:
    uid = several[0].uid
    memories.apply_bulk_action("tag", [uid], actor, tag=" kept ")
    assert list_values(Memory.objects.get(uid=uid), "tags") == ["first", "kept"]
    memories.apply_bulk_action("untag", [uid], actor, tag="first")
    assert list_values(Memory.objects.get(uid=uid), "tags") == ["kept"]


def test_action_without_a_change_is_not_journaled(several: list[Memory], actor: Actor) -> None:
    start = journal.last_seq()
    result = memories.apply_bulk_action("tag", [several[0].uid], actor, tag="first")
    assert (result.done, result.same, result.first) == ([], [several[0].uid], 0)
    assert journal.last_seq() == start


def test_refused_memory_does_not_stop_the_others(several: list[Memory], actor: Actor) -> None:
    memories.trash_memories([several[1].uid], actor)
    result = memories.apply_bulk_action("tag", [m.uid for m in several] + ["nosuchmemory"], actor, tag="kept")
    assert len(result.done) == 2
    assert result.refused == [
        (several[1].uid, "this memory is in the trash; restore it first"),
        ("nosuchmemory", "there is no such memory"),
    ]


def test_hidden_memory_is_refused_like_a_missing_one(four_levels: dict[str, Memory]) -> None:
    public = Actor("user:eve", Clearance())
    for kind in ACTION_KINDS:
        values = VALUES.get(kind, {})
        result = memories.apply_bulk_action(
            kind, [four_levels[level].uid for level in ("private", "cosmic")], public, **values
        )
        assert result.done == []
        assert {words for _, words in result.refused} == {"there is no such memory"}


def test_conflicting_change_is_refused_and_the_others_continue(remember: Remember, actor: Actor) -> None:
    here, there, other = (
        remember("same", project="a"),
        remember("same", project="b"),
        remember("x", project="a"),
    )
    result = memories.apply_bulk_action("set", [here.uid, other.uid], actor, project="b")
    assert [memory.uid for memory in result.done] == [other.uid]
    assert there.uid in result.refused[0][1]
    assert whole(here)["project"] == "a"


def test_action_is_undone_only_once(several: list[Memory], actor: Actor) -> None:
    for kind in ("approve", "demote", "trash", "expire", "tag"):
        result = memories.apply_bulk_action(kind, [several[0].uid], actor, **VALUES.get(kind, {}))
        assert len(undo(result, actor).done) == 1
        again = undo(result, actor)
        assert again.done == []
        assert len(again.refused) == 1


@pytest.mark.parametrize("kind", sorted(set(ACTION_KINDS) - {"trash", "expire", "discard"}))
def test_memory_changed_since_is_not_undone(several: list[Memory], actor: Actor, kind: str) -> None:
    prepare(kind, several, actor)
    result = memories.apply_bulk_action(
        kind, [memory.uid for memory in several], actor, **VALUES.get(kind, {})
    )
    if kind == "approve":
        memories.apply_bulk_action("approve", [several[1].uid], actor)
    elif kind in RATINGS:
        memories.apply_bulk_action(RATINGS[kind], [several[1].uid], actor)
    else:
        memories.update_memory(several[1].uid, MemoryPatch(subtitle="written since"), actor)
    changed = whole(several[1])
    back = undo(result, actor)
    assert [memory.uid for memory in back.done] == [several[0].uid, several[2].uid]
    assert back.refused[0][0] == several[1].uid
    assert "since" in back.refused[0][1]
    assert whole(several[1]) == changed


def test_actions_are_undone_one_after_the_other(several: list[Memory], actor: Actor) -> None:
    before = whole(several[0])
    results = [
        memories.apply_bulk_action("tag", [several[0].uid], actor, tag="one"),
        memories.apply_bulk_action("demote", [several[0].uid], actor),
        memories.apply_bulk_action("tag", [several[0].uid], actor, tag="two"),
    ]
    for result in reversed(results):
        assert undo(result, actor).refused == []
    assert whole(several[0]) == before


def test_maintenance_since_does_not_prevent_undo_of_a_tag(several: list[Memory], actor: Actor) -> None:
    result = memories.apply_bulk_action("tag", [several[0].uid], actor, tag="kept")
    Memory.objects.filter(pk=several[0].pk).update(importance=0.2, consolidated_at=timezone.now())
    assert len(undo(result, actor).done) == 1
    assert Memory.objects.get(pk=several[0].pk).importance == 0.2


def test_importance_changed_by_maintenance_since_is_not_undone(several: list[Memory], actor: Actor) -> None:
    result = memories.apply_bulk_action("demote", [several[0].uid], actor)
    Memory.objects.filter(pk=several[0].pk).update(importance=0.2)
    assert undo(result, actor).refused == [(several[0].uid, "it was changed since")]


def test_actor_cannot_undo_action_of_another_actor(several: list[Memory], actor: Actor) -> None:
    result = memories.apply_bulk_action("trash", [several[0].uid], actor)
    with pytest.raises(memories.NotFound):
        undo(result, Actor("user:eve", actor.clearance))
    assert Memory.objects.get(pk=several[0].pk).deleted_at


def test_undo_with_wrong_range_or_id_finds_nothing(several: list[Memory], actor: Actor) -> None:
    result = memories.apply_bulk_action("trash", [several[0].uid], actor)
    for uid, first, last in (
        ("anotheract", result.first, result.last),
        (result.id, result.first + 1, result.last + 5),
        (result.id, 0, result.last),
        (result.id, result.last, result.first - 1),
        (result.id, result.first, result.first + 10**12),
        ("", result.first, result.last),
    ):
        with pytest.raises(memories.NotFound):
            memories.undo_bulk_action(uid, actor, first, last)


def test_memory_hidden_since_is_not_undone(remember: Remember, actor: Actor) -> None:
    public = Actor("user:ada", Clearance())
    memory = remember("words", project="p")
    result = memories.apply_bulk_action("set", [memory.uid], public, sensitivity="secret")
    assert undo(result, public).refused == [(memory.uid, "there is no such memory")]
    assert Memory.objects.get(pk=memory.pk).sensitivity == "secret"


def test_undo_of_a_replacement_that_broke_a_hidden_cycle_changes_the_memory_itself(
    several: list[Memory], remember: Remember
) -> None:
    public = Actor("user:ada", Clearance())
    first, second = several[:2]
    hidden = remember("a hidden text", project="p", sensitivity="secret", superseded_by=first.uid)
    Memory.objects.filter(pk=second.pk).update(superseded_by=hidden)
    result = memories.apply_bulk_action("set", [first.uid], public, superseded_by=second.uid)
    assert [memory.uid for memory in undo(result, public).done] == [first.uid]
    assert Memory.objects.get(pk=first.pk).superseded_by is None


def test_memory_changed_since_read_is_refused(several: list[Memory], actor: Actor) -> None:
    read = {memory.uid: memory.updated_at for memory in several}
    memories.update_memory(several[0].uid, MemoryPatch(subtitle="meanwhile"), actor)
    result = memories.apply_bulk_action("demote", read, actor, seen=read)
    assert [uid for uid, _ in result.refused] == [several[0].uid]
    assert len(result.done) == 2


def test_secret_in_values_is_refused_before_any_write(several: list[Memory], actor: Actor) -> None:
    with pytest.raises(memories.SecretDetected):
        memories.apply_bulk_action("tag", [several[0].uid], actor, tag="ghp_" + "a1B2" * 9)
    assert list_values(several[0], "tags") == ["first"]
    assert JournalEntry.objects.first().operation == "secret_blocked"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("kind", "values", "field"),
    [
        ("explode", {}, "act"),
        ("tag", {}, "tag"),
        ("tag", {"tag": " "}, "tags"),
        ("trash", {"tag": "x"}, "tag"),
        ("set", {"importance": 2}, "importance"),
        ("set", {"sensitivity": "cosmic"}, "sensitivity"),
        ("set", {"uid": "x"}, "uid"),
        ("set", {}, "abstract"),
    ],
)
def test_invalid_action_raises_store_error(
    several: list[Memory], actor: Actor, kind: str, values: dict[str, Any], field: str
) -> None:
    with pytest.raises(memories.StoreError) as refusal:
        memories.apply_bulk_action(kind, [several[0].uid], actor, **values)
    assert refusal.value.field == field


def test_too_many_memories_are_refused(db: None, actor: Actor) -> None:
    with pytest.raises(memories.StoreError, match="at most 2000"):
        memories.apply_bulk_action("trash", (str(n) for n in range(MAX_MEMORIES + 1)), actor)


def test_long_action_pauses_between_transactions(
    remember: Remember, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    uids = [remember(f"number {n}").uid for n in range(2 * CHUNK_SIZE + 1)]
    rests: list[tuple[float, int]] = []
    begun = journal.last_seq()

    def rest(seconds: float) -> None:
        rests.append((seconds, journal.last_seq() - begun))

    monkeypatch.setattr("memoryhub.memories.undo.time.sleep", rest)
    memories.apply_bulk_action("demote", uids, actor)
    assert [rows for seconds, rows in rests if seconds] == [CHUNK_SIZE, 2 * CHUNK_SIZE]


def test_long_action_runs_in_chunks_and_is_undone_as_one(remember: Remember, actor: Actor) -> None:
    uids = [remember(f"number {n}").uid for n in range(CHUNK_SIZE + 5)]
    with CaptureQueriesContext(connection) as queries:
        result = memories.apply_bulk_action("approve", uids, actor)
    assert result.last - result.first + 1 == CHUNK_SIZE + 5
    # A savepoint and its release, and one update, for each; some more for each chunk.
    assert len(queries) <= 3 * (CHUNK_SIZE + 5) + 2 * 12
    assert len(undo(result, actor).done) == CHUNK_SIZE + 5


def test_imported_journal_rows_cannot_be_undone(several: list[Memory], actor: Actor) -> None:
    result = memories.apply_bulk_action("trash", [several[0].uid], actor)
    [row] = JournalEntry.objects.filter(seq=result.first)
    change = journal.Change(
        row.operation, "memory", row.object_id, {**row.detail, "act": "x", "imported": {"seq": 1}}, "p"
    )
    with write_transaction():
        journal.record_imported([(row.at, actor.name, change)])
    seq = journal.last_seq()
    with pytest.raises(memories.NotFound):
        memories.undo_bulk_action("x", actor, seq, seq)
