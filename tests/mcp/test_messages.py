"""Valid and invalid messages, and responses checked against the SDK's types."""

from __future__ import annotations

import json
from typing import Any

import mcp_types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import _v2025_11_25 as handshake
from mcp_types import _v2026_07_28 as stateless
from mcp_types import version as sdk

from memoryhub import mcp
from memoryhub.mcp import Request, RpcError, http
from memoryhub.toolsets import TOOLSETS
from tests.cases import each
from tests.mcp.conftest import McpAgent

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def test_every_sdk_version_is_supported() -> None:
    assert mcp.HANDSHAKE_VERSIONS == sdk.HANDSHAKE_PROTOCOL_VERSIONS
    assert mcp.STATELESS_VERSIONS == sdk.MODERN_PROTOCOL_VERSIONS
    assert mcp.VERSION_KEY == mcp_types.PROTOCOL_VERSION_META_KEY
    assert mcp.CAPABILITIES_KEY == mcp_types.CLIENT_CAPABILITIES_META_KEY


@pytest.mark.parametrize("requested", sdk.HANDSHAKE_PROTOCOL_VERSIONS)
def test_handshake_agrees_on_the_requested_version(requested: str) -> None:
    assert mcp.negotiate_version(requested) == requested


@pytest.mark.parametrize("requested", ["2099-01-01", "2026-07-28", "", "x" * 1000])
def test_handshake_offers_the_newest_version_otherwise(requested: str) -> None:
    assert mcp.negotiate_version(requested) == "2025-11-25"


@pytest.mark.parametrize(
    ("item", "read"),
    [
        ({"jsonrpc": "2.0", "id": 1, "method": "m"}, Request(1, "m", {})),
        ({"jsonrpc": "2.0", "id": "a", "method": "m", "params": {"x": 1}}, Request("a", "m", {"x": 1})),
        ({"jsonrpc": "2.0", "id": 1, "method": "m", "params": None}, Request(1, "m", {})),
        ({"jsonrpc": "2.0", "method": "m"}, None),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, None),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}, None),
    ],
)
def test_message_is_parsed(item: Any, read: Request | None) -> None:
    assert mcp.parse_message(item) == read


@pytest.mark.parametrize(
    ("item", "code", "known"),
    [
        (7, -32600, None),
        ("ping", -32600, None),
        (None, -32600, None),
        ({}, -32600, None),
        ({"jsonrpc": "1.0", "id": 1, "method": "m"}, -32600, 1),
        ({"id": "a", "method": "m"}, -32600, "a"),
        ({"jsonrpc": "2.0", "id": 1}, -32600, 1),
        ({"jsonrpc": "2.0", "id": 1, "method": 7}, -32600, 1),
        ({"jsonrpc": "2.0", "id": None, "method": "m"}, -32600, None),
        ({"jsonrpc": "2.0", "id": True, "method": "m"}, -32600, None),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "m"}, -32600, None),
        ({"jsonrpc": "2.0", "id": [1], "method": "m"}, -32600, None),
        ({"jsonrpc": "2.0", "id": 1, "method": "m", "params": [1]}, -32602, 1),
        ({"jsonrpc": "2.0", "id": 1, "method": "m", "params": "x"}, -32602, 1),
    ],
)
def test_invalid_message_is_refused_with_its_id(item: Any, code: int, known: Any) -> None:
    with pytest.raises(RpcError) as caught:
        mcp.parse_message(item)
    assert (caught.value.code, caught.value.id) == (code, known)


@given(JSON)
def test_any_bytes_are_parsed_or_refused(item: Any) -> None:
    try:
        mcp.parse_message(item)
    except RpcError as problem:
        json.dumps(mcp.error_message(problem))


@given(st.text())
def test_any_header_is_decoded_or_refused(value: str) -> None:
    http.decode_header(value)
    http.decode_header(f"=?base64?{value}?=")


BODIES = [
    (b" ", -32700),
    (b"{", -32700),
    (b"\xff\xfe", -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":Infinity}}', -32700),
    (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700),
    (b"[" * 200_000, -32700),
    (b'{"a":' * 100_000, -32700),
    (b"1" * 10_000, -32700),
    (b"[]", -32600),
    (b"[1,2]", None),
    (b"true", -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"no/method"}', -32601),
    (b'{"jsonrpc":"2.0","id":1,"method":"__init__"}', -32601),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":{}}}', -32602),
    (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_memories","arguments":[]}}',
        -32602,
    ),
    (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7}}', -32602),
]


@pytest.mark.parametrize(("body", "code"), BODIES, ids=[str(n) for n in range(len(BODIES))])
def test_hostile_body_is_an_error_and_not_an_exception(bot: McpAgent, body: bytes, code: int | None) -> None:
    response = bot.send(body)
    assert response.status_code in (200, 400)
    answered = response.json()
    if code is None:
        assert [one["error"]["code"] for one in answered] == [-32600, -32600]
    else:
        assert answered["error"]["code"] == code


@settings(max_examples=60)
@given(method=st.sampled_from(["tools/call", "tools/list", "initialize", "ping", "x"]), params=JSON, id=JSON)
def test_any_message_is_answered(bot: McpAgent, method: str, params: Any, id: Any) -> None:
    response = bot.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    assert response.status_code in (200, 400)
    assert response.json()["jsonrpc"] == "2.0"


class TestArrays:
    """Batches, which one version has."""

    def test_each_request_is_answered(self, bot: McpAgent) -> None:
        several = [ping(1), {"jsonrpc": "2.0", "method": "note"}, ping("b"), {"jsonrpc": "2.0", "id": 3}]
        answered = bot.send(several).json()
        assert [(one["id"], "error" in one) for one in answered] == [(1, False), ("b", False), (3, True)]

    def test_batch_without_requests_is_accepted(self, bot: McpAgent) -> None:
        assert bot.send([{"jsonrpc": "2.0", "method": "note"}]).status_code == 202

    def test_batch_with_a_handshake_is_refused(self, bot: McpAgent) -> None:
        [answered] = bot.send([{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}]).json()
        assert answered["error"]["code"] == -32600

    def test_batch_size_is_limited(self, bot: McpAgent) -> None:
        assert bot.send([ping(n) for n in range(51)]).json()["error"]["code"] == -32600

    @each("version", ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"])
    def test_other_versions_have_no_batches(self, bot: McpAgent, version: str) -> None:
        assert bot.send([ping(1)], MCP_Protocol_Version=version).status_code == 400

    def test_session_remembers_its_version(self, bot: McpAgent) -> None:
        for version, status in (("2025-03-26", 200), ("2025-06-18", 400)):
            assert bot.send([ping(1)], Mcp_Session_Id=bot.begin(version)).status_code == status


def ping(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "ping"}


class TestShapes:
    """Responses parsed by the strict types of the SDK."""

    @each("toolset", sorted(TOOLSETS))
    def test_the_handshake(self, bot: McpAgent, toolset: str) -> None:
        mcp_agent = McpAgent(bot.raw, toolset)
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        found = handshake.InitializeResult.model_validate(mcp_agent.ask("initialize", params)["result"])
        assert found.server_info.name == f"memoryhub-{toolset}"
        assert found.instructions
        assert TOOLSETS[toolset].description in found.instructions

    @each("toolset", sorted(TOOLSETS))
    def test_the_list_of_tools(self, bot: McpAgent, toolset: str) -> None:
        mcp_agent = McpAgent(bot.raw, toolset)
        before = handshake.ListToolsResult.model_validate(mcp_agent.ask("tools/list")["result"])
        after = stateless.ListToolsResult.model_validate(
            mcp_agent.post_stateless("tools/list").json()["result"]
        )
        assert [tool.name for tool in before.tools] == [tool.name for tool in after.tools]
        for tool in after.tools:
            assert tool.description
            assert tool.input_schema.type == "object"
            assert tool.annotations

    @pytest.mark.parametrize("cursor", [None, ""])
    def test_empty_cursor_lists_from_the_first_tool(self, bot: McpAgent, cursor: Any) -> None:
        assert bot.ask("tools/list", {"cursor": cursor}) == bot.ask("tools/list")

    def test_a_call(self, bot: McpAgent) -> None:
        handshake.CallToolResult.model_validate(bot.call("list_memories"))
        handshake.CallToolResult.model_validate(bot.call("get_memory", id="nothing"))
        for arguments in ({}, {"limit": -1}):
            response = bot.post_stateless("tools/call", {"name": "list_memories", "arguments": arguments})
            stateless.CallToolResult.model_validate(response.json()["result"])

    def test_discovery(self, bot: McpAgent) -> None:
        found = stateless.DiscoverResult.model_validate(
            bot.post_stateless("server/discover").json()["result"]
        )
        assert found.supported_versions[0] == "2026-07-28"
        assert found.instructions
        assert bot.ask("server/discover")["error"]["code"] == -32601
