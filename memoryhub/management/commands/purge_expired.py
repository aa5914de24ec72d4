"""``manage.py purge_expired``: remove expired memories permanently."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.utils import timezone

from memoryhub import memories
from memoryhub.core.text import format_count
from memoryhub.management import StoreCommand, operator, shown
from memoryhub.memories.delete import purgeable_memories
from memoryhub.stats.counts import count_values


class Command(StoreCommand):
    help = (
        "Permanently remove expired memories, each with a journal row: all of them, or with --scheduled only "
        "those that have been expired for longer than the grace period."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        wait = parser.add_mutually_exclusive_group()
        wait.add_argument(
            "--grace-days",
            type=float,
            default=0,
            metavar="N",
            help="keep memories that expired in the last N days (default: 0)",
        )
        wait.add_argument(
            "--scheduled",
            action="store_true",
            help="use the grace period of the configuration (expiry_grace_days)",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="count what would be removed, remove nothing"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        grace = settings.MEMORYHUB.expiry_grace_days if options["scheduled"] else options["grace_days"]
        if not 0 <= grace <= 36_500:
            raise CommandError("--grace-days must be between 0 and 36500")
        now = timezone.now()
        actor = operator()
        counts = count_values(purgeable_memories(actor, grace, now), "project")
        spared = purgeable_memories(actor, 0, now).count() - sum(counts.values())
        purged = sum(counts.values()) if options["dry_run"] else memories.purge_expired(actor, grace, now)
        verb = "Would purge" if options["dry_run"] else "Purged"
        self.stdout.write(f"{verb} {format_count(purged, 'expired memory')}")
        for project, n in counts.items():
            self.stdout.write(f"  {n:>8,}  {shown(project) if project else '(no project)'}")
        if spared:
            self.stdout.write(
                f"Kept {format_count(spared, 'memory')} that expired in the last {grace:g} days"
            )
