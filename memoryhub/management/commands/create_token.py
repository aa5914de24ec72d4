"""``manage.py create_token NAME``: create a token for an agent and print it."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from memoryhub.access.policy import LEVELS, Sensitivity, system_actor
from memoryhub.accounts.tokens import issue_token
from memoryhub.core.vocabulary import RIGHTS
from memoryhub.management import StoreCommand, split_words
from memoryhub.memories.errors import StoreError

MAX_DAYS = 36_500


class Command(StoreCommand):
    help = (
        "Create a token for an agent and print it on a line of its own. Only a hash is stored, so the token "
        "cannot be shown again."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the agent's name; the journal shows it as token:NAME")
        parser.add_argument(
            "--clearance",
            default=Sensitivity.PUBLIC.value,
            help=f"the highest level it may read: {', '.join(LEVELS)} (default: public)",
        )
        parser.add_argument(
            "--rights",
            default="read,write",
            help=f"comma-separated: {','.join(RIGHTS)} (default: read,write)",
        )
        parser.add_argument("--projects", help="only these projects, comma-separated (default: all)")
        parser.add_argument("--owner", default="", help="owner of its personal memories (default: NAME)")
        parser.add_argument("--expires-days", type=float, help="days until it expires (default: never)")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            token, raw = issue_token(
                options["name"],
                options["owner"] or options["name"],
                options["clearance"],
                split_words(options["rights"]),
                None if options["projects"] is None else split_words(options["projects"]),
                actor=system_actor("create_token"),
                expires_at=_expiry(options["expires_days"]),
            )
        except StoreError as error:
            raise CommandError(f"{error.field}: {error.message}") from None
        self.stdout.write(raw)
        where = f"in {', '.join(token.projects)}" if token.projects else "in all projects"
        self.stderr.write(
            f"Token for {token.name}: {', '.join(token.rights)}, up to the level {token.clearance}, {where}."
            " Copy it now: it is not shown again."
        )


def _expiry(days: float | None) -> Any:
    if days is None:
        return None
    if not 0 < days <= MAX_DAYS:
        raise CommandError(f"--expires-days: must be more than 0 and at most {MAX_DAYS}")
    return timezone.now() + timedelta(days=days)
