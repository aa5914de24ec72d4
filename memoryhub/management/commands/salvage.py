"""``salvage FILE``: copy the readable rows of a damaged store into a new one."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from memoryhub.core.text import format_count
from memoryhub.ops import backup, salvage

MAX_LISTED = 50


class Command(BaseCommand):
    help = (
        "Copy everything that can be read from a damaged store into a new file, and list what is lost. "
        "Stop the server first. Exit code 1 if anything is lost."
    )
    # The command must run if the store is damaged.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="the new store, which must not exist")
        parser.add_argument(
            "--from", dest="source", type=Path, metavar="STORE", help="the damaged file (the store in use)"
        )
        parser.add_argument("--all", action="store_true", help=f"list all losses, not the first {MAX_LISTED}")

    def handle(self, *args: Any, **options: Any) -> None:
        connections.close_all()
        try:
            store = backup.live_path()  # refuses a store on PostgreSQL
            result = salvage.salvage(options["source"] or store, options["file"])
        except (backup.BackupError, OSError) as error:
            raise CommandError(str(error)) from None
        for table, count in sorted(result.rows.items()):
            if count:
                self.stdout.write(f"{count:>10,}  {table}")
        self.stdout.write(
            self.style.SUCCESS(f"Copied {format_count(result.rows.total(), 'row')} to {options['file']}")
        )
        force = "" if result.chain.ok else " --force"
        self.stdout.write(f"Use it: manage.py restore_backup {options['file']} --yes{force}")
        losses = list(result.losses())
        shown = losses if options["all"] else losses[:MAX_LISTED]
        for sentence in shown:
            self.stdout.write(self.style.ERROR(f"Lost: {sentence}"))
        if len(losses) > len(shown):
            self.stdout.write(f"Lost: {len(losses) - len(shown):,} more; list them with --all")
        if losses:
            raise CommandError("not everything could be read")
