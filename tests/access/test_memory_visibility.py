"""Visibility of memories of each level in every read: hidden rows are excluded in SQL, before any LIMIT."""

from __future__ import annotations

import pytest
from django.utils import timezone

from memoryhub import memories as store
from memoryhub.access.policy import LEVELS, Clearance, system_actor
from memoryhub.core.pagination import paginate
from memoryhub.facts import queries, services
from memoryhub.maintenance.operations import run_now
from memoryhub.memories import NotFound
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.memories.versions import memory_journal, visible_revisions
from memoryhub.models import Event, Fact, JournalEntry, Label, Memory, Session
from memoryhub.search.hybrid import search_memories
from memoryhub.stats import counts
from memoryhub.stats.timeline import load_timeline
from tests.cases import created_by_day, each

CLEARANCES = {
    "nothing": (Clearance(frozenset()), set()),
    "unknown": (Clearance.up_to("cosmic"), set()),
    "public": (Clearance.up_to("public"), {"public"}),
    "private": (Clearance.up_to("private"), {"public", "private"}),
    "secret": (Clearance.up_to("secret"), {"public", "private", "secret"}),
    "asking for public": (Clearance.up_to("secret").limited_to(), {"public"}),
    "asking for private": (Clearance.up_to("secret").limited_to(private=True), {"public", "private"}),
    "asking for secret": (Clearance.up_to("secret").limited_to(secret=True), {"public", "secret"}),
    "asking above clearance": (
        Clearance.up_to("private").limited_to(private=True, secret=True),
        {"public", "private"},
    ),
    "the system": (system_actor("tests").clearance, {"public", "private", "secret"}),
    "claiming the unknown": (Clearance(frozenset({"public", "cosmic"})), {"public"}),
}
through_each_clearance = each("clearance, seen", CLEARANCES.values())


def levels(memories) -> set[str]:
    return {memory.sensitivity for memory in memories}


@through_each_clearance
def test_queryset(four_levels, clearance, seen):
    assert levels(Memory.objects.visible_to(clearance)) == seen
    hidden = levels(Memory.objects.hidden_from(clearance))
    assert hidden == {*LEVELS, "cosmic"} - seen


@through_each_clearance
def test_list(four_levels, clearance, seen):
    assert levels(MemoryFilter(project="zoo").select(clearance)) == seen


@through_each_clearance
def test_trash(four_levels, clearance, seen):
    Memory.objects.update(deleted_at=timezone.now())
    assert levels(MemoryFilter(trashed=True).select(clearance)) == seen


@pytest.mark.conformance("store-21")
@through_each_clearance
@each("typed", ["zebra", "ebra strip", "zebra stripes", "ebra"])
def test_search(four_levels, clearance, seen, typed):
    found = search_memories(MemoryFilter().select(clearance), typed, min_score=0.0)
    assert levels(hit.memory for hit in found.hits) == seen
    assert found.total == len(seen)


@through_each_clearance
@each("level", [*LEVELS, "unknown"])
def test_search_for_a_word_of_one_level(four_levels, clearance, seen, level):
    found = search_memories(MemoryFilter().select(clearance), f"{level}words", min_score=0.0)
    assert levels(hit.memory for hit in found.hits) == {level} & seen


@through_each_clearance
def test_paging(four_levels, clearance, seen):
    shown, cursor = [], None
    while True:
        part = paginate(Memory.objects.visible_to(clearance), "updated_at", 1, cursor)
        shown += part.items
        if not (cursor := part.next_cursor):
            break
    assert levels(shown) == seen
    assert len(shown) == len(seen)


@through_each_clearance
def test_timeline(four_levels, clearance, seen):
    entries, _ = load_timeline(clearance, MemoryFilter())
    assert levels(entry.row for entry in entries if entry.kind == "memory") == seen


@through_each_clearance
def test_journal(four_levels, clearance, seen):
    shown = {row.object_id for row in JournalEntry.objects.visible_to(clearance)}
    assert shown == {four_levels[level].uid for level in seen}


@through_each_clearance
def test_journal_after_an_erase(four_levels, actor, clearance, seen):
    uids = {level: memory.uid for level, memory in four_levels.items()}
    Memory.objects.filter(sensitivity="cosmic").delete()
    store.erase_memories(uids.values(), actor)
    shown = {row.object_id for row in JournalEntry.objects.visible_to(clearance)}
    assert shown == {uids[level] for level in seen} | ({uids["cosmic"]} if "public" in seen else set())


def test_erased_secret_memory_stays_hidden_in_the_journal(remember, actor, low):
    memory = remember("first public")
    store.update_memory(memory.uid, MemoryPatch(sensitivity="secret"), actor)
    assert not JournalEntry.objects.visible_to(low.clearance).exists()
    store.erase_memories([memory.uid], actor)
    assert not JournalEntry.objects.visible_to(low.clearance).exists()
    assert JournalEntry.objects.visible_to(actor.clearance).count() == 3


@through_each_clearance
def test_counts_facets_and_statistics(four_levels, clearance, seen):
    numbers = counts.store_statistics(clearance)
    assert numbers["total"] == len(seen)
    assert set(numbers["by_sensitivity"]) == seen
    assert sum(numbers["by_project"].values()) == len(seen)
    Label.objects.bulk_create(Label(memory=one, kind="tag", value="striped") for one in four_levels.values())
    facets = counts.top_facets(MemoryFilter().select(clearance))
    assert set(facets["sensitivity"]) == seen
    assert sum(facets["type"].values()) == len(seen)
    assert sum(facets["tag"].values()) == len(seen)
    assert sum(row[2] for row in created_by_day(MemoryFilter().select(clearance))) == len(seen)


@through_each_clearance
def test_statistics_of_the_trash_and_of_what_expires(four_levels, clearance, seen):
    Memory.objects.update(expires_at=timezone.now())
    assert counts.store_statistics(clearance)["expired"] == len(seen)
    Memory.objects.update(expires_at=None, deleted_at=timezone.now())
    assert counts.store_statistics(clearance)["trashed"] == len(seen)


@pytest.fixture
def facts_of_four_levels(four_levels, actor):
    """A public fact of a memory of each level, and a fact of each level without a memory."""
    for level, memory in four_levels.items():
        fact = Fact.objects.create(subject="zebra", predicate="on", object=level, memory=memory)
        own = Fact.objects.create(subject="zebra", predicate="of", object=level, sensitivity=level)
        assert (fact.sensitivity, own.memory) == ("public", None)


@through_each_clearance
def test_facts(facts_of_four_levels, clearance, seen):
    found = queries.query_facts(clearance, subject="zebra")
    assert {fact.object for fact in found.filter(predicate="of")} == seen
    on_memories = seen if "public" in clearance.levels else set()
    assert {fact.object for fact in found.filter(predicate="on")} == on_memories
    assert counts.store_statistics(clearance)["facts"] == found.count()


@pytest.mark.parametrize("level", ["private", "secret"])
def test_journal_hides_facts_of_hidden_memories(four_levels, actor, low, level):
    draft = FactDraft(subject="s", predicate="p", object="o", memory_id=four_levels[level].uid)
    fact, _ = services.create_fact(draft, actor)
    assert JournalEntry.objects.get(object_type="fact").sensitivity == level
    assert not JournalEntry.objects.visible_to(low.clearance).filter(object_type="fact").exists()
    services.delete_fact(fact.uid, actor)
    assert not JournalEntry.objects.visible_to(low.clearance).filter(object_type="fact").exists()


def test_journal_hides_facts_of_memories_hidden_later(remember, actor, low):
    memory = remember("public at first")
    services.create_fact(FactDraft(subject="s", predicate="p", object="o", memory_id=memory.uid), actor)
    assert JournalEntry.objects.visible_to(low.clearance).filter(object_type="fact").exists()
    store.update_memory(memory.uid, MemoryPatch(sensitivity="secret"), actor)
    assert not JournalEntry.objects.visible_to(low.clearance).exists()


@through_each_clearance
def test_sessions_and_events(four_levels, clearance, seen):
    for level, memory in four_levels.items():
        Session.objects.create(session_id=f"of {level}", project="zoo")
        Memory.objects.filter(pk=memory.pk).update(session_id=f"of {level}")
        with_event = Session.objects.create(session_id=f"event {level}", project="zoo")
        Event.objects.create(session=with_event, event="tool:post", sensitivity=level)
        on_memory = Session.objects.create(session_id=f"event on {level}", project="zoo")
        Event.objects.create(session=on_memory, event="tool:post", memory=memory)
        Session.objects.create(session_id=f"empty {level}", project="zoo")
    shown = set(Session.objects.visible_to(clearance).values_list("session_id", flat=True))
    on_memories = seen if "public" in clearance.levels else set()
    wanted = {f"{kind} {level}" for kind in ("of", "event") for level in seen}
    assert shown == wanted | {f"event on {level}" for level in on_memories}
    entries, _ = load_timeline(clearance, MemoryFilter(), limit=200)
    assert {e.row.sensitivity for e in entries if e.kind == "event"} == (seen | ({"public"} & seen))
    assert {e.row.session_id for e in entries if e.kind == "session_start"} == shown


def test_session_without_memories_is_hidden(remember, actor):
    memory = remember("a", session_id="s")
    assert Session.objects.visible_to(actor.clearance).exists()
    store.trash_memories([memory.uid], actor)
    assert not Session.objects.visible_to(actor.clearance).exists()


@each("level", ["private", "secret", "cosmic"])
def test_hidden_memories_cannot_be_changed(four_levels, low, level):
    uid = four_levels[level].uid
    before = Memory.objects.values().get(uid=uid)
    with pytest.raises(NotFound):
        store.update_memory(uid, MemoryPatch(title="mine now"), low)
    assert (
        store.trash_memories([uid], low)
        == store.restore_memories([uid], low)
        == store.erase_memories([uid], low)
        == []
    )
    assert store.apply_bulk_action("expire", [uid], low).done == []
    assert Memory.objects.values().get(uid=uid) == before


def test_system_cannot_see_an_unknown_level(four_levels):
    uid = four_levels["cosmic"].uid
    system = system_actor("tests")
    with pytest.raises(NotFound):
        store.update_memory(uid, MemoryPatch(title="x"), system)
    assert store.trash_memories([uid], system) == store.erase_memories([uid], system) == []
    Memory.objects.filter(uid=uid).update(expires_at=timezone.now())
    assert store.purge_expired(system) == 0
    Memory.objects.filter(uid=uid).update(deleted_at=timezone.now())
    assert run_now("empty_trash", {}, system).changed == 0
    assert Memory.objects.filter(uid=uid).exists()


def test_agent_maintenance_changes_only_visible_memories(four_levels, low):
    Memory.objects.update(expires_at=timezone.now())
    assert store.purge_expired(low) == 1
    assert set(Memory.objects.values_list("sensitivity", flat=True)) == {"private", "secret", "cosmic"}


# Projects


# Personal memories


# Filters apply in SQL before LIMIT


def test_page_is_full_despite_higher_ranked_hidden_rows(db, actor, low, configure):
    configure(max_memories=0, search_pool=50)
    hidden = [
        MemoryDraft(content=f"zebra zebra zebra {n}", title="zebra", sensitivity="secret") for n in range(500)
    ]
    shown = [
        MemoryDraft(
            content=f"{'long words about other animals ' * 8} and one zebra {n}", created_at="2023-01-01"
        )
        for n in range(30)
    ]
    store.create_memories([*shown, *hidden], actor)
    found = search_memories(MemoryFilter().select(low.clearance), "zebra", limit=30, min_score=0.0)
    assert len(found.hits) == found.total == 30
    assert (
        len(search_memories(MemoryFilter().select(low.clearance), "ebr", limit=30, min_score=0.0).hits) == 30
    )
    assert len(paginate(MemoryFilter().select(low.clearance), "updated_at", 30, None).items) == 30
    entries, _ = load_timeline(low.clearance, MemoryFilter(), limit=30)
    assert len(entries) == 30
    assert len(paginate(JournalEntry.objects.visible_to(low.clearance), "seq", 30, None).items) == 30


def test_filters_apply_before_the_limit(db, actor, configure):
    configure(max_memories=0, search_pool=50)
    others = [MemoryDraft(content=f"zebra {n}", title="zebra", project="farm") for n in range(300)]
    wanted = [
        MemoryDraft(
            content=f"much text before a zebra {n}", project="zoo", tags=["x"], created_at="2023-01-01"
        )
        for n in range(20)
    ]
    store.create_memories([*wanted, *others], actor)
    for fields in ({"project": "zoo"}, {"tag": "x"}, {"until": "2023-06-01"}):
        found = search_memories(
            MemoryFilter(**fields).select(actor.clearance), "zebra", limit=20, min_score=0.0
        )
        assert len(found.hits) == 20, fields


@each("level", ["private", "secret", "cosmic"])
@each("typed", ["zebra merger", "merger", "zebra merger okapi", "zebr merg", '"zebra merger"', "xmerger"])
def test_score_does_not_depend_on_hidden_memories(remember, low, level, typed):
    for n in range(12):
        remember(f"zebra number {n} and okapi", by=low)
    remember("xmergerx is a word of the agent's own", by=low)
    answers = []
    for secret in ("nothing of interest", "the merger is near"):
        hidden = remember(secret, sensitivity="secret")
        Memory.objects.filter(pk=hidden.pk).update(sensitivity=level)
        found = search_memories(
            MemoryFilter().select(low.clearance), typed, min_score=0.0, now=hidden.updated_at
        )
        answers.append([(hit.memory.uid, hit.components.match, hit.snippet) for hit in found.hits])
    assert answers[0] == answers[1]


# What a memory was under a stricter level


def test_revisions_of_a_stricter_level_are_hidden(remember, actor, low):
    memory = remember("version one", sensitivity="secret")
    store.update_memory(memory.uid, MemoryPatch(content="version two"), actor)
    store.update_memory(memory.uid, MemoryPatch(sensitivity="public"), actor)
    store.update_memory(memory.uid, MemoryPatch(content="version three"), actor)
    memory.refresh_from_db()
    assert [row.number for row in visible_revisions(memory, low.clearance)] == [3]
    assert [row.number for row in visible_revisions(memory, actor.clearance)] == [3, 2, 1]
    assert {row.sensitivity for row in memory_journal(memory, low.clearance)} == {"public"}
