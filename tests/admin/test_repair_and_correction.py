"""The services behind the admin: repair of unknown levels, correction of facts."""

from __future__ import annotations

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance, Sensitivity
from memoryhub.audit import journal
from memoryhub.facts import services
from memoryhub.memories import Conflict, NotFound
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import JournalEntry, Memory
from tests.cases import each

CURATOR = Actor("user:cleo", Clearance(frozenset({"public"}), owner="cleo"))


def test_an_unknown_level_becomes_the_level_named(four_levels):
    [repaired] = memories.repair_sensitivity([four_levels["cosmic"].uid], Sensitivity.PRIVATE, CURATOR)
    assert repaired.uid == four_levels["cosmic"].uid
    assert Memory.objects.get(pk=repaired.pk).sensitivity == "private"


def test_a_repair_is_journaled_with_what_the_level_was(four_levels):
    memories.repair_sensitivity([four_levels["cosmic"].uid], Sensitivity.SECRET, CURATOR)
    row = JournalEntry.objects.get(operation="repair_level")
    assert (row.actor, row.object_id, row.sensitivity) == ("user:cleo", four_levels["cosmic"].uid, "secret")
    assert row.detail["was"] == "cosmic"
    assert journal.verify().ok


def test_a_repair_does_not_make_a_memory_look_new(four_levels):
    before = four_levels["cosmic"].updated_at
    memories.repair_sensitivity([four_levels["cosmic"].uid], Sensitivity.PUBLIC, CURATOR)
    assert Memory.objects.get(pk=four_levels["cosmic"].pk).updated_at == before


@each("level", ["public", "private", "secret"])
def test_a_known_level_cannot_be_repaired(four_levels, level):
    assert memories.repair_sensitivity([four_levels[level].uid], Sensitivity.PUBLIC, CURATOR) == []
    assert Memory.objects.get(pk=four_levels[level].pk).sensitivity == level


def test_a_personal_memory_of_someone_else_cannot_be_repaired(remember):
    memory = remember("mine alone", scope="personal")
    Memory.objects.filter(pk=memory.pk).update(sensitivity="cosmic")
    assert memories.repair_sensitivity([memory.uid], Sensitivity.PUBLIC, CURATOR) == []


def test_a_memory_of_a_hidden_project_cannot_be_repaired(four_levels):
    confined = Actor("user:cleo", Clearance(projects=frozenset({"elsewhere"})))
    assert memories.repair_sensitivity([four_levels["cosmic"].uid], Sensitivity.PUBLIC, confined) == []


def test_a_repaired_memory_that_equals_another_stays_separate(remember):
    odd = remember("the same words")
    Memory.objects.filter(pk=odd.pk).update(sensitivity="cosmic")
    twin = remember("the same words")
    assert twin.pk != odd.pk
    memories.repair_sensitivity([odd.uid], Sensitivity.PUBLIC, CURATOR)
    rows = Memory.objects.visible_to(CURATOR.clearance).values_list("uid", "sensitivity")
    assert sorted(rows) == sorted([(odd.uid, "public"), (twin.uid, "public")])


@pytest.fixture
def fact(db, actor):
    return services.create_fact(FactDraft(subject="hub", predicate="runs on", object="SQLite"), actor)[0]


def test_a_fact_is_corrected_and_the_journal_names_the_fields(fact, actor):
    draft = FactDraft(subject="hub", predicate="runs on", object="SQLite 3.40", confidence=0.8)
    services.update_fact(fact.uid, draft, actor)
    fact.refresh_from_db()
    assert (fact.object, fact.confidence) == ("SQLite 3.40", 0.8)
    assert JournalEntry.objects.filter(operation="update").get().detail == {
        "fields": ["confidence", "object"]
    }


def test_an_unchanged_fact_writes_no_journal_row(fact, actor):
    services.update_fact(fact.uid, FactDraft(subject="hub", predicate="runs on", object="SQLite"), actor)
    assert not JournalEntry.objects.filter(operation="update").exists()


def test_a_fact_cannot_become_a_copy_of_another(fact, actor):
    other, _ = services.create_fact(FactDraft(subject="hub", predicate="runs on", object="PostgreSQL"), actor)
    with pytest.raises(Conflict, match="the same fact exists"):
        services.update_fact(other.uid, FactDraft(subject="hub", predicate="runs on", object="SQLite"), actor)


def test_a_fact_changed_since_it_was_opened_is_a_conflict(fact, actor):
    opened = fact.updated_at
    services.create_fact(
        FactDraft(subject="hub", predicate="runs on", object="SQLite", confidence=0.4), actor
    )
    draft = FactDraft(subject="hub", predicate="runs on", object="files")
    with pytest.raises(Conflict, match="since you opened it"):
        services.update_fact(fact.uid, draft, actor, unchanged_since=opened)


@pytest.mark.django_db
def test_a_hidden_fact_cannot_be_changed(actor):
    secret = FactDraft(subject="a", predicate="b", object="c", sensitivity="secret")
    fact, _ = services.create_fact(secret, actor)
    with pytest.raises(NotFound):
        services.update_fact(fact.uid, FactDraft(subject="a", predicate="b", object="d"), CURATOR)
