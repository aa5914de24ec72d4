"""What goes into Claude Code's ``settings.json`` so that a project uses the hub. Pure.

The page in the browser and the documentation show the same. HTTP hooks send their JSON by themselves; a hook
of SessionStart has to be a command, so that one is a line of curl.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

HOOK_PATH = "/api/v1/hooks/claude-code"
ENVIRONMENT_VARIABLE = "MEMORYHUB_TOKEN"  # the environment variable that holds the token
HTTP_EVENTS = ("UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "PreCompact", "Stop", "SessionEnd")
TIMEOUT_SECONDS = 5  # seconds that Claude Code waits; the hub answers in a fraction of one
_EVENTS_WITH_MATCHER = frozenset({"PostToolUse", "PostToolUseFailure"})


def hook_url(base_url: str, levels: Sequence[str] = ()) -> str:
    """The address of the hub's hook under an address like ``http://127.0.0.1:8000``.

    ``levels``: those above public that injections may show, for a level has to be asked for.
    """
    asked = "&".join(f"allow_{level}=true" for level in levels)
    return base_url.rstrip("/") + HOOK_PATH + (f"?{asked}" if asked else "")


def session_start_command(base_url: str, levels: Sequence[str] = ()) -> str:
    """One line for SessionStart: hands standard input to the hub; says nothing when the hub is away."""
    return (
        f'curl -sf -m {TIMEOUT_SECONDS} -H "Authorization: Bearer ${ENVIRONMENT_VARIABLE}"'
        f" -H 'Content-Type: application/json' --data-binary @-"
        f" {_quote_for_shell(hook_url(base_url, levels))} || true"
    )


def settings_snippet(base_url: str, token: str | None, levels: Sequence[str] = ()) -> dict[str, Any]:
    """The part of ``settings.json``; with a token it sets the variable too, else the shell has to."""
    http = {
        "type": "http",
        "url": hook_url(base_url, levels),
        "headers": {"Authorization": f"Bearer ${ENVIRONMENT_VARIABLE}"},
        "allowedEnvVars": [ENVIRONMENT_VARIABLE],
        "timeout": TIMEOUT_SECONDS,
    }
    command = {
        "type": "command",
        "command": session_start_command(base_url, levels),
        "timeout": TIMEOUT_SECONDS,
    }
    hooks: dict[str, Any] = {"SessionStart": [{"hooks": [command]}]}
    for event in HTTP_EVENTS:
        hooks[event] = [
            {**({"matcher": "*"} if event in _EVENTS_WITH_MATCHER else {}), "hooks": [dict(http)]}
        ]
    return {**({"env": {ENVIRONMENT_VARIABLE: token}} if token else {}), "hooks": hooks}


def to_json(snippet: dict[str, Any]) -> str:
    """JSON as a person pastes it."""
    return json.dumps(snippet, indent=2, ensure_ascii=False)


def _quote_for_shell(text: str) -> str:
    """For a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"
