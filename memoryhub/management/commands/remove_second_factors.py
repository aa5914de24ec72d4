"""``manage.py remove_second_factors``: let a person who lost their device sign in again."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from memoryhub.access.policy import Clearance
from memoryhub.accounts import second_factors, sign_in
from memoryhub.core.database import write_transaction
from memoryhub.core.text import format_count
from memoryhub.management import StoreCommand, operator


class Command(StoreCommand):
    help = (
        "Remove the passkeys, the authenticator app and the recovery codes of a person who lost their "
        "device, and end their sessions. They can then sign in with their password, which changepassword "
        "can reset."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username", help="the person's user name")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(f"no account is called {options['username']!r}")
        with write_transaction():
            removed = second_factors.remove_all(user, operator(Clearance()))
            sign_in.end_all_sessions(user)
        if not removed:
            raise CommandError(f"{user.username} has no second factor")
        self.stdout.write(
            f"Removed {format_count(removed, 'second factor')} of {user.username} and ended their sessions"
        )
