"""Evictions caused by a token affect only memories that the token could delete."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memoryhub.maintenance import executor
from memoryhub.models import MaintenanceRun, Memory
from tests.api.conftest import API, Agent, stored
from tests.api.test_maintenance import worked
from tests.capture.conftest import AgentSession

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


# The tool of each toolset that stores a memory, and its other arguments.
STORE_TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "letsgo": ("store_memory", {}),
    "memory-mcp": ("memory_store", {}),
    "mira": ("memory", {"action": "remember"}),
    "pigo": ("memory_remember", {"category": "events"}),
}
# Facts that the rules of extraction, of memorability and of deduplication accept as five memories.
TEXTS = [
    "We decided to use PostgreSQL for the billing ledger, because the planner of SQLite chose a bad index.",
    "The deployment of the parser failed, because the container had no write permission for its cache.",
    "I always prefer tabs over spaces in Makefiles, because the linter rejects them otherwise.",
    "The login page was slow, since the session middleware loaded every permission twice on each request.",
    "Grace works on the invoice importer, which reads each file once and remembers its encoding.",
]


def send_import(agent: Agent, raw: bytes) -> dict[str, Any]:
    """Return the report of an import into the project p."""
    response = agent.http.post(
        f"{API}/import", raw, content_type="application/octet-stream", query_params={"project": "p"}
    )
    assert response.status_code == 202, response.content
    uid = response.json()["id"]
    assert executor.execute(MaintenanceRun.objects.get(uid=uid))
    report: dict[str, Any] = agent.get(f"/import/{uid}").json()
    return report


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

    @pytest.mark.parametrize("toolset", sorted(STORE_TOOLS))
    def test_tool_of_each_toolset_evicts_only_its_own_memories(self, eve, toolset):
        path, arguments = STORE_TOOLS[toolset]
        for text in TEXTS:
            body = {**arguments, "content": text, "project": "p"}
            response = eve.post(f"/tools/{toolset}/{path}", body)
            assert response.status_code == 200, response.content
        assert trashed() == sorted(TEXTS[:2])

    def test_hook_evicts_only_memories_of_the_agent(self, eve):
        session = AgentSession(eve, project="p")
        for text in TEXTS:
            assert session.commit(text).memory
        gone = Memory.objects.trashed()
        assert [memory.author for memory in gone] == ["token:eve-agent"] * 2

    def test_extraction_evicts_only_its_own_memories(self, eve, configure):
        configure(max_memories=1)
        for text in TEXTS:
            said = {"messages": [{"role": "user", "content": text}], "project": "p"}
            assert eve.post("/extract", said).status_code == 200
        gone = Memory.objects.trashed()
        assert gone.count() > 0
        assert {memory.author for memory in gone} == {"token:eve-agent"}

    def test_import_evicts_nothing(self, eve, settings, tmp_path):
        settings.HOME = tmp_path
        raw = "\n".join(json.dumps({"content": text}) for text in TEXTS).encode()
        run = send_import(eve, raw)
        assert run["counts"] == {"memories created": 5}
        assert run["over_cap"] == [{"what": "p", "count": 5}]
        assert trashed() == []

    def test_personal_memories_of_one_person_evict_each_other(self, agent):
        """The agents of one person share a quota for the person's memories."""
        for n in range(4):
            stored(agent("public", f"agent-{n}", "eve"), content=f"mine {n}", project="p", scope="personal")
        assert trashed() == ["mine 0"]

    def test_agents_of_one_person_with_the_same_name_share_the_cap(self, agent):
        """A memory has the name of its agent, not its token; those of an agent with another name stay."""
        stored(agent("public", "another", "eve"), content="of another", project="p")
        for n in range(4):
            stored(agent("public", "eve-agent", "eve"), content=f"mine {n}", project="p")
        assert trashed() == ["mine 0"]

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

    @pytest.mark.parametrize("toolset", ["letsgo", "memory-mcp", "pigo"])
    def test_tool_warns(self, bot, configure, toolset):
        for n in range(3):
            stored(bot, content=f"{n}")
        configure(max_memories=1)
        path, arguments = STORE_TOOLS[toolset]
        response = bot.post(f"/tools/{toolset}/{path}", {**arguments, "content": TEXTS[0]})
        assert response.json()["result"]["warnings"] == ["over_cap"]

    def test_tool_with_a_documented_sentence_keeps_it(self, bot, configure):
        for n in range(3):
            stored(bot, content=f"{n}")
        configure(max_memories=1)
        body = {"action": "remember", "content": TEXTS[0]}
        said = bot.post("/tools/mira/memory", body).json()["result"]
        assert said.startswith("Memory stored successfully with ID: ")

    def test_extraction_warns(self, bot, configure):
        for n in range(3):
            stored(bot, content=f"{n}")
        configure(max_memories=1)
        said = {"messages": [{"role": "user", "content": TEXTS[0]}]}
        [result] = bot.post("/extract", said).json()["results"]
        assert (result["outcome"], result["warnings"]) == ("created", ["over_cap"])


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
