"""Test ``summarize_old``: groups, exclusions, summaries and undo."""

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance, system_actor
from memoryhub.audit import journal
from memoryhub.maintenance.operations.summarize_old import MAX_SUMMARY_SOURCES, SummaryCounts, summarise_old
from memoryhub.memories.rows import list_values
from memoryhub.models import JournalEntry, Memory

NOTHING = SummaryCounts()


def ago(days):
    return timezone.now() - timedelta(days=days)


@pytest.fixture
def old(remember):
    """``old(5, category="c")`` stores memories of the distant past."""

    def make(count=5, **fields):
        given = {"created_at": ago(60), **fields}
        return [remember(f"{fields} number {n}", **given) for n in range(count)]

    return make


def summary():
    return Memory.objects.get(type="compressed_summary")


def test_a_group_becomes_one_summary_and_goes_to_the_trash(old, actor):
    sources = old(5)
    assert summarise_old(actor) == SummaryCounts(5, 1)
    made = summary()
    for source in sources:
        source.refresh_from_db()
        assert source.deleted_at
        assert (source.trash_reason, source.merged_into) == ("compressed", made)
        assert source.title in made.content
    assert Memory.objects.live().get() == made


def test_a_second_run_changes_nothing(old, actor):
    old(5)
    summarise_old(actor)
    before = (JournalEntry.objects.count(), list(Memory.objects.values()))
    assert summarise_old(actor) == NOTHING
    assert (JournalEntry.objects.count(), list(Memory.objects.values())) == before


def test_summaries_are_never_summarised_again(old, actor):
    for n in range(6):
        old(2, category="c", project="p", session_id=f"s{n}")
        summarise_old(actor, min_entries=2)
    assert Memory.objects.live().count() == 6
    assert (
        summarise_old(actor, older_than_days=0, min_entries=2, now=timezone.now() + timedelta(30)) == NOTHING
    )
    old(5, type="session_summary")
    assert summarise_old(actor) == NOTHING


@pytest.mark.parametrize("field", ["project", "scope", "category"])
def test_memories_of_different_projects_scopes_or_categories_are_not_mixed(old, actor, field):
    one, other = {"scope": ("project", "team")}.get(field, ("a", "b"))
    old(5, **{field: one})
    old(5, **{field: other})
    assert summarise_old(actor) == SummaryCounts(10, 2)
    assert {getattr(made, field) for made in Memory.objects.live()} == {one, other}


def test_too_few_too_young_and_keyed_memories_are_not_summarised(old, remember, actor):
    old(4, category="few")
    old(5, category="young", created_at=ago(29))
    for n in range(5):
        remember(f"slot {n}", key=f"k{n}", category="keyed", created_at=ago(60))
    assert summarise_old(actor) == NOTHING
    assert summarise_old(actor, older_than_days=10) == SummaryCounts(5, 1)
    assert summarise_old(actor, min_entries=4) == SummaryCounts(4, 1)


def test_thresholds_default_to_the_configuration(old, actor, configure):
    old(3, created_at=ago(9))
    configure(summarize_older_than_days=8, summarize_min_entries=3)
    assert summarise_old(actor) == SummaryCounts(3, 1)


def test_expired_and_trashed_memories_take_no_part(old, actor):
    memories.trash_memories([old(5)[0].uid], actor)
    assert summarise_old(actor) == NOTHING


def test_the_summary_is_as_secret_as_the_most_secret_of_its_sources(old, actor):
    old(3, category="c")
    old(2, category="c", sensitivity="secret")
    summarise_old(actor)
    assert summary().sensitivity == "secret"


def test_memories_hidden_from_the_actor_are_not_summarised(old, actor):
    old(5, sensitivity="secret")
    low = Actor("token:low", Clearance.up_to("private", owner="ada"))
    assert summarise_old(low) == NOTHING
    Memory.objects.update(sensitivity="cosmic")
    assert summarise_old(actor) == NOTHING


def test_personal_memories_stay_with_their_owners(old, actor, remember):
    old(5, scope="personal")
    bob = Actor("token:bob", Clearance.up_to("secret", owner="bob"))
    assert summarise_old(bob) == NOTHING
    for n in range(5):
        remember(f"bob's {n}", by=bob, scope="personal", created_at=ago(60))
    assert summarise_old(system_actor("tests")) == SummaryCounts(10, 2)
    assert {made.owner for made in Memory.objects.live()} == {"ada", "bob"}


def test_files_labels_and_entities_are_united(old, actor):
    old(3, category="c", tags=["a", "b"], files_read=["x.py"], entities=[{"entity": "E"}])
    old(2, category="c", tags=["c"], concepts=["gotcha"], files_modified=["y.py"])
    summarise_old(actor)
    made = summary()
    assert list_values(made, "tags") == ["a", "b", "c"]
    assert list_values(made, "concepts") == ["gotcha"]
    assert (list_values(made, "files_read"), list_values(made, "files_modified")) == (["x.py"], ["y.py"])
    assert list_values(made, "entities") == [{"entity": "E", "entity_type": "concept"}]


def test_the_summary_is_no_newer_than_its_youngest_source(old, actor):
    old(4, category="c", created_at=ago(90))
    old(1, category="c", created_at=ago(40))
    summarise_old(actor)
    assert abs(summary().updated_at - ago(40)) < timedelta(minutes=1)


def test_the_summary_lives_as_long_as_the_longest_lived_source(old, actor):
    old(4, category="c", ttl_days=10)
    old(1, category="c", ttl_days=50)
    old(4, category="d", ttl_days=10)
    old(1, category="d", ttl_days=0)
    summarise_old(actor)
    made = {memory.category: memory.expires_at for memory in Memory.objects.live()}
    assert abs(made["c"] - timezone.now() - timedelta(days=50)) < timedelta(minutes=1)
    assert made["d"] is None


def test_each_step_is_journaled_and_the_chain_is_valid(old, actor):
    sources = old(5)
    summarise_old(actor)
    rows = JournalEntry.objects.filter(operation="compressed")
    assert {row.object_id for row in rows} == {source.uid for source in sources}
    assert {row.detail["merged_into"] for row in rows} == {summary().uid}
    assert journal.verify().ok


def test_it_can_be_undone(old, actor):
    sources = old(5)
    summarise_old(actor)
    memories.restore_memories([source.uid for source in sources], actor)
    assert Memory.objects.live().filter(type="change").count() == 5
    assert not Memory.objects.filter(merged_into__isnull=False).exists()


def test_a_cap_that_is_reached_loses_nothing(old, actor, configure):
    configure(max_memories=5)
    old(5)
    assert summarise_old(actor) == SummaryCounts(5, 1)
    assert not Memory.objects.filter(trash_reason="evicted").exists()


def test_a_large_group_becomes_several_summaries_in_order_of_time(old, actor):
    for n in range(MAX_SUMMARY_SOURCES + 1):
        old(1, category="c", created_at=ago(1000 - n))
    assert summarise_old(actor) == SummaryCounts(MAX_SUMMARY_SOURCES + 1, 2)
    first, second = Memory.objects.live().order_by("created_at")
    assert first.merged_from.count() == MAX_SUMMARY_SOURCES // 2
    assert second.merged_from.count() == MAX_SUMMARY_SOURCES + 1 - MAX_SUMMARY_SOURCES // 2
    assert max(m.created_at for m in first.merged_from.all()) < min(
        m.created_at for m in second.merged_from.all()
    )


def test_long_texts_and_long_lists_still_fit_into_one_memory(remember, actor):
    for n in range(3):
        paths = [f"{n}/{'x' * 50}{k}.py" for k in range(900)]
        remember(
            f"{n}" + "word " * 19_000,
            title="t" * 500,
            abstract="a" * 2000,
            files_read=paths,
            created_at=ago(60),
        )
    assert summarise_old(actor, min_entries=3) == SummaryCounts(3, 1)
    assert len(list_values(summary(), "files_read")) == 1000
