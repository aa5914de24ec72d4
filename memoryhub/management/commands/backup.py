"""``backup [DEST]``: back up the store while it is in use."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from memoryhub.management import StoreCommand
from memoryhub.ops import backup


class Command(StoreCommand):
    help = (
        "Back up the store and the journal's mirror while agents continue to write, and verify the copy. The "
        "backup contains all memories, also secret ones, in plain text: store it where only you can read it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "dest",
            metavar="DEST",
            nargs="?",
            help="a folder, or a new file with the suffix .db (default: LETSGO_HOME/backups)",
        )
        parser.add_argument(
            "--keep", type=int, metavar="N", help="keep only the newest N backups in the folder"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["keep"] is not None and options["keep"] < 1:
            raise CommandError("--keep must be at least 1")
        dest = Path(options["dest"]) if options["dest"] else backup.default_folder()
        named = dest.suffix == backup.SUFFIX and not dest.is_dir()
        target = dest if named else dest / f"memoryhub-{backup.stamp()}{backup.SUFFIX}"
        try:
            contents = backup.back_up(target)
        except backup.BackupError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(self.style.SUCCESS(f"Backed up to {target}"))
        self.stdout.write(f"  {contents.summary()}")
        if contents.damage():
            self.stdout.write(self.style.ERROR(f"  {contents.damage()}"))
        if options["keep"]:
            for path in backup.prune(target.parent, options["keep"]):
                self.stdout.write(f"Removed {path}")
        if not contents.chain.ok:
            raise CommandError(
                "the backup is complete, but the journal was tampered with; see verify_journal"
            )
        if contents.altered:
            raise CommandError("the backup is complete, but texts were changed outside the hub")
