"""Every list, page, log and widget of the admin shows visible rows only."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft, MemoryPatch
from memoryhub.models import Event, Fact, Injection, JournalEntry, Memory, Session
from tests.admin.conftest import CURATOR, act, page
from tests.cases import each
from tests.clients import turn_on_levels
from tests.web.markup import list_title

LEVELS = ("public", "private", "secret", "cosmic")
SEES = {
    (): {"public"},
    ("view_private",): {"public", "private"},
    ("view_secret",): {"public", "secret"},
    ("view_private", "view_secret"): {"public", "private", "secret"},
}


def levels_in(response) -> set[str]:
    text = response.content.decode()
    said = {level for level in LEVELS if f"{'unknown' if level == 'cosmic' else level}words" in text}
    return said | {memory.sensitivity for memory in Memory.objects.all() if list_title(memory) in text}


def main_part(response) -> str:
    """The page without its header, whose forms name the address and a fresh token."""
    return response.content.decode().partition("<main")[2].partition("</main>")[0]


@each("permissions", SEES)
def test_a_list_shows_the_levels_that_are_permitted_and_switched_on(staff, four_levels, permissions):
    client = turn_on_levels(staff(*CURATOR, *permissions), "private", "secret")
    assert levels_in(client.get(page(Memory))) == SEES[permissions]


@each("permissions", SEES)
def test_without_switches_a_list_shows_public_memories_only(staff, four_levels, permissions):
    assert levels_in(staff(*CURATOR, *permissions).get(page(Memory))) == {"public"}


def test_a_superuser_too_sees_a_level_only_by_its_switch(boss, four_levels):
    assert levels_in(boss.get(page(Memory))) == {"public"}
    assert levels_in(turn_on_levels(boss, "secret").get(page(Memory))) == {"public", "secret"}


def test_an_unknown_level_stays_hidden_from_a_superuser_with_every_switch(boss, four_levels):
    turn_on_levels(boss, "private", "secret", "cosmic", "unknown")
    for state in ("", "?state=all", "?level=cosmic", "?q=zebra"):
        assert "cosmic" not in levels_in(boss.get(page(Memory) + state))


@each("level", ["private", "secret", "cosmic"])
@each("view", ["change", "history", "delete"])
def test_the_pages_of_a_hidden_memory_are_not_found(boss, four_levels, level, view):
    address = page(Memory, view, four_levels[level].pk)
    assert boss.get(address).status_code == 404
    assert boss.post(address, {"post": "yes"}).status_code == 404
    assert Memory.objects.get(pk=four_levels[level].pk).deleted_at is None


@each("view", ["change", "history", "delete"])
def test_hidden_and_missing_rows_get_the_same_answer(boss, four_levels, view):
    hidden = boss.get(page(Memory, view, four_levels["secret"].pk))
    missing = boss.get(page(Memory, view, 10_000_000))
    assert hidden.status_code == missing.status_code == 404
    assert main_part(hidden) == main_part(missing)


@each("key", ["9" * 30, "abc", "-1", "1.5", "%00", "１２"])
@each("model", [Memory, Session, JournalEntry])
def test_a_key_that_cannot_be_is_not_found(boss, model, key):
    assert boss.get(page(model, "change", key)).status_code == 404
    assert boss.get(page(model, "history", key)).status_code == 404


@each("level", ["private", "secret", "cosmic"])
@each("action", ["trash", "expire", "erase", "set_importance", "set_sensitivity"])
def test_an_action_does_not_affect_a_hidden_memory(boss, four_levels, level, action):
    memory = four_levels[level]
    act(boss, action, memory)
    extra = {"confirmed": "yes", "keys": str(memory.pk), "importance": "0.9", "sensitivity": "public"}
    act(boss, action, memory, query="?state=all", select_across="1", **extra)
    now = Memory.objects.get(pk=memory.pk)
    assert (now.sensitivity, now.importance, now.deleted_at, now.expires_at) == (
        memory.sensitivity,
        memory.importance,
        memory.deleted_at,
        memory.expires_at,
    )


def test_a_personal_memory_is_visible_to_its_owner_only(staff, boss, remember):
    memory = remember("mine alone", scope="personal")  # ada's
    assert boss.get(page(Memory, "change", memory.pk)).status_code == 404
    assert "mine alone" not in boss.get(page(Memory)).content.decode()
    ada = staff(*CURATOR, username="ada")
    assert ada.get(page(Memory, "change", memory.pk)).status_code == 200
    assert "mine alone" in ada.get(page(Memory)).content.decode()


def test_filters_offer_no_value_of_a_hidden_memory(boss, remember):
    remember("hidden", sensitivity="secret", project="manhattan", category="fission")
    remember("shown", project="open", category="cooking")
    text = boss.get(page(Memory) + "?state=all").content.decode()
    assert "cooking" in text
    assert "manhattan" not in text
    assert "fission" not in text


@each("level", ["private", "secret", "cosmic"])
def test_completion_offers_no_hidden_memory(boss, four_levels, level):
    query = {"app_label": "memoryhub", "model_name": "fact", "field_name": "memory"}
    for term in ("", "zebra", f"{level}words", four_levels[level].uid):
        found = boss.get("/admin/autocomplete/", {**query, "term": term}).json()["results"]
        assert str(four_levels[level].pk) not in {one["id"] for one in found}


def test_a_merged_memory_does_not_name_a_hidden_target(boss, remember):
    target = remember("hidden target", sensitivity="secret")
    source = remember("merged away")
    Memory.objects.filter(pk=source.pk).update(merged_into=target)
    assert "hidden target" not in boss.get(page(Memory, "change", source.pk)).content.decode()
    turn_on_levels(boss, "secret")
    assert list_title(target) in boss.get(page(Memory, "change", source.pk)).content.decode()


def test_the_journal_leaves_out_what_is_hidden(boss, four_levels):
    ids = {level: memory.uid for level, memory in four_levels.items()}
    text = boss.get(page(JournalEntry)).content.decode()
    assert [level for level in LEVELS if ids[level] in text] == ["public"]
    turn_on_levels(boss, "private")
    text = boss.get(page(JournalEntry)).content.decode()
    assert [level for level in LEVELS if ids[level] in text] == ["public", "private"]


def test_a_journal_row_of_a_hidden_memory_is_not_found(boss, four_levels):
    row = JournalEntry.objects.get(object_id=four_levels["secret"].uid)
    assert boss.get(page(JournalEntry, "change", row.pk)).status_code == 404
    assert turn_on_levels(boss, "secret").get(page(JournalEntry, "change", row.pk)).status_code == 200


def test_the_history_of_a_memory_leaves_out_versions_of_a_hidden_level(boss, remember, actor):
    memory = remember("plain words", sensitivity="secret")
    memories.update_memory(memory.uid, MemoryPatch(subtitle="written while secret"), actor)
    memories.update_memory(memory.uid, MemoryPatch(sensitivity="public"), actor)
    memories.update_memory(memory.uid, MemoryPatch(overview="written in public"), actor)
    text = boss.get(page(Memory, "history", memory.pk)).content.decode()
    versions = boss.get(page(Memory, "history", memory.pk)).context["versions"]
    assert [version.number for version in versions] == [3]
    assert "written" not in text


@pytest.fixture
def four_facts(four_levels, actor):
    """A public fact drawn from a memory of each level."""
    made = {}
    for level in ("public", "private", "secret"):
        draft = FactDraft(
            subject=f"{level}words", predicate="is", object="x", memory_id=four_levels[level].uid
        )
        made[level] = services.create_fact(draft, actor)[0]
    made["cosmic"] = services.create_fact(
        FactDraft(subject="unknownwords", predicate="is", object="x"), actor
    )[0]
    Fact.objects.filter(pk=made["cosmic"].pk).update(sensitivity="cosmic")
    return made


def test_a_fact_shows_no_more_widely_than_its_memory(boss, four_facts):
    assert levels_in(boss.get(page(Fact))) == {"public"}
    assert levels_in(turn_on_levels(boss, "private", "secret").get(page(Fact))) == {
        "public",
        "private",
        "secret",
    }


@each("level", ["private", "secret", "cosmic"])
@each("view", ["change", "history", "delete"])
def test_the_pages_of_a_hidden_fact_are_not_found(boss, four_facts, level, view):
    address = page(Fact, view, four_facts[level].pk)
    assert boss.get(address).status_code == 404
    assert boss.post(address, {"post": "yes"}).status_code == 404
    assert Fact.objects.filter(pk=four_facts[level].pk).exists()


@pytest.fixture
def four_sessions(db, remember):
    """A session with an event and a memory of each level, and an injection."""
    made = {}
    for level in LEVELS:
        name = f"{'unknown' if level == 'cosmic' else level}words"
        known = "public" if level == "cosmic" else level
        memory = remember(f"of {name}", sensitivity=known, session_id=name, project="zoo")
        session = Session.objects.get(session_id=name)
        event = Event.objects.create(session=session, event="tool:post", tool_name=name, sensitivity=level)
        injection = Injection.objects.create(project="zoo", prompt_preview=name, sensitivity=level)
        Memory.objects.filter(pk=memory.pk).update(sensitivity=level)
        made[level] = {Session: session, Event: event, Injection: injection}
    return made


@pytest.mark.parametrize("model", [Session, Event])
def test_sessions_and_events_show_as_their_level_allows(boss, four_sessions, model):
    assert levels_in(boss.get(page(model))) == {"public"}
    assert levels_in(turn_on_levels(boss, "private", "secret").get(page(model))) == {
        "public",
        "private",
        "secret",
    }


@pytest.mark.parametrize("model", [Session, Event, Injection])
def test_the_page_of_a_row_shows_as_its_level_allows(boss, four_sessions, model):
    for level in LEVELS:
        expected = 200 if level == "public" else 404
        assert boss.get(page(model, "change", four_sessions[level][model].pk)).status_code == expected
    turn_on_levels(boss, "private", "secret")
    for level in LEVELS:
        expected = 404 if level == "cosmic" else 200
        assert boss.get(page(model, "change", four_sessions[level][model].pk)).status_code == expected


def test_injections_are_counted_as_their_level_allows(boss, four_sessions):
    assert boss.get(page(Injection)).context["cl"].result_count == 1
    assert turn_on_levels(boss, "private", "secret").get(page(Injection)).context["cl"].result_count == 3


def test_a_session_names_and_counts_visible_memories_only(boss, remember):
    remember("shown one", session_id="s", project="p")
    hidden = remember("hidden one", session_id="s", project="p", sensitivity="secret")
    session = Session.objects.get()
    text = boss.get(page(Session, "change", session.pk)).content.decode()
    assert "shown one" in text
    assert "hidden one" not in text
    [row] = boss.get(page(Session)).context["cl"].result_list
    assert row.memory_count == 1
    assert list_title(hidden) not in text
    turn_on_levels(boss, "secret")
    assert list_title(hidden) in boss.get(page(Session, "change", session.pk)).content.decode()


def test_a_lost_permission_ends_what_its_switch_showed(staff, four_levels):
    client = turn_on_levels(staff(*CURATOR, "view_secret"), "secret")
    assert levels_in(client.get(page(Memory))) == {"public", "secret"}
    cleo = User.objects.get(username="cleo")
    cleo.user_permissions.remove(Permission.objects.get(codename="view_secret"))
    assert levels_in(client.get(page(Memory))) == {"public"}


def test_staff_without_permissions_see_no_memory_and_no_other_row(staff, four_levels):
    client = staff()
    for model in (Memory, Fact, Session, Event, Injection, JournalEntry):
        assert client.get(page(model)).status_code == 403


def test_people_who_are_not_staff_are_asked_to_log_in(client, four_levels):
    User.objects.create_user("reader", password="x")
    client.login(username="reader", password="x")
    assert "/admin/login/" in client.get(page(Memory)).url


def test_the_header_offers_the_switches_that_a_person_may_turn(staff):
    client = staff(*CURATOR, "view_private")
    text = client.get(page(Memory)).content.decode()
    assert "private: hidden" in text
    assert "secret: hidden" not in text
    assert "private: shown" in turn_on_levels(client, "private").get(page(Memory)).content.decode()


def test_the_switch_in_the_header_comes_back_to_the_page(staff, four_levels):
    client = staff(*CURATOR, "view_private")
    back = page(Memory) + "?state=all"
    response = client.post("/switch/", {"level": "private", "on": "1", "next": back})
    assert response.url == back
    assert levels_in(client.get(back)) == {"public", "private"}


def test_dates_and_agent_of_a_session_come_from_its_visible_part(boss, remember, actor):
    hider = Actor("token:hider", actor.clearance)
    remember("hidden one", session_id="s", sensitivity="secret", created_at="2019-05-05", by=hider)
    remember("shown one", session_id="s", created_at="2024-05-05", by=Actor("token:shower"))
    session = Session.objects.get()
    for address in (page(Session), page(Session, "change", session.pk)):
        text = boss.get(address).content.decode()
        assert "2024-05-05" in text
        assert "token:shower" in text
        assert "2019-05-05" not in text
        assert "token:hider" not in text


def test_sessions_are_listed_and_filtered_by_when_they_were_seen_last(boss, remember):
    remember("shown one", session_id="old", created_at="2024-05-05")
    remember("hidden one", session_id="old", sensitivity="secret")
    remember("another", session_id="new", created_at="2024-05-06")
    listed = boss.get(page(Session)).context["cl"].result_list
    assert [row.session_id for row in listed] == ["new", "old"]
    assert not boss.get(page(Session), {"last_seen": "year"}).context["cl"].result_list
