"""The commands ``memoryhub`` and ``manage.py``: those that talk to a hub, and management commands.

Imports only the standard library: ``manage.py`` imports this module before the requirements are installed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import PurePath

from memoryhub import __version__
from memoryhub.ops import bootstrap

# What a command does, for the overview; docs/commands.md describes the options.
COMMANDS = {
    "search": "find memories",
    "remember": "store a memory",
    "recall": "show the memories about a subject, within a budget of tokens",
    "sessions": "list the sessions of agents, or show one",
    "connect": "connect the agents of this machine",
    "backfill": "send the past sessions of Claude Code and Codex, and commits",
    "sync": "synchronize a project and a folder of Markdown files",
    "project-page": "show a project's page, or keep it in AGENTS.md or CLAUDE.md",
    "project": "rename, merge or split a project",
    "mode": "show or set what is stored from a project's sessions",
    "pause": "pause memory in a project",
    "resume": "end the pause",
}
_MANAGEMENT_COMMANDS = {
    "Start and serve": {
        "quickstart": "prepare and serve the demo, or your own store with --no-demo",
        "migrate": "prepare the store, or update it after an upgrade",
        "serve": "start the server",
        "create_token": "create a token for an agent",
        "createsuperuser": "create an administrator",
        "changepassword": "change a person's password",
        "remove_second_factors": "for a person who lost their device",
        "mcp": "serve a toolset as an MCP server over standard input and output",
        "show_config": "print every setting with its value and its source",
        "doctor": "find problems, and show how to fix them",
    },
    "Memories": {
        "import_memories": "import a file of memoryhub or of another system",
        "export_memories": "export memories to a file",
        "extract": "store the memories of a conversation",
        "maintain": "run maintenance now",
        "purge_expired": "permanently remove expired memories",
        "scan_secrets": "find stored credentials",
        "replay": "replay a recorded session",
    },
    "The store": {
        "backup": "back up the store while agents write",
        "restore_backup": "replace the store by a backup",
        "copy_store": "copy the store into another database",
        "verify_journal": "check that no change was altered or removed",
        "salvage": "copy what can be read from a damaged store",
    },
    "Develop": {
        "test": "run the tests",
        "evaluate": "measure how well search answers questions",
    },
}
_HELP: tuple[list[str], ...] = ([], ["help"], ["--help"], ["-h"])


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command. ``argv`` begins with the name of the program, like ``sys.argv``."""
    argv = list(sys.argv if argv is None else argv)
    if argv[1:] in _HELP:
        print(_describe_commands(PurePath(argv[0]).name))
        return
    if argv[1:2] == ["help"] and argv[2] in COMMANDS:
        argv[1:] = [argv[2], "--help"]
    is_client_command = argv[1:2] and argv[1] in COMMANDS
    if argv[1:2] and not is_client_command and (similar := get_close_matches(argv[1], COMMANDS, 1, 0.8)):
        sys.exit(f"memoryhub: unknown command {argv[1]!r}. Did you mean {similar[0]}?")
    bootstrap.main(argv, _run_client_command if is_client_command else None)


def _describe_commands(program: str) -> str:
    """Return an overview of all commands, without those that Django and its apps add."""
    lines = [f"memoryhub {__version__}", f"usage: {program} COMMAND [options]"]
    groups = {"Use a hub, from any machine": COMMANDS, **_MANAGEMENT_COMMANDS}
    if bootstrap.IS_INSTALLED:
        del groups["Develop"]  # they need a checkout
    for title, commands in groups.items():
        lines += ["", title, *(f"  {name:23}{purpose}" for name, purpose in commands.items())]
    lines += ["", f"Options of a command: {program} COMMAND --help"]
    lines += [f"All commands, with those of Django: {program} help --commands"]
    return "\n".join(lines)


def _run_client_command(argv: list[str]) -> None:
    from memoryhub.client import commands

    status = commands.run(argv)
    sys.stdout.flush()  # a closed pipe is reported here, not while Python exits
    sys.exit(status)


if __name__ == "__main__":
    main(["memoryhub", *sys.argv[1:]])
