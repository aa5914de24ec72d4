"""Pins in the browser: button, mark, filter, bulk action with undo, edit form, review and injection log."""

from __future__ import annotations

import pytest

from memoryhub import memories
from memoryhub.injection.requests import InjectionRequest
from memoryhub.injection.services import inject_at_session_start
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Injection, Memory
from tests.web.edit_form import form_data

LONG = "The shop is deployed with make ship. " * 60


@pytest.fixture
def pinned(remember):
    def store(content="Deploy with make ship", **fields):
        return remember(content, **{"pinned": True, "project": "shop", **fields})

    return store


def pin(browser, memory, act="pin"):
    data = {"uid": memory.uid, "act": act, "next": f"/memories/{memory.uid}/"}
    response = browser.post("/acts/", data, follow=True)
    memory.refresh_from_db()
    return response.content.decode()


def test_button_pins_a_memory_and_the_message_undoes_it(writer, remember):
    memory = remember("Deploy with make ship")
    assert 'value="pin"' in writer.get(f"/memories/{memory.uid}/").content.decode()
    shown = pin(writer, memory)
    assert memory.pinned
    assert "1 memory pinned" in shown
    assert 'value="unpin"' in shown
    pin(writer, memory, "unpin")
    assert not memory.pinned


def test_visitor_sees_no_button_and_cannot_pin(visitor, remember):
    memory = remember("Deploy with make ship")
    assert 'value="pin"' not in visitor.get(f"/memories/{memory.uid}/").content.decode()
    assert visitor.post("/acts/", {"uid": memory.uid, "act": "pin"}).status_code == 403


def test_lists_mark_pinned_memories(visitor, pinned):
    pinned()
    assert "</svg>pinned</span>" in visitor.get("/memories/").content.decode()


def test_list_is_filtered_by_pins(visitor, pinned, remember):
    pinned()
    remember("Tests run with pytest")
    assert "Tests run" not in visitor.get("/memories/?pinned=yes").content.decode()
    assert "make ship" not in visitor.get("/memories/?pinned=no").content.decode()


def test_edit_form_pins_and_unpins(writer, remember):
    memory = remember("Deploy with make ship", ttl_days=3)
    path = f"/memories/{memory.uid}/edit/"
    writer.post(path, form_data(writer.get(path)) | {"pinned": "on"})
    memory.refresh_from_db()
    assert (memory.pinned, memory.expires_at) == (True, None)
    opened = form_data(writer.get(path))
    assert opened.pop("pinned") is True
    writer.post(path, opened)
    memory.refresh_from_db()
    assert not memory.pinned


def test_history_shows_the_change_of_the_pin(visitor, remember, actor):
    memory = remember("Deploy with make ship")
    memories.update_memory(memory.uid, MemoryPatch(pinned=True), actor)
    assert "Pinned" in visitor.get(f"/memories/{memory.uid}/history/").content.decode()


def test_review_warns_of_pins_over_their_budget(writer, pinned, configure):
    configure(pinned_token_budget=300)
    pinned(LONG)
    shown = writer.get("/review/").content.decode()
    assert "/memories/?pinned=yes&amp;project=shop" in shown
    assert "1 of 1 shown, cut short" in shown
    assert "cut short" not in writer.get("/review/?project=docs").content.decode()


def test_review_does_not_warn_of_pins_within_their_budget(writer, pinned):
    pinned(LONG)
    assert "pinned_token_budget" not in writer.get("/review/").content.decode()


def test_review_does_not_warn_of_pins_that_the_person_cannot_see(writer, pinned, configure):
    configure(pinned_token_budget=300)
    pinned(LONG, sensitivity="secret")
    assert "pinned_token_budget" not in writer.get("/review/").content.decode()


def test_injection_page_warns_of_pins_over_their_budget(visitor, pinned, actor, configure):
    configure(pinned_token_budget=300, injection_deadline_ms=20_000)
    pinned(LONG)
    inject_at_session_start(InjectionRequest("", session_id="s1", project="shop"), actor)
    row = Injection.objects.get()
    shown = visitor.get(f"/injections/{row.uid}/").content.decode()
    assert "Pinned memories exceeded their budget" in shown
    assert "1 of 1 shown" in shown


def test_expired_memory_has_no_button_to_pin(writer, remember, actor):
    memory = remember("Deploy with make ship")
    memories.apply_bulk_action("expire", [memory.uid], actor)
    assert 'value="pin"' not in writer.get(f"/memories/{memory.uid}/").content.decode()
    assert Memory.objects.get().pinned_at is None
