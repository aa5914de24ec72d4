"""MCP over HTTP and over standard input answers every caller as the API does, tool by tool."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.utils import timezone

from memoryhub.access.policy import system_actor
from memoryhub.accounts import tokens
from memoryhub.facts.services import create_fact
from memoryhub.management.commands import mcp
from memoryhub.management.commands.mcp import StdioConnection
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import AgentToken, Fact, JournalEntry, Memory
from memoryhub.toolsets import TOOLSETS
from tests.api.conftest import Agent, agent
from tests.cases import clear_caches, each, rolled_back
from tests.mcp.conftest import McpAgent
from tests.toolsets.test_visibility import CHANGES, ENDINGS, SEARCHES

__all__ = ["agent"]
LEVELS = ("public", "private", "secret")
FLAGS = {"allow_private": True, "allow_secret": True}
# The options of each caller's token, and the memories of the zoo that it may see with all flags.
CALLERS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "public": ({"clearance": "public"}, {"public", "farm", "diary"}),
    "private": ({"clearance": "private"}, {"public", "private", "farm", "diary"}),
    "secret": ({"clearance": "secret"}, {"public", "private", "secret", "farm", "diary"}),
    "another person": ({"owner": "bob"}, {"public", "private", "secret", "farm"}),
    "confined": ({"projects": ["farm"]}, {"farm"}),
    "only reads": ({"rights": ["read"]}, {"public", "private", "secret", "farm", "diary"}),
    "only writes": ({"rights": ["write"]}, set()),
    "only maintains": ({"rights": ["maintain"]}, set()),
}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z?")
Reply = tuple[bool, Any]  # whether it was refused, and the result or the problem
Transport = Callable[[Agent, str, str, dict[str, Any]], Reply]


def over_api(caller: Agent, toolset: str, tool: str, arguments: dict[str, Any]) -> Reply:
    response = caller.post(f"/tools/{toolset}/{tool}", arguments)
    body = response.json()
    if response.status_code != 200:
        return True, {**body, "request_id": ""}
    return False, body["result"] if isinstance(body["result"], dict) else {"result": body["result"]}


def over_http(caller: Agent, toolset: str, tool: str, arguments: dict[str, Any]) -> Reply:
    return _reply(McpAgent(caller.raw, toolset).call(tool, **arguments))


def over_stdio(caller: Agent, toolset: str, tool: str, arguments: dict[str, Any]) -> Reply:
    return _reply(stdio_answer(caller.raw, toolset, tool, arguments)["result"])


def stdio_answer(raw: str, toolset: str, tool: str, arguments: dict[str, Any]) -> Any:
    params = {"name": tool, "arguments": arguments}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(mcp.TOKEN_VARIABLE, raw)
        return StdioConnection(TOOLSETS[toolset], mcp.by_token, 2**20).answer(line)


def _reply(result: dict[str, Any]) -> Reply:
    content = result["structuredContent"]
    return result["isError"], {**content, "request_id": ""} if result["isError"] else content


TRANSPORTS: dict[str, Transport] = {"http": over_http, "stdio": over_stdio}


@pytest.fixture
def zoo(remember: Callable[..., Memory]) -> dict[str, Memory]:
    """Memories that every search finds: of every level, of one person and of another project."""

    def make(name: str, **more: Any) -> Memory:
        fields = {"project": "zoo", "files_read": ["zoo.py"], "concepts": ["gotcha"], **more}
        memory = remember(f"zebra stripes called {name}", session_id="safari", **fields)
        create_fact(
            FactDraft(subject="zebra", predicate="has", object=name, memory_id=memory.uid, project="zoo"),
            system_actor("tests"),
        )
        return memory

    found = {level: make(level, sensitivity=level) for level in LEVELS}
    found |= {"farm": make("farm", project="farm"), "diary": make("diary", scope="personal")}
    found["cosmic"] = make("cosmic")
    Memory.objects.filter(pk=found["cosmic"].pk).update(sensitivity="cosmic")
    return found


@pytest.fixture
def callers(agent: Callable[..., Agent]) -> dict[str, Agent]:
    return {name: agent(name=name, **options) for name, (options, _) in CALLERS.items()}


def ask(transport: Transport, caller: Agent, toolset: str, tool: str, arguments: dict[str, Any]) -> Reply:
    """Return the reply without moments, and undo what the call changed, such as counts of accesses."""
    clear_caches()
    with rolled_back():
        refused, reply = transport(caller, toolset, tool, arguments)
    return refused, json.loads(_MOMENT.sub("", json.dumps(reply)))


@pytest.mark.slow
@each("toolset, tool, arguments", [*SEARCHES, ("letsgo", "query_facts", {"subject": "zebra"})])
def test_search_shows_each_caller_what_the_api_shows(
    zoo: dict[str, Memory],
    callers: dict[str, Agent],
    toolset: str,
    tool: str,
    arguments: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)  # scores fall with time
    for name, caller in callers.items():
        for flags in ({}, FLAGS) if name == "secret" else (FLAGS,):
            known = ask(over_api, caller, toolset, tool, {**arguments, **flags})
            shown = json.dumps(known[1])
            seen = {one for one, memory in zoo.items() if memory.uid in shown or f"called {one}" in shown}
            if tool != "query_facts":
                assert seen == CALLERS[name][1] - (set() if flags else {"private", "secret"}), name
            for which, transport in TRANSPORTS.items():
                assert ask(transport, caller, toolset, tool, {**arguments, **flags}) == known, (name, which)


@pytest.mark.long
@each("toolset, tool, arguments", [("letsgo", "get_memory", FLAGS), *ENDINGS, *CHANGES])
def test_call_by_id_answers_each_caller_as_the_api_does(
    zoo: dict[str, Memory], callers: dict[str, Agent], toolset: str, tool: str, arguments: dict[str, Any]
) -> None:
    for name, caller in callers.items():
        for one, memory in zoo.items():
            call = (toolset, tool, {**arguments, "id": memory.uid})
            known = ask(over_api, caller, *call)
            for which, transport in TRANSPORTS.items():
                reply = ask(transport, caller, *call)
                assert reply == known, (name, one, which)
                if one not in CALLERS[name][1]:
                    assert f"called {one}" not in json.dumps(reply)


@pytest.mark.slow
@each("name", CALLERS)
@each("transport", TRANSPORTS.values())
def test_hidden_memory_is_not_changed(
    zoo: dict[str, Memory], callers: dict[str, Agent], transport: Transport, name: str
) -> None:
    before = {one: Memory.objects.filter(pk=zoo[one].pk).values().get() for one in zoo}
    # Without the right to read, a token may still change what its clearance includes.
    reach = zoo.keys() - {"cosmic"} if name == "only writes" else CALLERS[name][1]
    for toolset, tool, arguments in (*ENDINGS, *CHANGES):
        for one in zoo.keys() - reach:
            transport(callers[name], toolset, tool, {**arguments, "id": zoo[one].uid})
            assert Memory.objects.filter(pk=zoo[one].pk).values().get() == before[one], (one, tool)


@each("transport", TRANSPORTS.values())
def test_hidden_fact_is_not_deleted(
    zoo: dict[str, Memory], callers: dict[str, Agent], transport: Transport
) -> None:
    hidden = Fact.objects.get(object="secret")
    refused, problem = transport(callers["public"], "letsgo", "delete_fact", {"id": hidden.uid})
    absent = transport(callers["public"], "letsgo", "delete_fact", {"id": "a" * 16})
    assert (refused, problem) == absent
    assert Fact.objects.filter(pk=hidden.pk).exists()


@each("transport", TRANSPORTS.values())
def test_purge_deletes_only_what_the_caller_may_delete(
    zoo: dict[str, Memory], callers: dict[str, Agent], transport: Transport
) -> None:
    Memory.objects.update(expires_at="2020-01-01T00:00:00Z")
    assert transport(callers["public"], "letsgo", "purge_expired", {}) == (False, {"purged": 3})
    left = Memory.objects.values_list("uid", flat=True)
    assert {one for one, memory in zoo.items() if memory.uid in left} == {"private", "secret", "cosmic"}


@each("transport", TRANSPORTS.values())
def test_secret_that_is_read_is_journaled(
    zoo: dict[str, Memory], callers: dict[str, Agent], transport: Transport
) -> None:
    transport(callers["secret"], "letsgo", "get_memory", {"id": zoo["secret"].uid, **FLAGS})
    row = JournalEntry.objects.get(operation="reveal")
    assert (row.actor, row.object_id) == ("token:secret", zoo["secret"].uid)


@pytest.fixture
def ended(agent: Callable[..., Agent]) -> Iterator[tuple[Agent, ...]]:
    """Callers without a valid token."""
    revoked = agent(name="revoked")
    tokens.revoke_token(AgentToken.objects.get(name="revoked").uid, system_actor("tests"))
    return revoked, Agent("mh_nothing"), Agent("")


def test_caller_without_a_valid_token_is_refused(zoo: dict[str, Memory], ended: tuple[Agent, ...]) -> None:
    for caller in ended:
        sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        response = McpAgent(caller.raw).send(sent)
        assert response.status_code == 401
        assert "tools" not in response.content.decode()
        answer = stdio_answer(caller.raw, "letsgo", "list_memories", {})
        assert answer["error"]["code"] == 401
        assert "result" not in answer
