"""Importance, trust and confidence in forms: two digits are shown, all are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Memory
from tests.cases import each
from tests.web.markup import Page, submitted_fields

HTMX = {"HX-Request": "true"}
LONG, LOWERED = 0.488698496846991, 0.300412345678901
PATHS = ("/memories/{}/edit/", "/memories/{}/row/", "/memories/{}/fields/importance/")
EVE = Actor("token:eve", Clearance.up_to("secret", owner="eve"))


@pytest.fixture
def editor(sign_in: Any) -> Client:
    client: Client = sign_in("change_memory")
    return client


@pytest.fixture
def memory(remember: Callable[..., Memory]) -> Memory:
    return remember("some words", title="A title", tags=["old"], importance=LONG)


def opened(client: Client, path: str) -> dict[str, Any]:
    """Return what a browser submits from the unchanged form."""
    html = client.get(path, headers={} if path.endswith("edit/") else HTMX).content.decode()
    [form] = [one for one in html.split("<form")[1:] if 'name="importance"' in one]
    return submitted_fields(form.partition("</form>")[0])


def send(client: Client, path: str, fields: dict[str, Any]) -> Any:
    return client.post(path, fields, headers={} if path.endswith("edit/") else HTMX)


def stored(memory: Memory) -> float:
    return Memory.objects.get(pk=memory.pk).importance


@each("url", PATHS)
def test_number_is_shown_with_two_digits(editor: Client, memory: Memory, url: str) -> None:
    assert opened(editor, url.format(memory.uid))["importance"] == "0.49"


@each("url", PATHS)
def test_untouched_form_writes_nothing(editor: Client, memory: Memory, url: str) -> None:
    path = url.format(memory.uid)
    send(editor, path, opened(editor, path))
    assert stored(memory) == LONG
    assert not memory.revisions.exists()


@each("url", PATHS)
def test_submitted_number_is_stored_exactly(editor: Client, memory: Memory, url: str) -> None:
    path = url.format(memory.uid)
    send(editor, path, opened(editor, path) | {"importance": "0.505"})
    assert stored(memory) == 0.505


@pytest.mark.parametrize("url", PATHS[:2])
def test_number_lowered_by_maintenance_stays_lowered(editor: Client, memory: Memory, url: str) -> None:
    path = url.format(memory.uid)
    fields = opened(editor, path)
    Memory.objects.filter(pk=memory.pk).update(importance=LOWERED)  # maintenance does not set updated_at
    send(editor, path, fields | {"title": "Another title"})
    assert (Memory.objects.get(pk=memory.pk).title, stored(memory)) == ("Another title", LOWERED)


@pytest.mark.parametrize("lowered", [False, True])
def test_untouched_number_takes_the_stored_value_in_a_conflict(
    editor: Client, memory: Memory, lowered: bool
) -> None:
    path = PATHS[1].format(memory.uid)
    fields = opened(editor, path)
    memories.update_memory(memory.uid, MemoryPatch(tags=["theirs"], importance=LOWERED), EVE)
    if lowered:
        Memory.objects.filter(pk=memory.pk).update(importance=LOWERED / 2)
    send(editor, path, fields | {"title": "Mine"})
    assert Memory.objects.get(pk=memory.pk).title == "Mine"
    assert stored(memory) == (LOWERED / 2 if lowered else LOWERED)


def test_conflicting_numbers_are_shown_and_saved_again(editor: Client, memory: Memory) -> None:
    path = PATHS[1].format(memory.uid)
    fields = opened(editor, path)
    memories.update_memory(memory.uid, MemoryPatch(importance=LOWERED), EVE)
    again = send(editor, path, fields | {"importance": "0.9"})
    assert again.status_code == 422
    assert stored(memory) == LOWERED
    page = Page(again.content.decode())
    names = ("importance", "initial-importance", "unchanged_since")
    send(editor, path, fields | {name: page.value_of(name) for name in names})
    assert stored(memory) == 0.9
