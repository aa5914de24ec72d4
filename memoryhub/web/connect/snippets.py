"""Snippets that connect an agent to the hub: configuration of MCP clients, and example programs.

The connect page and docs/connect.md show the same snippets, and tests run each of them. Where a client can
read the token from the environment, the snippet does so, because such files are shared and committed.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memoryhub.core.claude_code import ENVIRONMENT_VARIABLE

# The toolsets with their purpose.
TOOLSETS: dict[str, str] = {
    "letsgo": "memories, facts, timeline and upkeep, with every field",
    "memory-mcp": "store, recall and forget, with entities and provenance",
    "mira": "one tool that remembers, recalls and forgets, by key and scope",
    "pigo": "recall, remember and forget in three layers and six categories",
}
_QUESTION = "when do we deploy"
_RECALL_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "letsgo": ("search_memories", {"query": _QUESTION}),
    "memory-mcp": ("memory_recall", {"query": _QUESTION}),
    "mira": ("memory", {"action": "recall", "query": _QUESTION}),
    "pigo": ("memory_recall", {"query": _QUESTION}),
}
_SERVER_NAME = "memoryhub"  # in the client's list of servers
NO_TOKEN = "mh_..."  # noqa: S105 placeholder


@dataclass(frozen=True)
class HubConnection:
    """The address of the hub, and the paths of ``manage.py`` and the store for clients on the same machine.

    ``token`` is for clients that cannot read it from the environment.
    """

    base_url: str
    manage: str = "/path/to/memoryhub/manage.py"
    home: str = "/path/to/.letsgo"
    token: str = NO_TOKEN
    toolset: str = "letsgo"

    @property
    def base(self) -> str:
        return self.base_url.rstrip("/")

    @property
    def mcp(self) -> str:
        return f"{self.base}/mcp/{self.toolset}"


@dataclass(frozen=True)
class Snippet:
    """``key`` identifies the snippet on the page; ``where`` is the file it belongs in, or what runs it."""

    key: str
    title: str
    where: str
    language: str
    text: str
    note: str = ""


def client_snippets(hub: HubConnection) -> list[Snippet]:
    """Return the configuration of common MCP clients."""
    return [_snippet(hub, *spec) for spec in _CLIENTS]


def program_snippets(hub: HubConnection) -> list[Snippet]:
    """Return scripts that store a memory and find it again."""
    return [_snippet(hub, *spec) for spec in _PROGRAMS]


def _snippet(
    hub: HubConnection,
    key: str,
    title: str,
    where: str,
    language: str,
    text: Callable[[HubConnection], str],
    note: str,
) -> Snippet:
    return Snippet(key, title, where, language, text(hub), note)


def _claude_code(hub: HubConnection) -> str:
    server = {"type": "http", "url": hub.mcp, "headers": _bearer(f"${{{ENVIRONMENT_VARIABLE}}}")}
    return _json({"mcpServers": {_SERVER_NAME: server}})


def _claude_add(hub: HubConnection) -> str:
    return (
        f"claude mcp add --transport http {_SERVER_NAME} {shlex.quote(hub.mcp)} \\\n"
        f'  --header "Authorization: Bearer ${ENVIRONMENT_VARIABLE}"'
    )


def stdio_config(hub: HubConnection) -> str:
    """Return the configuration of a client that starts the server itself."""
    server = {
        "command": "python3",
        "args": [hub.manage, "mcp", hub.toolset],
        "env": {"LETSGO_HOME": hub.home, ENVIRONMENT_VARIABLE: hub.token},
    }
    return _json({"mcpServers": {_SERVER_NAME: server}})


def _server_config(address: str, variable: str) -> Callable[[HubConnection], str]:
    """Make the configuration of a client with this key for the address and this syntax for variables."""

    def text(hub: HubConnection) -> str:
        return _json({"mcpServers": {_SERVER_NAME: {address: hub.mcp, "headers": _bearer(variable)}}})

    return text


def _vscode(hub: HubConnection) -> str:
    token = {"type": "promptString", "id": "memoryhub-token", "description": "Token of the hub"}
    server = {"type": "http", "url": hub.mcp, "headers": _bearer("${input:memoryhub-token}")}
    return _json({"inputs": [{**token, "password": True}], "servers": {_SERVER_NAME: server}})


def _codex(hub: HubConnection) -> str:
    address = json.dumps(hub.mcp, ensure_ascii=False)
    return f'[mcp_servers.{_SERVER_NAME}]\nurl = {address}\nbearer_token_env_var = "{ENVIRONMENT_VARIABLE}"'


def _curl(hub: HubConnection) -> str:
    bearer = f'-H "Authorization: Bearer ${ENVIRONMENT_VARIABLE}"'
    return f"""\
curl -sS {shlex.quote(hub.base + "/api/v1/memories")} {bearer} \\
  -H 'Content-Type: application/json' \\
  -d '{{"content": "We deploy on Tuesdays: the vendor is in the office then.", "type": "decision"}}'

curl -sS -G {shlex.quote(hub.base + "/api/v1/search")} {bearer} \\
  --data-urlencode 'query={_QUESTION}'"""


def _python(hub: HubConnection) -> str:
    return f'''\
import json
import os
import urllib.request

HUB = {_quote(hub.base + "/api/v1")}


def post(path, body):
    headers = {{
        "Authorization": f"Bearer {{os.environ['{ENVIRONMENT_VARIABLE}']}}",
        "Content-Type": "application/json",
    }}
    request = urllib.request.Request(HUB + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


memory = {{"content": "We deploy on Tuesdays: the vendor is in the office then.", "type": "decision"}}
print(post("/memories", memory)["outcome"])
for hit in post("/search", {{"query": "{_QUESTION}"}})["results"]:
    print(f"{{hit['score']:.2f}}", hit["memory"]["content"])'''


def _mcp_python(hub: HubConnection) -> str:
    tool, arguments = _RECALL_CALLS[hub.toolset]
    return f'''\
import asyncio
import os

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

HUB = {_quote(hub.mcp)}


async def main():
    headers = {{"Authorization": f"Bearer {{os.environ['{ENVIRONMENT_VARIABLE}']}}"}}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        async with Client(streamable_http_client(HUB, http_client=http)) as hub:
            print([tool.name for tool in (await hub.list_tools()).tools])
            found = await hub.call_tool("{tool}", {json.dumps(arguments)})
            print(found.content[0].text)


asyncio.run(main())'''


def _mcp_javascript(hub: HubConnection) -> str:
    tool, arguments = _RECALL_CALLS[hub.toolset]
    return f"""\
import {{ Client, StreamableHTTPClientTransport }} from "@modelcontextprotocol/client";

const HUB = {_quote(hub.mcp)};

const headers = {{ Authorization: `Bearer ${{process.env.{ENVIRONMENT_VARIABLE}}}` }};
const hub = new Client({{ name: "my-agent", version: "1.0.0" }});
await hub.connect(new StreamableHTTPClientTransport(new URL(HUB), {{ requestInit: {{ headers }} }}));

console.log((await hub.listTools()).tools.map((tool) => tool.name).join(" "));
const found = await hub.callTool({{ name: "{tool}", arguments: {json.dumps(arguments)} }});
console.log(found.content[0].text);

await hub.close();"""


def _bearer(variable: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {variable}"}


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _quote(text: str) -> str:
    """Return a string literal that is valid in Python and in JavaScript."""
    return json.dumps(text, ensure_ascii=False)


# Key, title, file, language, text and note of each snippet.
_SnippetSpec = tuple[str, str, str, str, Callable[[HubConnection], str], str]
_CLIENTS: tuple[_SnippetSpec, ...] = (
    ("claude-code", "Claude Code", ".mcp.json", "json", _claude_code, ""),
    ("claude-add", "Claude Code, by command", "a shell", "sh", _claude_add, ""),
    (
        *("claude-desktop", "Claude Desktop", "claude_desktop_config.json", "json", stdio_config),
        "It starts the hub's command itself, so the hub has to be on the same machine.",
    ),
    (
        "cursor",
        "Cursor",
        ".cursor/mcp.json",
        "json",
        _server_config("url", f"${{env:{ENVIRONMENT_VARIABLE}}}"),
        "",
    ),
    ("vscode", "VS Code", ".vscode/mcp.json", "json", _vscode, "It asks for the token once."),
    (
        *("windsurf", "Windsurf", "~/.codeium/windsurf/mcp_config.json", "json"),
        *(_server_config("serverUrl", f"${{env:{ENVIRONMENT_VARIABLE}}}"), ""),
    ),
    ("codex", "Codex CLI", "~/.codex/config.toml", "toml", _codex, ""),
    (
        "gemini",
        "Gemini CLI",
        "~/.gemini/settings.json",
        "json",
        _server_config("httpUrl", f"${ENVIRONMENT_VARIABLE}"),
        "",
    ),
    (
        *("stdio", "Any client that starts a program", "its configuration", "json", stdio_config),
        "Over standard input and output; the hub's server need not run.",
    ),
)
_PROGRAMS: tuple[_SnippetSpec, ...] = (
    ("curl", "curl", "a shell", "sh", _curl, ""),
    ("python", "Python", "nothing to install", "python", _python, ""),
    ("mcp-python", "Python, over MCP", "pip install 'mcp>=2.3'", "python", _mcp_python, ""),
    (
        *("mcp-javascript", "JavaScript, over MCP", "npm install @modelcontextprotocol/client@2", "js"),
        *(
            _mcp_javascript,
            "With MCP's TypeScript SDK; Node.js 20 runs it from a file whose name ends in .mjs.",
        ),
    ),
)
