"""Names of actors for people: agents with their owner, persons, commands and the hub itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.db.models import QuerySet

from memoryhub.access.policy import AGENT_PREFIX, Clearance
from memoryhub.models import AgentToken

MAX_AGENTS = 200
_KNOWN_NAMES = {
    "antigravity-cli": "Antigravity CLI",
    "claude-code": "Claude Code",
    "claude-desktop": "Claude Desktop",
    "codex": "Codex",
    "copilot-cli": "Copilot CLI",
    "cursor": "Cursor",
    "gemini-cli": "Gemini CLI",
    "opencode": "OpenCode",
    "vscode": "VS Code",
    "windsurf": "Windsurf",
}


def actor_label(actor: str, owners: Mapping[str, str] | None = None) -> str:
    """Return the name of an actor for people, like ``Claude Code (mara)``. ``owners``: by agent."""
    kind, _, name = actor.partition(":")
    if not name:
        return actor
    if kind == AGENT_PREFIX.rstrip(":"):
        label, owner = _KNOWN_NAMES.get(name, name), (owners or {}).get(name)
        return f"{label} ({owner})" if owner else label
    if kind == "system":
        return f"memoryhub ({name.replace('-', ' ').replace('_', ' ')})"
    return f"{name} (command line)" if kind == "command" else name if kind == "user" else actor


def visible_tokens(clearance: Clearance) -> QuerySet[AgentToken]:
    """Return the person's own tokens, and all of them for managers of tokens."""
    tokens: QuerySet[AgentToken] = AgentToken.objects.all()
    return tokens if clearance.every_token else tokens.filter(owner=clearance.owner)


def agent_owners(clearance: Clearance) -> list[tuple[str, str]]:
    """Return the agents of visible tokens with their owners, in one query."""
    tokens = visible_tokens(clearance).order_by().values_list("name", "owner").distinct()
    return list(tokens[:MAX_AGENTS])


def unambiguous_owners(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the owners by agent, without agents of this name of several people."""
    owners: dict[str, set[str]] = {}
    for name, owner in pairs:
        owners.setdefault(name, set()).add(owner)
    return {name: min(people) for name, people in owners.items() if len(people) == 1}
