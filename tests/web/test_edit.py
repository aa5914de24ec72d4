"""Create and edit memories: permissions, limits, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.rows import list_values
from memoryhub.models import JournalEntry, Memory
from tests.cases import each
from tests.web.edit_form import form_data, page_text
from tests.web.markup import main, page

Remember = Callable[..., Memory]
NEW = {"content": "new words", "type": "change", "sensitivity": "public", "scope": "project"}


class TestCap:
    def test_store_without_permission_to_delete_evicts_nothing_and_warns(
        self, sign_in: Any, configure: Any
    ) -> None:
        configure(max_memories=1)
        client = sign_in("add_memory")
        client.post("/memories/new/", NEW)
        response = client.post("/memories/new/", NEW | {"content": "other words"}, follow=True)
        assert "more than the cap of its project" in response.content.decode()
        assert not Memory.objects.trashed().exists()

    def test_store_with_permission_to_delete_evicts(self, writer: Client, configure: Any) -> None:
        configure(max_memories=1)
        writer.post("/memories/new/", NEW)
        response = writer.post("/memories/new/", NEW | {"content": "other words"}, follow=True)
        assert "more than the cap of its project" not in response.content.decode()
        assert Memory.objects.trashed().get().content == "new words"


class TestRaisingTheLevel:
    def test_it_returns_to_the_previous_page_with_undo(self, sign_in: Any, remember: Remember) -> None:
        memory = remember("the safe is behind the picture")
        client = sign_in("change_memory", "view_private")
        came_from = "http://testserver/memories/?q=safe"
        page = client.get(f"/memories/{memory.uid}/", headers={"Referer": came_from}).content.decode()
        address = f"/memories/{memory.uid}/edit/?from=/memories/%3Fq%3Dsafe"
        assert f'href="{address.replace("from=/memories/", "from=%2Fmemories%2F")}"' in page
        form = form_data(client.get(address)) | {"sensitivity": "private"}
        response = client.post(address, form)
        assert response["Location"] == "/memories/?q=safe"
        assert "Undo" in client.get(response["Location"]).content.decode()

    def test_another_site_is_no_page_before(self, sign_in: Any, remember: Remember) -> None:
        memory = remember("the safe is behind the picture")
        client = sign_in("change_memory", "view_private")
        address = f"/memories/{memory.uid}/edit/?from=https://evil.example/"
        form = form_data(client.get(address)) | {"sensitivity": "private"}
        assert client.post(address, form)["Location"] == "/memories/"

    def test_other_changes_offer_undo_on_the_page_of_the_memory(
        self, sign_in: Any, remember: Remember
    ) -> None:
        memory = remember("the safe is behind the picture")
        client = sign_in("change_memory")
        address = f"/memories/{memory.uid}/edit/"
        response = client.post(address, form_data(client.get(address)) | {"title": "The safe"}, follow=True)
        assert response.redirect_chain[-1][0] == f"/memories/{memory.uid}/"
        assert f"/memories/{memory.uid}/versions/undo/" in response.content.decode()


class TestPermissions:
    @each(
        "right, path",
        [
            ("add_memory", "/memories/new/"),
            ("change_memory", "/memories/{uid}/edit/"),
            ("erase_memory", "/memories/{uid}/erase/"),
        ],
    )
    def test_form_requires_its_permission(
        self, sign_in: Any, remember: Remember, right: str, path: str
    ) -> None:
        every = {"add_memory", "change_memory", "delete_memory", "erase_memory"}
        path = path.format(uid=remember().uid)
        without, with_it = sign_in(*(every - {right}), name="without"), sign_in(right, name="with")
        assert without.get(path).status_code == 403
        assert without.post(path, NEW | {"word": "erase"}).status_code == 403
        assert with_it.get(path).status_code == 200
        assert Memory.objects.get().content == "a memory"

    def test_trash_requires_permission_to_delete(self, sign_in: Any, remember: Remember) -> None:
        memory = remember()
        sign_in("add_memory", "change_memory", name="other").post(f"/memories/{memory.uid}/trash/")
        memory.refresh_from_db()
        assert memory.deleted_at is None

    def test_restore_requires_permission_to_delete_or_change(
        self, sign_in: Any, remember: Remember, actor: Actor
    ) -> None:
        memory = remember()
        for name, right, status in (
            ("a", "add_memory", 403),
            ("b", "delete_memory", 302),
            ("c", "change_memory", 302),
        ):
            memories.trash_memories([memory.uid], actor)
            response = sign_in(right, name=name).post(f"/memories/{memory.uid}/restore/")
            assert response.status_code == status

    @each("path", ["edit", "trash", "restore", "erase"])
    def test_hidden_memory_cannot_be_written(
        self, sign_in: Any, four_levels: dict[str, Memory], path: str
    ) -> None:
        client = sign_in("change_memory", "delete_memory", "erase_memory", "view_private", "view_secret")
        for level in ("private", "secret", "cosmic"):
            memory = four_levels[level]
            response = client.post(f"/memories/{memory.uid}/{path}/", NEW | {"word": "erase"})
            assert response.status_code == 404
            assert Memory.objects.filter(pk=memory.pk, deleted_at=None, content=memory.content).exists()

    @pytest.mark.parametrize("path", ["trash", "restore"])
    def test_get_changes_nothing(self, writer: Client, remember: Remember, path: str) -> None:
        assert writer.get(f"/memories/{remember().uid}/{path}/").status_code == 405


class TestCreate:
    def test_every_field_is_stored_under_the_persons_name(self, writer: Client) -> None:
        typed = NEW | {
            "title": "A title",
            "subtitle": "Below it",
            "content": "line one\r\n\r\n    indented\r\n",
            "type": "decision",
            "category": "ops",
            "tags": 'one, "two, three"',
            "concepts": "gotcha",
            "aliases": " K8s, kube, k8s",
            "files_read": "a.py\r\n b c.py \r\n\r\n",
            "files_modified": "d.py",
            "importance": "0.9",
            "trust": "0.8",
            "confidence": "0.7",
            "scope": "team",
            "project": "apollo",
            "session_id": "s-1",
            "key": "k",
            "ttl_days": "30",
        }
        response = writer.post("/memories/new/", typed)
        memory = Memory.objects.get()
        assert response["Location"] == f"/memories/{memory.uid}/"
        assert memory.content == "line one\n\n    indented\n"
        assert list_values(memory, "tags") == ["one", "two, three"]
        assert list_values(memory, "aliases") == ["K8s", "kube"]
        assert list_values(memory, "files_read") == ["a.py", "b c.py"]
        assert (memory.importance, memory.trust, memory.confidence, memory.ttl_days) == (0.9, 0.8, 0.7, 30)
        assert (memory.type, memory.scope, memory.project, memory.key) == ("decision", "team", "apollo", "k")
        assert memory.author == "user:ada"
        assert JournalEntry.objects.get(operation="insert").actor == "user:ada"

    def test_empty_fields_take_their_defaults(self, writer: Client) -> None:
        writer.post("/memories/new/", NEW)
        memory = Memory.objects.get()
        assert (memory.title, memory.category, memory.importance) == ("new words", "general", 0.5)

    def test_form_offers_the_default_ttl_and_an_empty_one_means_never(
        self, writer: Client, configure: Callable[..., None]
    ) -> None:
        configure(default_ttl_days=12)
        assert page(writer.get("/memories/new/")).value_of("ttl_days") == "12"
        writer.post("/memories/new/", NEW | {"ttl_days": ""})
        assert Memory.objects.get().expires_at is None

    def test_query_string_prefills_the_place(self, writer: Client) -> None:
        found = page(writer.get("/memories/new/?project=apollo&session_id=s-1&content=no"))
        assert found.value_of("project") == "apollo"
        assert found.value_of("session_id") == "s-1"

    def test_personal_memory_belongs_to_the_person(self, writer: Client) -> None:
        writer.post("/memories/new/", NEW | {"scope": "personal"})
        assert Memory.objects.get().owner == "ada"

    def test_existing_content_redirects_to_its_memory(self, writer: Client, remember: Remember) -> None:
        memory = remember("new words")
        response = writer.post("/memories/new/", NEW, follow=True)
        assert response.redirect_chain == [(f"/memories/{memory.uid}/", 302)]
        assert "already stored" in main(response).words
        assert Memory.objects.count() == 1

    def test_existing_key_updates_its_memory(self, writer: Client, remember: Remember) -> None:
        memory = remember("old words", key="k")
        response = writer.post("/memories/new/", NEW | {"key": "k"}, follow=True)
        assert "A memory with this key existed already" in main(response).words
        memory.refresh_from_db()
        assert memory.content == "new words"

    def test_hidden_copy_is_reported_without_its_page(self, sign_in: Any, remember: Remember) -> None:
        mine = Actor("user:ada", Clearance.up_to("secret", "ada"))
        memory = remember("new words", sensitivity="secret", by=mine)
        response = sign_in("add_memory", "view_secret").post("/memories/new/", NEW, follow=True)
        assert response.status_code == 200
        assert "in the Visibility menu to see" in main(response).words
        assert memory.uid not in response.content.decode()

    def test_hidden_copy_of_another_person_is_not_revealed(self, writer: Client, remember: Remember) -> None:
        hidden = remember("new words", sensitivity="secret")
        response = writer.post("/memories/new/", NEW, follow=True)
        assert "already stored" not in main(response).words
        assert Memory.objects.exclude(pk=hidden.pk).get().sensitivity == "public"


class TestEntitiesAndTokens:
    def test_entities_and_tokens_are_stored_with_a_new_memory(self, writer: Client) -> None:
        writer.post("/memories/new/", NEW | {"entities": "Ada | person\r\nhay", "discovery_tokens": "1200"})
        memory = Memory.objects.get()
        assert list_values(memory, "entities") == [
            {"entity": "Ada", "entity_type": "person"},
            {"entity": "hay", "entity_type": "concept"},
        ]
        assert memory.discovery_tokens == 1200

    def test_entities_and_tokens_are_edited(self, writer: Client, remember: Remember) -> None:
        memory = remember(entities=[{"entity": "a | b (c)", "entity_type": "place"}], discovery_tokens=7)
        path = f"/memories/{memory.uid}/edit/"
        opened = form_data(writer.get(path))
        assert opened["entities"] == "a | b (c) | place"
        writer.post(path, opened | {"entities": "Ada | person", "discovery_tokens": ""})
        memory.refresh_from_db()
        assert list_values(memory, "entities") == [{"entity": "Ada", "entity_type": "person"}]
        assert memory.discovery_tokens is None

    def test_untouched_ones_are_not_changed(self, writer: Client, remember: Remember) -> None:
        memory = remember(entities=[{"entity": "a", "entity_type": "x | y"}], discovery_tokens=7)
        path = f"/memories/{memory.uid}/edit/"
        writer.post(path, form_data(writer.get(path)) | {"title": "other"})
        assert list_values(memory, "entities") == [{"entity": "a", "entity_type": "x | y"}]
        assert memory.revisions.get().before.keys() == {"title"}


class TestRefusals:
    @pytest.mark.parametrize(
        ("field", "typed", "expected"),
        [
            ("content", "", "Enter some text."),
            ("content", "  \n ", "Must contain more than white space."),
            ("content", "x" * 100_001, "Use at most 100000 characters."),
            ("content", "a\x00b", "Null characters are not allowed."),
            ("title", "t" * 501, "Use at most 500 characters."),
            ("category", "c" * 101, "Use at most 100 characters."),
            ("importance", "1.5", "Enter a number of at most 1."),
            ("trust", "-0.1", "Enter a number of at least 0."),
            ("confidence", "nan", "Enter a number."),
            ("confidence", "much", "Enter a number."),
            ("ttl_days", "-1", "Enter a number of at least 0."),
            ("ttl_days", "99999999", "Enter a number of at most 36500."),
            ("tags", "ok, " + "t" * 101, "Item 2: Use at most 100 characters."),
            ("tags", '"open', "Close the quotation mark"),
            ("files_read", "f" * 1001, "Item 1: Use at most 1000 characters."),
            ("entities", "Ada | " + "t" * 51, "Item 1: Use at most 50 characters."),
            ("discovery_tokens", "-1", "Enter a number of at least 0."),
            ("discovery_tokens", "many", "Enter a whole number."),
            ("type", "rumour", "Select a valid choice."),
            ("scope", "galaxy", "Select a valid choice."),
            ("sensitivity", "cosmic", "Choose one of: public."),
            ("project", "p" * 201, "Use at most 200 characters."),
        ],
    )
    def test_error_shows_at_its_field_and_other_input_stays(
        self, writer: Client, field: str, typed: str, expected: str
    ) -> None:
        sent = NEW | {"title": "kept title", "subtitle": "kept subtitle", "tags": "kept, tags", field: typed}
        response = writer.post("/memories/new/", sent)
        assert response.status_code == 422
        assert expected in " ".join(response.context["form"].errors[field])
        assert expected in main(response).words
        assert Memory.objects.count() == 0
        found = page(response)
        assert found.value_of("subtitle") == "kept subtitle"
        if field != "tags":
            assert found.value_of("tags") == "kept, tags"
        if field in ("title", "importance", "project"):
            assert found.value_of(field) == typed

    def test_a_refused_form_opens_no_fold_without_input(self, writer: Client) -> None:
        refused = writer.post("/memories/new/", NEW | {"content": ""}).content.decode()
        assert '<details class="fold" open>' not in refused
        refused = writer.post("/memories/new/", NEW | {"discovery_tokens": "many"}).content.decode()
        assert refused.count('<details class="fold" open>') == 1

    def test_every_invalid_field_is_reported_at_once(self, writer: Client) -> None:
        sent = NEW | {"content": "", "title": "t" * 501, "importance": "7", "tags": '"'}
        response = writer.post("/memories/new/", sent)
        assert set(response.context["form"].errors) == {"content", "title", "importance", "tags"}

    def test_errors_are_associated_with_their_controls(self, writer: Client) -> None:
        found = page(writer.post("/memories/new/", NEW | {"title": "t" * 501, "content": ""}))
        ids = {attributes.get("id") for _, attributes in found.elements}
        [title] = [one for one in found.all("input") if one.get("name") == "title"]
        assert title["aria-invalid"] == "true"
        assert set(title["aria-describedby"].split()) <= ids
        assert "id_title_error" in title["aria-describedby"]
        assert "#id_title" in found.links()

    @pytest.mark.parametrize("level", ["private", "secret"])
    def test_level_above_clearance_is_refused(self, writer: Client, level: str) -> None:
        response = writer.post("/memories/new/", NEW | {"sensitivity": level})
        assert f"You cannot see {level} memories. Choose one of: public." in page_text(response, 422)
        assert Memory.objects.count() == 0

    @pytest.mark.parametrize("on", [["private"], []])
    def test_visible_level_is_offered_and_stored(self, sign_in: Any, on: list[str]) -> None:
        client = sign_in("add_memory", "view_private", on=on)
        values = [option["value"] for option in page(client.get("/memories/new/")).all("option")]
        assert "private" in values
        assert "secret" not in values
        client.post("/memories/new/", NEW | {"sensitivity": "private"})
        assert Memory.objects.get().sensitivity == "private"

    def test_raising_a_memory_above_clearance_is_refused(self, writer: Client, remember: Remember) -> None:
        memory = remember()
        sent = form_data(writer.get(f"/memories/{memory.uid}/edit/")) | {"sensitivity": "secret"}
        assert writer.post(f"/memories/{memory.uid}/edit/", sent).status_code == 422
        memory.refresh_from_db()
        assert memory.sensitivity == "public"


class TestEdit:
    def edit(self, client: Client, memory: Memory, **typed: str) -> Any:
        path = f"/memories/{memory.uid}/edit/"
        return client.post(path, form_data(client.get(path)) | typed)

    def test_only_changed_fields_are_set(self, writer: Client, remember: Remember) -> None:
        memory = remember("words", title="old", tags=["a"], importance=0.3)
        response = self.edit(writer, memory, title="new")
        assert response["Location"] == f"/memories/{memory.uid}/"
        revision = memory.revisions.get()
        assert revision.before == {"title": "old"}
        assert revision.actor == "user:ada"

    def test_untouched_form_changes_nothing_with_odd_values(self, writer: Client, remember: Remember) -> None:
        memory = remember(
            "  leading blanks\r\nand\rodd line ends\n\n",
            title=" a title\nof two lines ",
            tags=["with, comma", 'with "quotes"', "two\nlines"],
            files_read=["a path\nwith a line end", "b.py"],
            importance=0.123456789,
            overview="\nbegins with an empty line",
        )
        response = self.edit(writer, memory)
        assert response.status_code == 302
        assert not memory.revisions.exists()

    def test_saving_keeps_the_ttl_unless_changed(self, writer: Client, remember: Remember) -> None:
        memory = remember(ttl_days=10)
        before = memory.expires_at
        self.edit(writer, memory, title="new")
        memory.refresh_from_db()
        assert memory.expires_at == before
        self.edit(writer, memory, ttl_days="0")
        memory.refresh_from_db()
        assert memory.expires_at is None

    def test_content_of_another_memory_is_refused_at_the_field(
        self, writer: Client, remember: Remember
    ) -> None:
        other, memory = remember("taken words"), remember("my words")
        response = self.edit(writer, memory, content="taken words")
        assert response.status_code == 422
        assert other.uid in " ".join(response.context["form"].errors["content"])

    def test_trashed_memory_redirects_to_its_page(
        self, writer: Client, remember: Remember, actor: Actor
    ) -> None:
        memory = remember()
        memories.trash_memories([memory.uid], actor)
        response = writer.get(f"/memories/{memory.uid}/edit/", follow=True)
        assert "Restore it to edit it" in main(response).words

    def test_a_memory_that_was_trashed_meanwhile_keeps_the_text_in_the_form(
        self, writer: Client, remember: Remember, actor: Actor
    ) -> None:
        memory = remember()
        path = f"/memories/{memory.uid}/edit/"
        filled = form_data(writer.get(path)) | {"content": "what I typed"}
        memories.trash_memories([memory.uid], actor)
        response = writer.post(path, filled)
        assert "restore it first" in page_text(response, 422)
        assert response.context["form"]["content"].value() == "what I typed"

    @each("stamp", ["", "yesterday", "2020-01-01T00:00:00"])
    def test_form_without_its_version_is_refused(
        self, writer: Client, remember: Remember, stamp: str
    ) -> None:
        response = self.edit(writer, remember(), title="new", unchanged_since=stamp)
        assert "Open the memory again" in page_text(response, 422)


class TestReplacement:
    def edit(self, client: Client, memory: Memory, **typed: str) -> Any:
        path = f"/memories/{memory.uid}/edit/"
        return client.post(path, form_data(client.get(path)) | typed)

    def test_the_id_is_set_and_cleared(self, writer: Client, remember: Remember) -> None:
        old, new = remember("old words"), remember("new words")
        assert self.edit(writer, old, superseded_by=f" {new.uid} ").status_code == 302
        assert Memory.objects.get(pk=old.pk).superseded_by == new
        assert new.uid in writer.get(f"/memories/{old.uid}/history/").content.decode()
        self.edit(writer, old, superseded_by="")
        assert Memory.objects.get(pk=old.pk).superseded_by is None

    @each("typed", ["nothing-has-this-id", "itself", "hidden"])
    def test_an_id_that_cannot_be_used_is_refused_at_its_field(
        self, writer: Client, remember: Remember, typed: str
    ) -> None:
        old, hidden = remember("old words"), remember("hidden words", sensitivity="secret")
        uid = {"itself": old.uid, "hidden": hidden.uid}.get(typed, typed)
        response = self.edit(writer, old, superseded_by=uid)
        assert response.status_code == 422
        assert list(response.context["form"].errors) == ["superseded_by"]
        new = writer.post("/memories/new/", NEW | {"superseded_by": "nothing-has-this-id"})
        assert list(new.context["form"].errors) == ["superseded_by"]

    def test_a_hidden_replacement_is_neither_shown_nor_lost(
        self, writer: Client, remember: Remember, actor: Actor
    ) -> None:
        """Hidden by a switch that is off too, although the form offers all levels of the person."""
        hidden = remember("hidden words", sensitivity="secret")
        old = remember("old words", superseded_by=hidden.uid)
        page = writer.get(f"/memories/{old.uid}/edit/").content.decode()
        assert hidden.uid not in page
        self.edit(writer, old, title="Another title")
        memory = Memory.objects.get(pk=old.pk)
        assert (memory.title, memory.superseded_by) == ("Another title", hidden)
        assert hidden.uid not in writer.get(f"/memories/{old.uid}/history/").content.decode()
