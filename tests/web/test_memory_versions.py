"""Compare versions of a memory, restore one, undo the last change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import JournalEntry, Memory
from tests.cases import each
from tests.web.markup import main

Remember = Callable[..., Memory]
RIGHT = "change_memory"


def change(memory: Memory, actor: Actor, **fields: Any) -> Memory:
    return memories.update_memory(memory.uid, MemoryPatch(**fields), actor)


@pytest.fixture
def story(remember: Remember, actor: Actor) -> Memory:
    """Three changes: content, title with tags, content again."""
    memory = remember("the first line", tags=["old"])
    change(memory, actor, content="the second line")
    change(memory, actor, title="A heading", tags=["new"])
    return change(memory, actor, content="the third line")


def compared(client: Client, memory: Memory, **requested: str) -> Any:
    return client.get(f"/memories/{memory.uid}/compare/", requested)


def send(client: Client, memory: Memory, action: str, **more: str) -> Any:
    fields = {"unchanged_since": memory.updated_at.isoformat(), **more}
    return client.post(f"/memories/{memory.uid}/versions/{action}/", fields, follow=True)


class TestComparing:
    @each(
        "requested, there, absent",
        [
            ({}, ["second", "third", "Version 3"], ["first", "Title"]),
            ({"from": "1", "to": "now"}, ["first", "third", "Title", "Tags"], ["second"]),
            ({"from": "1", "to": "2"}, ["first", "second"], ["third line", "Tags"]),
            ({"from": "now", "to": "1"}, ["first", "third"], ["second"]),
        ],
    )
    def test_any_two_versions_are_compared(
        self, visitor: Client, story: Memory, requested: dict[str, str], there: list[str], absent: list[str]
    ) -> None:
        html = compared(visitor, story, **requested).content.decode()
        shown = html.partition("What differs")[2].partition("<footer")[0]
        assert [word for word in there if word not in shown] == []
        assert [word for word in absent if word in shown] == []

    def test_same_version_twice_is_reported(self, visitor: Client, story: Memory) -> None:
        words = main(compared(visitor, story, **{"from": "2", "to": "2"})).words
        assert "Both versions are identical" in words

    def test_every_version_is_offered(self, visitor: Client, story: Memory) -> None:
        options = main(compared(visitor, story)).all("option")
        assert [one["value"] for one in options] == ["now", "3", "2", "1"] * 2

    def test_each_change_links_to_its_comparison(self, visitor: Client, story: Memory) -> None:
        links = main(visitor.get(f"/memories/{story.uid}/")).links()
        assert f"/memories/{story.uid}/compare/" in links
        for number in (1, 2, 3):
            address = f"/memories/{story.uid}/compare/?from={number}&to=now"
            assert address in links
            assert visitor.get(address).status_code == 200

    @each("invalid", ["x", "-1", "0", "1e3", "9" * 30, "", "１"])
    def test_invalid_number_is_refused(self, visitor: Client, story: Memory, invalid: str) -> None:
        assert compared(visitor, story, **{"from": invalid}).status_code == 400

    @pytest.mark.parametrize("requested", [{"from": "4"}, {"to": "99"}])
    def test_missing_version_is_not_found(
        self, visitor: Client, story: Memory, requested: dict[str, str]
    ) -> None:
        assert compared(visitor, story, **requested).status_code == 404

    def test_unchanged_memory_has_nothing_to_compare(self, visitor: Client, remember: Remember) -> None:
        assert "nothing to compare" in main(compared(visitor, remember())).words

    def test_number_of_queries_does_not_grow_with_the_changes(
        self, visitor: Client, remember: Remember, actor: Actor
    ) -> None:
        counted = []
        memory = remember("text 0")
        for number in range(1, 16):
            change(memory, actor, content=f"text {number}")
            if number in (2, 15):
                with CaptureQueriesContext(connection) as queries:
                    assert compared(visitor, memory, **{"from": "1"}).status_code == 200
                counted.append(len(queries))
        assert counted[0] == counted[1]


class TestVisibility:
    @pytest.fixture
    def once_closed(self, remember: Remember, actor: Actor) -> Memory:
        """A memory that was public, then private, then public again."""
        memory = remember("open words", title="one")
        change(memory, actor, content="withheld words", sensitivity="private")
        return change(memory, actor, content="open again", sensitivity="public", title="two")

    def test_version_of_a_hidden_level_is_not_found(self, visitor: Client, once_closed: Memory) -> None:
        assert compared(visitor, once_closed, **{"from": "2"}).status_code == 404
        page = compared(visitor, once_closed, **{"from": "1"})
        assert b"withheld" not in page.content
        assert 'value="2"' not in page.content.decode()

    def test_version_of_a_hidden_level_cannot_be_restored(self, sign_in: Any, once_closed: Memory) -> None:
        assert send(sign_in(RIGHT), once_closed, "restore", version="2").status_code == 404

    def test_visible_version_is_compared_and_restored(self, sign_in: Any, once_closed: Memory) -> None:
        client = sign_in(RIGHT, "view_private", on=["private"])
        assert b"withheld" in compared(client, once_closed, **{"from": "2"}).content
        assert b"is restored" in send(client, once_closed, "restore", version="2").content
        now = Memory.objects.get(pk=once_closed.pk)
        assert (now.content, now.sensitivity) == ("withheld words", "private")

    def test_value_of_a_hidden_level_is_named_but_not_shown(
        self, visitor: Client, remember: Remember, actor: Actor
    ) -> None:
        memory = remember("words", title="one", category="old")
        change(memory, actor, title="two")
        change(memory, actor, sensitivity="private")
        change(memory, actor, category="shut", sensitivity="public")
        change(memory, actor, category="open")
        words = main(compared(visitor, memory, **{"from": "1", "to": "4"})).words
        assert "The value in version 1 is hidden by its level" in words
        assert "old" not in words.partition("What differs")[2]
        back = main(compared(visitor, memory, **{"from": "4", "to": "1"})).words
        assert "The value in version 1 is hidden by its level" in back

    def test_reveal_of_a_secret_version_is_journaled(
        self, insider: Client, remember: Remember, actor: Actor
    ) -> None:
        memory = remember("hidden words", sensitivity="secret")
        change(memory, actor, content="open words", sensitivity="public")
        change(memory, actor, title="a title")
        reveals = JournalEntry.objects.filter(operation="reveal", object_id=memory.uid)
        compared(insider, memory, **{"from": "2"})
        assert not reveals.exists()
        compared(insider, memory, **{"from": "1"})
        assert [row.detail["page"] for row in reveals] == ["compare"]

    def test_unknown_level_is_hidden_from_all(self, insider: Client, story: Memory) -> None:
        story.revisions.filter(number=1).update(sensitivity="cosmic")
        assert compared(insider, story, **{"from": "1"}).status_code == 404

    def test_personal_version_is_hidden(self, visitor: Client, remember: Remember) -> None:
        bob = Actor("user:bob", Clearance.up_to("secret", "bob"))
        memory = remember("bob's diary", scope="personal", by=bob)
        change(memory, bob, content="for all", scope="team")
        assert compared(visitor, memory, **{"from": "1"}).status_code == 404

    def test_confined_person_sees_no_version_from_other_projects(
        self, person: Any, remember: Remember, actor: Actor
    ) -> None:
        ada = person("ada", RIGHT)
        ada.memberships.create(project="farm")
        client = Client()
        client.force_login(ada)
        memory = remember("zoo words", project="zoo")
        change(memory, actor, content="farm words", project="farm")
        elsewhere = change(remember("other", project="zoo"), actor, content="changed")
        assert compared(client, memory, **{"from": "1"}).status_code == 404
        assert send(client, memory, "restore", version="1").status_code == 404
        assert compared(client, elsewhere).status_code == 404
        for action in ("restore", "undo"):
            assert send(client, elsewhere, action, version="1").status_code == 404


class TestRestoring:
    def test_restored_version_can_be_undone(self, sign_in: Any, story: Memory) -> None:
        client = sign_in(RIGHT)
        page = send(client, story, "restore", version="1")
        assert page.redirect_chain[-1][0] == f"/memories/{story.uid}/"
        assert "Version 1 is restored." in main(page).words
        assert Memory.objects.get(pk=story.pk).content == "the first line"
        assert JournalEntry.objects.latest("seq").actor == "user:ada"
        undone = send(client, story, "undo", version="4")
        assert "Undone" in main(undone).words
        now = Memory.objects.get(pk=story.pk)
        assert (now.content, now.title) == ("the third line", "A heading")

    def test_undo_after_another_change_is_refused(self, sign_in: Any, story: Memory, actor: Actor) -> None:
        client = sign_in(RIGHT)
        send(client, story, "restore", version="1")
        change(story, actor, title="by someone else")
        page = send(client, story, "undo", version="4")
        assert "changed since" in main(page).words
        assert Memory.objects.get(pk=story.pk).title == "by someone else"

    def test_restore_after_another_change_is_refused(self, sign_in: Any, story: Memory, actor: Actor) -> None:
        client = sign_in(RIGHT)
        change(story, actor, content="the fourth line")
        page = send(client, story, "restore", version="1")
        assert "someone has changed this memory" in main(page).words
        assert page.redirect_chain[-1][0] == f"/memories/{story.uid}/compare/?from=1"
        assert Memory.objects.get(pk=story.pk).content == "the fourth line"

    def test_restore_of_content_of_another_memory_is_refused(
        self, sign_in: Any, story: Memory, remember: Remember
    ) -> None:
        other = remember("the first line")
        page = send(sign_in(RIGHT), story, "restore", version="1")
        assert other.uid in main(page).words
        assert Memory.objects.get(pk=story.pk).content == "the third line"

    def test_restore_of_the_current_content_is_reported(
        self, sign_in: Any, remember: Remember, actor: Actor
    ) -> None:
        memory = remember("words", title="t")
        change(memory, actor, title="u")
        memory = change(memory, actor, title="t")
        response = send(sign_in(RIGHT), memory, "restore", version="1")
        assert "is already the current content" in main(response).words
        assert memory.revisions.count() == 2

    @pytest.mark.parametrize("action", ["restore", "undo"])
    def test_permission_is_required(self, visitor: Client, story: Memory, action: str) -> None:
        assert send(visitor, story, action, version="1").status_code == 403
        assert b"versions/restore" not in visitor.get(f"/memories/{story.uid}/").content

    @each("action", ["restore", "undo"])
    @each("number", ["", "x", "0", "-1", "9" * 12])
    def test_invalid_version_number_is_refused(
        self, sign_in: Any, story: Memory, action: str, number: str
    ) -> None:
        client = sign_in(RIGHT)
        assert send(client, story, action, version=number).status_code == 400

    @each("moment", ["", "yesterday", "2026-01-01T00:00:00"])
    def test_invalid_unchanged_since_is_refused(self, sign_in: Any, story: Memory, moment: str) -> None:
        answer = send(sign_in(RIGHT), story, "restore", version="1", unchanged_since=moment)
        assert answer.status_code == 400

    def test_trashed_memory_has_no_restore_button(self, sign_in: Any, story: Memory, actor: Actor) -> None:
        memories.trash_memories([story.uid], actor)
        client = sign_in(RIGHT)
        for rest in ("", "history/", "compare/"):
            assert b"versions/restore" not in client.get(f"/memories/{story.uid}/{rest}").content
        assert "in the trash" in main(send(client, story, "restore", version="1")).words
