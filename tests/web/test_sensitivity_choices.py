"""A person may raise a memory to every level they may see, even with its switch off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.models import Memory
from tests.cases import each
from tests.web.conftest import MakePerson, SignIn
from tests.web.edit_form import form_data
from tests.web.markup import Page

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
Remember = Callable[..., Memory]


@pytest.fixture
def cleared_writer(sign_in: SignIn) -> Client:
    """A person with permission to see everything, with all switches off."""
    return sign_in("view_private", "view_secret", "add_memory", "change_memory", "add_fact", "view_fact")


def offered(response: Any) -> list[str]:
    """Return the choices of the level field of a page."""
    markup = response.content.decode()
    _, _, rest = markup.partition('name="sensitivity"')
    within = rest.partition("</select>")[0]
    return [level for level in ("public", "private", "secret") if f">{level}</option>" in within]


def sent(memory: Memory, **more: Any) -> dict[str, Any]:
    return {"unchanged_since": memory.updated_at.isoformat(), **more}


def expected(client: Client) -> str:
    """Return the messages of the next page."""
    markup = client.get("/memories/").content.decode()
    return markup.partition('id="messages"')[2].partition("<h1")[0]


def undone(client: Client, markup: str) -> Any:
    """Submit the undo button of a message."""
    page = Page(markup)
    [form] = [one for one in page.all("form") if "undo" in one.get("class", "")]
    fields = [one for one in page.all("input") if one.get("type") == "hidden"]
    return client.post(form["action"], {one["name"]: one.get("value", "") for one in fields})


class TestOfferedLevels:
    @each("where", ["/memories/{}/edit/", "/memories/{}/fields/sensitivity/", "/memories/{}/row/"])
    def test_every_permitted_level_is_offered_with_switches_off(
        self, cleared_writer: Client, remember: Remember, where: str
    ) -> None:
        memory = remember("a plan")

        shown = cleared_writer.get(where.format(memory.uid), headers=HTMX)

        assert offered(shown) == ["public", "private", "secret"]

    def test_new_memory_may_have_every_permitted_level(self, cleared_writer: Client) -> None:
        assert offered(cleared_writer.get("/memories/new/")) == ["public", "private", "secret"]

    def test_bulk_bar_offers_every_permitted_level(self, cleared_writer: Client, remember: Remember) -> None:
        remember("a plan")

        markup = cleared_writer.get("/memories/").content.decode()

        bar = markup.partition('id="bulk-level"')[2].partition("</select>")[0]
        assert bar.count("<option>") == 3

    def test_level_without_permission_is_not_offered(self, sign_in: SignIn, remember: Remember) -> None:
        memory = remember("a plan")
        client = sign_in("view_private", "change_memory")

        shown = client.get(f"/memories/{memory.uid}/fields/sensitivity/", headers=HTMX)

        assert offered(shown) == ["public", "private"]


class TestRaisedLevels:
    def test_raised_field_shows_a_message_and_can_be_undone(
        self, cleared_writer: Client, remember: Remember
    ) -> None:
        memory = remember("a plan")

        cleared_writer.post(
            f"/memories/{memory.uid}/fields/sensitivity/", sent(memory, sensitivity="private")
        )
        page_text = expected(cleared_writer)

        assert "It is now private and hidden: show private memories in the Visibility menu" in page_text
        assert Memory.objects.get().sensitivity == "private"
        undone(cleared_writer, page_text)
        assert Memory.objects.get().sensitivity == "public"

    def test_raised_row_shows_a_message_and_can_be_undone(
        self, cleared_writer: Client, remember: Remember
    ) -> None:
        memory = remember("a plan")
        values = {"title": memory.title, "tags": "", "importance": "0.5", "sensitivity": "secret"}

        cleared_writer.post(f"/memories/{memory.uid}/row/", sent(memory, next="/memories/", **values))
        page_text = expected(cleared_writer)

        assert "It is now secret and hidden" in page_text
        undone(cleared_writer, page_text)
        assert Memory.objects.get().sensitivity == "public"

    def test_edit_form_raises_and_undo_lowers_the_level(
        self, cleared_writer: Client, remember: Remember
    ) -> None:
        memory = remember("a plan")
        fields = form_data(cleared_writer.get(f"/memories/{memory.uid}/edit/"))

        response = cleared_writer.post(f"/memories/{memory.uid}/edit/", {**fields, "sensitivity": "private"})
        page_text = expected(cleared_writer)

        assert response["Location"] == "/memories/"
        assert "Saved. It is now private and hidden" in page_text
        undone(cleared_writer, page_text)
        assert Memory.objects.get().sensitivity == "public"

    def test_many_raised_memories_are_counted_and_can_be_undone(
        self, cleared_writer: Client, remember: Remember
    ) -> None:
        uids = [remember("a plan").uid, remember("a price").uid]
        form = {"act": "set-sensitivity", "sensitivity": "private", "uid": uids, "next": "/memories/"}

        cleared_writer.post("/acts/", form)
        page_text = expected(cleared_writer)

        assert "2 of them are now private and hidden" in page_text
        undone(cleared_writer, page_text)
        assert set(Memory.objects.values_list("sensitivity", flat=True)) == {"public"}

    def test_undo_is_not_offered_if_it_would_be_refused(self, person: MakePerson, remember: Remember) -> None:
        ada = person("ada", "change_memory", "view_private")
        ada.memberships.create(project="farm", clearance="public")
        ada.memberships.create(project="barn", clearance="private")
        client = Client()
        client.force_login(ada)
        memory = remember("a plan", project="farm")

        client.post(f"/memories/{memory.uid}/fields/sensitivity/", sent(memory, sensitivity="private"))
        page_text = expected(client)

        assert "It is now private, which you cannot see there" in page_text
        assert "Undo" not in page_text

    def test_level_without_permission_is_refused(self, sign_in: SignIn, remember: Remember) -> None:
        memory = remember("a plan")
        client = sign_in("view_private", "change_memory")
        form = {"act": "set-sensitivity", "sensitivity": "secret", "uid": memory.uid, "next": "/memories/"}

        client.post("/acts/", form)

        assert "you cannot see secret memories; choose a lower level" in expected(client)
        assert Memory.objects.get().sensitivity == "public"

    def test_raise_by_another_person_cannot_be_undone_without_permission(
        self, sign_in: SignIn, remember: Remember
    ) -> None:
        memory = remember("a plan")
        client = sign_in("change_memory")
        memories.apply_bulk_action(
            "set", [memory.uid], Actor("user:eve", Clearance.up_to("secret")), sensitivity="private"
        )

        response = client.post(f"/memories/{memory.uid}/versions/undo/", {"version": "1"})

        assert response.status_code == 404
        assert Memory.objects.get().sensitivity == "private"
