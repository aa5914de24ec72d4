"""``as_of`` in searches, recalls and queries of facts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub.models import Fact, Memory
from tests.api.conftest import bad_fields, stored

NOW = timezone.now()
BEFORE = (NOW - timedelta(days=30)).isoformat()


@pytest.fixture
def old(bot):
    """A memory that was stored 60 days ago and changed today."""
    memory = stored(bot, content="The valve opens at noon")
    Memory.objects.update(created_at=NOW - timedelta(days=60))
    bot.patch(f"/memories/{memory['id']}", {"content": "The valve opens at dawn"})
    return memory


def test_search_answers_from_that_time(bot, old):
    [found] = bot.get("/search", query="valve", as_of=BEFORE).json()["results"]
    assert found["memory"]["content"] == "The valve opens at noon"
    assert bot.post("/search", {"query": "dawn", "as_of": BEFORE}).json()["results"] == []


def test_recall_answers_from_that_time_and_counts_no_access(bot, old):
    answer = bot.post("/recall", {"query": "valve", "as_of": BEFORE}).json()
    assert [one["content"] for one in answer["details"]] == ["The valve opens at noon"]
    assert Memory.objects.get().accessed_count == 0
    assert Memory.objects.get().content == "The valve opens at dawn"


def test_facts_of_that_time(bot):
    for name, start, end in (("noon", 90, 20), ("dawn", 20, 0), ("dusk", 90, 40)):
        fact = bot.post("/facts", {"subject": "valve", "predicate": "opens_at", "object": name}).json()
        begin = NOW - timedelta(days=start)
        Fact.objects.filter(uid=fact["fact"]["id"]).update(
            created_at=begin, valid_from=begin, valid_until=NOW - timedelta(days=end) if end else None
        )
    assert [fact["object"] for fact in bot.get("/facts", as_of=BEFORE).json()["items"]] == ["noon"]
    assert [fact["object"] for fact in bot.get("/facts").json()["items"]] == ["dawn"]


def test_fact_of_a_hidden_memory_stays_hidden(bot, agent):
    memory = stored(bot, content="The valve code is 4711", sensitivity="secret")
    bot.post("/facts", {"subject": "valve", "predicate": "code", "object": "4711", "memory_id": memory["id"]})
    assert agent("public").get("/facts", as_of=NOW.isoformat()).json()["items"] == []


@pytest.mark.parametrize("path", ["/search", "/recall"])
def test_invalid_time_names_the_field(bot, path):
    assert "as_of" in bad_fields(bot.post(path, {"query": "valve", "as_of": "yesterday"}))
