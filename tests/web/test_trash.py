"""The trash: list, restore, erase, and moving a memory into it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memoryhub import memories as store
from memoryhub.core.vocabulary import TrashReason
from memoryhub.models import JournalEntry, Memory
from memoryhub.web.memories import views
from tests.web.edit_form import page_text
from tests.web.markup import main

Remember = Callable[..., Memory]


def text(response: Any) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", response.content.decode().partition("<main")[2]).split())


@pytest.fixture
def thrown(remember: Any, actor: Any) -> list[Memory]:
    made = [remember(f"broken chair {number}", project="attic") for number in range(3)]
    store.trash_memories([one.uid for one in made], actor)
    return made


def live(*memories: Memory) -> list[bool]:
    return [Memory.objects.live().filter(pk=one.pk).exists() for one in memories]


class TestList:
    def test_list_shows_what_why_and_since_when(self, visitor: Client, remember: Any, actor: Any) -> None:
        words = {
            TrashReason.FORGOTTEN: "deleted",
            TrashReason.EVICTED: "unused, or over the cap",
            TrashReason.COMPRESSED: "compressed into a summary",
            TrashReason.MERGED: "merged into another memory",
        }
        for reason in words:
            store.trash_memories([remember(f"memory {reason.value}").uid], actor, reason)
        rows = re.findall(r'<li class="row.*?</li>', visitor.get("/trash/").content.decode(), re.S)
        assert len(rows) == 4
        for row, (reason, expected) in zip(reversed(rows), words.items(), strict=True):
            assert f"memory {reason.value}" in row
            assert expected in row
            assert 'data-format="dated">20' in row

    def test_expired_memories_are_listed(self, visitor: Client, remember: Any, actor: Any) -> None:
        store.apply_bulk_action("expire", [remember("old milk").uid], actor)
        assert "Expired 1" in text(visitor.get("/trash/"))
        assert "old milk" in text(visitor.get("/trash/?tab=expired"))
        assert "old milk" not in text(visitor.get("/trash/"))

    def test_empty_trash_is_reported(self, visitor: Client, db: None) -> None:
        assert "The trash is empty" in text(visitor.get("/trash/"))
        assert "Nothing has expired" in text(visitor.get("/trash/?tab=expired"))

    def test_hidden_memories_are_not_listed(
        self, sign_in: Any, four_levels: dict[str, Memory], actor: Any
    ) -> None:
        Memory.objects.update(deleted_at=four_levels["public"].updated_at)
        shown = text(sign_in("view_private", "view_secret", on=["private"]).get("/trash/"))
        assert "publicwords" in shown
        assert "privatewords" in shown
        assert "secretwords" not in shown
        assert "unknownwords" not in shown
        assert "In the trash 2" in shown

    def test_list_is_paginated(self, visitor: Client, thrown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(views, "TRASH_PAGE_SIZE", 2)
        first = visitor.get("/trash/")
        address = re.search(r'rel="next" href="([^"]+)"', first.content.decode())
        assert address
        assert text(visitor.get("/trash/" + address[1])).count("broken chair") == 1
        assert visitor.get("/trash/?cursor=x").status_code == 422

    def test_number_of_queries_does_not_grow_with_the_rows(
        self, visitor: Client, remember: Any, actor: Any
    ) -> None:
        counted = []
        for upto in (2, 20):
            store.trash_memories([remember(f"memory {upto} {n}").uid for n in range(upto)], actor)
            visitor.get("/trash/")
            with CaptureQueriesContext(connection) as queries:
                visitor.get("/trash/")
            counted.append(len(queries))
        assert counted[0] == counted[1]


class TestRestore:
    def test_lead_offers_to_restore_only_to_people_who_may(
        self, visitor: Client, sign_in: Any, thrown: Any
    ) -> None:
        assert "you can restore them" not in text(visitor.get("/trash/"))
        assert "you can restore them" in text(sign_in("delete_memory", name="ben").get("/trash/"))

    def test_reader_may_not_restore_or_erase(self, visitor: Client, thrown: Any) -> None:
        page = visitor.get("/trash/").content.decode()
        assert "Restore" not in page
        assert "Erase" not in page
        for address in ("/acts/", "/trash/"):
            response = visitor.post(address, {"act": "restore", "uid": thrown[0].uid})
            assert response.status_code == 403
        assert live(thrown[0]) == [False]

    @pytest.mark.parametrize("permission", ["delete_memory", "change_memory"])
    def test_one_memory_is_restored(self, sign_in: Any, thrown: Any, permission: str) -> None:
        client = sign_in(permission)
        response = client.post(
            "/acts/", {"act": "restore", "uid": thrown[1].uid, "next": "/trash/?tab=trashed"}
        )
        assert response["Location"] == "/trash/?tab=trashed"
        assert live(*thrown) == [False, True, False]
        assert "1 memory restored: broken chair 1" in text(client.get("/trash/"))
        assert JournalEntry.objects.get(operation="restore").actor == "user:ada"

    def test_several_memories_are_restored(self, sign_in: Any, thrown: Any) -> None:
        chosen = [thrown[0].uid, thrown[2].uid]
        sign_in("delete_memory").post("/acts/", {"act": "restore", "uid": chosen})
        assert live(*thrown) == [True, False, True]

    def test_row_button_ignores_ticked_rows(self, sign_in: Any, thrown: Any) -> None:
        page = sign_in("delete_memory").get("/trash/").content.decode()
        assert page.count('form="restore-one" name="uid"') == 3
        assert page.count('name="uid" form="bulk"') == 3

    def test_expired_memories_get_a_new_ttl(self, sign_in: Any, remember: Any, actor: Any) -> None:
        milk = remember("old milk", ttl_days=5)
        store.apply_bulk_action("expire", [milk.uid], actor)
        sign_in("delete_memory").post("/acts/", {"act": "restore", "uid": milk.uid})
        assert live(milk) == [True]

    def test_hidden_memory_is_not_restored(self, sign_in: Any, remember: Any, actor: Any) -> None:
        hidden = remember("hush", sensitivity="secret")
        store.trash_memories([hidden.uid], actor)
        client = sign_in("delete_memory", "view_secret")
        assert client.post("/acts/", {"act": "restore", "uid": hidden.uid}).status_code == 404
        assert live(hidden) == [False]

    def test_empty_selection_is_reported(self, sign_in: Any, thrown: Any) -> None:
        client = sign_in("erase_memory")
        assert "Nothing is selected" in text(client.post("/trash/", {}, follow=True))

    def test_redirect_stays_in_the_trash(self, sign_in: Any, thrown: Any) -> None:
        client = sign_in("erase_memory")
        for wanted in ("https://elsewhere.example/trash/", "/admin/", "//trash/"):
            response = client.post("/trash/", {"uid": "nosuch", "next": wanted})
            assert response["Location"] == "/trash/"


class TestErase:
    def test_erase_requires_its_permission(self, sign_in: Any, thrown: Any) -> None:
        client = sign_in("delete_memory", "change_memory")
        assert "Erase" not in client.get("/trash/").content.decode()
        form = {"uid": thrown[0].uid, "confirmed": "yes"}
        assert client.post("/trash/", form).status_code == 403
        assert Memory.objects.filter(pk=thrown[0].pk).exists()

    def test_confirmation_names_the_memories(self, sign_in: Any, thrown: Any) -> None:
        client = sign_in("erase_memory")
        page = client.post("/trash/", {"uid": [thrown[0].uid, thrown[1].uid]})
        assert "Permanently erase 2 memories?" in text(page)
        assert "broken chair 1" in text(page)
        assert Memory.objects.filter(pk=thrown[0].pk).exists()

    @pytest.mark.django_db(transaction=True)
    def test_confirmed_memory_is_erased(self, sign_in: Any, thrown: Any) -> None:
        client = sign_in("erase_memory")
        form = {"uid": thrown[0].uid, "confirmed": "yes"}
        assert "1 memory erased permanently." in text(client.post("/trash/", form, follow=True))
        assert not Memory.objects.filter(pk=thrown[0].pk).exists()
        assert JournalEntry.objects.get(operation="erase").actor == "user:ada"

    def test_live_memory_is_not_erased(self, sign_in: Any, remember: Any) -> None:
        alive = remember("alive")
        client = sign_in("erase_memory")
        client.post("/trash/", {"uid": alive.uid, "confirmed": "yes"})
        assert Memory.objects.filter(pk=alive.pk).exists()
        assert "None of these" in text(client.post("/trash/", {"uid": alive.uid}, follow=True))

    def test_confirmation_names_a_whole_tab(self, sign_in: Any, thrown: Any) -> None:
        client = sign_in("erase_memory")
        page = client.post("/trash/", {"every": "1", "list": "/trash/?tab=trashed"})
        assert "Permanently erase 3 memories?" in text(page)

    def test_too_many_memories_are_refused(
        self, sign_in: Any, thrown: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(views, "MAX_ERASED_AT_ONCE", 2)
        form = {"uid": [one.uid for one in thrown], "confirmed": "yes"}
        page = sign_in("erase_memory").post("/trash/", form, follow=True)
        assert "Nothing was erased: at most 2 at once" in text(page)
        assert Memory.objects.count() == 3

    def test_hidden_memory_is_not_erased(self, sign_in: Any, remember: Any, actor: Any) -> None:
        hidden = remember("hush", sensitivity="secret")
        store.trash_memories([hidden.uid], actor)
        client = sign_in("erase_memory", "view_secret")
        client.post("/trash/", {"uid": hidden.uid, "confirmed": "yes"})
        assert Memory.objects.filter(pk=hidden.pk).exists()


class TestTrashOnThePageOfAMemory:
    def test_trash_message_can_be_undone(self, writer: Client, remember: Remember) -> None:
        memory = remember(title="<b>a chair</b>")
        response = writer.post(f"/memories/{memory.uid}/trash/", follow=True)
        found = main(response)
        assert "In the trash now: <b>a chair</b>" in found.words
        [undo] = [form for form in found.all("form") if form.get("action", "").endswith("/restore/")]
        assert undo["method"] == "post"
        memory.refresh_from_db()
        assert memory.deleted_at is not None
        response = writer.post(undo["action"], follow=True)
        assert response.redirect_chain == [(f"/memories/{memory.uid}/", 302)]
        memory.refresh_from_db()
        assert memory.deleted_at is None

    def test_trashing_twice_is_reported(self, writer: Client, remember: Remember) -> None:
        memory = remember()
        writer.post(f"/memories/{memory.uid}/trash/")
        assert "already" in main(writer.post(f"/memories/{memory.uid}/trash/", follow=True)).words
        writer.post(f"/memories/{memory.uid}/restore/")
        assert "neither" in main(writer.post(f"/memories/{memory.uid}/restore/", follow=True)).words


class TestEraseOnThePageOfAMemory:
    @pytest.fixture
    def eraser(self, sign_in: Any) -> Client:
        client: Client = sign_in("erase_memory")
        return client

    @pytest.mark.django_db(transaction=True)
    def test_word_erases_permanently(self, eraser: Client, remember: Remember) -> None:
        memory = remember("unforgettable")
        response = eraser.post(f"/memories/{memory.uid}/erase/", {"word": " Erase "})
        assert response.status_code == 302
        assert not Memory.objects.exists()
        assert JournalEntry.objects.filter(operation="erase", actor="user:ada").exists()

    @pytest.mark.parametrize("word", ["", "yes", "erase it"])
    def test_other_words_erase_nothing(self, eraser: Client, remember: Remember, word: str) -> None:
        memory = remember()
        response = eraser.post(f"/memories/{memory.uid}/erase/", {"word": word})
        assert "Nothing was erased" in page_text(response, 422)
        assert Memory.objects.filter(pk=memory.pk).exists()

    def test_trash_is_offered_only_for_a_memory_outside_it(self, eraser: Client, remember: Remember) -> None:
        memory = remember()
        advice = "move it to the trash instead"
        assert advice in page_text(eraser.get(f"/memories/{memory.uid}/erase/"), 200)
        Memory.objects.update(deleted_at=timezone.now())
        assert advice not in page_text(eraser.get(f"/memories/{memory.uid}/erase/"), 200)

    def test_confirmation_page_erases_nothing(self, eraser: Client, remember: Remember) -> None:
        memory = remember()
        assert "You cannot undo this" in page_text(eraser.get(f"/memories/{memory.uid}/erase/"), 200)
        assert Memory.objects.filter(pk=memory.pk).exists()


def test_hostile_markup_is_escaped(sign_in: Any, remember: Any, actor: Any) -> None:
    hostile = "<script>alert('zebra')</script>"
    made = remember(hostile, title=hostile, project=hostile)
    store.trash_memories([made.uid], actor)
    client = sign_in("erase_memory", "delete_memory")
    for response in (client.get("/trash/"), client.post("/trash/", {"uid": made.uid})):
        assert "<script>alert" not in response.content.decode()
        assert "&lt;script&gt;" in response.content.decode()
