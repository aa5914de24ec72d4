"""Snippets that connect an agent to the hub: configuration of MCP clients, and example programs.

``connect_snippets.toml`` contains their texts. The connect page and docs/connect.md show the same ones, and
tests run each of them. Without a token, a snippet reads it from the environment where the client can, because
such files are shared and committed. With a new token, it contains the token, so that one text connects the
agent.
"""

from __future__ import annotations

import json
import shlex
import string
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from memoryhub.core import agent_hooks

# The toolsets with their purpose.
TOOLSETS: dict[str, str] = {
    "letsgo": "memories, facts, timeline and maintenance, with every field",
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
HOSTED = "hosted"  # the tile of agents that connect by OAuth
NO_TOKEN = "mh_..."  # noqa: S105 placeholder


@dataclass(frozen=True)
class HubConnection:
    """The address of the hub, and the paths of ``manage.py`` and the store for clients on the same machine.

    The page shows placeholders for the paths: they are of no use elsewhere, and a host name proves nothing.
    ``token``: NO_TOKEN if snippets read it from the environment. ``hosted``: the address for OAuth clients.
    """

    base_url: str
    manage: str = "/path/to/memoryhub/manage.py"
    home: str = "/path/to/.letsgo"
    token: str = NO_TOKEN
    toolset: str = "letsgo"
    hosted: str = ""

    @property
    def has_token(self) -> bool:
        return self.token != NO_TOKEN

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
    reference: str = ""
    with_token: str = ""
    run: str = ""


@dataclass(frozen=True)
class Choice:
    """A tile of the connect page. The first snippet connects the agent; the others are further ways.

    ``name`` is the default name of the agent, ``phrase`` the title after "Connect".
    """

    key: str
    title: str
    about: str
    snippets: list[str]
    name: str = ""
    phrase: str = ""

    @property
    def takes_token(self) -> bool:
        return self.key != HOSTED

    @property
    def has_transcripts(self) -> bool:
        """Whether ``memoryhub backfill`` reads past sessions of this agent."""
        return self.key in ("claude-code", "codex", "machine")


class _Text(string.Template):
    """A text with placeholders like ``%{json_mcp}``: ``$`` and ``{`` have a meaning in the snippets."""

    delimiter = "%"


def client_snippets(hub: HubConnection) -> list[Snippet]:
    """Return the configuration of common MCP clients."""
    return _fill_in("client", hub)


def program_snippets(hub: HubConnection) -> list[Snippet]:
    """Return scripts that store a memory and find it again."""
    return _fill_in("program", hub)


@cache
def choices() -> dict[str, Choice]:
    """Return the tiles of the connect page by key, in their order."""
    return {entry["key"]: Choice(**entry) for entry in _entries()["choice"]}


def choice_snippets(choice: Choice, hub: HubConnection, levels: Sequence[str] = ()) -> list[Snippet]:
    """Return the snippets of a tile; those for a shell set the token first.

    ``levels``: the levels above public that the hooks of Claude Code ask for.
    """
    agent = "" if choice.key == "machine" else f" --agent {choice.key}"
    token = hub.token if hub.has_token else None
    more = {
        "agent_option": agent,
        "toolset_option": "" if hub.toolset == next(iter(TOOLSETS)) else f" --toolset {hub.toolset}",
        "hooks": agent_hooks.to_json(agent_hooks.settings_snippet(hub.base, token, levels)),
    }
    found = [*_fill_in("setup", hub, more), *client_snippets(hub), *program_snippets(hub)]
    by_key = {one.key: _in_shell(one, hub) for one in found}
    return [by_key[key] for key in choice.snippets]


def _in_shell(snippet: Snippet, hub: HubConnection) -> Snippet:
    """Return a program or command with the token as a text to paste into a shell."""
    if not hub.has_token or hub.token in snippet.text or not (snippet.run or snippet.language == "sh"):
        return snippet
    text = f"{snippet.run} <<'EOF'\n{snippet.text}\nEOF" if snippet.run else snippet.text
    text = f"export {agent_hooks.TOKEN_VARIABLE}={hub.token}\n{text}"
    return replace(snippet, text=text, where="a shell", language="sh")


def _fill_in(group: str, hub: HubConnection, more: Mapping[str, str] | None = None) -> list[Snippet]:
    tool, arguments = _RECALL_CALLS[hub.toolset]
    as_json = {"mcp": hub.mcp, "api": f"{hub.base}/api/v1", "manage": hub.manage, "home": hub.home}
    as_json |= {"token": hub.token, "toolset": hub.toolset, "tool": tool}
    in_shell = {
        "base": hub.base,
        "mcp": hub.mcp,
        "memories": f"{hub.base}/api/v1/memories",
        "search": f"{hub.base}/api/v1/search",
    }
    values = {f"json_{name}": json.dumps(value, ensure_ascii=False) for name, value in as_json.items()}
    values |= {f"sh_{name}": shlex.quote(value) for name, value in in_shell.items()}
    values |= {
        "json_arguments": json.dumps(arguments),
        "hosted": hub.hosted,
        "token": hub.token,
        **(more or {}),
    }
    return [_filled(entry, hub, values) for entry in _entries()[group]]


def _filled(entry: dict[str, Any], hub: HubConnection, values: Mapping[str, str]) -> Snippet:
    text = entry["with_token"] if hub.has_token and "with_token" in entry else entry["text"]
    reference = hub.token if hub.has_token else entry.get("reference", "")
    return Snippet(**{**entry, "text": _Text(text.strip("\n")).substitute(values, reference=reference)})


@cache
def _entries() -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads(Path(__file__).with_name("connect_snippets.toml").read_text("utf-8"))
