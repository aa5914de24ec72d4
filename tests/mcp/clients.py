"""The official Python SDK's client for synchronous tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

SECONDS = 120  # for an answer: a busy machine takes its time
Found = TypeVar("Found")
Task = Callable[[Client], Awaitable[Found]]


def over_http(url: str, headers: dict[str, str], task: Task[Found], mode: str = "auto") -> Found:
    """Connect, run the task and disconnect."""

    async def run() -> Found:
        async with httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode=mode, read_timeout_seconds=SECONDS) as client:
                return await task(client)

    return anyio.run(run)


def over_stdio(parameters: StdioServerParameters, task: Task[Found], mode: str = "auto") -> Found:
    """Start the server, run the task and stop it."""

    async def run() -> Found:
        async with Client(parameters, mode=mode, read_timeout_seconds=SECONDS) as client:
            return await task(client)

    return anyio.run(run)
