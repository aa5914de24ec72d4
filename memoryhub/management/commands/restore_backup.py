"""``restore_backup FILE``: replace the store with a backup."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, transaction

from memoryhub.audit import journal
from memoryhub.management import operator
from memoryhub.ops import backup

_UNCHANGED = "The current store is as it was before."


class Command(BaseCommand):
    help = (
        "Verify a backup, rename the current store, and put the backup in its place. This also restores "
        "the users and tokens of the backup. Stop the server first."
    )
    # The command must run if the store is damaged or missing.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="a .db file made by the backup command")
        parser.add_argument("--yes", action="store_true", help="replace the current store")
        parser.add_argument("--dry-run", action="store_true", help="only verify and describe the backup")
        parser.add_argument(
            "--force", action="store_true", help="restore it even if texts or the journal were changed"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            backup.live_path()  # refuses a store on PostgreSQL
            with backup.staged(options["file"]) as copy:
                contents = self._verified(copy, options)
                if not options["dry_run"]:
                    self._put_in_place(copy, contents, options)
        except backup.BackupError as error:
            raise CommandError(f"{error}\nNothing was changed.") from None
        except OSError as error:
            place = error.filename or backup.live_path().parent
            raise CommandError(f"{place}: {error.strerror or error}\n{_UNCHANGED}") from None
        except DatabaseError as error:
            raise CommandError(f"{error}\n{_UNCHANGED}") from None

    def _verified(self, copy: Path, options: dict[str, Any]) -> backup.Contents:
        contents = backup.inspect(copy, options["file"])
        self.stdout.write(f"{options['file']} contains {contents.summary()}")
        if contents.refusal:
            raise backup.BackupError(f"{contents.refusal}; install that version first")
        if contents.damage():
            self.stdout.write(self.style.ERROR(f"  {contents.damage()}"))
            if not options["force"]:
                what = "texts were changed" if contents.chain.ok else "journal was tampered with"
                raise backup.BackupError(f"the backup's {what}; --force restores it anyway")
        return contents

    def _put_in_place(self, copy: Path, contents: backup.Contents, options: dict[str, Any]) -> None:
        live = backup.live_path()
        if live.exists() and not options["yes"]:
            self.stdout.write(f"{live} contains {self._present()}")
            raise backup.BackupError("a store exists already; --yes renames it and restores the backup")
        kept = backup.put_in_place(copy, options["file"])
        self._journal(options["file"], contents)
        self.stdout.write(self.style.SUCCESS(f"Restored to {live}"))
        if kept:
            self.stdout.write(f"The previous store is {kept}; restore_backup can restore it")

    def _present(self) -> str:
        try:
            return backup.inspect(backup.live_path()).summary()
        except backup.BackupError as error:
            return f"what cannot be read: {error}"

    def _journal(self, file: Path, contents: backup.Contents) -> None:
        """Journal the restore. The new row follows the last one of the backup, and completes the mirror."""
        detail = {"file": file.name, "journal_rows": contents.chain.rows}
        with transaction.atomic():
            journal.record(operator(), [journal.Change("restore_backup", "store", "", detail)])
