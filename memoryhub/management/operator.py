"""The person at the command line: who the journal says it was, and what every command of theirs shares."""

from __future__ import annotations

import getpass
import sys
from importlib import import_module

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from pydantic import TypeAdapter, ValidationError

from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.schemas import Name

MAX_NAME = 200


def operator(clearance: Clearance, name: str | None = None) -> Actor:
    """Who runs this command: ``command:<login>``, or the name they give."""
    if name is None:
        return Actor(f"command:{login()}", clearance)
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise CommandError(f"--actor must be 1 to {MAX_NAME} printable characters")
    return Actor(name.strip(), clearance)


def login() -> str:
    """The operating system's name for the user; in a container that knows none, ``unknown``."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"


def plural(count: int, word: str) -> str:
    """``1 memory``, ``1,234 memories``."""
    many = word[:-1] + "ies" if word.endswith("y") else word + "s"
    return f"{count:,} {word if count == 1 else many}"


def shown(text: str, chars: int = 60) -> str:
    """A foreign text for the terminal: short, on one line, without control characters."""
    short = text if len(text) <= chars else text[: chars - 1] + "…"
    return short if short.isprintable() else ascii(short)


def short_name(text: str, option: str) -> str:
    """A name given as an option, trimmed like one in a draft; CommandError names the option."""
    try:
        return TypeAdapter(Name).validate_python(text)
    except ValidationError as error:
        raise CommandError(f"{option}: {error.errors()[0]['msg']}") from None


def require_migrated() -> None:
    """Raise CommandError unless all migrations are applied to the store."""
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise CommandError(f"the store in {settings.HOME} is not up to date; run: manage.py migrate")


def load_tool(name: str) -> type[BaseCommand]:
    """Return the command of this name in ``tools/``, which only a checkout has."""
    try:
        command: type[BaseCommand] = import_module(f"tools.commands.{name}").Command
    except ModuleNotFoundError:
        # Django shows no stack trace for a CommandError, except for one that a parser raises.
        sys.exit(f"{name} needs a checkout of the repository: the package leaves tools/ out")
    return command
