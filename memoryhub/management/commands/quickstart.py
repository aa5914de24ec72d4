"""``manage.py quickstart``: prepare a store, an administrator and a token, and start the server."""

from __future__ import annotations

import fcntl
import os
import shlex
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils.crypto import get_random_string

import memoryhub
from memoryhub.access.policy import system_actor
from memoryhub.accounts import identities
from memoryhub.accounts.tokens import issue_token
from memoryhub.core.text import format_count
from memoryhub.core.vocabulary import RIGHTS
from memoryhub.management import StoreCommand
from memoryhub.models import AgentToken, Fact, Memory, Session
from memoryhub.ops import bootstrap, demo, serving
from memoryhub.ops.replay import play_session

ADMIN = demo.OWNER
TOKEN = "quickstart"  # noqa: S105  a name
HOST = "127.0.0.1"


class Command(StoreCommand):
    help = (
        "Prepare a store, create an administrator and a token if there are none, and start the server. The "
        f"demo is in {'LETSGO_HOME/demo' if bootstrap.IS_INSTALLED else '.demo next to manage.py'}; "
        "--no-demo serves your own memories in LETSGO_HOME (~/.letsgo)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        # Abbreviations are off: manage.py looks for --no-demo itself, before the settings are read.
        parser.allow_abbrev = False
        parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: 8000)")
        parser.add_argument("--no-demo", action="store_true", help="use your own store, without demo data")
        parser.add_argument("--prepare-only", action="store_true", help="prepare everything without serving")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["no_demo"] and settings.HOME != bootstrap.DEMO_HOME:
            raise CommandError(f"the demo needs its own folder; start it as: {_program()} quickstart")
        try:
            if not options["prepare_only"]:
                serving.require_limits()
                serving.require_free(HOST, options["port"])
            with _preparation_lock():
                self.prepare(options["no_demo"])
        except (serving.CannotServe, demo.NotADemo) as error:
            raise CommandError(str(error)) from None
        if not options["prepare_only"]:
            # By name: browsers refuse passkeys at an IP address.
            self.print_row("Open", f"http://localhost:{options['port']}")
            self.print_row("API", f"http://localhost:{options['port']}/api/v1/docs")
            self.print_row("Stop", "Ctrl-C; run the same command to start it again with the same data")
            self.stdout.write("")
            serving.serve(HOST, options["port"], quiet=True)

    def prepare(self, real: bool) -> None:
        self.stdout.write(f"memoryhub {memoryhub.__version__}\n\n")
        call_command("migrate", verbosity=0)
        for sentence in serving.prepare_store():
            self.stderr.write(sentence)
        loaded = False
        if not real:
            demo.mark()
            loaded = demo.load()
            if loaded:
                play_session()
        self.print_row("Store" if real else "Demo store", str(settings.HOME))
        if Memory.objects.exists():
            self.print_row("Loaded" if loaded else "Contains", _contents())
        else:
            self.print_row(
                "Contains", f"nothing yet; to import a file: {_command(real, 'import_memories FILE')}"
            )
        self.ensure_administrator(real)
        self.ensure_token(real)
        admin = get_user_model().objects.filter(is_superuser=True, is_active=True).order_by("pk").first()
        if loaded and admin is not None:
            demo.add_team(admin)

    def ensure_administrator(self, real: bool) -> None:
        """Print who can log in. Create an administrator if there is none."""
        users = get_user_model().objects
        known = users.filter(is_superuser=True, is_active=True).order_by("pk").first()
        if known is None and (users.filter(username=ADMIN).exists() or identities.is_former_username(ADMIN)):
            state = "was" if identities.is_former_username(ADMIN) else "is"
            self.print_row(
                "Administrator",
                f"none; {ADMIN} {state} another person; to create one: {_command(real, 'createsuperuser')}",
            )
        elif known is None:
            password = get_random_string(16)
            users.create_superuser(ADMIN, password=password)
            self.print_row("Administrator", f"{ADMIN}, new")
            self.print_row("Password", f"{password}   (shown only now)")
        else:
            name = known.get_username()
            self.print_row(
                "Administrator",
                f"{name}; new password: {_command(real, 'changepassword', name)}",
            )

    def ensure_token(self, real: bool) -> None:
        """Print which token agents can use. Create one if there is none."""
        known = AgentToken.objects.active().order_by("-created_at", "-pk").first()
        if known:
            self.print_row(
                "Agent token",
                f"{known.name} {known.prefix}...; another one: {_command(real, 'create_token NAME')}",
            )
            return
        if identities.is_former_username(ADMIN):
            self.print_row("Agent token", f"none; to create one: {_command(real, 'create_token NAME')}")
            return
        # The token of the demo has all rights, so that people can try everything.
        clearance, rights = ("public", None) if real else ("secret", RIGHTS)
        _, raw = issue_token(TOKEN, ADMIN, clearance, rights, actor=system_actor("quickstart"))
        self.print_row("Agent token", f"{raw}   (shown only now)")

    def print_row(self, what: str, value: str) -> None:
        self.stdout.write(f"  {what:<14} {value}")


def _contents() -> str:
    """Count live memories, facts and sessions."""
    counts = {
        "memory": Memory.objects.live().count(),
        "fact": Fact.objects.count(),
        "session": Session.objects.count(),
    }
    return ", ".join(format_count(count, name) for name, count in counts.items())


def _command(real: bool, *words: str) -> str:
    """Return a command line for this store, to be typed in the same folder as this command."""
    demo_home = str(settings.HOME) if bootstrap.IS_INSTALLED else os.path.relpath(settings.HOME)
    home = os.environ.get("LETSGO_HOME") if real else demo_home
    where = f"LETSGO_HOME={shlex.quote(home)} " if home else ""
    return f"{where}{_program()} {' '.join(words)}"


def _program() -> str:
    """Return what starts a command: ``python3 manage.py`` in a checkout, else ``memoryhub``."""
    return "memoryhub" if bootstrap.IS_INSTALLED else f"python3 {shlex.quote(sys.argv[0])}"


@contextmanager
def _preparation_lock() -> Iterator[None]:
    """Lock the home: two starts at the same time prepare the store one after the other."""
    folder = os.open(settings.HOME, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
