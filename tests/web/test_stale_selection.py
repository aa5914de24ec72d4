"""Rows that changed after the page was shown are skipped and reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memoryhub import memories as store
from memoryhub.access.policy import Actor, Clearance
from memoryhub.facts import services as fact_store
from memoryhub.memories.schemas import FactDraft, MemoryPatch
from memoryhub.models import Fact, Memory
from tests.cases import each
from tests.web.markup import Page

Remember = Callable[..., Memory]
SignIn = Callable[..., Client]
EVE = Actor("token:eve", Clearance.up_to("secret", owner="eve"))


@pytest.fixture
def editor(sign_in: SignIn) -> Client:
    return sign_in("change_memory", "delete_memory", "erase_memory", "change_fact", "delete_fact")


@pytest.fixture
def three(remember: Remember) -> list[Memory]:
    return [remember(f"memory {n}", importance=0.8, project="p", session_id="s") for n in range(3)]


def boxes(client: Client, address: str) -> list[str]:
    """Return the checkbox values with all rows ticked."""
    page = Page(client.get(address).content.decode())
    return [box["value"] for box in page.all("input") if box.get("class") == "row-check"]


def confirmed(response: Any) -> dict[str, Any]:
    """Return the fields of the confirmation form."""
    hidden = [a for a in Page(response.content.decode()).all("input") if a.get("type") == "hidden"]
    return {
        "uid": [a["value"] for a in hidden if a.get("name") == "uid"],
        "confirmed": "yes",
    }


def changed(*memories: Memory) -> None:
    for memory in memories:
        store.update_memory(memory.uid, MemoryPatch(category="patterns"), EVE)


def restated(fact: Fact) -> None:
    words = FactDraft(subject=fact.subject, predicate=fact.predicate, object="other")
    fact_store.update_fact(fact.uid, words, EVE)


def done(client: Client, address: str, **fields: Any) -> str:
    return client.post(address, fields, follow=True).content.decode()


@each("where", ["/memories/", "/memories/?q=memory", "/timeline/entries/", "/sessions/s/"])
def test_changed_memories_are_skipped_and_the_others_updated(
    editor: Client, three: list[Memory], where: str
) -> None:
    values = boxes(editor, where)
    assert len(values) == 3
    changed(three[0], three[2])
    page = done(editor, "/acts/", act="trash", uid=values, next=where)
    assert "1 memory moved to the trash" in page
    assert "2 memories were changed since you opened this list and were left as they are." in page
    assert set(Memory.objects.live()) == {three[0], three[2]}


def test_skipped_memory_is_linked_without_a_refusal(
    editor: Client, three: list[Memory], remember: Remember
) -> None:
    odd = remember("x", title="<b>Odd</b>", project="p")
    values = boxes(editor, "/memories/")
    changed(odd)
    page = done(editor, "/acts/", act="trash", uid=values, next="/memories/")
    assert "1 memory was changed since you opened this list and was left as it is." in page
    assert f'<a href="/memories/{odd.uid}/"><bdi>&lt;b&gt;Odd&lt;/b&gt;</bdi></a>' in page
    assert "left unchanged" not in page


def test_other_refusals_are_reported_too(editor: Client, three: list[Memory]) -> None:
    values = boxes(editor, "/memories/")
    changed(three[0])
    store.trash_memories([three[1].uid], EVE)
    page = done(editor, "/acts/", act="demote", uid=values)
    assert "1 memory was changed since you opened this list" in page
    assert "1 memory left unchanged:<ul><li><bdi>memory 1</bdi>: this memory is in the trash" in page


def test_every_includes_changed_memories(editor: Client, three: list[Memory]) -> None:
    values = boxes(editor, "/memories/")
    changed(*three)
    page = done(editor, "/acts/", act="trash", uid=values[:1], every="1", list="/memories/")
    assert "3 memories moved to the trash" in page


def test_read_memory_counts_as_unchanged(editor: Client, three: list[Memory]) -> None:
    values = boxes(editor, "/memories/")
    store.apply_bulk_action("approve", [memory.uid for memory in three], EVE)
    assert "3 memories moved to the trash" in done(editor, "/acts/", act="trash", uid=values)


@each("moment", ["never", "2026-02-31T00:00:00Z", "2026-02-01T00:00:00"])
def test_invalid_version_is_not_updated(editor: Client, three: list[Memory], moment: str) -> None:
    assert editor.post("/acts/", {"act": "trash", "uid": f"{three[0].uid} {moment}"}).status_code == 404
    assert Memory.objects.live().count() == 3


class TestTrash:
    @pytest.fixture
    def values(self, editor: Client, three: list[Memory]) -> list[str]:
        """Return the checkbox values; then restore, change and trash the second of three memories."""
        store.trash_memories([memory.uid for memory in three], EVE)
        values = boxes(editor, "/trash/")
        store.restore_memories([three[1].uid], EVE)
        changed(three[1])
        store.trash_memories([three[1].uid], EVE)
        return values

    def test_changed_memory_is_not_restored(
        self, editor: Client, three: list[Memory], values: list[str]
    ) -> None:
        page = done(editor, "/acts/", act="restore", uid=values, next="/trash/")
        assert "2 memories restored" in page
        assert "1 memory was changed since you opened this list" in page
        assert set(Memory.objects.trashed()) == {three[1]}

    def test_row_button_contains_the_version(
        self, editor: Client, three: list[Memory], values: list[str]
    ) -> None:
        page = Page(editor.get("/trash/").content.decode())
        sent = [one["value"] for one in page.all("button") if one.get("form") == "restore-one"]
        changed_since = [value for value in values if value.startswith(three[1].uid)]
        assert {*sent} - {*values} == {value for value in sent if value.startswith(three[1].uid)}
        assert "was left as it is" in done(editor, "/acts/", act="restore", uid=changed_since)

    def test_changed_memory_is_not_in_the_confirmation(
        self, editor: Client, three: list[Memory], values: list[str]
    ) -> None:
        requested = editor.post("/trash/", {"uid": values})
        page = requested.content.decode()
        assert "Permanently erase 2 memories?" in page
        assert "1 memory was changed since you opened this list" in page
        assert "2 memories erased" in done(editor, "/trash/", **confirmed(requested))
        assert set(Memory.objects.all()) == {three[1]}

    def test_memory_changed_after_the_confirmation_is_not_erased(
        self, editor: Client, three: list[Memory], values: list[str]
    ) -> None:
        requested = editor.post("/trash/", {"uid": values})
        store.restore_memories([three[0].uid], EVE)
        changed(three[0])
        store.trash_memories([three[0].uid], EVE)
        page = done(editor, "/trash/", **confirmed(requested))
        assert "1 memory erased permanently" in page
        assert "1 memory was changed since you opened this list" in page
        assert set(Memory.objects.all()) == {three[0], three[1]}

    def test_confirmation_is_skipped_if_all_changed(
        self, editor: Client, three: list[Memory], values: list[str]
    ) -> None:
        [value] = [value for value in values if value.startswith(three[1].uid)]
        page = done(editor, "/trash/", uid=value)
        assert "1 memory was changed since you opened this list" in page
        assert "None of these is in the trash" not in page
        assert Memory.objects.count() == 3


class TestFacts:
    @pytest.fixture
    def shown(self, db: None) -> list[Fact]:
        drafts = [FactDraft(subject=f"s{n}", predicate="is", object="o") for n in range(3)]
        return [fact_store.create_fact(draft, EVE)[0] for draft in drafts]

    def test_changed_facts_stay_valid(self, editor: Client, shown: list[Fact]) -> None:
        values = boxes(editor, "/facts/")
        restated(shown[1])
        page = done(editor, "/facts/end/", uid=values, next="/facts/")
        assert "2 facts have ended" in page
        assert "1 fact was changed since you opened this list and was left as it is." in page
        assert [fact.subject for fact in Fact.objects.current()] == ["s1"]

    def test_only_the_change_is_reported_if_all_changed(self, editor: Client, shown: list[Fact]) -> None:
        values = boxes(editor, "/facts/")
        for fact in shown:
            restated(fact)
        page = done(editor, "/facts/end/", uid=values)
        assert "3 facts were changed since you opened this list and were left as they are." in page
        assert "Nothing is selected" not in page

    def test_fact_changed_after_the_confirmation_is_not_deleted(
        self, editor: Client, shown: list[Fact]
    ) -> None:
        requested = editor.post("/facts/delete/", {"uid": boxes(editor, "/facts/")})
        restated(shown[1])
        page = done(editor, "/facts/delete/", **confirmed(requested))
        assert "2 facts are deleted permanently." in page
        assert "1 fact was changed since you opened this list" in page
        assert [fact.subject for fact in Fact.objects.all()] == ["s1"]

    def test_confirmation_shows_current_facts(self, editor: Client, shown: list[Fact]) -> None:
        values = boxes(editor, "/facts/")
        restated(shown[1])
        requested = editor.post("/facts/delete/", {"uid": values})
        assert "s1 · is · other" in requested.content.decode()
        assert "3 facts are deleted" in done(editor, "/facts/delete/", **confirmed(requested))


@each("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_list_as_of_a_moment_that_does_not_exist_in_utc_is_answered(
    editor: Client, three: list[Memory], moment: str
) -> None:
    address = f"/memories/?as_of={moment.replace('+', '%2B')}"
    fields = {"act": "promote", "every": "1", "list": address, "next": "/memories/"}
    assert editor.post("/acts/", fields).status_code == 302
