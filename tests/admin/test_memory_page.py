"""The admin page of one memory: read-only, with actions as buttons; opening a secret memory is journaled."""

from __future__ import annotations

import pytest

from memoryhub.models import JournalEntry, Memory
from tests.admin.conftest import act, page
from tests.clients import turn_on_levels


def open_page(client, memory):
    return client.get(page(Memory, "change", memory.pk))


def test_a_viewer_sees_every_field(staff, remember):
    memory = remember(
        "readable text",
        tags=["a tag"],
        concepts=["gotcha"],
        aliases=["an alias"],
        files_read=["read.py"],
        files_modified=["changed.py"],
        entities=[{"entity": "Ada", "entity_type": "person"}],
    )
    text = open_page(staff("view_memory"), memory).content.decode()
    for value in ("readable text", "a tag", "gotcha", "an alias", "read.py", "changed.py", "Ada | person"):
        assert value in text


def test_a_replacement_is_shown_only_to_those_who_see_it(staff, remember):
    client = staff("view_memory")
    new, hidden = remember("new words"), remember("hidden words", sensitivity="secret")
    for replacement in (new, hidden):
        memory = remember(f"replaced by {replacement.content}", superseded_by=replacement.uid)
        text = open_page(client, memory).content.decode()
        assert (page(Memory, "change", replacement.pk) in text) == (replacement == new)
        assert hidden.uid not in text


@pytest.mark.parametrize("values", [{"content": "changed"}, {"content": "changed", "_saveasnew": "1"}])
def test_no_one_adds_edits_or_deletes_a_memory_here(boss, curator, remember, values):
    memory = remember("as it was")
    for client in (boss, curator):
        assert b'name="content"' not in open_page(client, memory).content
        assert client.post(page(Memory, "change", memory.pk), values).status_code == 403
        assert client.post(page(Memory, "add"), values).status_code == 403
        assert client.post(page(Memory, "delete", memory.pk), {"post": "yes"}).status_code == 403
    assert Memory.objects.live().get().content == "as it was"
    assert not JournalEntry.objects.exclude(operation="insert").exists()


def test_the_page_links_to_the_page_in_the_hub_where_the_memory_is_edited(curator, remember):
    memory = remember("words")
    assert f'href="/memories/{memory.uid}/"' in open_page(curator, memory).content.decode()


def test_the_button_moves_the_memory_to_the_trash_under_the_users_name(curator, remember):
    memory = remember("unwanted")
    assert ("trash", "Move to the trash") in open_page(curator, memory).context["single_actions"]
    act(curator, "trash", memory)
    assert Memory.objects.trashed().get() == memory
    assert JournalEntry.objects.get(operation="delete").actor == "user:cleo"


def test_opening_a_secret_memory_is_journaled_as_revealed(staff, remember):
    client = turn_on_levels(staff("view_memory", "view_secret"), "secret")
    memory = remember("hush", sensitivity="secret")
    open_page(client, memory)
    row = JournalEntry.objects.get(operation="reveal")
    assert (row.actor, row.object_id, row.sensitivity) == ("user:cleo", memory.uid, "secret")


@pytest.mark.parametrize("level", ["public", "private"])
def test_opening_other_levels_is_not_journaled(boss, remember, level):
    turn_on_levels(boss, "private")
    open_page(boss, remember("plain", sensitivity=level))
    assert not JournalEntry.objects.filter(operation="reveal").exists()


def test_opening_does_not_count_as_an_access(boss, remember):
    open_page(boss, remember("x"))
    assert Memory.objects.get().accessed_count == 0


def test_stored_markup_is_shown_as_text(boss, remember):
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    memory = remember(evil, title=evil, category=evil[:90], tags=[evil[:90]], project=evil)
    Memory.objects.update(flags=[evil])
    for address in (page(Memory), page(Memory, "change", memory.pk)):
        text = boss.get(address).content.decode()
        assert "<script>alert" not in text
        assert "<img" not in text.replace('<img src="/static', "")
