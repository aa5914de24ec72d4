"""``copy_store --to URL``: copy the store into another database, SQLite or PostgreSQL."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from memoryhub.core.text import format_count
from memoryhub.management import StoreCommand, require_migrated
from memoryhub.ops import copying


class Command(StoreCommand):
    help = (
        "Copy the store in use into an empty database, and compare every row. "
        "Stop the servers first. Run the same command again to continue an interrupted copy."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--to",
            metavar="URL",
            required=True,
            help="the target, as in DATABASE_URL: postgres://… or sqlite:////path/of/a/file",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        require_migrated()
        total = 0

        def report(table: str, summary: copying.Summary) -> None:
            nonlocal total
            total += summary.rows
            if summary.rows:
                self.stdout.write(f"{summary.rows:>10,}  {table}  {summary.digest[:16]}")

        try:
            copying.copy_store(options["to"], report)
        except copying.CopyError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(self.style.SUCCESS(f"Copied {format_count(total, 'row')}. Both stores are equal."))
        self.stdout.write("Set DATABASE_URL to the target, and start the servers.")
