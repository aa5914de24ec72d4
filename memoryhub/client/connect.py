"""The command ``connect``: add a hub to the configuration of the agents on this machine, and remove it again.

Every change is shown as a diff and applied after consent. A record of what was added, in the user's state
folder, lets ``--undo`` remove exactly that.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

from memoryhub.client import config_files, environment
from memoryhub.client.calls import ConfigurationError, UnusableConfig
from memoryhub.client.clients import Client
from memoryhub.client.config_files import (
    RULE_FILES,
    Addition,
    Change,
    Entry,
    Record,
    add_guideline,
    add_whole,
    apply_change,
    backup_path,
    digest,
    folder_from,
    parse_json,
    read_text,
    remove_guideline,
)
from memoryhub.client.environment import confirm, make_safe, print_diff
from memoryhub.core import agent_hooks
from memoryhub.core.agent_hooks import AGENTS, hook_path, hooks_configuration, opencode_plugin
from memoryhub.web import connect_snippets
from memoryhub.web.connect_snippets import HubConnection

_GUIDELINE = "guideline"
_PLUGIN = "plugin"
_HOOKS = " hooks"  # ends the name of a snippet with the hooks of an agent


@dataclass(frozen=True)
class Agent:
    """An agent that can be connected. ``files`` maps each snippet to the configuration file for it.

    ``folder`` or ``program`` exists if the agent is installed.
    """

    key: str
    title: str
    folder: Path
    program: str
    files: dict[str, Path]

    def is_installed(self) -> bool:
        return self.folder.is_dir() or shutil.which(self.program) is not None


def known_agents() -> list[Agent]:
    """Return the agents with their configuration files for all projects of the user."""
    home = Path.home()
    claude = folder_from("CLAUDE_CONFIG_DIR", home / ".claude")
    claude_state = (claude if os.environ.get("CLAUDE_CONFIG_DIR") else home) / ".claude.json"
    codex = folder_from("CODEX_HOME", home / ".codex")
    xdg = folder_from("XDG_CONFIG_HOME", home / ".config")
    settings = xdg
    if sys.platform == "darwin":
        settings = home / "Library" / "Application Support"
    code, gemini, cursor = settings / "Code" / "User", home / ".gemini", home / ".cursor"
    windsurf, antigravity = home / ".codeium" / "windsurf", gemini / "config"
    copilot, opencode = folder_from("COPILOT_HOME", home / ".copilot"), xdg / "opencode"
    claude_files = {"hooks": claude / "settings.json", "claude-code": claude_state}
    claude_files[_GUIDELINE] = claude / "CLAUDE.md"
    codex_files = {"codex": codex / "config.toml", f"codex{_HOOKS}": codex / "hooks.json"}
    codex_files[_GUIDELINE] = codex / "AGENTS.md"
    cursor_files = {"cursor": cursor / "mcp.json", f"cursor{_HOOKS}": cursor / "hooks.json"}
    if repository := _find_repository():  # the rules of Cursor for all projects are not in a file
        cursor_files["cursor rule"] = repository / ".cursor" / "rules" / "memoryhub.mdc"
    vscode_files = {"vscode": code / "mcp.json"}
    vscode_files["vscode rule"] = code / "prompts" / "memoryhub.instructions.md"
    gemini_files = {"gemini": gemini / "settings.json", _GUIDELINE: gemini / "GEMINI.md"}
    windsurf_files = {"windsurf": windsurf / "mcp_config.json"}
    windsurf_files[_GUIDELINE] = windsurf / "memories" / "global_rules.md"
    copilot_files = {
        "copilot": copilot / "mcp-config.json",
        f"copilot{_HOOKS}": copilot / "hooks" / "memoryhub.json",
    }
    copilot_files[_GUIDELINE] = copilot / "copilot-instructions.md"
    opencode_files = {"opencode": opencode / "opencode.json", _PLUGIN: opencode / "plugins" / "memoryhub.js"}
    opencode_files[_GUIDELINE] = opencode / "AGENTS.md"
    antigravity_files = {
        f"antigravity{_HOOKS}": antigravity / "hooks.json",
        _GUIDELINE: gemini_files[_GUIDELINE],
    }
    return [
        Agent("claude-code", "Claude Code", claude, "claude", claude_files),
        Agent("codex", "Codex CLI", codex, "codex", codex_files),
        Agent("cursor", "Cursor", cursor, "cursor", cursor_files),
        Agent("vscode", "VS Code", code, "code", vscode_files),
        Agent("gemini", "Gemini CLI", gemini, "gemini", gemini_files),
        Agent("antigravity", "Antigravity CLI", antigravity, "agy", antigravity_files),
        Agent("copilot", "Copilot CLI", copilot, "copilot", copilot_files),
        Agent("opencode", "OpenCode", opencode, "opencode", opencode_files),
        Agent("windsurf", "Windsurf", windsurf, "windsurf", windsurf_files),
    ]


def _find_repository() -> Path | None:
    """Return the root of the repository that contains the working folder."""
    folder = Path.cwd()
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), None)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    keys = [agent.key for agent in known_agents()]
    parser.add_argument("--agent", action="append", choices=keys, help="only this agent; repeatable")
    parser.add_argument(
        "--toolset", choices=list(connect_snippets.TOOLSETS), default="letsgo", help="default: letsgo"
    )
    parser.add_argument(
        "--status-line",
        action="store_true",
        help="also show in Claude Code what memory did, unless it has a status line",
    )
    parser.add_argument("--undo", action="store_true", help="remove what this command added")
    parser.add_argument("--dry-run", action="store_true", help="show the changes without applying them")
    parser.add_argument("--yes", action="store_true", help="apply the changes without asking")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    agents = [agent for agent in known_agents() if agent.key in (options.agent or ())]
    if options.undo:
        return _undo(options, agents or known_agents())
    agents = agents or [agent for agent in known_agents() if agent.is_installed()]
    if not agents:
        raise ConfigurationError("No agent found on this machine. --agent names one that is not detected.")
    token = ""
    if not options.dry_run:
        token = environment.find_or_ask_token(options.server)
        # Fail before any file changes if the hub cannot be reached or refuses the token.
        with Client(options.server, token) as client:
            client.search("memoryhub", limit=1)
    print("Agents: " + ", ".join(agent.title for agent in agents))
    states = set(_connect(options, agents))
    if "connected" in states and not options.dry_run:
        _send_test_event(options.server, token)
        environment.explain_token(options.server)
        if not options.status_line and any(agent.key == "claude-code" for agent in agents):
            print("Claude Code can show what memory did: run this command again with --status-line.")
        if any(agent.key == "cursor" and "cursor rule" not in agent.files for agent in agents):
            print("Cursor reads rules in each repository: run this command in one to add the guideline.")
        if any(agent.key in ("claude-code", "codex") for agent in agents):
            print("Past sessions are on this machine: count them with memoryhub backfill --dry-run.")
        if any(agent.key == "codex" for agent in agents):
            print("Codex CLI skips hooks until you trust them: start codex, enter /hooks, and allow them.")
    return int("failed" in states)


def _connect(options: argparse.Namespace, agents: list[Agent]) -> Iterator[str]:
    """Connect each agent. Yield ``connected``, ``declined`` or ``failed`` for each file."""
    record = Record.load()
    hub = HubConnection(options.server, toolset=options.toolset)
    for agent in agents:
        if agent.key == "claude-code" and _has_plugin(agent):
            print(f"{agent.title}: the plugin memoryhub is enabled, which connects it already.")
            yield "connected"
            files = {"status-line": agent.files["hooks"]} if options.status_line else {}
        else:
            files = agent.files
            if options.status_line and "hooks" in files:
                files = {"hooks with status line": files["hooks"], **files}
                del files["hooks"]
        for snippet, path in files.items():
            yield _handle(options, agent.title, path, partial(_plan, record, snippet, path, hub), record)


def _undo(options: argparse.Namespace, agents: list[Agent]) -> int:
    record, states = Record.load(), set()
    titles = {path: agent.title for agent in agents for path in agent.files.values()}
    for path in record.paths():
        # Without --agent also files of an agent whose folder was set by a variable in the earlier run.
        if path in titles or not options.agent:
            title = titles.get(path, "Agent")
            states.add(_handle(options, title, path, partial(_plan_removal, record, path), record))
    if not states:
        print("There is nothing to undo: memoryhub connect has added nothing.")
    return int("failed" in states)


def _handle(
    options: argparse.Namespace, title: str, path: Path, plan: Callable[[], Change], record: Record
) -> str:
    """Plan, show and apply the change of one file. Return ``connected``, ``declined`` or ``failed``."""
    try:
        change = plan()
        for note in change.notes:
            print(f"{title}: {path}: {note}")
        if change.before == change.after:
            print(f"{title}: {path} needs no change.")
        else:
            print_diff(change.before, change.after, change.path)
        if options.dry_run:
            return "connected"
        if change.before != change.after and not confirm(f"Change {path}?", options.yes):
            return "declined"
        apply_change(change, record)
        if change.before != change.after:
            print(f"{title}: {path} changed.")
    except BrokenPipeError:  # of standard output
        raise
    except (UnusableConfig, OSError, UnicodeDecodeError) as error:
        print(f"{title}: {path} stays as it is: {error}.", file=sys.stderr)
        return "failed"
    return "connected"


def _plan(record: Record, snippet: str, path: Path, hub: HubConnection) -> Change:
    """Return the change that connects an agent. It replaces the addition of an earlier run."""
    before, known = read_text(path), record.get(path)
    if known:
        with suppress(UnusableConfig):  # it is connected to another hub
            if _add(snippet, before or "", hub)[0] == before:
                return Change(path, before, before, addition=known)
    original = _plan_removal(record, path).after
    after, addition = _add(snippet, original or "", hub)
    if not (addition.toml or addition.entries or addition.guideline):  # the user has added the same
        return Change(path, before, before)
    addition.original, addition.result = digest(original), digest(after)
    return Change(path, before, after, original, addition)


def _add(snippet: str, text: str, hub: HubConnection) -> tuple[str, Addition]:
    """Return the text of a configuration file with a snippet, and the addition."""
    if snippet == "codex":
        after, toml = config_files.add_toml(text, _snippet_text(snippet, hub))
        return after, Addition(toml=toml)
    if snippet == _GUIDELINE:
        after, guideline = add_guideline(text)
        return after, Addition(guideline=guideline)
    if snippet == _PLUGIN:
        after, plugin = add_whole(text, opencode_plugin(hub.base))
        return after, Addition(guideline=plugin)
    if snippet in RULE_FILES:
        after, rule = add_whole(text, RULE_FILES[snippet])
        return after, Addition(guideline=rule)
    if snippet in _CLAUDE_CODE_SETTINGS:
        entries = _settings_entries(snippet, text, hub)
        _check_no_other_hooks(text, entries)
    elif snippet.endswith(_HOOKS):
        entries = _hook_entries(snippet.removesuffix(_HOOKS), text, hub)
    else:
        entries = list(config_files.to_entries(json.loads(_snippet_text(snippet, hub))))
        if snippet == "gemini":  # its tools and hooks are in one file
            entries += _hook_entries(snippet, text, hub)
    after, added = config_files.add_json(text, entries)
    return after, Addition(added)


_CLAUDE_CODE_SETTINGS = ("hooks", "hooks with status line", "status-line")


def _hook_entries(key: str, text: str, hub: HubConnection) -> list[Entry]:
    entries = list(config_files.to_entries(hooks_configuration(AGENTS[key], hub.base)))
    _check_no_other_hooks(text, entries, hook_path(key))
    return entries


def _settings_entries(snippet: str, text: str, hub: HubConnection) -> list[Entry]:
    """Return the entries for Claude Code's settings: hooks, and a status line if there is none yet."""
    content = agent_hooks.settings_snippet(hub.base, None) if snippet.startswith("hooks") else {}
    entries = list(config_files.to_entries(content))
    line = agent_hooks.status_line_setting(hub.base)
    present = parse_json(text).get("statusLine", line) if text.strip() else line
    return [*entries, Entry(("statusLine",), line)] if snippet != "hooks" and present == line else entries


def _plan_removal(record: Record, path: Path) -> Change:
    """Return the change that removes an addition. Parts that the user has changed since stay."""
    before, addition = read_text(path), record.get(path)
    if addition is None or before is None:
        return Change(path, before, before)
    if digest(before) == addition.result:
        original = read_text(backup_path(path)) if addition.original else None
        if digest(original) == addition.original:
            return Change(path, before, original)
    if addition.toml:
        return Change(path, before, config_files.remove_toml(before, addition.toml))
    if addition.guideline:
        return Change(path, before, remove_guideline(before, addition.guideline))
    after, kept = config_files.remove_json(before, addition.entries)
    notes = [f"“{'.'.join(entry.path)}” has changed since and stays" for entry in kept]
    return Change(path, before, after, notes=notes)


def _snippet_text(key: str, hub: HubConnection) -> str:
    return next(one.text for one in connect_snippets.client_snippets(hub) if one.key == key)


def _check_no_other_hooks(text: str, wanted: list[Entry], path: str = agent_hooks.HOOK_PATH) -> None:
    """Raise UnusableConfig if hooks of a hub exist that differ: each event would be sent twice."""
    document = parse_json(text) if text.strip() else {}
    hooks = document.get("hooks") or document.get("memoryhub")
    ours = [entry.value for entry in wanted]
    for entries in hooks.values() if isinstance(hooks, dict) else ():
        for entry in entries if isinstance(entries, list) else ():
            if entry not in ours and path in json.dumps(entry):
                raise UnusableConfig(
                    "it has other hooks of a memoryhub. Remove them, and run this command again"
                )


def _has_plugin(agent: Agent) -> bool:
    try:
        enabled = parse_json(read_text(agent.files["hooks"]) or "{}").get("enabledPlugins")
    except (UnusableConfig, OSError, UnicodeDecodeError):  # reported when the file is to be changed
        return False
    names = enabled if isinstance(enabled, dict) else {}
    return any(name.partition("@")[0] == "memoryhub" and on for name, on in names.items())


def _send_test_event(server: str, token: str) -> None:
    """Report the start of a session, and print its address in the hub."""
    name = f"memoryhub-connect-{socket.gethostname()}"[:200]
    with Client(server, token) as client:
        client.report_event("session:start", name)
        session = client.session(name).session
    where = f"{server}/sessions/{quote(name, safe='')}/"
    parts = (
        f"project {session.project or '–'}",
        f"agent {session.agent or '–'}",
        f"{session.last_at.astimezone():%H:%M:%S}",
    )
    print(f"Test event arrived: session {name}, {make_safe(', '.join(parts))}\n  {where}")
