"""Agents of two people with the same name neither change nor learn of what only the other one may see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoryhub.access.policy import system_actor
from memoryhub.accounts import tokens
from memoryhub.models import AgentToken, Fact, JournalEntry, Memory
from tests.api.conftest import Agent, agent, is_problem, stored
from tests.api.test_maintenance import worked
from tests.capture.test_backfill import RUN, send
from tests.clients import create_person, signed_in_client

__all__ = ["agent"]
SECRET = {"content": "bob's secret", "project": "p", "key": "deploy", "sensitivity": "secret"}
FACT = {"subject": "ledger", "predicate": "is at", "object": "port 5433", "sensitivity": "secret"}


@pytest.fixture
def bob(agent: Callable[..., Agent]) -> Agent:
    return agent("secret", "claude-code", "bob")


@pytest.fixture
def eve(agent: Callable[..., Agent]) -> Agent:
    """An agent with the default name of Claude Code, as bob's, and less clearance."""
    return agent("public", "claude-code", "eve")


def test_key_of_the_other_agent_is_another_memory(bob: Agent, eve: Agent) -> None:
    theirs = stored(bob, **SECRET)
    response = eve.post("/memories", {"content": "eve's text", "project": "p", "key": "deploy"})
    assert (response.status_code, response.json()["outcome"]) == (201, "created")
    assert Memory.objects.get(uid=theirs["id"]).content == "bob's secret"


@pytest.mark.parametrize("name", ["claude-code", "other"])
def test_content_of_the_other_agent_is_not_confirmed(
    agent: Callable[..., Agent], bob: Agent, name: str
) -> None:
    theirs = stored(bob, **SECRET)
    guess = agent("public", name, "eve").post("/memories", {**SECRET, "key": ""}).json()
    assert guess["outcome"] == "created"
    assert guess["memory"]["id"] != theirs["id"]


def test_agent_that_takes_the_former_name_of_another_is_not_that_agent(
    agent: Callable[..., Agent], bob: Agent
) -> None:
    theirs = stored(bob, **SECRET)
    token = AgentToken.objects.get()
    grant = {"clearance": "secret", "rights": token.rights, "projects": None, "expires_at": None}
    tokens.change_token(token.uid, system_actor("tests"), name="renamed", **grant)
    assert tokens.suggest_name("claude-code", "eve") == "claude-code-eve"
    eve = agent("public", "claude-code", "eve")
    eve.post("/memories", {"content": "eve's text", "project": "p", "key": "deploy"})
    assert Memory.objects.get(uid=theirs["id"]).content == "bob's secret"


def test_fact_of_the_other_agent_is_not_changed(bob: Agent, eve: Agent) -> None:
    bob.post("/facts", {**FACT, "confidence": 0.9})
    eve.post("/facts", {**FACT, "confidence": 0.1})
    assert sorted(Fact.objects.values_list("confidence", flat=True)) == [0.1, 0.9]


def test_backfill_of_the_other_agent_is_not_undone(bob: Agent, eve: Agent) -> None:
    send(bob)
    before = set(Memory.objects.live())
    [recorded] = set(JournalEntry.objects.filter(operation="backfill").values_list("object_id", flat=True))
    for run in (RUN, recorded):
        assert is_problem(eve.delete(f"/backfills/{run}"), 404)
    assert set(Memory.objects.live()) == before


def test_agent_whose_name_no_one_else_uses_knows_its_memories(agent: Callable[..., Any]) -> None:
    """Also with two tokens of one person, and above its clearance."""
    low, again = agent("public", "writer", "ada"), agent("public", "writer", "ada")
    first = low.post("/memories", SECRET).json()
    second = again.post("/memories", {**SECRET, "content": "newer"}).json()
    assert (first["outcome"], second["outcome"]) == ("created", "updated")
    assert first["memory"]["id"] == second["memory"]["id"]


def test_default_name_is_not_that_of_another_persons_agent(bob: Agent) -> None:
    assert tokens.suggest_name("claude-code", "bob") == "claude-code"
    assert tokens.suggest_name("claude-code", "eve") == "claude-code-eve"
    assert tokens.suggest_name("codex", "eve") == "codex"


def test_form_to_connect_an_agent_suggests_a_name_of_its_own(bob: Agent) -> None:
    client = signed_in_client(create_person("ada", "add_agenttoken", "view_agenttoken"))
    assert 'value="claude-code-ada"' in client.get("/connect/claude-code/").content.decode()


def crowd(agent: Agent, name: str, count: int = 3) -> list[dict[str, Any]]:
    """Store memories in a project and return the responses."""
    texts = (f"{name} {number}" for number in range(count))
    return [agent.post("/memories", {"content": text, "project": "p"}).json() for text in texts]


def test_no_memory_of_the_other_agent_is_evicted(bob: Agent, eve: Agent, configure: Any) -> None:
    configure(max_memories=3)
    crowd(bob, "bob's")
    [*_, last] = crowd(eve, "eve's", 5)
    assert not Memory.objects.trashed().exists()
    assert last["warnings"] == ["over_cap"]


def test_maintenance_evicts_no_memory_of_the_other_agent(bob: Agent, eve: Agent, configure: Any) -> None:
    crowd(bob, "bob's")
    crowd(eve, "eve's", 5)
    configure(max_memories=3)
    assert worked(eve, operation="evict")["result"]["changes"] == 0
    assert not Memory.objects.trashed().exists()


def test_tokens_of_one_person_share_a_cap(agent: Callable[..., Agent], bob: Agent, configure: Any) -> None:
    configure(max_memories=3)
    crowd(bob, "first")
    crowd(agent("secret", "claude-code", "bob"), "second", 1)
    assert Memory.objects.trashed().get().content == "first 0"
