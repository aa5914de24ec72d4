"""Facts: stored once, as visible as their memory, and journaled."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub import memories
from memoryhub.facts import queries, services
from memoryhub.memories import Conflict, NotFound
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact, JournalEntry
from tests.cases import each


def store(actor, object="SQLite", subject="hub", predicate="runs on", **fields):
    return services.create_fact(
        FactDraft(subject=subject, predicate=predicate, object=object, **fields), actor
    )


def test_same_triple_updates_its_confidence(db, actor):
    first, created = store(actor, confidence=0.4)
    again, created_again = store(actor, confidence=0.9)
    assert (created, created_again) == (True, False)
    assert (again.uid, Fact.objects.get().confidence) == (first.uid, 0.9)
    assert list(JournalEntry.objects.order_by("seq").values_list("operation", flat=True)) == [
        "insert",
        "update",
    ]


@each("other", [{"project": "p"}, {"sensitivity": "private"}, {"object": "sqlite"}])
def test_other_project_level_or_word_is_another_fact(db, actor, other):
    store(actor)
    assert store(actor, **other)[1] is True


def test_repeated_fact_keeps_its_memory_and_session(remember, actor):
    memory = remember("source")
    store(actor, memory_id=memory.uid, session_id="s")
    fact, _ = store(actor)
    assert (fact.memory, fact.session_id) == (memory, "s")


@pytest.mark.conformance("store-10")
@each(
    "filters, found",
    [
        ({}, {"SQLite", "PostgreSQL", "Linux"}),
        ({"subject": "hub"}, {"SQLite", "PostgreSQL"}),
        ({"predicate": "ran on"}, {"PostgreSQL"}),
        ({"object": "Linux"}, {"Linux"}),
        ({"min_confidence": 0.5}, {"SQLite", "Linux"}),
        ({"project": "p"}, {"Linux"}),
        ({"session_id": "s"}, {"SQLite"}),
        ({"subject": "hub", "min_confidence": 0.9}, set()),
    ],
)
def test_every_filter_narrows(db, actor, filters, found):
    store(actor, confidence=0.5, session_id="s")
    store(actor, "PostgreSQL", predicate="ran on", confidence=0.2)
    store(actor, "Linux", subject="box", project="p")
    assert {fact.object for fact in queries.query_facts(actor.clearance, **filters)} == found


def test_fact_of_a_trashed_memory_is_not_current_until_restored(remember, actor):
    memory = remember("source")
    store(actor, memory_id=memory.uid)
    memories.trash_memories([memory.uid], actor)
    assert not queries.query_facts(actor.clearance).exists()
    memories.restore_memories([memory.uid], actor)
    assert queries.query_facts(actor.clearance).exists()


def test_fact_of_an_expired_memory_is_not_current(remember, actor):
    memory = remember("source")
    store(actor, memory_id=memory.uid)
    memories.apply_bulk_action("expire", [memory.uid], actor)
    assert not queries.query_facts(actor.clearance).exists()


def test_fact_whose_memory_is_erased_is_erased(remember, actor):
    memory = remember("source")
    fact, _ = store(actor, memory_id=memory.uid)
    memories.erase_memories([memory.uid], actor)
    assert not Fact.objects.exists()
    assert JournalEntry.objects.filter(operation="erase", object_type="fact", object_id=fact.uid).exists()


@pytest.mark.parametrize("level", ["private", "secret"])
def test_fact_cannot_name_a_hidden_memory(remember, low, level):
    memory = remember("hidden", sensitivity=level)
    with pytest.raises(NotFound) as refused:
        store(low, memory_id=memory.uid)
    assert refused.value.field == "memory_id"


def test_fact_cannot_name_a_trashed_memory(remember, actor):
    memory = remember("gone")
    memories.trash_memories([memory.uid], actor)
    with pytest.raises(NotFound):
        store(actor, memory_id=memory.uid)


def test_actor_who_cannot_see_a_fact_gets_a_separate_one(remember, actor, low):
    memory = remember("hidden", sensitivity="secret")
    store(actor, memory_id=memory.uid, session_id="s")
    later = timezone.now()
    created_fact, created = services.create_fact(
        FactDraft(subject="hub", predicate="runs on", object="SQLite"), low, later
    )
    assert created is True
    assert (created_fact.memory, created_fact.session_id, created_fact.author, created_fact.created_at) == (
        None,
        "",
        low.name,
        later,
    )
    assert Fact.objects.get(copy=0).memory == memory, "the hidden one stays as it was"
    assert queries.query_facts(low.clearance).get() == created_fact
    assert JournalEntry.objects.visible_to(low.clearance).get().operation == "insert"


def test_fact_above_the_clearance_is_stored_but_not_visible(db, low):
    store(low, sensitivity="secret")
    assert not queries.query_facts(low.clearance).exists()
    assert Fact.objects.count() == 1


def test_future_fact_is_not_current(db, actor):
    fact, _ = store(actor)
    begins = timezone.now() + timedelta(days=1)
    Fact.objects.update(valid_from=begins)
    assert not queries.query_facts(actor.clearance).exists()
    assert not queries.query_facts(actor.clearance, ended=True).exists()
    assert list(queries.query_facts(actor.clearance, ended=None)) == [fact]
    assert list(Fact.objects.current(begins)) == [fact]


def test_deletion_is_journaled(db, actor):
    fact, _ = store(actor)
    services.delete_fact(fact.uid, actor)
    assert not Fact.objects.exists()
    assert JournalEntry.objects.filter(operation="delete", object_id=fact.uid).exists()


def test_hidden_fact_cannot_be_deleted(db, actor, low):
    fact, _ = store(actor, sensitivity="secret")
    with pytest.raises(NotFound):
        services.delete_fact(fact.uid, low)
    assert Fact.objects.exists()


def test_journal_does_not_contain_the_words_of_a_fact(db, actor):
    fact, _ = store(actor, "xylophonequark")
    services.delete_fact(fact.uid, actor)
    assert "xylophonequark" not in str(list(JournalEntry.objects.values()))


def test_hidden_fact_is_neither_changed_nor_revealed(db, actor, low):
    hidden, _ = store(actor, sensitivity="secret", confidence=0.4)
    created_fact, created = store(low, sensitivity="secret", confidence=0.9)
    assert created is True
    assert created_fact.uid != hidden.uid
    hidden.refresh_from_db()
    assert (hidden.confidence, hidden.author) == (0.4, actor.name)


def test_author_can_repeat_a_fact_above_their_clearance(db, actor, low):
    store(actor, sensitivity="secret")
    own, _ = store(low, sensitivity="secret", confidence=0.2)
    again, created = store(low, sensitivity="secret", confidence=0.9)
    assert (again.pk, created, again.confidence) == (own.pk, False, 0.9)
    assert Fact.objects.count() == 2


def test_repeated_fact_of_a_trashed_memory_is_current_again(remember, actor):
    memory = remember("source")
    first, _ = store(actor, memory_id=memory.uid)
    memories.trash_memories([memory.uid], actor)
    again, created = store(actor)
    assert (again.pk, created, again.memory) == (first.pk, True, None)


def test_update_does_not_reveal_a_hidden_equal_fact(remember, actor, low):
    store(actor, memory_id=remember("hidden", sensitivity="secret").uid)
    own, _ = store(low, "PostgreSQL")
    changed = services.update_fact(
        own.uid, FactDraft(subject="hub", predicate="runs on", object="SQLite"), low
    )
    assert (changed.pk, changed.copy) == (own.pk, 1)


def test_update_to_a_visible_equal_fact_is_refused(db, actor):
    store(actor)
    other, _ = store(actor, "PostgreSQL")
    with pytest.raises(Conflict):
        services.update_fact(other.uid, FactDraft(subject="hub", predicate="runs on", object="SQLite"), actor)


def test_viewer_of_both_equal_facts_can_update_either(remember, actor, low):
    store(actor, memory_id=remember("hidden", sensitivity="secret").uid)
    own, _ = store(low)
    draft = FactDraft(subject="hub", predicate="runs on", object="SQLite", confidence=0.1)
    assert services.update_fact(own.uid, draft, actor).confidence == 0.1
