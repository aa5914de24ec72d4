"""A toolset's tools as MCP lists and calls them."""

from __future__ import annotations

import json
import logging
from typing import Any

from memoryhub.agents.api.errors import problem_of
from memoryhub.agents.auth import Caller
from memoryhub.agents.mcp.messages import INVALID_PARAMS, RpcError
from memoryhub.agents.problems import Problem
from memoryhub.agents.toolset import Tool, Toolset

logger = logging.getLogger(__name__)


def listing(toolset: Toolset) -> list[dict[str, Any]]:
    """Every tool, always in the same order; one that needs a right the caller lacks says so when called."""
    return [_shape(tool) for tool in toolset.tools]


def call(toolset: Toolset, caller: Caller, params: dict[str, Any], reference: str) -> dict[str, Any]:
    """Run a tool. What the tool refuses is a result that says so, for the model to read and mend.

    RpcError where the call itself is no call. ``reference``: what the log calls this request.
    """
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str):
        raise RpcError(INVALID_PARAMS, "params.name must be a text: the name of a tool")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, "params.arguments must be an object")
    tool = toolset.find(name)
    if tool is None:
        raise RpcError(INVALID_PARAMS, "Unknown tool: tools/list names those of this toolset")
    try:
        done = tool.run(caller, arguments)
    except Exception as exc:
        problem = problem_of(exc)
        if problem.status >= 500:
            logger.exception("%s %s/%s: %s", reference, toolset.name, tool.name, problem.code)
        return _refused(problem, reference)
    return _done(done.result, done.ignored)


def _shape(tool: Tool[Any]) -> dict[str, Any]:
    return {
        "name": tool.name,
        "title": tool.name.replace("_", " ").capitalize(),
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "annotations": tool.annotations,
    }


def _done(value: Any, ignored: list[str]) -> dict[str, Any]:
    """The result as text for every client, and as data, which must be an object, for those that take it."""
    content = [_text(value if isinstance(value, str) else _json(value))]
    if ignored:
        content.append(_text(f"These arguments are not known and were ignored: {', '.join(ignored)}"))
    structured = value if isinstance(value, dict) else {"result": value}
    return {"content": content, "structuredContent": structured, "isError": False}


def _refused(problem: Problem, reference: str) -> dict[str, Any]:
    """The words of the JSON API's problem, and the problem itself."""
    more = [error for error in problem.errors if error["message"] not in problem.detail]
    words = [problem.detail, *(f"{error['field']}: {error['message']}" for error in more)]
    return {
        "content": [_text("\n".join(words))],
        "structuredContent": problem.as_dict(reference),
        "isError": True,
    }


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
