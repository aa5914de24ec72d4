"""Snippets that connect an agent to the hub: configuration of MCP clients, and example programs.

``snippets.toml`` contains their texts. The connect page and docs/connect.md show the same snippets, and tests
run each of them. Where a client can read the token from the environment, the snippet does so, because such
files are shared and committed.
"""

from __future__ import annotations

import json
import shlex
import string
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

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
NO_TOKEN = "mh_..."  # noqa: S105 placeholder


@dataclass(frozen=True)
class HubConnection:
    """The address of the hub, and the paths of ``manage.py`` and the store for clients on the same machine.

    The page shows placeholders for the paths: they are of no use elsewhere, and a host name proves nothing.
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


class _Text(string.Template):
    """A text with placeholders like ``%{json_mcp}``: ``$`` and ``{`` have a meaning in the snippets."""

    delimiter = "%"


def client_snippets(hub: HubConnection) -> list[Snippet]:
    """Return the configuration of common MCP clients."""
    return _fill_in("client", hub)


def program_snippets(hub: HubConnection) -> list[Snippet]:
    """Return scripts that store a memory and find it again."""
    return _fill_in("program", hub)


def _fill_in(group: str, hub: HubConnection) -> list[Snippet]:
    tool, arguments = _RECALL_CALLS[hub.toolset]
    as_json = {"mcp": hub.mcp, "api": f"{hub.base}/api/v1", "manage": hub.manage, "home": hub.home}
    as_json |= {"token": hub.token, "toolset": hub.toolset, "tool": tool}
    in_shell = {
        "mcp": hub.mcp,
        "memories": f"{hub.base}/api/v1/memories",
        "search": f"{hub.base}/api/v1/search",
    }
    values = {f"json_{name}": json.dumps(value, ensure_ascii=False) for name, value in as_json.items()}
    values |= {f"sh_{name}": shlex.quote(value) for name, value in in_shell.items()}
    values["json_arguments"] = json.dumps(arguments)
    return [
        Snippet(**{**entry, "text": _Text(entry["text"].strip("\n")).substitute(values)})
        for entry in _entries()[group]
    ]


@cache
def _entries() -> dict[str, list[dict[str, str]]]:
    return tomllib.loads(Path(__file__).with_name("snippets.toml").read_text("utf-8"))
