"""Resources and prompts: what they contain, and that access is decided as everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mcp_types import _v2025_11_25 as handshake
from mcp_types import _v2026_07_28 as stateless

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import JournalEntry, Memory
from memoryhub.toolsets import TOOLSETS
from tests.cases import each
from tests.mcp.conftest import McpAgent

Remember = Callable[..., Memory]


@pytest.fixture
def state(db: None, actor: Actor) -> Callable[..., None]:
    """``state("hub", "runs on", "port 8000", project="p")`` stores a fact."""

    def store(subject: str, predicate: str, object: str, **fields: Any) -> None:
        services.create_fact(FactDraft(subject=subject, predicate=predicate, object=object, **fields), actor)

    return store


def read(agent: McpAgent, uri: str) -> str:
    [content] = agent.ask("resources/read", {"uri": uri})["result"]["contents"]
    assert content["uri"] == uri
    return str(content["text"])


def is_missing(agent: McpAgent, uri: str) -> bool:
    return agent.ask("resources/read", {"uri": uri}).get("error", {}).get("code") == -32002


def listed(agent: McpAgent) -> list[str]:
    return [one["uri"] for one in agent.ask("resources/list")["result"]["resources"]]


def test_memory_is_a_resource(bot: McpAgent, remember: Remember) -> None:
    memory = remember("The export runs at night", title="Export", type="decision")
    text = read(bot, f"memory://{memory.uid}")
    assert text.startswith("Export\n\nThe export runs at night\n\n(decision, ")
    memory.refresh_from_db()
    assert memory.accessed_count == 1


def test_facts_of_a_project_are_a_resource(bot: McpAgent, state: Callable[..., None]) -> None:
    state("hub", "runs on", "port\n8000", project="my app/2")
    state("hub", "is", "elsewhere", project="other")
    assert listed(bot) == ["memory://project/my%20app%2F2/facts", "memory://project/other/facts"]
    assert read(bot, listed(bot)[0]) == "- hub — runs on — port 8000"


def test_facts_without_a_project_are_a_resource(bot: McpAgent, state: Callable[..., None]) -> None:
    state("hub", "runs on", "port 8000")
    state("hub", "is", "secret", sensitivity="secret")
    state("hub", "is", "elsewhere", project="other")
    assert listed(bot) == ["memory://facts", "memory://project/other/facts"]
    assert read(bot, "memory://facts") == "- hub — runs on — port 8000"
    assert "secret" in read(bot, "memory://facts?allow_secret=true")


def test_facts_without_a_project_are_listed_once(
    bot: McpAgent, state: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryhub.mcp.server.PAGE_SIZE", 1)
    for project in ("", "a", "b"):
        state("x", "is", "y", project=project)
    cursor = bot.ask("resources/list")["result"]["nextCursor"]
    rest = bot.ask("resources/list", {"cursor": cursor})["result"]["resources"]
    assert [one["uri"] for one in rest] == ["memory://project/b/facts"]


def test_pinned_memories_of_a_project_are_a_resource(bot: McpAgent, remember: Remember) -> None:
    remember("Deploy on Mondays only", project="p", pinned=True)
    remember("Lunch is at noon", project="p")
    assert listed(bot) == ["memory://project/p/pinned"]
    text = read(bot, "memory://project/p/pinned")
    assert "Deploy on Mondays only" in text
    assert "Lunch" not in text


@each(
    "uri",
    [
        "memory://nothing",
        "memory://",
        "memory://facts",
        "memory://project/p/facts",
        "memory://project/p/pinned",
        "memory://project//facts",
        "memory://project/p/secrets",
        "memory://project",
        "file:///etc/passwd",
        "memory://[",
        "x",
        "",
    ],
)
def test_unknown_address_is_not_found(bot: McpAgent, uri: str) -> None:
    assert is_missing(bot, uri)
    if uri:
        answered = bot.post_stateless("resources/read", {"uri": uri}, Mcp_Name=uri)
        assert answered.json()["error"]["code"] == -32602


@pytest.mark.parametrize("query", ["allow_secret=perhaps", "colour=red"])
def test_address_with_an_invalid_query_is_not_found(bot: McpAgent, remember: Remember, query: str) -> None:
    assert is_missing(bot, f"memory://{remember('zebra').uid}?{query}")


@each("clearance", ["public", "private", "secret"])
def test_level_is_shown_only_if_requested_and_cleared(
    mcp_agent: Callable[..., McpAgent], remember: Remember, state: Callable[..., None], clearance: str
) -> None:
    hidden = remember("a private zebra", sensitivity="private", project="p", pinned=True)
    state("zebra", "is", "private", sensitivity="private", project="p")
    agent = mcp_agent(clearance)
    paths = [hidden.uid, "project/p/pinned", "project/p/facts"]
    assert listed(agent) == []
    assert all(is_missing(agent, f"memory://{path}") for path in paths)
    for path in paths:
        asked = f"memory://{path}?allow_private=true"
        assert is_missing(agent, asked) is (clearance == "public")


def test_other_projects_and_ended_memories_are_not_found(
    mcp_agent: Callable[..., McpAgent], remember: Remember, state: Callable[..., None], actor: Actor
) -> None:
    state("zebra", "is", "striped", project="zoo")
    pinned = remember("a zebra", project="zoo", pinned=True)
    trashed = remember("a lion", project="farm")
    memories.trash_memories([trashed.uid], actor)
    confined = mcp_agent(projects=["farm"])
    assert listed(confined) == []
    for path in (pinned.uid, trashed.uid, "project/zoo/facts", "project/zoo/pinned"):
        assert is_missing(confined, f"memory://{path}")


def test_reading_a_secret_is_journaled(bot: McpAgent, remember: Remember) -> None:
    memory = remember("a secret zebra", sensitivity="secret")
    read(bot, f"memory://{memory.uid}?allow_secret=true")
    assert "resource of a memory" in str(JournalEntry.objects.order_by("seq").last().detail)  # type: ignore[union-attr]


def test_reading_needs_the_right(mcp_agent: Callable[..., McpAgent], remember: Remember) -> None:
    agent = mcp_agent(rights=["write"])
    uri = f"memory://{remember('zebra').uid}"
    for method, params in (
        ("resources/read", {"uri": uri}),
        ("resources/list", {}),
        ("prompts/get", {"name": "recall", "arguments": {"query": "zebra"}}),
    ):
        assert agent.ask(method, params)["error"]["data"] == {"code": "missing_right"}


def test_list_of_resources_has_pages(
    bot: McpAgent, state: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryhub.mcp.server.PAGE_SIZE", 2)
    for name in "abcde":
        state("x", "is", "y", project=name)
    seen, cursor = [], ""
    while True:
        page = bot.ask("resources/list", {"cursor": cursor})["result"]
        seen += [one["name"] for one in page["resources"]]
        if not (cursor := page.get("nextCursor", "")):
            break
    assert seen == [f"Facts of {name}" for name in "abcde"]


def test_templates_name_every_address(bot: McpAgent) -> None:
    templates = bot.ask("resources/templates/list")["result"]["resourceTemplates"]
    assert [one["uriTemplate"] for one in templates] == [
        "memory://{id}",
        "memory://project/{project}/pinned",
        "memory://project/{project}/facts",
    ]


@each("toolset", TOOLSETS)
def test_recall_prompt_contains_what_the_toolset_finds(
    bot: McpAgent, remember: Remember, toolset: str
) -> None:
    remember("The export runs at night")
    agent = McpAgent(bot.raw, toolset)
    got = agent.ask("prompts/get", {"name": "recall", "arguments": {"query": "export {night}"}})["result"]
    [message] = got["messages"]
    assert message["role"] == "user"
    assert "The export runs at night" in message["content"]["text"]
    assert f"the tool {TOOLSETS[toolset].recall[0]}" in message["content"]["text"]


@each("toolset", TOOLSETS)
def test_remember_prompt_names_the_tool_and_stores_nothing(bot: McpAgent, toolset: str) -> None:
    agent = McpAgent(bot.raw, toolset)
    given = {"name": "remember", "arguments": {"content": "Deploy on {Mondays}"}}
    text = agent.ask("prompts/get", given)["result"]["messages"][0]["content"]["text"]
    assert "Deploy on {Mondays}" in text
    assert f"the tool {TOOLSETS[toolset].remember[0]}" in text
    assert not Memory.objects.exists()


@each(
    "params, words",
    [
        ({"name": "recal"}, "did you mean recall?"),
        ({}, "Unknown prompt"),
        ({"name": "recall"}, "params.arguments.query"),
        ({"name": "recall", "arguments": {"query": " "}}, "params.arguments.query"),
        ({"name": "remember", "arguments": {"content": 7}}, "params.arguments.content"),
        ({"name": "remember", "arguments": [1]}, "params.arguments.content"),
    ],
)
def test_invalid_prompt_is_refused(bot: McpAgent, params: dict[str, Any], words: str) -> None:
    error = bot.ask("prompts/get", params)["error"]
    assert error["code"] == -32602
    assert words in error["message"]


def test_answers_have_the_shape_of_both_revisions(
    bot: McpAgent, remember: Remember, state: Callable[..., None]
) -> None:
    uri = f"memory://{remember('zebra', project='p', pinned=True).uid}"
    state("x", "is", "y", project="p")
    for method, params, name in (
        ("resources/list", {}, "ListResourcesResult"),
        ("resources/templates/list", {}, "ListResourceTemplatesResult"),
        ("resources/read", {"uri": uri}, "ReadResourceResult"),
        ("prompts/list", {}, "ListPromptsResult"),
        ("prompts/get", {"name": "recall", "arguments": {"query": "zebra"}}, "GetPromptResult"),
    ):
        getattr(handshake, name).model_validate(bot.ask(method, params)["result"])
        headers = {"Mcp_Name": params.get("uri") or params.get("name") or ""}
        answered = bot.post_stateless(method, params, **headers).json()
        getattr(stateless, name).model_validate(answered["result"])
