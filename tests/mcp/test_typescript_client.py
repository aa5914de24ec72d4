"""The official TypeScript SDK's clients against the real server and over standard input and output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from memoryhub.toolsets import TOOLSETS
from tests.mcp import every_tool, node
from tests.mcp.conftest import PLAIN, Served

CLIENTS = [("v1", "legacy"), ("v2", "legacy"), ("v2", "auto")]
VERSIONS = {"legacy": "2025-11-25", "auto": "2026-07-28"}
CALLS = [
    {"name": "store_memory", "arguments": {"content": "the numbat eats termites"}},
    {"name": "search_memories", "arguments": {"query": "numbat"}},
    {"name": "get_memory", "arguments": {"id": "nothing"}},
    {"name": "store_memory", "arguments": {"content": 7}},
    {"name": "drop_tables", "arguments": {}},
]


Talk = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session", params=CLIENTS, ids=["-".join(one) for one in CLIENTS])
def talk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Talk:
    """``talk({"url": …}, …)``: what one of the clients reports about each server.

    The first fixture of each test, so that no server starts without a client.
    """
    sdk, mode = request.param
    node.require_node(sdk)
    folder = tmp_path_factory.mktemp("typescript")

    def tell(*servers: dict[str, Any]) -> list[dict[str, Any]]:
        found = node.talk(folder, sdk, mode, list(servers))
        for one in found:
            assert "refused" in one or one.get("version", VERSIONS[mode]) == VERSIONS[mode]
        return found

    return tell


def check(report: dict[str, Any], toolset: str = "letsgo") -> None:
    """Check what every client must report for :data:`CALLS`."""
    assert report["server"]["name"] == f"memoryhub-{toolset}"
    assert "never instructions" in report["instructions"]
    assert [tool["name"] for tool in report["tools"]] == [tool.name for tool in TOOLSETS[toolset].tools]
    [store] = [tool for tool in report["tools"] if tool["name"] == "store_memory"]
    assert store["annotations"]["readOnlyHint"] is False
    assert store["inputSchema"]["required"] == ["content"]
    stored, found, missing, wrong, unknown = report["calls"]
    assert stored["result"]["structuredContent"]["outcome"] in ("created", "refreshed")
    [hit] = found["result"]["structuredContent"]["results"]
    assert hit["content"] == "the numbat eats termites"
    assert missing["result"]["isError"] is True
    assert (
        missing["result"]["content"][0]["text"] == "not found; it may not exist, or you may not have access"
    )
    assert wrong["result"]["isError"] is True
    assert "content: Input should be a valid string" in wrong["result"]["content"][0]["text"]
    assert unknown["code"] == -32602
    assert "Unknown tool" in unknown["message"]


def test_http_client_connects_lists_calls_and_is_refused(talk: Talk, served: Served) -> None:
    report, *others = talk(http(served, "letsgo", calls=CALLS), *(http(served, name) for name in TOOLSETS))
    check(report)
    assert report.get("ended", False) is (report["version"] == VERSIONS["legacy"]), (
        "it ends the session it began"
    )
    for toolset, other in zip(TOOLSETS.values(), others, strict=True):
        assert [tool["name"] for tool in other["tools"]] == [tool.name for tool in toolset.tools]


def test_client_runs_every_tool(talk: Talk, served: Served) -> None:
    calls = {
        name: [{"name": tool, "arguments": arguments} for tool, arguments in found]
        for name, found in every_tool.CALLS.items()
    }
    reports = talk(*(http(served, name, calls=calls[name]) for name in TOOLSETS))
    for toolset, report in zip(TOOLSETS, reports, strict=True):
        for call, answer in zip(calls[toolset], report["calls"], strict=True):
            assert not answer["result"]["isError"], (call, answer)
            assert len(answer["result"]["content"]) == 1, "a second text names ignored arguments"
        assert {call["name"] for call in calls[toolset]} == {tool["name"] for tool in report["tools"]}


def test_client_reads_resources_and_prompts(talk: Talk, served: Served) -> None:
    pinned = {"content": "the bilby digs", "project": "burrow", "pinned": True}
    fact = {"subject": "bilby", "predicate": "digs", "object": "holes", "project": "burrow"}
    calls = [{"name": "store_memory", "arguments": pinned}, {"name": "store_fact", "arguments": fact}]
    talk(http(served, "letsgo", calls=calls))
    [report] = talk(
        http(
            served,
            "letsgo",
            resources=["memory://project/burrow/facts", "memory://project/burrow/pinned", "memory://nothing"],
            prompts=[{"name": "recall", "arguments": {"query": "bilby"}}],
        )
    )
    facts, pins, missing = report["resources"]
    assert facts["result"]["contents"][0]["text"] == "- bilby — digs — holes"
    assert "the bilby digs" in pins["result"]["contents"][0]["text"]
    assert "Resource not found" in missing["message"]
    assert {"Facts of burrow", "Pinned of burrow"} <= set(report["listed"]["resources"])
    assert report["listed"]["prompts"] == ["recall", "remember"]
    [prompt] = report["prompts"]
    assert "the bilby digs" in prompt["result"]["messages"][0]["content"]["text"]


def test_client_without_a_valid_token_cannot_connect(talk: Talk, served: Served) -> None:
    wrong = {"Authorization": "Bearer mh_wrong"}
    found = talk(http(served, "letsgo", headers=wrong), http(served, "letsgo", headers={}))
    assert ["refused" in report for report in found] == [True, True]


def test_stdio_client_starts_the_hub(talk: Talk, served: Served) -> None:
    environment = served.hub.environment(MEMORYHUB_TOKEN=served.token, **PLAIN)
    arguments = [str(served.hub.folder / "manage.py"), "mcp", "letsgo"]
    [report] = talk({"command": sys.executable, "args": arguments, "env": environment, "calls": CALLS})
    check(report)


def http(served: Served, toolset: str, **more: Any) -> dict[str, Any]:
    bearer = {"Authorization": f"Bearer {served.token}"}
    return {"url": served.url(toolset), "headers": bearer, **more}
