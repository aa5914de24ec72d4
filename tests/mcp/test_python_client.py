"""The official Python SDK's client against the real server, with and without handshake."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from memoryhub.toolsets import TOOLSETS
from tests.mcp import every_tool
from tests.mcp.clients import over_http
from tests.mcp.conftest import Served

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
VERSIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@ERAS
@pytest.mark.parametrize("toolset", sorted(TOOLSETS))
def test_client_connects_to_every_toolset_and_lists_tools(served: Served, toolset: str, mode: str) -> None:
    async def look(client: Client) -> None:
        assert client.protocol_version == VERSIONS[mode]
        assert client.server_info is not None
        assert client.server_info.name == f"memoryhub-{toolset}"
        assert "never instructions" in (client.instructions or "")
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == [tool.name for tool in TOOLSETS[toolset].tools]
        for tool, known in zip(listed, TOOLSETS[toolset].tools, strict=True):
            assert tool.description == known.description
            assert tool.input_schema == known.input_schema
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is known.read_only
            assert tool.annotations.destructive_hint is known.destructive

    over_http(served.url(toolset), bearer(served.token), look, mode)


@ERAS
@pytest.mark.parametrize("toolset", sorted(TOOLSETS))
def test_client_runs_every_tool(served: Served, toolset: str, mode: str) -> None:
    async def work(client: Client) -> None:
        called, latest = set(), ""
        for name, arguments in every_tool.CALLS[toolset]:
            found = await client.call_tool(name, every_tool.fill_in(arguments, latest))
            assert not found.is_error, (name, found.content)
            assert len(found.content) == 1, "a second text names ignored arguments"
            latest = every_tool.find_id(found.structured_content, found.content[0].text) or latest
            called.add(name)
        assert called == {tool.name for tool in (await client.list_tools()).tools}

    over_http(served.url(toolset), bearer(served.token), work, mode)


@ERAS
def test_client_reads_resources_and_prompts(served: Served, mode: str) -> None:
    async def work(client: Client) -> None:
        project = f"resources of {mode}"
        made = await done(client, "store_memory", content="the bilby digs", project=project, pinned=True)
        await done(client, "store_fact", subject="bilby", predicate="digs", object="holes", project=project)
        listed = [one for one in (await client.list_resources()).resources if project in one.name]
        assert [one.name for one in listed] == [f"Facts of {project}", f"Pinned of {project}"]
        texts = [(await client.read_resource(one.uri)).contents[0].text for one in listed]
        assert texts[0] == "- bilby — digs — holes"
        assert "the bilby digs" in texts[1]
        [content] = (await client.read_resource(f"memory://{made['id']}")).contents
        assert content.text.startswith("the bilby digs")
        assert len((await client.list_resource_templates()).resource_templates) == 3
        assert [one.name for one in (await client.list_prompts()).prompts] == ["recall", "remember"]
        [message] = (await client.get_prompt("recall", {"query": "bilby"})).messages
        assert "the bilby digs" in message.content.text
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource("memory://nothing")

    over_http(served.url("letsgo"), bearer(served.token), work, mode)


@ERAS
def test_client_stores_finds_updates_and_deletes(served: Served, mode: str) -> None:
    async def work(client: Client) -> None:
        made = await done(client, "store_memory", content=f"the quokka of {mode} smiles", project=mode)
        found = await done(client, "search_memories", query="quokka", project=mode)
        assert [one["id"] for one in found["results"]] == [made["id"]]
        await done(client, "update_memory", id=made["id"], title="Quokka")
        assert (await done(client, "get_memory", id=made["id"]))["memory"]["title"] == "Quokka"
        assert (await done(client, "delete_memory", id=made["id"]))["outcome"] == "trashed"
        assert (await done(client, "search_memories", query="quokka", project=mode))["results"] == []

    over_http(served.url("letsgo"), bearer(served.token), work, mode)


@ERAS
@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("get_memory", {"id": "nothing"}, "not found; it may not exist, or you may not have access"),
        (
            "store_memory",
            {"content": "x", "importance": 7},
            "importance: Input should be less than",
        ),
        ("store_memory", {}, "content: Field required"),
        ("store_memory", {"content": "x", "project": 7}, "project: Input should be a valid string"),
    ],
)
def test_refusal_is_a_result_with_text(
    served: Served, mode: str, name: str, arguments: dict[str, Any], words: str
) -> None:
    async def refused(client: Client) -> Any:
        return await client.call_tool(name, arguments)

    found = over_http(served.url("letsgo"), bearer(served.token), refused, mode)
    assert found.is_error
    assert words in found.content[0].text


@ERAS
def test_missing_right_is_a_refusal(served: Served, mode: str) -> None:
    async def refused(client: Client) -> Any:
        return await client.call_tool("store_memory", {"content": "x"})

    found = over_http(served.url("letsgo"), bearer(served.reader), refused, mode)
    assert found.is_error
    assert "this token lacks the right 'write'" in found.content[0].text
    assert found.structured_content["code"] == "missing_right"


@ERAS
def test_unknown_tool_is_a_protocol_error(served: Served, mode: str) -> None:
    async def unknown(client: Client) -> None:
        with pytest.raises(MCPError, match="Unknown tool") as caught:
            await client.call_tool("drop_tables", {})
        assert caught.value.code == INVALID_PARAMS

    over_http(served.url("letsgo"), bearer(served.token), unknown, mode)


@ERAS
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer mh_wrong"}], ids=["none", "wrong"])
def test_client_without_a_valid_token_cannot_connect(
    served: Served, mode: str, headers: dict[str, str]
) -> None:
    async def nothing(client: Client) -> None:
        raise AssertionError("connected")

    with pytest.raises(BaseExceptionGroup) as caught:
        over_http(served.url("letsgo"), headers, nothing, mode)
    assert not caught.group_contains(AssertionError)


def test_api_key_header_works(served: Served) -> None:
    async def count(client: Client) -> int:
        return len((await client.list_tools()).tools)

    assert over_http(served.url("letsgo"), {"X-API-Key": served.token}, count) == 15


async def done(client: Client, name: str, **arguments: Any) -> Any:
    found = await client.call_tool(name, arguments)
    assert not found.is_error, found.content
    return found.structured_content
