"""Agents that call tools over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.conftest import Agent, agent, bot

__all__ = ["Agent", "agent", "bot"]


def run(caller: Agent, toolset: str, tool: str, **arguments: Any) -> Any:
    """Call a tool and return the response."""
    return caller.post(f"/tools/{toolset}/{tool}", arguments)


def result(response: Any) -> Any:
    assert response.status_code == 200, response.content
    return response.json()["result"]


@pytest.fixture
def mira(bot: Agent) -> Callable[..., Any]:
    """``mira("recall", query="…")``: the result."""
    return lambda action, **rest: result(run(bot, "mira", "memory", action=action, **rest))


@pytest.fixture
def mcp(bot: Agent) -> Callable[..., Any]:
    """``mcp("recall", query="…")``: the result of memory_recall."""
    return lambda name, **rest: result(run(bot, "memory-mcp", f"memory_{name}", **rest))


@pytest.fixture
def pigo(bot: Agent) -> Callable[..., Any]:
    """``pigo("recall", query="…")``: the result of memory_recall."""
    return lambda name, **rest: result(run(bot, "pigo", f"memory_{name}", **rest))


def id_in(sentence: str) -> str:
    """Return the id in one of Mira's sentences."""
    return sentence.rstrip(")").rpartition(": ")[2]
