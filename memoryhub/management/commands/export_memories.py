"""``export_memories [FILE]``: export the store, in the hub's own format or that of another system."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from pydantic import ValidationError

from memoryhub.access.policy import LEVELS, Clearance, Sensitivity
from memoryhub.core.text import format_count
from memoryhub.core.vocabulary import TYPES, Scope
from memoryhub.management import StoreCommand, operator, short_name
from memoryhub.memories.filters import MemoryFilter
from memoryhub.transfer.export import UNKNOWN_LEVEL, ExportSelection
from memoryhub.transfer.files import STDOUT, write_atomically
from memoryhub.transfer.formats import OWN_FORMAT, WRITERS, write_export

_HOW_TO_INCLUDE = {
    Sensitivity.PRIVATE.value: "--include-private",
    Sensitivity.SECRET.value: "--include-secret",
    Scope.PERSONAL.value: "--owner NAME",
    UNKNOWN_LEVEL: "never exported; see doctor",
}

_MEMORY_FILTERS = ("type", "since", "until", "trashed")


class Command(StoreCommand):
    help = (
        "Export memories as JSON lines for import_memories, or in the format of another system. --whole adds "
        "facts, sessions and history. Only public memories are exported unless an option includes more."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "file",
            metavar="FILE",
            nargs="?",
            default=STDOUT,
            help="a name ending in .gz is compressed; - or no name: standard output",
        )
        parser.add_argument(
            "--format",
            choices=list(WRITERS),
            default=OWN_FORMAT,
            help=f"format of the file (default: {OWN_FORMAT})",
        )
        parser.add_argument(
            "--whole",
            action="store_true",
            help="also export trash, expired memories, versions, facts, sessions, events and the journal",
        )
        parser.add_argument("--project", help="only this project")
        parser.add_argument("--type", choices=TYPES, help="only this type")
        parser.add_argument("--since", metavar="WHEN", help="created at or after this day or moment (UTC)")
        parser.add_argument("--until", metavar="WHEN", help="created before this day or moment (UTC)")
        parser.add_argument(
            "--trashed", action="store_true", help="export the trash instead of live memories"
        )
        parser.add_argument("--include-private", action="store_true", help="also export private memories")
        parser.add_argument(
            "--include-secret", action="store_true", help="also export secret memories (this is journaled)"
        )
        parser.add_argument("--owner", default="", help="also export the personal memories of this person")
        parser.add_argument(
            "--every-owner", action="store_true", help="also export the personal memories of everyone"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not Path(options["file"]).name:
            raise CommandError(f"{options['file'] or 'FILE'}: is not the name of a file; add one")
        owner = short_name(options["owner"], "--owner")
        clearance = Clearance(frozenset(LEVELS), owner, every_owner=options["every_owner"])
        included = clearance.limited_to(private=options["include_private"], secret=options["include_secret"])
        if options["whole"] and (
            options["format"] != OWN_FORMAT or any(options[name] for name in _MEMORY_FILTERS)
        ):
            raise CommandError(
                f"--whole requires the format {OWN_FORMAT}; it cannot be combined with --type, --since, "
                "--until and --trashed"
            )
        selection = ExportSelection(operator(included), self._filter(options), options["whole"])
        selection.journal_secrets()
        self.format, written = options["format"], selection.total()
        try:
            self._write(options["file"], write_export(WRITERS[self.format], selection))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CommandError(f"{options['file']}: not written: {error.strerror or error}") from None
        self._report(options, written, selection.left_out())

    def _filter(self, options: dict[str, Any]) -> MemoryFilter:
        given = {name: options[name] for name in ("project", "type", "since", "until", "trashed")}
        try:
            return MemoryFilter.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            raise CommandError(f"--{first['loc'][0]}: {first['msg']}") from None

    def _write(self, name: str, lines: Iterator[bytes]) -> None:
        if name != STDOUT:
            write_atomically(Path(name), lines)
            return
        raw = getattr(self.stdout, "buffer", None)
        for line in lines:
            if raw:
                raw.write(line)
            else:
                self.stdout.write(line.decode(), ending="")
        if raw:
            raw.flush()

    def _report(self, options: dict[str, Any], written: int, left_out: dict[str, int]) -> None:
        """Print the report; on standard error if the memories went to standard output."""
        to = self.stderr if options["file"] == STDOUT else self.stdout
        place = "" if options["file"] == STDOUT else f" to {options['file']}"
        style = self.style.SUCCESS if options["file"] != STDOUT else str
        to.write(f"Exported {format_count(written, 'memory')}{place}", style)
        for what, n in left_out.items():
            to.write(f"Left out: {n:,} {what} ({_HOW_TO_INCLUDE.get(what, 'not asked for')})", str)
        if lossy := WRITERS[self.format].lossy:
            to.write(lossy, str)
