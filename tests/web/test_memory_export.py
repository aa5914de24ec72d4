"""A memory as Markdown and as JSON."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from memoryhub.memories import serializers
from memoryhub.models import JournalEntry, Memory


def copied(client: Client, memory: Memory, form: str) -> Any:
    return client.get(f"/memories/{memory.uid}/as/{form}/")


def test_markdown_contains_content_and_metadata(visitor: Client, remember: Any) -> None:
    made = remember(
        "Oats at six.\n\n- hay at noon",
        title="Feeding times",
        abstract="When the zebras eat",
        type="decision",
        project="zoo",
        tags=["food", "daily"],
        aliases=["lunch"],
        superseded_by=remember("Oats at seven.").uid,
        files_modified=["plan.txt"],
        entities=[{"entity": "Zed", "entity_type": "animal"}],
    )
    response = copied(visitor, made, "markdown")
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    text = response.content.decode()
    head = "# Feeding times\n\n> When the zebras eat\n\nOats at six.\n\n- hay at noon\n\n---\n\n"
    assert text.startswith(head + "- Type: decision\n")
    lines = text.splitlines()
    for line in (
        "- Project: zoo",
        "- Level: public",
        "- Tags: daily, food",
        "- Aliases: lunch",
        f"- Replaced by: {Memory.objects.get(content='Oats at seven.').uid}",
        "- Files modified: plan.txt",
        "- Entities: Zed (animal)",
        f"- Id: {made.uid}",
    ):
        assert line in lines


def test_markdown_contains_the_title_once(visitor: Client, remember: Any) -> None:
    made = remember("# Feeding times\n\nOats at six.", title="Feeding times", abstract="short")
    text = copied(visitor, made, "markdown").content.decode()
    assert text.startswith("# Feeding times\n\n> short\n\nOats at six.\n\n---\n")


def test_markdown_omits_repeated_summaries(visitor: Client, remember: Any) -> None:
    made = remember("Oats at six.", title="Oats at six.", abstract="Oats at six.")
    assert copied(visitor, made, "markdown").content.decode().startswith("# Oats at six.\n\n---\n")
    made = remember("Hay at noon.", title="Hay", subtitle="When to feed", abstract="When to feed")
    text = copied(visitor, made, "markdown").content.decode()
    assert text.startswith("# Hay\n\n> When to feed\n\nHay at noon.\n")


def test_json_has_the_shape_of_the_api(visitor: Client, remember: Any) -> None:
    made = remember("Hafer für Zebras 動物", title="Feeding", tags=["food"])
    response = copied(visitor, made, "json")
    assert response["Content-Type"] == "application/json"
    assert response.json() == serializers.memory(made, {})
    assert "für Zebras 動物" in response.content.decode()


@pytest.mark.parametrize("form", ["markdown", "json"])
class TestEachFormat:
    def test_hidden_memory_is_not_found(
        self, visitor: Client, four_levels: dict[str, Memory], form: str
    ) -> None:
        answers = {level: copied(visitor, memory, form).status_code for level, memory in four_levels.items()}
        assert answers == {"public": 200, "private": 404, "secret": 404, "cosmic": 404}

    def test_reveal_of_a_secret_is_journaled(
        self, insider: Client, four_levels: dict[str, Memory], form: str
    ) -> None:
        assert copied(insider, four_levels["secret"], form).status_code == 200
        row = JournalEntry.objects.get(operation="reveal")
        assert (row.object_id, row.detail["page"]) == (four_levels["secret"].uid, form)

    def test_export_is_not_cached_and_not_a_page(self, visitor: Client, remember: Any, form: str) -> None:
        response = copied(visitor, remember("<script>alert(1)</script>"), form)
        assert "no-store" in response["Cache-Control"]
        assert response["X-Content-Type-Options"] == "nosniff"

    def test_login_is_required(self, client: Client, remember: Any, form: str) -> None:
        assert copied(client, remember("words"), form)["Location"].startswith("/login/")


def test_unknown_format_is_not_found(visitor: Client, remember: Any) -> None:
    assert copied(visitor, remember("words"), "xml").status_code == 404
