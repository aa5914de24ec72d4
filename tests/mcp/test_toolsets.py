"""Every tool of every toolset answers over MCP as over the API, for any arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from memoryhub.toolsets import TOOLSETS
from memoryhub.toolsets.base import Tool
from tests.cases import each
from tests.mcp.conftest import RIGHTS, McpAgent
from tests.mcp.test_messages import JSON

TOOLS = [(toolset.name, tool) for toolset in TOOLSETS.values() for tool in toolset.tools]
EVERY = pytest.mark.parametrize(
    ("toolset", "tool"), TOOLS, ids=[f"{name}-{tool.name}" for name, tool in TOOLS]
)


@EVERY
def test_schema_is_valid_and_self_contained(toolset: str, tool: Tool[Any]) -> None:
    Draft202012Validator.check_schema(tool.input_schema)
    assert tool.input_schema["type"] == "object"
    assert "http" not in json.dumps(tool.input_schema)


@EVERY
def test_mcp_answers_and_refuses_like_http(bot: McpAgent, toolset: str, tool: Tool[Any]) -> None:
    mcp_agent = McpAgent(bot.raw, toolset)
    for arguments in (
        {},
        {name: [] for name in tool.input_schema["properties"]},
        {"id": "nothing", "query": ""},
    ):
        path = f"/api/v1/tools/{toolset}/{tool.name}"
        answered = bot.http.post(path, json.dumps(arguments), content_type="application/json")
        body, over_mcp = answered.json(), mcp_agent.call(tool.name, **arguments)
        assert over_mcp["isError"] is (answered.status_code >= 400)
        if over_mcp["isError"]:
            assert over_mcp["structuredContent"]["code"] == body["code"]
            assert over_mcp["content"][0]["text"].startswith(body["detail"])
        elif isinstance(body["result"], dict):
            assert over_mcp["structuredContent"].keys() == body["result"].keys()


@each("toolset, tool", [one for one in TOOLS if one[1].right])
def test_tool_without_its_right_does_nothing(mcp_agent: Any, toolset: str, tool: Tool[Any]) -> None:
    lacking = mcp_agent(rights=[right for right in RIGHTS if right != tool.right])
    over_mcp = McpAgent(lacking.raw, toolset).call(tool.name)
    assert over_mcp["structuredContent"]["code"] == "missing_right"


@pytest.mark.slow
@EVERY
@settings(max_examples=15)
@given(data=st.data())
def test_any_arguments_are_answered(
    bot: McpAgent, toolset: str, tool: Tool[Any], data: st.DataObject
) -> None:
    names = st.sampled_from(sorted(tool.input_schema["properties"]) or ["x"])
    arguments = data.draw(st.dictionaries(names, JSON, max_size=4))
    over_mcp = McpAgent(bot.raw, toolset).call(tool.name, **arguments)
    assert over_mcp["structuredContent"].get("status", 0) < 500
