"""``as_of`` in searches, recalls and queries of facts."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from memoryhub.models import Fact, Memory
from tests.api.conftest import bad_fields, stored
from tests.cases import each

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


@pytest.fixture
def valves(bot):
    """Memories that were stored 60 days ago: in the trash at first, in the trash today, secret."""
    back, gone, _ = (
        stored(bot, content=f"The valve {what}", **more)
        for what, more in (("is back", {}), ("is gone", {}), ("code is 4711", {"sensitivity": "secret"}))
    )
    Memory.objects.update(created_at=NOW - timedelta(days=60))
    Memory.objects.filter(uid=back["id"]).update(deleted_at=NOW - timedelta(days=40))
    assert bot.post(f"/memories/{back['id']}/restore").status_code == 200
    assert bot.delete(f"/memories/{gone['id']}").status_code == 200


FOUND = {
    "/search": lambda answer: [one["memory"]["content"] for one in answer["results"]],
    "/recall": lambda answer: [one["content"] for one in answer["details"]],
    "/tools/letsgo/search_memories": lambda answer: [one["content"] for one in answer["result"]["results"]],
    "/tools/memory-mcp/memory_recall": lambda answer: [one["content"] for one in answer["result"]["details"]],
    "/tools/mira/memory": lambda answer: [one["content"] for one in answer["result"]],
    "/tools/pigo/memory_recall": lambda answer: [one["content"] for one in answer["result"]["results"]],
}


def asked(agent, path, **fields):
    action = {"action": "recall"} if "mira" in path else {}
    answer = agent.post(path, {"query": "valve", **action, **fields})
    assert answer.status_code == 200, answer.content
    return sorted(FOUND[path](answer.json()))


@each("path", FOUND)
def test_answer_is_what_was_not_in_the_trash_then(bot, valves, path):
    assert asked(bot, path, as_of=BEFORE) == ["The valve is gone"]
    assert asked(bot, path, as_of=(NOW - timedelta(days=50)).isoformat()) == [
        "The valve is back",
        "The valve is gone",
    ]
    assert asked(bot, path) == ["The valve is back"]
    assert set(Memory.objects.exclude(content="The valve is back").values_list("accessed_count")) == {(0,)}


@each("path", FOUND)
def test_answer_of_the_past_shows_no_more_than_the_token_may_see(bot, agent, valves, path):
    assert asked(bot, path, as_of=BEFORE, allow_secret=True) == [
        "The valve code is 4711",
        "The valve is gone",
    ]
    assert asked(agent("public"), path, as_of=BEFORE) == ["The valve is gone"]
    assert asked(agent("secret", projects=["other"], name="limited"), path, as_of=BEFORE) == []


@each("path", [path for path in FOUND if "tools" in path])
def test_tools_answer_with_the_text_of_that_time(bot, old, path):
    assert asked(bot, path, as_of=BEFORE) == ["The valve opens at noon"]
    assert asked(bot, path, as_of=(NOW - timedelta(days=70)).isoformat()) == []
    assert Memory.objects.get().accessed_count == 0
    refused = bot.post(path, {"query": "valve", "action": "recall", "as_of": "yesterday"})
    assert "as_of" in bad_fields(refused)


def test_filters_of_tools_compare_the_values_of_that_time(bot):
    """Each call names the values that the memory had, then those that it has."""
    before = {"project": "old", "category": "pipes", "type": "decision", "entities": [{"entity": "Ada"}]}
    after = {"project": "new", "category": "gas", "type": "preference", "entities": [{"entity": "Bob"}]}
    memory = stored(bot, content="The valve opens at noon", **before)
    Memory.objects.update(created_at=NOW - timedelta(days=60))
    bot.patch(f"/memories/{memory['id']}", after)
    letsgo, mcp, mira, pigo = [path for path in FOUND if "tools" in path]
    for path, name, argument in (
        (letsgo, "category", "category"),
        (letsgo, "type", "type"),
        (mcp, "project", "project"),
        (mira, "project", "project"),
        (mira, "category", "category"),
        (mira, "type", "fact_type"),
        (pigo, "project", "project"),
    ):
        assert asked(bot, path, as_of=BEFORE, **{argument: before[name]}), (path, argument)
        assert not asked(bot, path, as_of=BEFORE, **{argument: after[name]}), (path, argument)
    assert asked(bot, mcp, as_of=BEFORE, entities=["Ada"])
    assert not asked(bot, mcp, as_of=BEFORE, entities=["Bob"])
    assert not asked(bot, mira, as_of=BEFORE, scope="team")


@pytest.fixture
def replaced(bot):
    """The secret replacement of a public memory. Both are 60 days old; the public one was changed today."""
    new = stored(bot, content="The valve opens at dusk, secretly", sensitivity="secret")
    old = stored(bot, content="The valve opens at noon", superseded_by=new["id"])
    Memory.objects.update(created_at=NOW - timedelta(days=60))
    bot.patch(f"/memories/{old['id']}", {"subtitle": "changed today"})
    return new


@each("path", FOUND)
def test_hidden_replacement_does_not_hide_the_memory_of_that_time(bot, agent, replaced, path):
    assert asked(agent("public"), path, as_of=BEFORE) == ["The valve opens at noon"]


@pytest.mark.parametrize("path", ["/search", "/recall"])
def test_memory_is_found_at_a_time_without_its_replacement(bot, replaced, path):
    """The replacement was in the trash, or did not exist yet."""
    seen = {"as_of": BEFORE, "allow_secret": True}
    assert asked(bot, path, **seen) == ["The valve opens at dusk, secretly"]
    for change in ({"created_at": NOW}, {"deleted_at": NOW - timedelta(days=40)}):
        Memory.objects.filter(uid=replaced["id"]).update(**change)
        assert asked(bot, path, **seen) == ["The valve opens at noon"], change


@pytest.mark.parametrize("path", ["/search", "/recall"])
@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_times_in_the_query_are_read_at_the_ends_of_the_calendar(bot, old, settings, path, moment):
    settings.TIME_ZONE = "America/New_York"
    query = "valve last month, yesterday, 99 years ago, in december"
    assert bot.post(path, {"query": query, "as_of": moment}).status_code == 200


@pytest.mark.parametrize("path", ["/search", "/recall"])
def test_invalid_time_names_the_field(bot, path):
    assert "as_of" in bad_fields(bot.post(path, {"query": "valve", "as_of": "yesterday"}))
