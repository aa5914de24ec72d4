"""Test compression: clusters, summaries and undo."""

from __future__ import annotations

from datetime import timedelta

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance, system_actor
from memoryhub.maintenance import executor, results, runs
from memoryhub.maintenance.operations import OPERATIONS, base, compress
from memoryhub.maintenance.operations.base import Pace
from memoryhub.maintenance.operations.compress import single_linkage
from memoryhub.maintenance.operations.summarize_old import (
    MAX_SUMMARY_CHARS,
    MAX_SUMMARY_SOURCES,
    comparison_terms,
    summarise_texts,
)
from memoryhub.memories.rows import list_values
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Embedding, JournalEntry, Memory
from tests.maintenance.conftest import whole_store

LOW = Actor("low", Clearance.up_to("public"))
PORT = "The staging server listens on port 8443 behind nginx. "


@pytest.fixture
def alike(aged):
    """``alike(3, days=20)``: memories that share most of their words and have one different word each."""
    own = "apple banana cherry damson elder fig grape hazel iris jasmine kiwi lemon".split()

    def make(count=3, days=20, **fields):
        return [
            aged(f"{PORT}Seen with {own[n % 12]}{n // 12}.", days=days + count - n, **fields)
            for n in range(count)
        ]

    return make


def summary():
    return Memory.objects.live().get(type="compressed_summary")


@pytest.mark.conformance("guide-100")
def test_similar_memories_become_one_summary(alike, run, aged):
    other = aged("Something else entirely about parsers", days=20)
    sources = alike()
    [change] = run("compress")
    made = summary()
    assert (change.action, change.into) == ("merge", made.uid)
    assert set(change.members) == {memory.uid for memory in sources}
    assert change.uid in change.members
    for source in sources:
        source.refresh_from_db()
        assert (source.trash_reason, source.merged_into) == ("compressed", made)
    assert set(Memory.objects.live()) == {made, other}


def test_reason_contains_no_content_of_the_memories(alike, planned):
    alike()
    [change] = planned("compress")
    assert change.reason.startswith("stated 3 times from ")
    assert "% of the words in common" in change.reason
    assert "nginx" not in change.reason


@pytest.mark.conformance("guide-100", "guide-101")
def test_small_groups_and_young_memories_are_not_compressed(alike, run):
    alike(2)
    alike(3, days=2, project="young")
    assert run("compress") == []


def test_young_member_does_not_block_the_others(alike, aged, run):
    alike(3)
    young = aged(f"{PORT}Seen with mango.", days=6)
    run("compress")
    young.refresh_from_db()
    assert young.deleted_at is None


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "session_summary"},
        {"type": "compressed_summary"},
        {"type": "checkpoint"},
    ],
)
def test_summaries_and_checkpoints_are_not_compressed(alike, run, fields):
    alike(3, **fields)
    assert run("compress") == []


def test_memories_with_a_key_are_not_compressed(aged, run):
    for n in range(3):
        aged(f"{PORT}{n}", days=20, key=f"k{n}")
    assert run("compress") == []


@pytest.mark.parametrize("field", ["project", "scope"])
def test_clusters_stay_within_a_project_and_scope(aged, run, field):
    for n, place in enumerate(("project", "team", "personal")):
        aged(f"{PORT}{n}", days=20, **{field: place})
    assert run("compress") == []


def test_personal_memories_stay_with_their_owner(alike, run):
    bob = Actor("bob", Clearance.up_to("secret", owner="bob"))
    alike(3, scope="personal")
    alike(3, scope="personal", by=bob)
    assert len(run("compress", by=system_actor("daily"))) == 2
    owners = Memory.objects.live().values_list("owner", "type")
    assert sorted(owners) == [("ada", "compressed_summary"), ("bob", "compressed_summary")]


def test_summary_takes_over_the_metadata_of_its_sources(aged, run, now):
    aged(f"{PORT}One.", days=30, tags=["a", "b"], concepts=["gotcha"], files_read=["x.py"], importance=0.4)
    aged(
        f"{PORT}Two.",
        days=20,
        tags=["b"],
        files_modified=["y.py"],
        sensitivity="private",
        entities=[{"entity": "nginx"}],
        importance=0.9,
    )
    youngest = aged(f"{PORT}Three.", days=10, category="ops")
    run("compress")
    made = summary()
    assert (made.sensitivity, made.importance) == ("private", 0.9)
    assert (made.created_at, made.updated_at) == (youngest.updated_at, youngest.updated_at)
    assert list_values(made, "tags") == ["a", "b"]
    assert list_values(made, "concepts") == ["gotcha"]
    assert (list_values(made, "files_read"), list_values(made, "files_modified")) == (["x.py"], ["y.py"])
    assert list_values(made, "entities") == [{"entity": "nginx", "entity_type": "concept"}]
    assert made.expires_at is None


def test_the_summary_lives_as_long_as_the_longest_lived_source(alike, run, now):
    alike(3, ttl_days=100)
    last = max(Memory.objects.values_list("expires_at", flat=True))
    run("compress")
    assert abs(summary().expires_at - last) < timedelta(seconds=1)


def test_only_visible_memories_are_compressed(alike, aged, planned, run):
    alike(2)
    aged(f"{PORT}Hidden.", days=20, sensitivity="secret")
    odd = aged(f"{PORT}Odd.", days=20)
    Memory.objects.filter(pk=odd.pk).update(sensitivity="cosmic")
    assert planned("compress", by=LOW) == run("compress", by=LOW) == []
    [change] = run("compress", by=system_actor("daily"))
    assert odd.uid not in change.members
    assert summary().sensitivity == "secret"


def test_a_second_compression_changes_nothing(alike, run):
    alike(5)
    alike(4, project="p")
    assert len(run("compress")) == 2
    before = whole_store()
    assert run("compress") == []
    assert whole_store() == before


def test_dry_run_lists_the_changes_of_a_run(alike, aged, planned, run):
    alike(5)
    alike(4, project="p", sensitivity="private")
    for n in range(3):
        aged(f"Lunch is at {n + 11} o'clock in the canteen on the second floor", days=30)
    before = whole_store()
    listed_changes = planned("compress")
    assert whole_store() == before
    done = run("compress")
    assert [(c.uid, c.members, c.reason) for c in listed_changes] == [
        (c.uid, c.members, c.reason) for c in done
    ]
    assert len(done) == 3


def test_undo_restores_the_sources_and_moves_the_summary_to_the_trash(alike, run, undo):
    sources = alike()
    before = list(Memory.objects.order_by("pk").values())
    run("compress")
    made = summary()
    assert undo("compress") == 3
    assert list(Memory.objects.filter(pk__in=[s.pk for s in sources]).order_by("pk").values()) == before
    made.refresh_from_db()
    assert made.deleted_at
    assert undo("compress") == 0


def test_undo_keeps_a_summary_that_someone_edited(alike, run, undo, actor):
    alike()
    run("compress")
    memories.update_memory(summary().uid, MemoryPatch(title="Ports"), actor)
    assert undo("compress") == 3
    assert Memory.objects.live().count() == 4


def test_undo_continues_when_sources_are_gone(alike, run, undo, actor):
    sources = alike()
    run("compress")
    memories.erase_memories([sources[0].uid], actor)
    assert undo("compress") == 2


def test_undone_memories_can_be_compressed_again(alike, run, undo):
    alike()
    run("compress", uid="first")
    undo("compress", uid="first")
    [change] = run("compress", uid="second")
    assert summary().uid == change.into
    assert undo("compress", uid="second") == 3


def test_a_member_that_changed_since_the_plan_keeps_its_cluster_whole(alike, actor, now):
    sources = alike()
    compress = OPERATIONS["compress"]
    steps = [step for step in compress.steps(compress.Params(), actor, now) if step.changes]
    memories.update_memory(sources[0].uid, MemoryPatch(content="Something new"), actor)
    assert [step.apply("run") for step in steps] == [0]
    assert Memory.objects.live().count() == 3


def test_interrupted_compression_continues(alike, actor, now):
    for project in "pqr":
        alike(3, project=project)
    compress = OPERATIONS["compress"]
    for step in compress.steps(compress.Params(), actor, now):
        if step.apply("run"):
            break
    place = step.position
    rest = [s for s in compress.steps(compress.Params(), actor, now, place) if s.apply("run")]
    assert len(rest) == 2
    assert Memory.objects.live().count() == 3
    rows = JournalEntry.objects.filter(operation="compress", object_id="run")
    assert rows.count() == 3


def test_resumed_dry_run_lists_nothing_twice(alike, actor, now):
    alike(MAX_SUMMARY_SOURCES * 2 + 10)
    alike(3, project="p")
    compress = OPERATIONS["compress"]
    whole = [s for s in compress.steps(compress.Params(), actor, now) if s.changes]
    assert len(whole) == 4
    for at, step in enumerate(whole):
        rest = [s for s in compress.steps(compress.Params(), actor, now, step.position) if s.changes]
        assert [s.changes[0].members for s in rest] == [s.changes[0].members for s in whole[at + 1 :]]


def test_a_large_cluster_becomes_several_summaries(alike, run):
    alike(MAX_SUMMARY_SOURCES + 1)
    assert sorted(len(change.members) for change in run("compress")) == [20, 21]


# The text


def said(*texts, **fields):
    from datetime import UTC, datetime

    return [
        Memory(
            created_at=datetime(2026, 3, n + 1, tzinfo=UTC), type="change", title=f"Note {n}", content=text
        )
        for n, text in enumerate(texts)
    ]


def test_text_has_common_sentences_once_and_those_of_each():
    summary = summarise_texts(
        said(
            "The cache is Redis 7. It runs on port 6379.",
            "The cache is Redis 7. Evictions began in March.",
            "The cache is Redis 7. It runs on port 6380.",
        )
    )
    assert summary.content.count("The cache is Redis 7.") == 1
    for fact in ("6379", "6380", "Evictions began in March."):
        assert fact in summary.content
    assert summary.content.index("The cache is Redis 7.") < summary.content.index("2026-03-01, change:")


def test_contradicting_sentence_is_kept():
    summary = summarise_texts(
        said("Retries work on upload.", "Retries do not work on upload.", "Retries work on upload. Always.")
    )
    assert "Retries work on upload." in summary.content
    assert "Retries do not work on upload." in summary.content


def test_title_names_subject_and_dates():
    summary = summarise_texts(said("a b c", "a b c d", "a b c"))
    assert summary.title.startswith("Note ")
    assert summary.title.endswith("(3 memories, 2026-03-01 to 2026-03-03)")


@pytest.mark.slow
def test_text_has_a_limited_length():
    summary = summarise_texts(
        said(*(f"Line {n}. " + " ".join(f"Fact{n}x{m} is here." for m in range(300)) for n in range(20)))
    )
    assert len(summary.content) <= MAX_SUMMARY_CHARS
    assert "more sentences are left out." in summary.content


def test_the_same_memories_give_the_same_text():
    texts = ["one two three four", "one two three five", "one two three six. seven eight"]
    assert summarise_texts(said(*texts)) == summarise_texts(said(*texts))


def test_scripts_without_spaces_are_compared_by_pairs():
    one, other = comparison_terms("数据库备份在夜里三点"), comparison_terms("数据库备份在夜里四点")
    assert len(one & other) / len(one | other) >= 0.5


@pytest.mark.slow
def test_thousands_of_near_duplicates_are_clustered_quickly():
    form = [f"word{n}" for n in range(40)]
    assert len(single_linkage(([*form, f"own{n}"] for n in range(5000)), 0.5, 3)) == 1
    assert single_linkage(([*form, *(f"{n}-{m}" for m in range(60))] for n in range(2000)), 0.5, 3) == []


@pytest.mark.parametrize("operation", ["compress", "summarize_old"])
def test_the_vector_of_a_summary_is_made_before_its_step_is_applied(
    embedding, alike, actor, now, monkeypatch, configure, operation
):
    configure(embeddings="wordllama", summarize_older_than_days=10, summarize_min_entries=3)
    alike()
    walk = OPERATIONS[operation].steps(OPERATIONS[operation].Params(), actor, now)
    step = next(step for step in walk if step.changes)
    monkeypatch.setattr(type(embedding), "documents", lambda self, texts: pytest.fail("made too late"))
    assert step.apply("run") == 3
    assert Embedding.objects.filter(memory=summary()).exists()


def test_interrupted_undo_continues_with_the_summary(alike, run, actor, now, monkeypatch):
    sources = alike()
    run("compress")
    made = summary()
    monkeypatch.setattr(base, "Pace", lambda *args, **options: Pace(2, 2))
    walk = OPERATIONS["compress"].undo("run", actor, now)
    assert next(walk) == 2
    walk.close()
    made.refresh_from_db()
    assert made.deleted_at is None
    assert sum(OPERATIONS["compress"].undo("run", actor, now)) == 1
    made.refresh_from_db()
    assert made.deleted_at
    assert set(Memory.objects.live()) == set(sources)


@pytest.mark.parametrize("steps", [1, 3, 4])
def test_a_resumed_run_counts_no_memory_twice(alike, actor, steps, monkeypatch):
    monkeypatch.setattr(compress, "_PAGE_SIZE", 4)
    alike(5)
    alike(5, project="p")
    seen = []
    run = runs.enqueue("compress", {}, actor)
    executor.execute(run, watcher=seen.append, is_stopping=lambda: len(seen) == steps)
    assert executor.execute(run)
    assert (run.done, run.total) == (10, 10)
    assert sum(change.change.action == "merge" for change in results.list_changes(run, actor.clearance)) == 2


def test_a_sentence_of_several_lines_stays_one():
    wrapped = (
        "The plugin page now returns an object instead\nof a list, so that it can grow.\n\nApples\npears"
    )
    lines = summarise_texts(said(wrapped, "The tide tables are printed on paper")).content.splitlines()
    assert "- The plugin page now returns an object instead of a list, so that it can grow." in lines
    assert {"- Apples", "- pears"} <= set(lines)
