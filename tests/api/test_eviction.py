"""Evictions caused by a token affect only memories that the token could delete."""

from __future__ import annotations

import pytest

from memoryhub.models import Memory
from tests.api.conftest import stored
from tests.api.test_maintenance import worked

LEVELS = ("public", "private", "secret")


@pytest.fixture
def crowded(agent, configure):
    """A project with memories of bob's agent at each level, one of them personal. The cap is 3."""
    bob = agent("secret", "bob-agent", "bob")
    for level in LEVELS:
        stored(bob, content=f"bob {level}", project="p", sensitivity=level)
    stored(bob, content="bob personal", project="p", scope="personal")
    configure(max_memories=3)


@pytest.fixture
def eve(agent):
    return agent("public", "eve-agent", "eve")


def trashed():
    return sorted(Memory.objects.trashed().values_list("content", flat=True))


@pytest.mark.usefixtures("crowded")
class TestStore:
    def test_public_token_evicts_only_its_own_memories(self, eve):
        for n in range(5):
            response = eve.post("/memories", {"content": f"mine {n}", "project": "p"})
            assert response.status_code == 201
            assert "warnings" not in response.json()
        assert trashed() == ["mine 0", "mine 1"]

    def test_batch_evicts_only_its_own_memories(self, eve):
        memories = [{"content": f"mine {n}", "project": "p"} for n in range(5)]
        results = eve.post("/memories/batch", {"memories": memories}).json()["results"]
        assert [set(result) for result in results] == [{"outcome", "id"}] * 5
        assert trashed() == ["mine 0", "mine 1"]

    def test_tool_evicts_only_its_own_memories(self, eve):
        for n in range(5):
            eve.tool("store_memory", content=f"mine {n}", project="p")
        assert trashed() == ["mine 0", "mine 1"]

    def test_mcp_call_evicts_only_its_own_memories(self, eve):
        for n in range(5):
            arguments = {"content": f"a remark number {n}", "project": "p"}
            call = {"name": "memory_store", "arguments": arguments}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            response = eve.http.post(
                "/mcp/memory-mcp",
                body,
                content_type="application/json",
                headers={"Accept": "application/json"},
            )
            assert response.status_code == 200, response.content
        assert trashed() == ["a remark number 0", "a remark number 1"]

    def test_confined_token_evicts_only_its_own_memories(self, agent):
        confined = agent("public", "confined", "eve", projects=["p"])
        for n in range(4):
            stored(confined, content=f"mine {n}")
        assert trashed() == ["mine 0"]


class TestOverCap:
    def test_store_that_stays_over_the_cap_warns(self, bot, configure):
        for n in range(3):
            stored(bot, content=f"{n}")
        configure(max_memories=1)
        response = bot.post("/memories", {"content": "one more"})
        assert (response.status_code, response.json()["warnings"]) == (201, ["over_cap"])

    def test_batch_without_anything_to_evict_warns_for_each_item(self, eve, configure):
        configure(max_memories=2)
        memories = [{"content": f"{n}", "sensitivity": "secret"} for n in range(3)]
        results = eve.post("/memories/batch", {"memories": memories}).json()["results"]
        assert [result["warnings"] for result in results] == [["over_cap"]] * 3
        assert trashed() == []

    def test_move_that_stays_over_the_cap_warns(self, bot, configure):
        for n in range(3):
            stored(bot, content=f"{n}", project="p")
        moved = stored(bot, content="moved")
        configure(max_memories=1)
        assert bot.patch(f"/memories/{moved['id']}", {"project": "p"}).json()["warnings"] == ["over_cap"]

    def test_tool_warns(self, bot, configure):
        for n in range(3):
            stored(bot, content=f"{n}")
        configure(max_memories=1)
        assert bot.tool("store_memory", content="one more")["warnings"] == ["over_cap"]


@pytest.mark.usefixtures("crowded")
class TestMaintenance:
    def test_run_of_a_confined_token_evicts_only_what_it_can_delete(self, agent, eve, configure):
        configure(max_memories=0)
        for n in range(5):
            stored(eve, content=f"mine {n}", project="p")
        configure(max_memories=3)
        worked(agent("public", "keeper", "kim", projects=["p"]), operation="evict")
        assert trashed() == ["mine 0", "mine 1"]

    def test_run_counts_per_project_and_owner(self, agent, bot):
        for name in ("one", "two"):
            for n in range(3):
                stored(agent("public", name), content=f"{name} {n}", project="p")
        assert worked(bot, operation="evict")["result"]["changes"] == 0
        assert trashed() == []

    def test_end_of_a_session_evicts_only_what_the_agent_can_delete(self, eve):
        Memory.objects.update(importance=0.01, updated_at="2020-01-01T00:00:00Z")
        eve.post("/events", {"event": "session:end", "session_id": "s", "project": "p"})
        assert trashed() == ["bob public"]
