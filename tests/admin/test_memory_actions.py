"""Bulk actions on memories in the admin."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub import memories as store
from memoryhub.admin import base, memories
from memoryhub.facts import services
from memoryhub.memories import undo
from memoryhub.memories.schemas import FactDraft, MemoryPatch
from memoryhub.models import Fact, JournalEntry, Memory
from tests import disk
from tests.admin.conftest import CURATOR, act, confirm, page, shown_messages
from tests.clients import turn_on_levels

FORMS = {"set_sensitivity": "sensitivity", "set_importance": "importance", "set_category": "category"}


@pytest.fixture
def three(remember):
    return [remember(f"memory number {n}", importance=0.5) for n in range(3)]


def choices(client, query="") -> set[str]:
    form = client.get(page(Memory) + query).context["action_form"]
    return {name for name, _ in form.fields["action"].choices if name} if form else set()


def test_a_curator_is_offered_everything_but_erasing(curator, three):
    assert choices(curator) == {*FORMS, "pin", "unpin", "expire", "trash", "restore"}


@pytest.mark.parametrize(
    ("permission", "offered"),
    [
        ("view_private", set()),
        ("change_memory", {*FORMS, "pin", "unpin", "expire", "restore"}),
        ("delete_memory", {"trash", "restore"}),
        ("erase_memory", {"erase"}),
    ],
)
def test_each_permission_offers_its_actions(staff, three, permission, offered):
    assert choices(staff("view_memory", permission)) == offered


def test_djangos_own_deletion_is_not_offered_and_does_nothing(boss, three):
    assert "delete_selected" not in choices(boss)
    act(boss, "delete_selected", *three, post="yes")
    assert Memory.objects.live().count() == 3


@pytest.mark.parametrize("action", [*FORMS, "pin", "unpin", "expire", "trash", "restore", "erase"])
def test_an_action_without_its_permission_does_nothing(staff, three, action):
    before = list(Memory.objects.values())
    extra = {
        "confirmed": "yes",
        "keys": three[0].pk,
        "importance": "1",
        "sensitivity": "secret",
        "category": "x",
    }
    act(staff("view_memory"), action, *three, query="?state=all", **extra)
    assert list(Memory.objects.values()) == before


@pytest.mark.parametrize("action", FORMS)
def test_a_value_is_asked_for_and_what_it_replaces_is_shown(curator, three, action):
    response = act(curator, action, *three[:2])
    assert response.status_code == 200
    text = response.content.decode()
    assert "2 memories" in text
    assert "memory number 0" in text
    assert "memory number 1" in text
    assert "memory number 2" not in text
    assert response.context["current"] == [(getattr(three[0], FORMS[action]), 2)]


@pytest.mark.parametrize(
    ("action", "value", "stored"),
    [
        ("set_sensitivity", "private", "private"),
        ("set_importance", "0.9", 0.9),
        ("set_category", "ops", "ops"),
    ],
)
def test_a_value_is_set_with_revision_and_journal_of_the_person(curator, three, action, value, stored):
    asked = act(curator, action, *three[:2])
    response = confirm(curator, asked, **{FORMS[action]: value})
    values = list(Memory.objects.order_by("pk").values_list(FORMS[action], flat=True))
    assert values == [stored, stored, getattr(three[2], FORMS[action])]
    rows = JournalEntry.objects.filter(operation="update")
    assert {row.actor for row in rows} == {"user:cleo"}
    assert {row.object_id for row in rows} == {memory.uid for memory in three[:2]}
    assert three[0].revisions.count() == 1
    assert any("2 memories" in text for text in shown_messages(curator, response))


@pytest.mark.parametrize(
    ("action", "value"),
    [
        ("set_importance", "2"),
        ("set_importance", "nan"),
        ("set_importance", ""),
        ("set_sensitivity", "cosmic"),
        ("set_category", "   "),
        ("set_category", "x" * 101),
        ("set_category", "a\x00b"),
    ],
)
def test_a_bad_value_is_refused_on_the_page_that_asked(curator, three, action, value):
    before = list(Memory.objects.values())
    response = confirm(curator, act(curator, action, *three), **{FORMS[action]: value})
    assert response.status_code == 200
    assert response.context["form"].errors
    assert list(Memory.objects.values()) == before


def test_one_refusal_does_not_stop_the_others(curator, remember, actor):
    twin = remember("the same words", sensitivity="private")
    store.update_memory(twin.uid, MemoryPatch(title="a private twin"), actor)
    first, second = remember("other words"), remember("more words")
    store.trash_memories([first.uid], actor)
    asked = act(curator, "set_importance", first, second, query="?state=all")
    response = confirm(curator, asked, query="?state=all", importance="1")
    assert Memory.objects.get(pk=second.pk).importance == 1
    assert Memory.objects.get(pk=first.pk).importance == 0.5
    texts = shown_messages(curator, response)
    assert any("1 memory" in text for text in texts)
    assert any(first.uid in text and "trash" in text for text in texts)


def test_the_message_has_a_button_that_undoes_it(curator, three):
    states = Memory.objects.order_by("pk").values("title", "importance", "updated_at", "deleted_at")
    before = list(states)
    for action in ("set_importance", "trash"):
        response = act(curator, action, *three)
        if action == "set_importance":
            response = confirm(curator, response, importance="0.9")
        text = " ".join(shown_messages(curator, response))
        address = re.search(r'action="(/acts/[^"]+)"', text)[1]
        fields = dict(re.findall(r'name="(first|last|next)" value="([^"]*)"', text))
        assert fields["next"].startswith("/admin/")
        assert curator.post(address, fields).headers["Location"] == fields["next"]
        assert list(states.all()) == before


def test_a_credential_as_a_category_is_refused(curator, three):
    response = confirm(curator, act(curator, "set_category", *three), category="ghp_" + "a1B2" * 9)
    assert any("Nothing was changed" in text for text in shown_messages(curator, response))
    assert not JournalEntry.objects.filter(operation="update").exists()


def test_many_changes_go_through_in_chunks(curator, remember, monkeypatch):
    monkeypatch.setattr(undo, "CHUNK_SIZE", 2)
    memories = [remember(f"number {n}") for n in range(5)]
    confirm(curator, act(curator, "set_category", *memories), category="ops")
    assert Memory.objects.filter(category="ops").count() == 5


def test_action_changes_only_the_memories_on_the_confirmation_page(curator, three, remember):
    asked = curator.post(
        page(Memory), {"action": "set_category", "select_across": "1", "_selected_action": [three[0].pk]}
    )
    assert asked.context["total"] == 3
    late = remember("came in between")
    confirm(curator, asked, category="ops")
    assert Memory.objects.filter(category="ops").count() == 3
    assert Memory.objects.get(pk=late.pk).category == "general"


def test_too_many_at_once_are_refused(curator, three, monkeypatch):
    monkeypatch.setattr(base.select_rows, "__defaults__", ("pk", 2))
    response = act(curator, "trash", *three)
    assert any("at most 2" in text for text in shown_messages(curator, response))
    assert Memory.objects.live().count() == 3


def test_memories_expire_at_once(curator, three):
    act(curator, "expire", *three[:2])
    assert Memory.objects.expired(timezone.now() + timedelta(seconds=1)).count() == 2
    assert set(JournalEntry.objects.filter(operation="expire").values_list("actor", flat=True)) == {
        "user:cleo"
    }


def test_memories_move_to_the_trash_and_come_back(curator, three):
    response = act(curator, "trash", *three)
    assert any("3 memories moved to the trash" in text for text in shown_messages(curator, response))
    assert Memory.objects.trashed().count() == 3
    act(curator, "restore", *three[:2], query="?state=trash")
    assert Memory.objects.live().count() == 2
    assert set(JournalEntry.objects.filter(operation="restore").values_list("actor", flat=True)) == {
        "user:cleo"
    }


def test_an_expired_memory_is_restored(curator, three):
    act(curator, "expire", three[0])
    act(curator, "restore", three[0], query="?state=expired")
    assert Memory.objects.live().count() == 3


def test_memories_that_cannot_be_restored_are_reported(curator, three):
    response = act(curator, "restore", three[0])
    assert any("1 memory left unchanged" in text for text in shown_messages(curator, response))


@pytest.fixture
def eraser(staff):
    return staff(*CURATOR, "erase_memory")


def test_erasing_asks_with_every_title_and_the_count(eraser, remember_all):
    memories = remember_all(f"memory number {n}" for n in range(120))
    response = eraser.post(
        page(Memory), {"action": "erase", "select_across": "1", "_selected_action": [memories[0].pk]}
    )
    text = response.content.decode()
    assert "120 memories" in text
    assert all(f">memory number {n}<" in text for n in range(120))
    assert Memory.objects.count() == 120


def test_only_the_hash_of_erased_memories_stays_in_the_journal(eraser, three, actor):
    store.update_memory(three[0].uid, MemoryPatch(content="changed"), actor)
    confirm(eraser, act(eraser, "erase", *three[:2]))
    assert list(Memory.objects.values_list("uid", flat=True)) == [three[2].uid]
    rows = JournalEntry.objects.filter(operation="erase")
    assert {row.object_id for row in rows} == {memory.uid for memory in three[:2]}
    assert {row.actor for row in rows} == {"user:cleo"}
    assert all(set(row.detail) == {"content_hash"} for row in rows)


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
def test_erasing_in_the_admin_leaves_no_byte_in_the_file(eraser, remember):
    gone = remember("the xylophonequark is gone")
    remember("the filler stays")
    confirm(eraser, act(eraser, "erase", gone))
    raw = disk.read_store_bytes(connection.settings_dict["NAME"])
    assert b"filler" in raw
    assert b"xylophonequark" not in raw


def test_erasing_includes_the_trash(eraser, three, actor):
    store.trash_memories([three[0].uid], actor)
    confirm(eraser, act(eraser, "erase", three[0], query="?state=trash"), query="?state=trash")
    assert Memory.objects.count() == 2


def test_too_many_are_not_erased_at_once(eraser, three, monkeypatch):
    monkeypatch.setattr(memories, "MAX_ERASED", 2)
    response = act(eraser, "erase", *three)
    assert any("at most 2" in text for text in shown_messages(eraser, response))


def test_memories_hidden_before_the_confirmation_are_not_erased(eraser, three):
    asked = act(eraser, "erase", three[0])
    Memory.objects.filter(pk=three[0].pk).update(sensitivity="secret")
    response = confirm(eraser, asked)
    assert Memory.objects.count() == 3
    assert any("Nothing was changed" in text for text in shown_messages(eraser, response))


@pytest.mark.parametrize("keys", ["", "abc", "9" * 40, "1;2", "-1", "98765,,x", "\x00", "1" * 5000])
def test_hostile_keys_of_a_confirmation_change_nothing(eraser, three, keys):
    data = {"action": "erase", "_selected_action": three[0].pk, "select_across": "1", "confirmed": "yes"}
    response = eraser.post(page(Memory), {**data, "keys": keys})
    assert response.status_code == 302
    assert Memory.objects.count() == 3


@pytest.mark.parametrize("chosen", ["abc", "9" * 40, "-1", "1 OR 1=1", "１", ""])
def test_hostile_selections_change_nothing(eraser, three, chosen):
    response = eraser.post(page(Memory), {"action": "trash", "index": "0", "_selected_action": chosen})
    assert response.status_code == 302
    assert Memory.objects.live().count() == 3


@pytest.mark.parametrize("index", ["x", "99", "-5"])
def test_a_hostile_index_is_no_error(eraser, three, index):
    response = eraser.post(page(Memory), {"action": "trash", "index": index, "_selected_action": three[0].pk})
    assert response.status_code == 302


def test_a_memorys_page_offers_what_fits_its_state(eraser, three, actor):
    assert eraser.get(page(Memory, "change", three[0].pk)).context["single_actions"] == [
        ("expire", "Let expire now"),
        ("trash", "Move to the trash"),
        ("erase", "Erase permanently…"),
    ]
    store.trash_memories([three[0].uid], actor)
    response = eraser.get(page(Memory, "change", three[0].pk))
    assert [name for name, _ in response.context["single_actions"]] == ["restore", "erase"]
    eraser.post(response.context["all_states"], {"action": "restore", "_selected_action": three[0].pk})
    assert Memory.objects.live().count() == 3


def test_an_erased_memory_takes_its_facts_along(eraser, remember, actor):
    memory = remember("source")
    services.create_fact(FactDraft(subject="a", predicate="b", object="c", memory_id=memory.uid), actor)
    confirm(eraser, act(eraser, "erase", memory))
    assert not Fact.objects.exists()


@pytest.fixture
def repairer(staff):
    return staff("view_memory", "change_memory", "delete_memory", "erase_memory", "repair_unknown")


REPAIR = "?level=unknown"


def test_the_repair_list_shows_unknown_levels_and_nothing_else(repairer, four_levels):
    response = repairer.get(page(Memory) + REPAIR)
    assert [memory.pk for memory in response.context["cl"].result_list] == [four_levels["cosmic"].pk]
    assert "cosmic" in response.content.decode()


def test_the_repair_list_opens_nothing_and_offers_only_the_repair(repairer, four_levels):
    memory = four_levels["cosmic"]
    text = repairer.get(page(Memory) + REPAIR).content.decode()
    assert page(Memory, "change", memory.pk) not in text
    assert choices(repairer, REPAIR) == {"repair_level"}
    for view in ("change", "history", "delete"):
        assert repairer.get(page(Memory, view, memory.pk) + REPAIR).status_code == 404
        assert repairer.post(page(Memory, view, memory.pk) + REPAIR, {"post": "yes"}).status_code == 404


@pytest.mark.parametrize("action", [*FORMS, "expire", "trash", "restore", "erase"])
def test_no_other_action_affects_an_unknown_level(repairer, four_levels, action):
    before = Memory.objects.values().get(pk=four_levels["cosmic"].pk)
    extra = {"confirmed": "yes", "keys": four_levels["cosmic"].pk, "importance": "1", "sensitivity": "public"}
    act(repairer, action, four_levels["cosmic"], query=REPAIR, category="x", **extra)
    assert Memory.objects.values().get(pk=four_levels["cosmic"].pk) == before


@pytest.mark.parametrize("level", ["public", "private", "secret"])
def test_a_repair_sets_the_level_under_the_persons_name(repairer, four_levels, level):
    asked = act(repairer, "repair_level", four_levels["cosmic"], query=REPAIR)
    assert asked.context["current"] == [("cosmic", 1)]
    confirm(repairer, asked, query=REPAIR, sensitivity=level)
    assert Memory.objects.get(pk=four_levels["cosmic"].pk).sensitivity == level
    row = JournalEntry.objects.get(operation="repair_level")
    assert (row.actor, row.object_id) == ("user:cleo", four_levels["cosmic"].uid)


def test_a_repair_does_not_affect_known_levels(repairer, four_levels):
    extra = {"confirmed": "yes", "keys": four_levels["secret"].pk, "sensitivity": "public"}
    for query in (REPAIR, "", "?state=all"):
        act(repairer, "repair_level", four_levels["secret"], query=query, **extra)
    assert Memory.objects.get(pk=four_levels["secret"].pk).sensitivity == "secret"


def test_without_the_permission_there_is_no_repair_list(staff, four_levels):
    client = turn_on_levels(staff(*CURATOR, "view_private", "view_secret"), "private", "secret")
    response = client.get(page(Memory) + REPAIR)
    assert response.context["cl"].result_count == 0
    assert "unknown level" not in response.content.decode()
    act(client, "repair_level", four_levels["cosmic"], query=REPAIR, confirmed="yes", sensitivity="public")
    assert Memory.objects.get(pk=four_levels["cosmic"].pk).sensitivity == "cosmic"


def test_a_personal_memory_of_an_unknown_level_stays_its_owners(repairer, remember):
    memory = remember("mine", scope="personal")
    Memory.objects.filter(pk=memory.pk).update(sensitivity="cosmic")
    assert repairer.get(page(Memory) + REPAIR).context["cl"].result_count == 0


def test_setting_a_value_reads_no_more_rows_for_more_memories(curator, remember):
    """On the confirmation page. Each change is its own transaction."""
    memories = [remember(f"number {n}") for n in range(20)]
    counts = []
    for chosen in (memories[:2], memories):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            act(curator, "set_category", *chosen)
        counts.append(len(queries))
    assert counts[0] == counts[1]
