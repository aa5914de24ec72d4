"""``/tools``: every registered toolset over HTTP."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from ninja import Body, Router
from pydantic import BaseModel, ConfigDict, Field

from memoryhub.api.schemas import ListOf, ToolResult, documented
from memoryhub.http.authentication import ANY_RIGHT, READ, ApiRequest
from memoryhub.http.problems import Problem, json_response, list_response
from memoryhub.toolsets import TOOLSETS
from memoryhub.toolsets.base import Toolset, did_you_mean

router = Router(tags=["Tools"])


class ToolsetShape(BaseModel):
    name: str
    description: str
    tools: list[str]


class ToolShape(BaseModel):
    name: str
    description: str
    inputSchema: dict[str, Any]
    annotations: dict[str, bool]


@router.get("/tools", auth=READ, response=documented(ListOf[ToolsetShape]), summary="List toolsets")
def list_toolsets(request: ApiRequest) -> HttpResponse:
    """Returns the sets of tools that agents can use."""
    return list_response(
        [
            {"name": one.name, "description": one.description, "tools": [tool.name for tool in one.tools]}
            for one in TOOLSETS.values()
        ]
    )


@router.get(
    "/tools/{toolset}",
    auth=READ,
    response=documented(ListOf[ToolShape], errors=(404,)),
    summary="List the tools of a toolset",
)
def list_tools(request: ApiRequest, toolset: str) -> HttpResponse:
    """Returns the tools with the JSON Schema of their arguments."""
    return list_response([tool.as_dict() for tool in _find_toolset(toolset).tools])


@router.post(
    "/tools/{toolset}/{tool}",
    auth=ANY_RIGHT,
    response=documented(ToolResult, errors=(404, 409)),
    summary="Run a tool",
)
def run_tool(
    request: ApiRequest, toolset: str, tool: str, arguments: Body[dict[str, Any] | None] = None
) -> HttpResponse:
    """The body contains the arguments. The required right depends on the tool."""
    return _run_named_tool(request, toolset, tool, arguments)


class ToolCall(BaseModel):
    """The name and arguments of a tool."""

    model_config = ConfigDict(extra="ignore")

    name: str = Field(description="Name of the tool.")
    arguments: dict[str, Any] | None = Field(None, description="Arguments of the tool.")


@router.post(
    "/tools/{toolset}",
    auth=ANY_RIGHT,
    response=documented(ToolResult, errors=(404, 409)),
    summary="Run a tool by name",
)
def call_tool(request: ApiRequest, toolset: str, call: ToolCall) -> HttpResponse:
    """Same as ``POST /tools/{toolset}/{tool}``, with ``{"name", "arguments"}`` as the body."""
    return _run_named_tool(request, toolset, call.name, call.arguments)


def _run_named_tool(
    request: ApiRequest, toolset: str, tool: str, arguments: dict[str, Any] | None
) -> HttpResponse:
    found = _find_toolset(toolset)
    handler = found.find(tool)
    if handler is None:
        hint = did_you_mean(tool, (one.name for one in found.tools))
        detail = f"this toolset has no such tool{hint or ';'} GET /tools/{{toolset}} lists them"
        raise Problem(404, "unknown_tool", detail)
    outcome = handler.run(request.auth, arguments or {})
    suggestions = {"suggestions": outcome.suggestions} if outcome.suggestions else {}
    return json_response({"result": outcome.result, "ignored": outcome.ignored, **suggestions})


def _find_toolset(name: str) -> Toolset:
    if name not in TOOLSETS:
        hint = did_you_mean(name, TOOLSETS)
        raise Problem(404, "unknown_toolset", f"unknown toolset{hint or ';'} GET /tools lists them")
    return TOOLSETS[name]
