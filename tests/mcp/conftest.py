"""MCP clients: one in this process for single messages, and a real server for real clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.test import Client

from memoryhub.access.policy import system_actor
from memoryhub.accounts import tokens
from tests.commands import hub as hubs
from tests.commands.hub import Hub
from tests.settings import NODES, POSTGRES

RIGHTS = ("read", "write", "maintain")
STATELESS = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class McpAgent:
    """A client with a token for ``/mcp/{toolset}`` in this process. Errors are returned, not raised."""

    def __init__(self, raw: str = "", toolset: str = "letsgo") -> None:
        self.raw = raw
        self.path = f"/mcp/{toolset}"
        bearer = {"Authorization": f"Bearer {raw}"} if raw else {}
        self.http = Client(headers=bearer, raise_request_exception=False)

    def send(self, body: Any, **headers: str) -> Any:
        """Send any body. Underscores in header names become hyphens."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        content_type = named.pop("Content-Type", "application/json")
        return self.http.post(self.path, data, content_type=content_type, headers=named)

    def ask(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        """Send a request of a handshake version and return the response."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        found: dict[str, Any] = self.send(message, **headers).json()
        assert (found["jsonrpc"], found["id"]) == ("2.0", 1)
        return found

    def post_stateless(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> Any:
        """Send a stateless request with its matching headers; None omits one."""
        params = {**(params or {}), "_meta": META}
        named = {"MCP_Protocol_Version": STATELESS, "Mcp_Method": method}
        if "name" in params:
            named["Mcp_Name"] = params["name"]
        named.update(headers)
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.send(message, **{name: value for name, value in named.items() if value})

    def begin(self, version: str = "2025-11-25") -> str:
        """Return the id of a new session."""
        params = {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        return str(self.send(message)["Mcp-Session-Id"])

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the result of a tool call, refused or not."""
        answered = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert "result" in answered, answered
        found: dict[str, Any] = answered["result"]
        return found

    def done(self, name: str, **arguments: Any) -> Any:
        """Return the result of a tool call that must not be refused."""
        found = self.call(name, **arguments)
        assert found["isError"] is False, found
        return found["structuredContent"]


@pytest.fixture
def mcp_agent(db: None) -> Callable[..., McpAgent]:
    """``mcp_agent("private", rights=["read"], projects=["p"])``: a client with such a token of ada."""

    def make(
        clearance: str = "secret",
        toolset: str = "letsgo",
        name: str = "bot",
        owner: str = "ada",
        **options: Any,
    ) -> McpAgent:
        options.setdefault("rights", RIGHTS)
        _, raw = tokens.issue_token(name, "ada", clearance, actor=system_actor("tests"), **options)
        return McpAgent(raw, toolset)

    return make


@pytest.fixture
def bot(mcp_agent: Callable[..., McpAgent]) -> McpAgent:
    """A client that may see and do everything."""
    return mcp_agent()


@dataclass(frozen=True)
class Served:
    """A running hub with its own data folder, a token for everything and one that may only read."""

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
    """A production server: granian with two worker processes. Or nodes that serve already."""
    variables = {} if NODES else hubs.database_variables()
    hub = hubs.copy(tmp_path_factory.mktemp("mcp"), **variables)
    _run(hub, "migrate", "--verbosity", "0")
    everything = _run(hub, "create_token", "bot", "--clearance", "secret", "--rights", ",".join(RIGHTS))
    reader = _run(hub, "create_token", "reader", "--rights", "read")
    if NODES:
        yield Served(hub, urlsplit(NODES).port or 80, everything, reader)
        return
    port = hubs.free_port()
    more = {**PLAIN, **PATIENT, "MEMORYHUB_PUBLIC_URL": f"http://127.0.0.1:{port}"}  # turns OAuth on
    with (
        (hub.home / "server.log").open("w") as log,
        hub.serving(port, "serve", "--port", str(port), "--workers", "2", output=log, **more),
    ):
        yield Served(hub, port, everything, reader)


PLAIN = {"MEMORYHUB_EMBEDDINGS": "none"}  # not needed here
# A busy machine may miss the time limits after which nothing is shown to an agent.
PATIENT = {"MEMORYHUB_INJECTION_DEADLINE_MS": "60000", "MEMORYHUB_TOOL_DEADLINE_MS": "60000"}
if NODES:
    PLAIN |= {"DATABASE_URL": POSTGRES, "MEMORYHUB_SECRET_KEY": settings.SECRET_KEY}
HERE = Path(__file__).resolve().parent


def _run(hub: Hub, *arguments: str) -> str:
    done = hub.run(*arguments, **PLAIN)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
