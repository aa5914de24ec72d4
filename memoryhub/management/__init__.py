"""The management commands, and what they share: checks of the store, the actor, texts for the terminal."""

from __future__ import annotations

import getpass
import sys
from importlib import import_module
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from pydantic import TypeAdapter, ValidationError

from memoryhub.access.policy import EVERYTHING, Actor, Clearance
from memoryhub.backends import release
from memoryhub.memories.schemas import Name
from memoryhub.ops.checks import INSTALLATION

MAX_NAME = 200
INTERRUPTED = 130  # the exit code after Ctrl-C


class StoreCommand(BaseCommand):
    """A command that uses the store. It runs the checks of the installation first."""

    requires_system_checks = [INSTALLATION]

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Refuse values with bytes that are not UTF-8, which the store and its files cannot contain."""
        for name, value in options.items():
            try:
                "".join(map(str, value if isinstance(value, list) else [value])).encode()
            except UnicodeEncodeError:
                raise CommandError(f"{name}: is not valid UTF-8; use another name") from None
        return super().execute(*args, **options)


def operator(clearance: Clearance = EVERYTHING, name: str | None = None) -> Actor:
    """Return the actor for the journal: ``command:<login>``, or ``name`` if it is given."""
    if name is None:
        return Actor(f"command:{login()}", clearance)
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise CommandError(f"--actor must be 1 to {MAX_NAME} printable characters")
    return Actor(name.strip(), clearance)


def login() -> str:
    """Return the user name in the operating system; ``unknown`` in a container that has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"


def shown(text: str, chars: int = 60) -> str:
    """Shorten a stored text for the terminal. Escape it if it contains control characters."""
    short = text if len(text) <= chars else text[: chars - 1] + "…"
    return short if short.isprintable() else ascii(short)


def split_words(text: str) -> list[str]:
    """Return the words of an option, which commas separate."""
    return [word.strip() for word in text.split(",") if word.strip()]


def short_name(text: str, option: str) -> str:
    """Return the name in an option, trimmed like one in a draft. Raise CommandError if it is not valid."""
    try:
        return TypeAdapter(Name).validate_python(text)
    except ValidationError as error:
        raise CommandError(f"{option}: {error.errors()[0]['msg']}") from None


def require_migrated() -> None:
    """Raise CommandError unless all migrations are applied to the store."""
    if release.pending_migrations():
        place = "DATABASE_URL" if settings.DATABASE_URL else settings.HOME
        raise CommandError(f"the store in {place} is not up to date; run: manage.py migrate")


def load_tool(name: str) -> type[BaseCommand]:
    """Return the command of this name in ``tools/``, which only a checkout has."""
    try:
        command: type[BaseCommand] = import_module(f"tools.commands.{name}").Command
    except ModuleNotFoundError:
        # Django shows no stack trace for a CommandError, except for one that a parser raises.
        sys.exit(f"{name} needs a checkout of the repository: the package leaves tools/ out")
    return command
