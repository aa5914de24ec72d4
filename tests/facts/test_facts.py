"""Facts: a triple is stored once, shows no more than the memory it hangs on, and is journaled."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub import memories
from memoryhub.facts import services
from memoryhub.memories import Conflict, NotFound
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Fact, JournalEntry


def say(actor, object="SQLite", subject="hub", predicate="runs on", **fields):
    return services.create_fact(
        FactDraft(subject=subject, predicate=predicate, object=object, **fields), actor
    )


def test_the_same_triple_updates_its_confidence(db, actor):
    first, created = say(actor, confidence=0.4)
    again, created_again = say(actor, confidence=0.9)
    assert (created, created_again) == (True, False)
    assert (again.uid, Fact.objects.get().confidence) == (first.uid, 0.9)
    assert list(JournalEntry.objects.order_by("seq").values_list("operation", flat=True)) == [
        "insert",
        "update",
    ]


@pytest.mark.parametrize("other", [{"project": "p"}, {"sensitivity": "private"}, {"object": "sqlite"}])
def test_another_project_level_or_word_is_another_fact(db, actor, other):
    say(actor)
    assert say(actor, **other)[1] is True


def test_a_repeat_keeps_its_memory_and_session(remember, actor):
    memory = remember("source")
    say(actor, memory_id=memory.uid, session_id="s")
    fact, _ = say(actor)
    assert (fact.memory, fact.session_id) == (memory, "s")


@pytest.mark.parametrize(
    ("filters", "found"),
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
    say(actor, confidence=0.5, session_id="s")
    say(actor, "PostgreSQL", predicate="ran on", confidence=0.2)
    say(actor, "Linux", subject="box", project="p")
    assert {fact.object for fact in services.query_facts(actor.clearance, **filters)} == found


def test_a_fact_of_a_trashed_memory_rests_until_it_is_restored(remember, actor):
    memory = remember("source")
    say(actor, memory_id=memory.uid)
    memories.trash_memories([memory.uid], actor)
    assert not services.query_facts(actor.clearance).exists()
    memories.restore_memories([memory.uid], actor)
    assert services.query_facts(actor.clearance).exists()


def test_a_fact_of_an_expired_memory_rests(remember, actor):
    memory = remember("source")
    say(actor, memory_id=memory.uid)
    memories.apply_bulk_action("expire", [memory.uid], actor)
    assert not services.query_facts(actor.clearance).exists()


def test_a_fact_whose_memory_is_erased_is_erased(remember, actor):
    memory = remember("source")
    fact, _ = say(actor, memory_id=memory.uid)
    memories.erase_memories([memory.uid], actor)
    assert not Fact.objects.exists()
    assert JournalEntry.objects.filter(operation="erase", object_type="fact", object_id=fact.uid).exists()


@pytest.mark.parametrize("level", ["private", "secret"])
def test_a_fact_cannot_hang_on_a_memory_out_of_sight(remember, low, level):
    memory = remember("hidden", sensitivity=level)
    with pytest.raises(NotFound) as refused:
        say(low, memory_id=memory.uid)
    assert refused.value.field == "memory_id"


def test_a_fact_cannot_hang_on_a_memory_in_the_trash(remember, actor):
    memory = remember("gone")
    memories.trash_memories([memory.uid], actor)
    with pytest.raises(NotFound):
        say(actor, memory_id=memory.uid)


def test_a_hidden_fact_said_by_someone_who_cannot_know_it_is_theirs(remember, actor, low):
    memory = remember("hidden", sensitivity="secret")
    say(actor, memory_id=memory.uid, session_id="s")
    later = timezone.now()
    said, created = services.create_fact(
        FactDraft(subject="hub", predicate="runs on", object="SQLite"), low, later
    )
    assert created is True
    assert (said.memory, said.session_id, said.author, said.created_at) == (None, "", low.name, later)
    assert Fact.objects.get(copy=0).memory == memory, "the hidden one stays as it was"
    assert services.query_facts(low.clearance).get() == said
    assert JournalEntry.objects.visible_to(low.clearance).get().operation == "insert"


def test_a_fact_above_the_clearance_is_stored_and_not_seen(db, low):
    say(low, sensitivity="secret")
    assert not services.query_facts(low.clearance).exists()
    assert Fact.objects.count() == 1


def test_what_is_yet_to_begin_does_not_hold_now(db, actor):
    fact, _ = say(actor)
    begins = timezone.now() + timedelta(days=1)
    Fact.objects.update(valid_from=begins)
    assert not services.query_facts(actor.clearance).exists()
    assert not services.query_facts(actor.clearance, ended=True).exists()
    assert list(services.query_facts(actor.clearance, ended=None)) == [fact]
    assert list(Fact.objects.current(begins)) == [fact]


def test_a_fact_is_deleted_and_the_journal_knows(db, actor):
    fact, _ = say(actor)
    services.delete_fact(fact.uid, actor)
    assert not Fact.objects.exists()
    assert JournalEntry.objects.filter(operation="delete", object_id=fact.uid).exists()


def test_a_fact_out_of_sight_cannot_be_deleted(db, actor, low):
    fact, _ = say(actor, sensitivity="secret")
    with pytest.raises(NotFound):
        services.delete_fact(fact.uid, low)
    assert Fact.objects.exists()


def test_the_journal_does_not_hold_the_words_of_a_fact(db, actor):
    fact, _ = say(actor, "xylophonequark")
    services.delete_fact(fact.uid, actor)
    assert "xylophonequark" not in str(list(JournalEntry.objects.values()))


def test_a_hidden_fact_is_neither_changed_nor_revealed_by_one_who_may_not_know_of_it(db, actor, low):
    hidden, _ = say(actor, sensitivity="secret", confidence=0.4)
    said, created = say(low, sensitivity="secret", confidence=0.9)
    assert created is True
    assert said.uid != hidden.uid
    hidden.refresh_from_db()
    assert (hidden.confidence, hidden.author) == (0.4, actor.name)


def test_who_said_a_fact_above_their_clearance_says_it_again(db, actor, low):
    say(actor, sensitivity="secret")
    own, _ = say(low, sensitivity="secret", confidence=0.2)
    again, created = say(low, sensitivity="secret", confidence=0.9)
    assert (again.pk, created, again.confidence) == (own.pk, False, 0.9)
    assert Fact.objects.count() == 2


def test_a_fact_of_a_trashed_memory_said_again_lives_anew(remember, actor):
    memory = remember("source")
    first, _ = say(actor, memory_id=memory.uid)
    memories.trash_memories([memory.uid], actor)
    again, created = say(actor)
    assert (again.pk, created, again.memory) == (first.pk, True, None)


def test_a_change_that_meets_a_hidden_twin_is_not_told_of_it(remember, actor, low):
    say(actor, memory_id=remember("hidden", sensitivity="secret").uid)
    own, _ = say(low, "PostgreSQL")
    changed = services.update_fact(
        own.uid, FactDraft(subject="hub", predicate="runs on", object="SQLite"), low
    )
    assert (changed.pk, changed.copy) == (own.pk, 1)


def test_a_change_to_what_a_fact_in_sight_says_is_refused(db, actor):
    say(actor)
    other, _ = say(actor, "PostgreSQL")
    with pytest.raises(Conflict):
        services.update_fact(other.uid, FactDraft(subject="hub", predicate="runs on", object="SQLite"), actor)


def test_who_sees_both_twins_may_change_either(remember, actor, low):
    say(actor, memory_id=remember("hidden", sensitivity="secret").uid)
    own, _ = say(low)
    draft = FactDraft(subject="hub", predicate="runs on", object="SQLite", confidence=0.1)
    assert services.update_fact(own.uid, draft, actor).confidence == 0.1
