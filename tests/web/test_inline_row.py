"""Edit title, tags, importance and level in a list row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.rows import list_values
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import JournalEntry, Memory
from tests.cases import each
from tests.web.conftest import SignIn
from tests.web.markup import Page, main

Remember = Callable[..., Memory]
LIST = "/memories/?project=p"
HTMX = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{LIST}"}
EVE = Actor("token:eve", Clearance.up_to("secret", owner="eve"))


@pytest.fixture
def editor(sign_in: SignIn) -> Client:
    return sign_in("change_memory", "view_private", on=["private"])


@pytest.fixture
def memory(remember: Remember) -> Memory:
    return remember("some words", title="A title", tags=["old"], importance=0.25, project="p")


def address(memory: Memory) -> str:
    return f"/memories/{memory.uid}/row/"


FORM = ("title", "tags", "importance", "initial-importance", "unchanged_since")


def send(client: Client, memory: Memory, **more: Any) -> Any:
    fields = {"title": "A title", "tags": "old", "importance": "0.25", "sensitivity": "public", "next": LIST}
    fields["initial-importance"] = "0.25"
    fields["unchanged_since"] = memory.updated_at.isoformat()
    return client.post(address(memory), fields | more, headers=HTMX)


def now(memory: Memory) -> tuple[str, list[str], float, str]:
    stored = Memory.objects.get(pk=memory.pk)
    return stored.title, list_values(stored, "tags"), stored.importance, stored.sensitivity


def test_edit_button_shows_only_with_permission(sign_in: SignIn, editor: Client, memory: Memory) -> None:
    assert address(memory) in editor.get(LIST).content.decode()
    assert address(memory) in editor.get("/memories/?q=words").content.decode()
    other = sign_in("delete_memory", name="bob")
    assert address(memory) not in other.get(LIST).content.decode()
    assert other.get(address(memory), headers=HTMX).status_code == 403
    assert send(other, memory, title="Mine").status_code == 403


def test_form_contains_the_stored_values_and_returns_to_the_list(editor: Client, memory: Memory) -> None:
    page = Page(editor.get(address(memory), headers=HTMX).content.decode())
    values = [page.value_of(name) for name in ("title", "tags", "importance", "next")]
    assert values == ["A title", "old", "0.25", LIST]
    assert page.value_of("unchanged_since") == memory.updated_at.isoformat()


def test_link_without_htmx_opens_the_edit_form(editor: Client, memory: Memory) -> None:
    assert f"/memories/{memory.uid}/edit/" in main(editor.get(LIST)).links()
    assert editor.get(address(memory))["Location"] == f"/memories/{memory.uid}/edit/"


def test_changed_fields_are_stored_as_one_undoable_action(editor: Client, memory: Memory) -> None:
    response = send(
        editor, memory, title="Another", tags="one, two", importance="0.75", sensitivity="private"
    )
    assert response["Location"] == LIST
    assert now(memory) == ("Another", ["one", "two"], 0.75, "private")
    page = Page(editor.get(LIST).content.decode())
    [undo] = [form["action"] for form in page.all("form") if "data-undo" in form]
    numbers = {name: page.value_of(name) for name in ("first", "last")}
    editor.post(undo, numbers)
    assert now(memory) == ("A title", ["old"], 0.25, "public")
    assert Memory.objects.get(pk=memory.pk).updated_at == memory.updated_at


def test_unchanged_form_writes_nothing(editor: Client, memory: Memory) -> None:
    assert send(editor, memory)["Location"] == LIST
    assert not JournalEntry.objects.filter(operation="update").exists()


@each(
    "field, value",
    [("importance", "2"), ("importance", "much"), ("title", "x" * 1001), ("sensitivity", "secret")],
)
def test_errors_replace_the_form(editor: Client, memory: Memory, field: str, value: str) -> None:
    response = send(editor, memory, **{field: value})
    assert (response.status_code, response["HX-Retarget"]) == (422, f"#row-{memory.uid}")
    page = Page(response.content.decode())
    assert "is-wrong" in response.content.decode()
    assert page.value_of("next") == LIST
    assert now(memory) == ("A title", ["old"], 0.25, "public")


def test_secret_in_a_title_is_refused_at_the_field(editor: Client, memory: Memory) -> None:
    response = send(editor, memory, title="AKIAIOSFODNN7EXAMPL3 is the key")
    assert response.status_code == 422
    assert now(memory)[0] == "A title"


def test_change_of_another_field_is_merged(editor: Client, memory: Memory) -> None:
    memories.update_memory(memory.uid, MemoryPatch(tags=["theirs"]), EVE)
    assert send(editor, memory, title="Mine")["Location"] == LIST
    assert now(memory)[:2] == ("Mine", ["theirs"])


def test_conflict_on_the_same_field_is_shown_and_saved_again(editor: Client, memory: Memory) -> None:
    memories.update_memory(memory.uid, MemoryPatch(title="Theirs"), EVE)
    memories.update_memory(memory.uid, MemoryPatch(importance=0.5), EVE)
    response = send(editor, memory, title="Mine")
    html = response.content.decode()
    assert response.status_code == 422
    assert "Theirs" in html
    assert now(memory)[0] == "Theirs"
    page = Page(html)
    fields = {name: page.value_of(name) for name in FORM}
    send(editor, memory, **fields)
    assert now(memory)[:3] == ("Mine", ["old"], 0.5)


def test_trashed_memory_is_refused(editor: Client, memory: Memory) -> None:
    memories.apply_bulk_action("trash", [memory.uid], EVE)
    response = send(editor, memory, title="Mine")
    assert response.status_code == 422
    assert "in the trash" in response.content.decode()


def test_hidden_memory_is_not_found(editor: Client, remember: Remember) -> None:
    hidden = remember("hidden words", sensitivity="secret")
    assert editor.get(address(hidden), headers=HTMX).status_code == 404
    assert send(editor, hidden, title="Mine").status_code == 404


def test_reveal_of_a_secret_is_journaled(sign_in: SignIn, remember: Remember) -> None:
    client = sign_in("change_memory", "view_secret", on=["secret"])
    hidden = remember("hidden words", sensitivity="secret")
    client.get(address(hidden), headers=HTMX)
    assert JournalEntry.objects.filter(operation="reveal", object_id=hidden.uid).count() == 1


def test_redirect_stays_on_this_host(editor: Client, memory: Memory) -> None:
    assert send(editor, memory, title="Mine", next="https://elsewhere.example/")["Location"] == "/memories/"
