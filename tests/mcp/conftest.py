"""Agents at the MCP door: in this process for what a message may be, and a real server for real clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from memoryhub.access.policy import system_actor
from memoryhub.accounts import tokens
from tests.commands import hub as hubs
from tests.commands.hub import Hub

RIGHTS = ("read", "write", "maintain")
STATELESS = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Door:
    """A token at ``/mcp/{toolset}`` in this process. Errors are answers, not exceptions."""

    def __init__(self, raw: str = "", toolset: str = "letsgo") -> None:
        self.raw = raw
        self.path = f"/mcp/{toolset}"
        bearer = {"Authorization": f"Bearer {raw}"} if raw else {}
        self.http = Client(headers=bearer, raise_request_exception=False)

    def send(self, body: Any, **headers: str) -> Any:
        """Any body; underscores in the names of headers are hyphens."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        content_type = named.pop("Content-Type", "application/json")
        return self.http.post(self.path, data, content_type=content_type, headers=named)

    def ask(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        """The response to a request of the handshake's era."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        found: dict[str, Any] = self.send(message, **headers).json()
        assert (found["jsonrpc"], found["id"]) == ("2.0", 1)
        return found

    def post_stateless(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> Any:
        """A request that says its version itself, with the headers that repeat it; None leaves one out."""
        params = {**(params or {}), "_meta": META}
        named = {"MCP_Protocol_Version": STATELESS, "Mcp_Method": method}
        if "name" in params:
            named["Mcp_Name"] = params["name"]
        named.update(headers)
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.send(message, **{name: value for name, value in named.items() if value})

    def begin(self, version: str = "2025-11-25") -> str:
        """The id of a new session."""
        params = {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        return str(self.send(message)["Mcp-Session-Id"])

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """A tool's result, refused or not."""
        answered = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert "result" in answered, answered
        found: dict[str, Any] = answered["result"]
        return found

    def done(self, name: str, **arguments: Any) -> Any:
        """What a tool did, which must not have been refused."""
        found = self.call(name, **arguments)
        assert found["isError"] is False, found
        return found["structuredContent"]


@pytest.fixture
def door(db: None) -> Callable[..., Door]:
    """``door("private", rights=["read"], projects=["p"])`` has such a token; it is ada's."""

    def make(
        clearance: str = "secret",
        toolset: str = "letsgo",
        name: str = "bot",
        owner: str = "ada",
        **options: Any,
    ) -> Door:
        options.setdefault("rights", RIGHTS)
        _, raw = tokens.issue_token(name, "ada", clearance, actor=system_actor("tests"), **options)
        return Door(raw, toolset)

    return make


@pytest.fixture
def bot(door: Callable[..., Door]) -> Door:
    """May do and see everything, when asked for."""
    return door()


@dataclass(frozen=True)
class Served:
    """A hub that serves from a folder of its own, with a token for everything and one that reads alone."""

    hub: Hub
    port: int
    token: str
    reader: str

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url(self, toolset: str) -> str:
        return f"{self.base}/mcp/{toolset}"


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """As in production: granian with two worker processes."""
    hub = hubs.copy(tmp_path_factory.mktemp("mcp"))
    _run(hub, "migrate", "--verbosity", "0")
    everything = _run(hub, "create_token", "bot", "--clearance", "secret", "--rights", ",".join(RIGHTS))
    reader = _run(hub, "create_token", "reader", "--rights", "read")
    port = hubs.free_port()
    with (
        (hub.home / "server.log").open("w") as log,
        hub.serving(port, "serve", "--port", str(port), "--workers", "2", output=log, **PLAIN),
    ):
        yield Served(hub, port, everything, reader)


PLAIN = {"MEMORYHUB_EMBEDDINGS": "none"}  # which need not be loaded for what is tested here
HERE = Path(__file__).resolve().parent


def _run(hub: Hub, *arguments: str) -> str:
    done = hub.run(*arguments, **PLAIN)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
