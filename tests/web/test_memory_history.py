"""The history of a memory and its visibility."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.test import Client
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.schemas import EntityDraft, MemoryPatch
from memoryhub.models import Memory
from memoryhub.web.memories import versions
from tests.cases import each
from tests.web.markup import main

Remember = Callable[..., Memory]
PUBLIC = Clearance.up_to("public", "ada")
ALL = Clearance.up_to("secret", "ada")


def change(memory: Memory, actor: Actor, **fields: Any) -> Memory:
    return memories.update_memory(memory.uid, MemoryPatch(**fields), actor)


def words(client: Client, memory: Memory) -> str:
    return main(client.get(f"/memories/{memory.uid}/")).words.partition("History")[2]


class TestVersions:
    def test_each_change_is_compared_with_the_next(self, remember: Remember, actor: Actor) -> None:
        memory = remember("text", title="one", importance=0.1)
        change(memory, actor, title="two", importance=0.2)
        memory = change(memory, actor, title="three")
        newest, oldest = versions.visible_changes(memory, ALL)[0]
        assert [one.name for one in newest.changes] == ["title"]
        assert [one.name for one in oldest.changes] == ["title", "importance"]
        title, importance = oldest.changes
        assert "".join(piece.text for piece in title.new) == "two"
        assert (importance.old, importance.new) == (0.1, 0.2)

    def test_field_without_later_changes_is_compared_with_the_current_value(
        self, remember: Remember, actor: Actor
    ) -> None:
        memory = remember("text", category="a")
        change(memory, actor, category="b")
        memory = change(memory, actor, title="t")
        [found] = versions.visible_changes(memory, ALL)[0][1].changes
        assert "".join(piece.text for piece in found.new) == "b"

    def test_lists_show_removed_and_added_items(self, remember: Remember, actor: Actor) -> None:
        memory = remember(tags=["kept", "old"], entities=[EntityDraft(entity="Ann", entity_type="person")])
        memory = change(memory, actor, tags=["kept", "new"], entities=[])
        tags, entities = versions.visible_changes(memory, ALL)[0][0].changes
        assert (tags.old, tags.new) == (["old"], ["new"])
        assert (entities.old, entities.new) == (["Ann (person)"], [])

    def test_long_histories_are_paginated(self, remember: Remember, actor: Actor) -> None:
        memory = remember(title="0")
        for number in range(1, 8):
            memory = change(memory, actor, title=str(number))
        seen, before, pages = [], None, 0
        while True:
            found, before = versions.visible_changes(memory, ALL, limit=3, before=before)
            seen += [version.number for version in found]
            pages += 1
            if before is None:
                break
        assert seen == [7, 6, 5, 4, 3, 2, 1]
        assert pages == 3


class TestVisibility:
    def test_version_of_a_higher_level_is_hidden(self, remember: Remember, actor: Actor) -> None:
        memory = remember("the secret words", sensitivity="secret")
        memory = change(memory, actor, content="open words", sensitivity="public")
        assert versions.visible_changes(memory, PUBLIC) == ([], None)
        assert len(versions.visible_changes(memory, ALL)[0]) == 1

    def test_new_value_of_a_higher_level_is_hidden(self, remember: Remember, actor: Actor) -> None:
        memory = remember("public words", title="t")
        memory = change(memory, actor, content="secret words", sensitivity="secret")
        memory = change(memory, actor, content="open again", sensitivity="public")
        [version] = versions.visible_changes(memory, PUBLIC)[0]
        shown = {one.name: one for one in version.changes}
        assert shown["content"].kind == "hidden"
        assert "secret words" not in repr(version)

    def test_page_contains_no_hidden_text(self, visitor: Client, remember: Remember, actor: Actor) -> None:
        memory = remember("public words")
        change(memory, actor, content="withheld words", sensitivity="private")
        memory = change(memory, actor, content="open again", sensitivity="public")
        for rest in ("", "history/"):
            page = visitor.get(f"/memories/{memory.uid}/{rest}").content.decode()
            assert "withheld" not in page
            assert "public words" in page
            assert "hidden by its level" in page

    def test_version_of_an_unknown_level_is_hidden_from_all(
        self, insider: Client, remember: Remember, actor: Actor
    ) -> None:
        memory = remember("the peculiar words")
        memory = change(memory, actor, content="plain words")
        memory.revisions.update(sensitivity="cosmic")
        assert "peculiar" not in words(insider, memory)

    def test_version_that_was_personal_is_hidden(self, visitor: Client, remember: Remember) -> None:
        bob = Actor("user:bob", Clearance.up_to("secret", "bob"))
        memory = remember("bob's diary", scope="personal", by=bob)
        memory = change(memory, bob, content="a note for all", scope="team")
        assert "diary" not in words(visitor, memory)


class TestPage:
    def test_page_shows_changed_lines_with_headings(
        self, visitor: Client, remember: Remember, actor: Actor
    ) -> None:
        memory = remember("one\ntwo of them\nthree")
        memory = change(memory, actor, content="one\ntwo and a half of them\nthree")
        response = visitor.get(f"/memories/{memory.uid}/")
        html = response.content.decode()
        assert "<mark>and a half </mark>" in html
        assert '<th scope="col">Before</th>' in html
        assert "by tests" in main(response).words

    def test_older_changes_have_their_own_page(
        self, visitor: Client, remember: Remember, actor: Actor
    ) -> None:
        memory = remember(title="title 0")
        for number in range(1, 9):
            memory = change(memory, actor, title=f"title {number}")
        [older] = [
            link for link in main(visitor.get(f"/memories/{memory.uid}/")).links() if "before=" in link
        ]
        shown = main(visitor.get(older)).words
        assert "title 0" in shown
        assert "title 7" not in shown

    @each("before", ["x", "-1", "1e3", "9" * 30, "", "１"])
    def test_invalid_number_is_refused(self, visitor: Client, remember: Remember, before: str) -> None:
        assert visitor.get(f"/memories/{remember().uid}/history/", {"before": before}).status_code == 400


class TestStateAt:
    def test_state_at_returns_the_values_of_a_moment(self, remember: Remember, actor: Actor) -> None:
        memory = remember(title="one")
        start = timezone.now()
        for number, title in enumerate(("two", "three"), start=1):
            memories.update_memory(
                memory.uid, MemoryPatch(title=title), actor, start + timedelta(minutes=number)
            )
        memory.refresh_from_db()
        assert versions.state_at(memory, start, ALL) == {"title": "one"}
        assert versions.state_at(memory, start + timedelta(minutes=1), ALL) == {"title": "two"}
        assert versions.state_at(memory, start + timedelta(minutes=2), ALL) == {}
