"""The hash of a skipped text is visible no further than the text was."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from memoryhub.access.policy import Actor
from memoryhub.audit import journal
from memoryhub.models import JournalEntry, Memory
from tests.api.conftest import stored

DIGEST = "5f" * 32
TEXT = "Ada leads the billing team"
ALL = {"allow_private": True, "allow_secret": True}


def skips(agent: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = agent.get("/journal", operation="dedup_skip", **ALL).json()["items"]
    return found


@pytest.fixture
def old_row(bot: Any) -> Memory:
    """A public memory with a row of the kind that was written for a skipped secret text."""
    memory = Memory.objects.get(uid=stored(bot, content=TEXT)["id"])
    with transaction.atomic():
        journal.record(Actor("token:old"), [journal.of_memory("dedup_skip", memory, candidate_hash=DIGEST)])
    return memory


def test_new_row_is_visible_only_at_the_higher_level(bot: Any, agent: Any) -> None:
    stored(bot, content=TEXT)
    skipped = {"content": "ada leads the billing team.", "sensitivity": "secret", "deduplicate": True}
    assert bot.post("/memories", skipped).json()["outcome"] == "skipped"
    [row] = skips(bot)
    assert set(row["detail"]) == {"candidate_hash", "candidate_sensitivity", "content_hash"}
    assert skips(agent("private")) == skips(agent("public")) == []


@pytest.mark.parametrize("level", ["public", "private"])
def test_old_row_is_listed_without_the_hash(old_row: Memory, agent: Any, level: str) -> None:
    [row] = skips(agent(level))
    assert row["detail"] == {"content_hash": old_row.content_hash}


def test_history_has_an_old_row_without_the_hash(old_row: Memory, agent: Any) -> None:
    history = agent("public").get(f"/memories/{old_row.uid}/history")
    assert "dedup_skip" in history.content.decode()
    assert DIGEST not in history.content.decode()


def test_export_has_an_old_row_without_the_hash(old_row: Memory, agent: Any) -> None:
    body = b"".join(agent("public").get("/export", whole="true").streaming_content).decode()
    assert "dedup_skip" in body
    assert DIGEST not in body


def test_toolset_has_an_old_row_without_the_hash(old_row: Memory, agent: Any) -> None:
    response = agent("public").post("/tools/memory-mcp/memory_forget", {"id": old_row.uid})
    assert "dedup_skip" in response.content.decode()
    assert DIGEST not in response.content.decode()


def test_masked_row_leaves_the_chain_whole(old_row: Memory) -> None:
    assert JournalEntry.objects.filter(detail__candidate_hash=DIGEST).exists()
    assert journal.verify().ok
