"""``import_memories FILE``: JSON lines into the store."""

from __future__ import annotations

import shlex
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from tqdm import tqdm

from memoryhub.interchange import position
from memoryhub.interchange.files import STDIN, Source, UnreadableFile, reading
from memoryhub.interchange.jsonl import Lines
from memoryhub.interchange.load import Order, Tally, load, over_cap
from memoryhub.interchange.problems import Problem
from memoryhub.management.operator import operator, plural, short_name, shown
from memoryhub.sensitivity import Clearance

INTERRUPTED = 130
OVER_CAP = (
    "  Nothing was removed now. But from now on each memory that an agent stores there sends the least used\n"
    "  one to the trash. To keep them all set max_memories = 0 (no cap), or higher, in memoryhub.toml in\n"
    "  LETSGO_HOME, or MEMORYHUB_MAX_MEMORIES=0 in the server's environment."
)


class Command(BaseCommand):
    help = (
        "Store the memories of a JSON lines file: one object a line, in the shape of POST /api/v1/memories. "
        "What is stored already is refreshed, so the same file may be imported again."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "file", metavar="FILE", help="a .jsonl or .jsonl.gz file, or - for standard input"
        )
        parser.add_argument("--project", default="", help="the project of lines that name none")
        parser.add_argument("--owner", default="", help="whose the personal memories of the file are")
        parser.add_argument("--actor", help="the name the journal keeps (default: command:<your login>)")
        parser.add_argument("--resume", action="store_true", help="go on where an interrupted import stopped")
        parser.add_argument("--strict", action="store_true", help="stop at the first bad line")
        parser.add_argument("--dry-run", action="store_true", help="read and check everything, store nothing")
        parser.add_argument(
            "--show-errors", type=int, default=100, metavar="N", help="show the first N errors (100; 0: all)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        self.options = options
        self.tally, self.errors, self.began = Tally(), 0, time.monotonic()
        piped = options["file"] == STDIN
        if options["resume"] and (piped or options["dry_run"]):
            raise CommandError("--resume needs a file and stores; leave out - and --dry-run")
        again = "" if piped or options["dry_run"] else f" Go on with: {self._this_command()} --resume"
        order = self._order()
        try:
            self._import(order, None if piped or options["dry_run"] else position.file_for(options["file"]))
        except KeyboardInterrupt:
            self._report_if_begun()
            raise CommandError(f"interrupted; what is stored stays.{again}", returncode=INTERRUPTED) from None
        except (UnreadableFile, DatabaseError, OSError) as error:
            self._report_if_begun()
            mend = " See manage.py doctor." if isinstance(error, DatabaseError) else ""
            raise CommandError(f"stopped: {error}.{mend}{again if self.tally.stored else ''}") from None
        self._report()
        if self.tally.failed:
            stopped = (
                f"; stopped at the first, mend it.{again}" if order.strict else "; mend and import them again"
            )
            raise CommandError(f"{plural(self.tally.failed, 'line')} could not be imported{stopped}")

    def _order(self) -> Order:
        options = self.options
        project = short_name(options["project"], "--project")
        clearance = Clearance.up_to("secret", short_name(options["owner"], "--owner"))
        actor = operator(clearance, options["actor"])
        return Order(actor, self._say, project, options["dry_run"], options["strict"])

    def _import(self, order: Order, kept: Path | None) -> None:
        with reading(self.options["file"]) as source:
            lines = self._start(source, kept)
            with self._bar(source) as bar:
                for _ in load(lines, order, self.tally):
                    bar.set_postfix(stored=self.tally.stored, failed=self.tally.failed, refresh=False)
                    bar.update((source.progress if source.size else lines.number) - bar.n)
                    if kept:
                        position.save(kept, lines)
        if kept and not (order.strict and self.tally.failed):
            position.clear(kept)

    def _start(self, source: Source, kept: Path | None) -> Lines:
        """The lines from the beginning, or from where the run before had come if that is asked for."""
        lines, left = Lines(source.stream), position.load(kept) if kept else None
        if left is None:
            if self.options["resume"]:
                self.stdout.write("No interrupted import of this file is known: starting at the beginning.")
            return lines
        if not self.options["resume"]:
            self.stdout.write(
                f"An earlier run stopped after line {left.number:,}; --resume would go on there."
            )
            return lines
        if left.is_of_this_store() and lines.skip(left.number, left.offset, left.digest):
            self.stdout.write(f"Going on after line {left.number:,}.")
            return lines
        self.stdout.write("The file or the store is not the one of then: starting at the beginning.")
        source.stream.seek(0)
        return Lines(source.stream)

    def _bar(self, source: Source) -> tqdm[Any]:
        unit = {"unit": "B", "unit_scale": True, "total": source.size} if source.size else {"unit": " lines"}
        return tqdm(disable=not sys.stderr.isatty() or not self.options["verbosity"], **unit)

    def _say(self, number: int, problem: Problem) -> None:
        """One error on a line of its own, between two pictures of the progress bar."""
        self.errors += 1
        if not self.options["show_errors"] or self.errors <= self.options["show_errors"]:
            with tqdm.external_write_mode(file=sys.stderr):
                self.stderr.write(f"line {number}: {problem}", self.style.NOTICE)

    def _report_if_begun(self) -> None:
        if self.tally.stored or self.tally.failed:
            self._report()

    def _report(self) -> None:
        tally, took = self.tally, time.monotonic() - self.began
        if 0 < self.options["show_errors"] < self.errors:
            self.stderr.write(f"… and {plural(self.errors - self.options['show_errors'], 'more error')}")
        verb = "Would import" if self.options["dry_run"] else "Imported"
        outcomes = ", ".join(f"{n:,} {outcome}" for outcome, n in self._outcomes().items())
        self.stdout.write(
            f"{verb} {plural(tally.stored, 'line')} in {took:.1f} s: {outcomes}, {tally.failed:,} failed"
        )
        self._report_ignored()
        days = settings.MEMORYHUB.default_ttl_days
        if tally.without_ttl and days:
            lines = plural(tally.without_ttl, "line")
            self.stdout.write(f"{lines} without ttl_days: those expire in {days} days (default_ttl_days)")
        if tally.from_trash:
            lines = plural(tally.from_trash, "line")
            self.stdout.write(self.style.WARNING(f"{lines} came out of a trash; here they are live"))
        self._warn_of_cap()

    def _outcomes(self) -> dict[str, int]:
        """Every outcome that happened, and the three that people look for."""
        return {**dict.fromkeys(("created", "refreshed", "updated"), 0), **self.tally.outcomes}

    def _report_ignored(self) -> None:
        if unknown := self.tally.unknown_fields:
            listed = ", ".join(f"{shown(name)} ({plural(n, 'line')})" for name, n in unknown.items())
            self.stdout.write(f"Unknown fields, ignored: {listed}")
        if known := self.tally.read_only_fields:
            lines = plural(max(known.values()), "line")
            self.stdout.write(
                f"Set by the store itself, not taken over: {', '.join(sorted(known))} ({lines})"
            )

    def _warn_of_cap(self) -> None:
        over = over_cap(self.tally, self.options["dry_run"])
        for project, n in over.items():
            name = f"Project {shown(project)}" if project else "The memories without a project"
            cap = settings.MEMORYHUB.max_memories
            self.stdout.write(
                self.style.WARNING(f"{name}: {n:,} memories, over the cap of {cap:,} (max_memories)")
            )
        if over:
            self.stdout.write(self.style.WARNING(OVER_CAP))

    def _this_command(self) -> str:
        given = ["manage.py", "import_memories", self.options["file"]]
        for name in ("project", "owner", "actor"):
            if self.options[name]:
                given += [f"--{name}", self.options[name]]
        return shlex.join(given + ["--strict"] * self.options["strict"])
