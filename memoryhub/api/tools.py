"""``/tools``: every registered toolset over HTTP."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from ninja import Body, Router
from pydantic import BaseModel, ConfigDict, Field

from memoryhub.api.schemas import ListOf, ToolResult, ToolsetShape, ToolShape, documented
from memoryhub.http.authentication import ANY_RIGHT, READ, ApiRequest
from memoryhub.http.problems import Problem, json_response
from memoryhub.toolsets import TOOLSETS
from memoryhub.toolsets.base import Toolset

router = Router(tags=["tools"])


@router.get("/tools", auth=READ, response=documented(ListOf[ToolsetShape]), summary="List the toolsets")
def list_toolsets(request: ApiRequest) -> HttpResponse:
    """The vocabularies in which agents may speak to the hub."""
    return _list_response(
        [
            {"name": one.name, "description": one.description, "tools": [tool.name for tool in one.tools]}
            for one in TOOLSETS.values()
        ]
    )


@router.get(
    "/tools/{toolset}",
    auth=READ,
    response=documented(ListOf[ToolShape], errors=(404,)),
    summary="List its tools",
)
def list_tools(request: ApiRequest, toolset: str) -> HttpResponse:
    """Each with the JSON Schema of its arguments."""
    return _list_response([tool.as_dict() for tool in _find_toolset(toolset).tools])


@router.post(
    "/tools/{toolset}/{tool}",
    auth=ANY_RIGHT,
    response=documented(ToolResult, errors=(404, 409)),
    summary="Run a tool",
)
def run_tool(
    request: ApiRequest, toolset: str, tool: str, arguments: Body[dict[str, Any] | None] = None
) -> HttpResponse:
    """The arguments are the body; each tool says which right it needs."""
    return _run_named_tool(request, toolset, tool, arguments)


class ToolCall(BaseModel):
    """A call as an agent's model writes it."""

    model_config = ConfigDict(extra="ignore")

    name: str = Field(description="The tool's name.")
    arguments: dict[str, Any] | None = Field(None, description="What it takes.")


@router.post(
    "/tools/{toolset}",
    auth=ANY_RIGHT,
    response=documented(ToolResult, errors=(404, 409)),
    summary="Run a tool by its name",
)
def call_tool(request: ApiRequest, toolset: str, call: ToolCall) -> HttpResponse:
    """As ``POST /tools/{toolset}/{tool}``; the body names the tool: ``{"name", "arguments"}``."""
    return _run_named_tool(request, toolset, call.name, call.arguments)


def _run_named_tool(
    request: ApiRequest, toolset: str, tool: str, arguments: dict[str, Any] | None
) -> HttpResponse:
    handler = _find_toolset(toolset).find(tool)
    if handler is None:
        raise Problem(404, "unknown_tool", "this toolset has no such tool; GET /tools/{toolset} lists them")
    outcome = handler.run(request.auth, arguments or {})
    return json_response({"result": outcome.result, "ignored": outcome.ignored})


def _find_toolset(name: str) -> Toolset:
    if name not in TOOLSETS:
        raise Problem(404, "unknown_toolset", "unknown toolset; GET /tools lists them")
    return TOOLSETS[name]


def _list_response(items: list[dict[str, Any]]) -> HttpResponse:
    return json_response({"items": items, "next_cursor": None, "total": len(items)})
