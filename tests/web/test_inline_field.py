"""Edit one field of a memory inline: save, cancel, errors, conflicts."""

from __future__ import annotations

import json
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
from tests.web.markup import PAYLOAD, Page, find_dangers, main

Remember = Callable[..., Memory]
HTMX = {"HX-Request": "true"}
FIELDS = ("title", "tags", "importance", "sensitivity")
VALUES = {"title": "Another title", "tags": "one, two", "importance": "0.75", "sensitivity": "private"}


def address(memory: Memory, name: str) -> str:
    return f"/memories/{memory.uid}/fields/{name}/"


def opened(client: Client, memory: Memory, name: str) -> Page:
    response = client.get(address(memory, name), headers=HTMX)
    assert response.status_code == 200
    return Page(response.content.decode())


def send(client: Client, memory: Memory, name: str, value: str, **more: Any) -> Any:
    fields = {name: value, "unchanged_since": memory.updated_at.isoformat()} | more
    if name == "importance":
        fields["initial-importance"] = f"{memory.importance:g}"
    return client.post(address(memory, name), fields, headers=HTMX)


@pytest.fixture
def editor(sign_in: Any) -> Client:
    return sign_in("change_memory", "view_private", on=["private"])


@pytest.fixture
def memory(remember: Remember) -> Memory:
    return remember("some words", title="A title", tags=["old"], importance=0.25)


class TestOpening:
    @each("name", FIELDS)
    def test_form_contains_the_stored_value(self, editor: Client, memory: Memory, name: str) -> None:
        page = opened(editor, memory, name)
        held = {"title": "A title", "tags": "old", "importance": "0.25"}
        if name == "sensitivity":
            assert [one["value"] for one in page.all("option")] == ["public", "private"]
        else:
            assert page.value_of(name) == held[name]
        assert page.value_of("unchanged_since") == memory.updated_at.isoformat()
        assert [one["id"] for tag, one in page.elements if one.get("id", "").startswith("field-")] == [
            f"field-{name}"
        ]

    @each("name", FIELDS)
    def test_link_without_htmx_opens_the_field_of_the_edit_form(
        self, editor: Client, memory: Memory, name: str
    ) -> None:
        href = f"/memories/{memory.uid}/edit/#id_{name}"
        assert href in main(editor.get(f"/memories/{memory.uid}/")).links()
        assert editor.get(address(memory, name))["Location"] == href
        ids = [one.get("id") for _, one in Page(editor.get(href).content.decode()).elements]
        assert f"id_{name}" in ids

    def test_leaving_shows_the_value_with_focus_on_its_link(self, editor: Client, memory: Memory) -> None:
        response = editor.get(address(memory, "tags"), {"leave": "1"}, headers=HTMX)
        [link] = [one for one in Page(response.content.decode()).all("a") if "data-inline-edit" in one]
        assert "autofocus" in link
        assert memory.revisions.count() == 0

    def test_reveal_of_a_secret_is_journaled(self, sign_in: Any, remember: Remember) -> None:
        client = sign_in("change_memory", "view_secret", on=["secret"])
        secret = remember("hidden", sensitivity="secret")
        opened(client, secret, "title")
        row = JournalEntry.objects.latest("seq")
        assert (row.operation, row.object_id, row.detail["page"]) == ("reveal", secret.uid, "edit")

    def test_unknown_field_is_not_found(self, editor: Client, memory: Memory) -> None:
        assert editor.get(address(memory, "content")).status_code == 404


class TestSaving:
    @each("name", FIELDS)
    def test_saved_value_is_shown_and_can_be_undone(self, editor: Client, memory: Memory, name: str) -> None:
        response = send(editor, memory, name, VALUES[name])
        assert response.status_code == 200
        assert json.loads(response["HX-Trigger"]) == {"memory-changed": {}}
        now = Memory.objects.get(pk=memory.pk)
        stored = {"title": now.title, "tags": list_values(now, "tags"), "importance": now.importance}
        stored["sensitivity"] = now.sensitivity
        wanted = {"title": "Another title", "tags": ["one", "two"], "importance": 0.75}
        wanted["sensitivity"] = "private"
        before = {"title": "A title", "tags": ["old"], "importance": 0.25, "sensitivity": "public"}
        assert stored == {**before, name: wanted[name]}
        [revision] = memory.revisions.all()
        assert (revision.actor, list(revision.before)) == ("user:ada", [name])
        html = response.content.decode()
        assert f'id="field-{name}"' in html
        page = Page(html)
        assert page.value_of("version") == "1"
        undone = editor.post(f"/memories/{memory.uid}/versions/undo/", {"version": "1"}, follow=True)
        assert "Undone" in main(undone).words
        again = Memory.objects.get(pk=memory.pk)
        assert (again.title, list_values(again, "tags"), again.importance, again.sensitivity) == tuple(
            before.values()
        )

    def test_page_title_and_header_follow_the_change(self, editor: Client, memory: Memory) -> None:
        html = send(editor, memory, "title", "Another").content.decode()
        assert "<title>Another · memoryhub</title>" in html
        level = send(editor, Memory.objects.get(pk=memory.pk), "sensitivity", "private").content.decode()
        assert 'id="lead-meta"' in level
        assert "<title>" not in level

    def test_unchanged_value_writes_nothing(self, editor: Client, memory: Memory) -> None:
        for name, value in (("title", "A title"), ("tags", "old"), ("tags", "old, old")):
            response = send(editor, memory, name, value)
            assert "Nothing was changed" in response.content.decode()
            assert "HX-Trigger" not in response
        assert memory.revisions.count() == 0

    def test_empty_title_is_generated(self, editor: Client, memory: Memory) -> None:
        send(editor, memory, "title", "")
        assert Memory.objects.get(pk=memory.pk).title == "some words"

    def test_other_fields_of_the_request_are_ignored(self, editor: Client, memory: Memory) -> None:
        send(editor, memory, "title", "T", content="smuggled", importance="1", sensitivity="private")
        now = Memory.objects.get(pk=memory.pk)
        assert (now.title, now.content, now.importance, now.sensitivity) == (
            "T",
            "some words",
            0.25,
            "public",
        )

    def test_browser_without_htmx_gets_pages(self, editor: Client, memory: Memory) -> None:
        fields = {"importance": "7", "unchanged_since": memory.updated_at.isoformat()}
        wrong = editor.post(address(memory, "importance"), fields)
        assert wrong.status_code == 422
        page = main(wrong)
        assert "at most 1" in page.words
        assert page.value_of("importance") == "7"
        right = editor.post(address(memory, "importance"), fields | {"importance": "0.7"}, follow=True)
        assert right.redirect_chain[-1][0] == f"/memories/{memory.uid}/"
        assert "importance is saved" in main(right).words

    def test_raising_above_the_switch_redirects_with_a_message(self, person: Any, remember: Remember) -> None:
        ada = person("ada", "change_memory", "view_private")
        ada.memberships.create(project="farm", clearance="public")
        ada.memberships.create(project="barn", clearance="private")
        client = Client()
        client.force_login(ada)
        client.post("/switch/", {"level": "private", "on": "1", "next": "/"})
        memory = remember("words", project="farm")
        response = send(client, memory, "sensitivity", "private")
        assert response["HX-Redirect"] == "/memories/"
        assert "is now private" in main(client.get("/memories/")).words


class TestRefusals:
    @each(
        "name, value, shown",
        [
            ("importance", "7", "at most 1"),
            ("importance", "", "Enter a number"),
            ("importance", "much", "Enter a number"),
            ("title", "x" * 501, "at most 500"),
            ("tags", '"open', "quotation mark"),
            ("tags", ",".join(f"t{n}" for n in range(1001)), "at most"),
            ("sensitivity", "secret", "You cannot see secret"),
            ("sensitivity", "cosmic", "Choose one of"),
            ("title", "token ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6", "looks like"),
        ],
    )
    def test_error_shows_at_the_submitted_value(
        self, editor: Client, memory: Memory, name: str, value: str, shown: str
    ) -> None:
        response = send(editor, memory, name, value)
        assert response.status_code == 422
        page = Page(response.content.decode())
        assert shown in page.words
        if name != "sensitivity":
            assert page.value_of(name) == value
        assert memory.revisions.count() == 0

    @each("moment", ["", "now", "2026-01-01T00:00:00"])
    def test_form_without_its_version_is_refused(self, editor: Client, memory: Memory, moment: str) -> None:
        response = send(editor, memory, "title", "T", unchanged_since=moment)
        assert response.status_code == 422
        assert "Open the memory again" in response.content.decode()

    @pytest.mark.parametrize("ended", ["trash", "expire"])
    def test_ended_memory_is_not_changed(
        self, editor: Client, memory: Memory, actor: Actor, ended: str
    ) -> None:
        memories.apply_bulk_action(ended, [memory.uid], actor)
        memory.refresh_from_db()
        assert b"data-inline-edit" not in editor.get(f"/memories/{memory.uid}/").content
        response = send(editor, memory, "title", "T")
        assert response.status_code == 422
        assert "restore it first" in response.content.decode()

    @each("name", FIELDS)
    def test_permission_is_required(self, visitor: Client, memory: Memory, name: str) -> None:
        assert visitor.get(address(memory, name), headers=HTMX).status_code == 403
        assert send(visitor, memory, name, VALUES[name]).status_code == 403
        assert b"data-inline-edit" not in visitor.get(f"/memories/{memory.uid}/").content

    def test_hidden_memory_is_not_found(
        self, sign_in: Any, four_levels: dict[str, Memory], remember: Remember
    ) -> None:
        client = sign_in("change_memory")
        bob = Actor("user:bob", Clearance.up_to("secret", "bob"))
        diary = remember("diary", scope="personal", by=bob)
        for hidden in (four_levels["private"], four_levels["secret"], four_levels["cosmic"], diary):
            assert client.get(address(hidden, "title"), headers=HTMX).status_code == 404
            assert send(client, hidden, "title", "T").status_code == 404
            assert hidden.revisions.count() == 0

    def test_hostile_markup_is_escaped(self, editor: Client, remember: Remember) -> None:
        memory = remember("words")
        saved = send(editor, memory, "title", PAYLOAD)
        again = editor.get(address(memory, "title"), headers=HTMX)
        tags = send(editor, Memory.objects.get(pk=memory.pk), "tags", PAYLOAD[:90].replace('"', ""))
        assert [find_dangers(one.content.decode()) for one in (saved, again, tags)] == [[], [], []]


class TestConflicts:
    def test_conflict_on_the_same_field_shows_both_values(
        self, editor: Client, memory: Memory, actor: Actor
    ) -> None:
        memories.update_memory(memory.uid, MemoryPatch(title="Their title"), actor)
        response = send(editor, memory, "title", "My title")
        assert response.status_code == 422
        page = Page(response.content.decode())
        assert "Someone else changed this in the meantime" in page.words
        assert "Their" in page.words
        assert page.value_of("title") == "My title"
        assert Memory.objects.get(pk=memory.pk).title == "Their title"
        again = send(editor, memory, "title", "My title", unchanged_since=page.value_of("unchanged_since"))
        assert again.status_code == 200
        assert Memory.objects.get(pk=memory.pk).title == "My title"

    def test_change_of_another_field_is_no_conflict(
        self, editor: Client, memory: Memory, actor: Actor
    ) -> None:
        memories.update_memory(memory.uid, MemoryPatch(importance=0.9, content="other words"), actor)
        assert send(editor, memory, "title", "My title").status_code == 200
        now = Memory.objects.get(pk=memory.pk)
        assert (now.title, now.importance, now.content) == ("My title", 0.9, "other words")

    def test_conflict_without_htmx_is_a_page(self, editor: Client, memory: Memory, actor: Actor) -> None:
        memories.update_memory(memory.uid, MemoryPatch(tags=["theirs"]), actor)
        fields = {"tags": "mine", "unchanged_since": memory.updated_at.isoformat()}
        response = editor.post(address(memory, "tags"), fields)
        assert response.status_code == 409
        page = main(response)
        assert "theirs" in page.words
        assert page.value_of("tags") == "mine"


class TestHistoryFragment:
    def test_htmx_fetches_only_the_newest_changes(self, editor: Client, memory: Memory) -> None:
        send(editor, memory, "title", "Another")
        part = editor.get(
            f"/memories/{memory.uid}/history/", headers=HTMX | {"HX-Target": "memory-history"}
        ).content.decode()
        assert 'id="memory-history"' in part
        assert "<html" not in part
        assert "A title" in part or "<mark>A</mark> title" in part
        whole = editor.get(f"/memories/{memory.uid}/history/").content.decode()
        assert "<html" in whole
