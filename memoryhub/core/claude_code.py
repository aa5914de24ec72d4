"""The ``settings.json`` of Claude Code that connects a project to this app. Pure.

The web page and the documentation show the same settings. SessionStart supports only commands, so its hook is
a curl command; the other hooks are HTTP hooks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

HOOK_PATH = "/api/v1/hooks/claude-code"
ENVIRONMENT_VARIABLE = "MEMORYHUB_TOKEN"  # the environment variable that holds the token
HTTP_EVENTS = (
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "SessionEnd",
)
TIMEOUT_SECONDS = 5  # the time that Claude Code waits; a response takes a fraction of a second
MAX_CONTEXT_CHARS = 10_000  # limit of additionalContext
MAX_CONTEXT_TOKENS = 2400  # about 9600 characters of Latin script
STATUS_SECONDS = 0.25  # a status line that comes later is not shown
# Before an edit the hub is asked for memories about the file; an agent reads a file before it edits that.
_MATCHERS = {"PreToolUse": "Edit|MultiEdit|Write|NotebookEdit", "PostToolUse": "*", "PostToolUseFailure": "*"}


def hook_url(base_url: str, levels: Sequence[str] = ()) -> str:
    """Return the hook's URL for a base URL such as ``http://127.0.0.1:8000``.

    ``levels``: the levels above public that injections may contain.
    """
    asked = "&".join(f"allow_{level}=true" for level in levels)
    return base_url.rstrip("/") + HOOK_PATH + (f"?{asked}" if asked else "")


# Adds the repository to the hook on standard input: the address of its remote without credentials, and its
# first commit. Paths and unusual addresses are left out.
_ADD_REPOSITORY = (
    r"""{ u=$(git remote get-url origin | sed -n 's#^\([^:]*://\)[^/]*@#\1#; s#^[^:/]*@##; """
    r"""/^[A-Za-z0-9][A-Za-z0-9._~/:+%-]*$/p') || :; """
    r"""c=$(git rev-list --max-parents=0 --first-parent HEAD | tail -n 1) || :; } 2>/dev/null; """
    r"""sed "1s|^ *{|{\"repository\":{\"remote\":\"$u\",\"root\":\"$c\"},|" | """
)


def session_start_command(base_url: str, levels: Sequence[str] = ()) -> str:
    """Return the SessionStart command.

    It names the repository; HTTP hooks cannot, so that their events belong to the project of the session.
    """
    return post_command(hook_url(base_url, levels), add_repository=True)


def post_command(url: str, *, add_repository: bool, seconds: int = TIMEOUT_SECONDS) -> str:
    """Return a shell command that posts standard input, and ignores a server that does not answer."""
    return f"{_ADD_REPOSITORY if add_repository else 'cat | '}{_post(url, seconds)} || true"


def status_line_command(base_url: str) -> str:
    """Return the command of the status line: it prints the hub's line, or nothing without a quick answer."""
    return (
        f"cat | {_post(hook_url(base_url) + '/status', STATUS_SECONDS)}"
        """ 2>/dev/null | sed -n 's/.*"line":"\\([^"]*\\)".*/\\1/p'"""
    )


def _post(url: str, seconds: float) -> str:
    """Return a shell command that posts its standard input, which must be a pipe: a socket has no /dev/fd.

    The token is in the standard input of curl, because every user can list the arguments of a process.
    """
    return (
        f"""{{ printf 'header = "Authorization: Bearer %s"\\n' "${ENVIRONMENT_VARIABLE}" |"""
        f" curl -sf -m {seconds} -K - -H 'Content-Type: application/json' --data-binary @/dev/fd/3"
        f" {_quote_for_shell(url)}; }} 3<&0"
    )


def status_line_setting(base_url: str) -> dict[str, Any]:
    """Return the setting that shows the hub's status line."""
    return {"type": "command", "command": status_line_command(base_url)}


def settings_snippet(base_url: str, token: str | None, levels: Sequence[str] = ()) -> dict[str, Any]:
    """Return the part of ``settings.json``. Without a token, the shell must set the variable."""
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
            {**({"matcher": _MATCHERS[event]} if event in _MATCHERS else {}), "hooks": [dict(http)]}
        ]
    return {**({"env": {ENVIRONMENT_VARIABLE: token}} if token else {}), "hooks": hooks}


def to_json(snippet: dict[str, Any]) -> str:
    return json.dumps(snippet, indent=2, ensure_ascii=False)


def _quote_for_shell(text: str) -> str:
    """Quote for a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"
