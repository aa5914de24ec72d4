"""Concurrent edits of a memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import JournalEntry, Memory
from tests.web.edit_form import form_data, page_text
from tests.web.markup import page

Remember = Callable[..., Memory]


class TestConflict:
    @pytest.fixture
    def memory(self, remember: Remember) -> Memory:
        return remember("the first words", title="old title", category="old", tags=["old"])

    def collide(self, client: Client, memory: Memory, actor: Actor, theirs: Any, **mine: str) -> Any:
        """Save a change of another person while the form is open."""
        path = f"/memories/{memory.uid}/edit/"
        opened = form_data(client.get(path))
        memories.update_memory(memory.uid, MemoryPatch(**theirs), actor)
        return client.post(path, opened | mine)

    def test_changes_are_not_overwritten_unseen(self, writer: Client, memory: Memory, actor: Actor) -> None:
        response = self.collide(writer, memory, actor, {"title": "their title"}, title="my title")
        assert "Someone changed this memory while you were editing it" in page_text(response, 409)
        memory.refresh_from_db()
        assert memory.title == "their title"

    def test_submitted_value_stays_next_to_the_stored_one(
        self, writer: Client, memory: Memory, actor: Actor
    ) -> None:
        response = self.collide(
            writer,
            memory,
            actor,
            {"content": "the second words"},
            content="the third words",
            title="my title",
        )
        assert response.context["form"]["content"].value() == "the third words"
        assert page(response).value_of("title") == "my title"
        [collision] = response.context["collisions"]
        assert (collision.name, collision.old, collision.new) == (
            "content",
            "the second words",
            "the third words",
        )

    def test_untouched_fields_take_the_stored_value(
        self, writer: Client, memory: Memory, actor: Actor
    ) -> None:
        theirs = {"category": "theirs", "tags": ["their", "tags"]}
        response = self.collide(writer, memory, actor, theirs, title="my title")
        assert page(response).value_of("category") == "theirs"
        assert page(response).value_of("tags") == "tags, their"
        assert response.context["collisions"] == []

    def test_saving_again_keeps_both_changes(self, writer: Client, memory: Memory, actor: Actor) -> None:
        response = self.collide(writer, memory, actor, {"category": "theirs"}, title="my title")
        sent = {
            name: value
            for name, value in response.context["form"].data.items()
            if name != "csrfmiddlewaretoken"
        }
        assert writer.post(f"/memories/{memory.uid}/edit/", sent).status_code == 302
        memory.refresh_from_db()
        assert (memory.title, memory.category) == ("my title", "theirs")

    def test_reveal_of_a_secret_in_a_conflict_is_journaled(
        self, sign_in: Any, remember: Remember, actor: Actor
    ) -> None:
        memory = remember("words", sensitivity="secret")
        client = sign_in("change_memory", "view_secret", on=["secret"])
        self.collide(client, memory, actor, {"title": "theirs"}, title="mine")
        assert JournalEntry.objects.filter(operation="reveal").count() == 2
