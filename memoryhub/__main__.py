"""The commands ``memoryhub`` and ``manage.py``: those that talk to a hub, and management commands.

Imports only the standard library: ``manage.py`` imports this module before the requirements are installed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches

from memoryhub.ops import bootstrap

COMMANDS = (
    "search",
    "remember",
    "recall",
    "sessions",
    "sync",
    "backfill",
    "project-page",
    "mode",
    "pause",
    "resume",
    "project",
    "connect",
)
_HELP: tuple[list[str], ...] = ([], ["help"], ["--help"], ["-h"])


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command. ``argv`` begins with the name of the program, like ``sys.argv``."""
    argv = list(sys.argv if argv is None else argv)
    is_client_command = argv[1:2] and argv[1] in COMMANDS
    if argv[1:2] and not is_client_command and (similar := get_close_matches(argv[1], COMMANDS, 1, 0.8)):
        sys.exit(f"memoryhub: unknown command {argv[1]!r}. Did you mean {similar[0]}?")
    bootstrap.main(argv, _run_client_command if is_client_command else _run_management_command)


def _run_management_command(argv: list[str]) -> None:
    if argv[1:] in _HELP:
        print(f"Commands that use a hub, from any machine: {', '.join(COMMANDS)}\n", flush=True)
    bootstrap.run_management_command(argv)


def _run_client_command(argv: list[str]) -> None:
    from memoryhub.client import commands

    status = commands.run(argv)
    sys.stdout.flush()  # a closed pipe is reported here, not while Python exits
    sys.exit(status)


if __name__ == "__main__":
    main(["memoryhub", *sys.argv[1:]])
