"""The hooks that connect agents to the hub. Pure.

The hub understands the hooks of Claude Code. SessionStart supports only commands, so its hook is a curl
command; the other hooks are HTTP hooks. ``agent_hooks.toml`` describes the hooks of each other agent, which
are translated to those of Claude Code and back, so that capture, injection and access work in the same way.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOOK_PATH = "/api/v1/hooks/claude-code"
TOKEN_VARIABLE = "MEMORYHUB_TOKEN"  # noqa: S105 the environment variable with the token of an agent
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


# Adds the repository to the hook on standard input: the address of its remote without credentials, its first
# commit, and the path of the working folder in it. Other paths and unusual texts are left out.
_ADD_REPOSITORY = (
    r"""{ u=$(git remote get-url origin | sed -n 's#^\([^:]*://\)[^/]*@#\1#; s#^[^:/]*@##; """
    r"""/^[A-Za-z0-9][A-Za-z0-9._~/:+%-]*$/p') || :; """
    r"""c=$(git rev-list --max-parents=0 --first-parent HEAD | tail -n 1) || :; """
    r"""s=$(git rev-parse --show-prefix | sed -n 's#^\([A-Za-z0-9._/+-]*\)$#,"subfolder":"\1"#p') || :; """
    r"""} 2>/dev/null; """
    r"""sed "1s|^ *{|{\"repository\":{\"remote\":\"$u\",\"root\":\"$c\"$s},|" | """
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
    quoted = "'" + url.replace("'", "'\\''") + "'"
    return (
        f"""{{ printf 'header = "Authorization: Bearer %s"\\n' "${TOKEN_VARIABLE}" |"""
        f" curl -sf -m {seconds} -K - -H 'Content-Type: application/json' --data-binary @/dev/fd/3"
        f" {quoted}; }} 3<&0"
    )


def status_line_setting(base_url: str) -> dict[str, Any]:
    """Return the setting that shows the hub's status line."""
    return {"type": "command", "command": status_line_command(base_url)}


def settings_snippet(base_url: str, token: str | None, levels: Sequence[str] = ()) -> dict[str, Any]:
    """Return the part of ``settings.json``. Without a token, the shell must set the variable."""
    http = {
        "type": "http",
        "url": hook_url(base_url, levels),
        "headers": {"Authorization": f"Bearer ${TOKEN_VARIABLE}"},
        "allowedEnvVars": [TOKEN_VARIABLE],
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
    return {**({"env": {TOKEN_VARIABLE: token}} if token else {}), "hooks": hooks}


def to_json(snippet: dict[str, Any]) -> str:
    return json.dumps(snippet, indent=2, ensure_ascii=False)


_EVENT = "hook_event_name"
_FAILED_RESULTS = ("failure", "denied")  # of Copilot CLI


@dataclass(frozen=True)
class AgentHooks:
    """A table of ``agent_hooks.toml``, where the fields are described."""

    key: str
    title: str
    documentation: str
    events: dict[str, str]
    configuration: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)
    output: str = ""
    failure: str = ""
    only: dict[str, Any] = field(default_factory=dict)
    added_context: str = ""
    context: str = ""
    context_item: str = ""
    refusal: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


def _read_agents() -> dict[str, AgentHooks]:
    text = (Path(__file__).parent / "agent_hooks.toml").read_text("utf-8")
    return {key: AgentHooks(key=key, **table) for key, table in tomllib.loads(text).items()}


AGENTS = _read_agents()


def to_claude_code(agent: AgentHooks, hook: Mapping[str, Any], event: str = "") -> dict[str, Any]:
    """Return a hook in the form of Claude Code; its event is empty if the hub has no use for it.

    ``event``: the name of the event, for agents whose hooks do not contain it.
    """
    name = event or hook.get(_EVENT)
    found = {ours: hook[theirs] for ours, theirs in agent.fields.items() if hook.get(theirs)}
    found = {ours: value[0] if isinstance(value, list) else value for ours, value in found.items()}
    is_known = isinstance(name, str) and all(hook.get(key) == value for key, value in agent.only.items())
    hook = {**hook, **found, _EVENT: agent.events.get(str(name), "") if is_known else ""}
    tool = hook.get("tool_name")
    if isinstance(tool, str):
        hook["tool_name"] = agent.tools.get(tool, tool)
    if isinstance(hook.get("prompt"), str):
        hook["prompt"] = _remove_context(agent, hook["prompt"])
    for key in ("tool_input", "tool_response"):
        if key in hook:
            hook[key] = _parse_object(hook[key])
    if "tool_response" in hook:
        hook["tool_response"] = _unwrap_result(agent, hook["tool_response"])
    return hook


def from_claude_code(agent: AgentHooks, answer: Mapping[str, Any], event: str) -> dict[str, Any]:
    """Return the answer in the form that the agent documents. ``event``: the agent's name of the event."""
    if "decision" in answer:
        return {**agent.refusal, agent.reason: answer["reason"]} if agent.refusal else {}
    context = answer.get("hookSpecificOutput", {}).get("additionalContext")
    if agent.context:
        shown = [{agent.context_item: context}] if agent.context_item else context
        return {agent.context: shown} if context else {}
    translated = {"systemMessage": answer["systemMessage"]} if "systemMessage" in answer else {}
    if context:
        translated["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": context}
    return translated


def hook_path(key: str) -> str:
    """Return the path of the hub to which the hooks of an agent are sent."""
    return f"/api/v1/hooks/{key}"


def opencode_plugin(base_url: str) -> str:
    """Return the plugin that sends the events of OpenCode to a hub. OpenCode has no hooks in its settings."""
    text = Path(__file__).with_name("opencode_plugin.js").read_text("utf-8")
    return text.replace('"HUB_URL"', json.dumps(base_url.rstrip("/")))


def hooks_configuration(agent: AgentHooks, base_url: str) -> dict[str, Any]:
    """Return the part of the agent's configuration file that sends its hooks to a hub.

    The shell of the agent needs the token in the variable ``MEMORYHUB_TOKEN``.
    """
    form = agent.configuration
    hooks = {}
    for event, meaning in agent.events.items():
        url = f"{base_url.rstrip('/')}{hook_path(agent.key)}?event={event}"
        command = post_command(
            url, add_repository=meaning == "SessionStart", seconds=form.get("seconds", TIMEOUT_SECONDS)
        )
        entry = {**form["entry"], form["command"]: command}
        hooks[event] = [{"hooks": [entry]} if form.get("nested") else entry]
    return {**form.get("head", {}), form.get("section", "hooks"): hooks}


def _remove_context(agent: AgentHooks, prompt: str) -> str:
    """Return a prompt without the context of earlier hooks: those are not the user's words."""
    begin, end = f"<{agent.added_context}>", f"</{agent.added_context}>"
    if not agent.added_context or not prompt.startswith(begin) or end not in prompt:
        return prompt
    return prompt.partition(end)[2].lstrip()


def _parse_object(value: Any) -> Any:
    """Return the object in a JSON text; any other value as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _unwrap_result(agent: AgentHooks, result: Any) -> Any:
    """Return the result of a tool with its text in ``output``, and ``is_error`` if it failed."""
    if not isinstance(result, dict) or not agent.output or agent.output not in result:
        return result
    output, error = result[agent.output], result.get("error")
    has_failed = (
        error
        or result.get("resultType") in _FAILED_RESULTS
        or result.get("exitCode")
        or (agent.failure and isinstance(output, str) and re.search(agent.failure, output))
    )
    return {"output": output, **({"is_error": True, "error": error} if has_failed else {})}
