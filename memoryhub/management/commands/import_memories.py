"""``import_memories FILE``: import memories from a file of memoryhub or another system."""

from __future__ import annotations

import gc
import shlex
import sqlite3
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError
from pydantic import TypeAdapter, ValidationError
from tqdm import tqdm

from memoryhub.access.policy import LEVELS, Clearance
from memoryhub.capture.projects import configure_project
from memoryhub.core.text import format_count
from memoryhub.management import INTERRUPTED, StoreCommand, operator, short_name, shown
from memoryhub.memories.delete import load_caps
from memoryhub.memories.rows import local_settings
from memoryhub.memories.schemas import TtlDays
from memoryhub.models import Memory
from memoryhub.transfer.files import STDIN
from memoryhub.transfer.formats import FORMATS, OWN_FORMAT, Format, detect_format
from memoryhub.transfer.import_files import (
    IdMap,
    ImportReader,
    checkpoint_path,
    load_checkpoint,
    open_import,
    save_checkpoint,
)
from memoryhub.transfer.loader import LoadOptions, load_items
from memoryhub.transfer.records import Problem, ReadOptions, UnreadableFile
from memoryhub.transfer.reports import Tally, find_projects_over_cap, suggest_cap
from memoryhub.transfer.text_workers import TextWorkers

OVER_CAP = (
    "  Nothing was removed now. But from now on, each memory that an owner adds there sends the least used\n"
    "  one of that owner to the trash. To keep them all use --raise-cap, or raise the cap in the settings\n"
    "  of the project, or for all projects: max_memories = 0 (no cap), or higher, in memoryhub.toml in\n"
    "  LETSGO_HOME, or MEMORYHUB_MAX_MEMORIES=0 in the server's environment."
)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage rarely: each batch makes many objects, and nearly none of them are in cycles."""
    usual = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100_000, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


def _lifetime(text: str) -> float:
    """Return the days of ``--ttl``; 0 is for ever."""
    try:
        return 0.0 if text == "never" else TypeAdapter(TtlDays).validate_python(text)
    except ValidationError:
        raise ArgumentTypeError(f"{text}: give never, or a number of days") from None


class Command(StoreCommand):
    help = (
        "Import memories from a file: JSON lines of memoryhub, Markdown (CLAUDE.md), or a file of another "
        "memory system. Importing a file again creates no duplicates."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="the file; - reads JSON lines from standard input")
        parser.add_argument(
            "--format", choices=list(FORMATS), help="format of the file (default: detected from its content)"
        )
        parser.add_argument("--project", default="", help="project of memories that name none")
        parser.add_argument("--owner", default="", help="owner of the personal memories in the file")
        parser.add_argument(
            "--every-owner",
            action="store_true",
            help="keep the owners of personal memories that the file names",
        )
        parser.add_argument(
            "--ttl",
            type=_lifetime,
            metavar="never|DAYS",
            help="lifetime of memories without ttl_days: days, or never (default: default_ttl_days)",
        )
        parser.add_argument(
            "--infer-types",
            action="store_true",
            help="derive the type of memories without one from their text (default: change)",
        )
        parser.add_argument("--actor", help="your name in the journal (default: command:<your login>)")
        parser.add_argument("--resume", action="store_true", help="continue an interrupted import")
        parser.add_argument("--strict", action="store_true", help="stop at the first bad line")
        parser.add_argument(
            "--raise-cap", action="store_true", help="raise the caps of projects that the import exceeds"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="read and check the file without storing anything"
        )
        parser.add_argument(
            "--show-errors",
            type=int,
            default=100,
            metavar="N",
            help="show the first N errors (default: 100; 0: all)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        self.options = options
        self.tally, self.errors, self.began = Tally(), 0, time.monotonic()
        piped = options["file"] == STDIN
        if options["resume"] and (piped or options["dry_run"]):
            raise CommandError("--resume cannot be combined with - or --dry-run")
        if piped and options["format"] not in (None, OWN_FORMAT):
            raise CommandError(
                "standard input must contain JSON lines of memoryhub; pass other formats as a file"
            )
        retry = "" if piped or options["dry_run"] else f" Continue with: {self._this_command()} --resume"
        loading = self._load_options()
        try:
            self._import(loading, None if piped or options["dry_run"] else checkpoint_path(options["file"]))
        except KeyboardInterrupt:
            self._report_if_begun()
            raise CommandError(f"interrupted; stored memories stay.{retry}", returncode=INTERRUPTED) from None
        except (UnreadableFile, DatabaseError, sqlite3.Error, OSError) as error:
            self._report_if_begun()
            hint = " See manage.py doctor." if isinstance(error, DatabaseError | sqlite3.Error) else ""
            words = error.strerror if isinstance(error, OSError) else ""
            words = f"{options['file']}: cannot be read: {words}" if words else str(error)
            raise CommandError(f"stopped: {words}.{hint}{retry if self.tally.handled else ''}") from None
        self._report()
        if self.tally.failed:
            stopped = (
                f"; stopped at the first, fix it.{retry}" if loading.strict else "; fix and import them again"
            )
            raise CommandError(f"{format_count(self.tally.failed, 'line')} could not be imported{stopped}")

    def _load_options(self) -> LoadOptions:
        options = self.options
        project = short_name(options["project"], "--project")
        owner = short_name(options["owner"], "--owner")
        clearance = Clearance(frozenset(LEVELS), owner, every_owner=options["every_owner"])
        actor = operator(clearance, options["actor"])
        return LoadOptions(
            actor,
            self._report_error,
            project,
            options["ttl"],
            options["dry_run"],
            options["strict"],
            restores=True,
            infer_types=options["infer_types"],
        )

    def _format(self) -> Format:
        named, file = self.options["format"], self.options["file"]
        if named or file == STDIN:
            return FORMATS[named or OWN_FORMAT]
        detected = detect_format(Path(file))
        if detected.name != OWN_FORMAT:
            self.stdout.write(f"This is {detected.label}.")
        return detected

    def _import(self, loading: LoadOptions, checkpoint: Path | None) -> None:
        format, name = self._format(), self.options["file"]
        options = ReadOptions(name=name, project=loading.project, has_owner=bool(loading.actor.owner))
        with ExitStack() as stack:
            reading = stack.enter_context(open_import(format, name, options))
            ids = stack.enter_context(closing(IdMap(checkpoint and checkpoint.with_suffix(".ids"))))
            if checkpoint and not self._resume(reading, checkpoint):
                reading = stack.enter_context(open_import(format, name, options))
            bar = stack.enter_context(self._bar(reading))
            stack.enter_context(_rare_collections())
            workers = stack.enter_context(TextWorkers(settings.MEMORYHUB.import_workers, local_settings()))
            for mark in load_items(reading, loading, self.tally, ids, workers):
                bar.set_postfix(stored=self.tally.stored, failed=self.tally.failed, refresh=False)
                bar.update(reading.done - bar.n)
                if checkpoint:
                    save_checkpoint(checkpoint, mark)
            if checkpoint and not (loading.strict and self.tally.failed):
                checkpoint.unlink(missing_ok=True)
                ids.delete()

    def _resume(self, reading: ImportReader, checkpoint: Path) -> bool:
        """With --resume, skip what an earlier run has imported. Return False if ``reading`` is used up."""
        left = load_checkpoint(checkpoint)
        if left is None:
            if self.options["resume"]:
                self.stdout.write("No interrupted import of this file is known: starting at the beginning.")
            return True
        word = "line" if reading.unit == "B" else "item"
        if not self.options["resume"]:
            self.stdout.write(
                f"An earlier run stopped after {word} {left.number:,}; --resume continues there."
            )
            return True
        if left.is_of_this_store() and reading.resume(left.mark):
            self.stdout.write(f"Continuing after {word} {left.number:,}.")
            return True
        self.stdout.write("The file or the store has changed since: starting at the beginning.")
        return False

    def _bar(self, reading: ImportReader) -> tqdm[Any]:
        hidden = not sys.stderr.isatty() or not self.options["verbosity"]
        is_bytes = reading.unit == "B"
        return tqdm(disable=hidden, unit=reading.unit, total=reading.total, unit_scale=is_bytes)

    def _report_error(self, place: str, problem: Problem) -> None:
        """Print an error without breaking the progress bar."""
        self.errors += 1
        if not self.options["show_errors"] or self.errors <= self.options["show_errors"]:
            with tqdm.external_write_mode(file=sys.stderr):
                self.stderr.write(f"{place}: {problem}", self.style.NOTICE)

    def _report_if_begun(self) -> None:
        if self.tally.handled:
            self._report()

    def _report(self) -> None:
        tally, took = self.tally, time.monotonic() - self.began
        if 0 < self.options["show_errors"] < self.errors:
            self.stderr.write(
                f"… and {format_count(self.errors - self.options['show_errors'], 'more error')}"
            )
        verb = "Would import" if self.options["dry_run"] else "Imported"
        # The usual outcomes are listed even if they are 0.
        counted = {**dict.fromkeys(("created", "refreshed", "updated"), 0), **tally.outcomes}
        outcomes = ", ".join(f"{n:,} {outcome}" for outcome, n in counted.items())
        stored = format_count(tally.stored, "memory")
        self.stdout.write(f"{verb} {stored} in {took:.1f} s: {outcomes}, {tally.failed:,} failed")
        for kind, counts in tally.others.items():
            listed = ", ".join(f"{n:,} {outcome}" for outcome, n in counts.items())
            self.stdout.write(f"{kind.capitalize()}: {listed}")
        for line in self._notes():
            self.stdout.write(line)
        self._warn_of_cap()

    def _notes(self) -> Iterator[str]:
        """Yield remarks: ignored fields, expiry dates, and memories that were not changed."""
        tally, days = self.tally, settings.MEMORYHUB.default_ttl_days
        for what, n in tally.unmapped.most_common():
            yield f"Changed or not imported: {shown(what, 200)} ({n:,})"
        if unknown := tally.ignored:
            listed = ", ".join(
                f"{shown(name)} ({format_count(n, 'line')})" for name, n in unknown.most_common()
            )
            yield f"Unknown fields, ignored: {listed}"
        expire = "would expire" if self.options["dry_run"] else "will expire"
        if tally.first_expiry:
            memories = format_count(tally.expiring, "memory")
            yield f"{memories} {expire}, the first on {tally.first_expiry:%Y-%m-%d}"
        if tally.without_ttl and days:
            memories = format_count(tally.without_ttl, "memory")
            yield (
                f"{memories} without ttl_days {expire} in {days} days (default_ttl_days);"
                " use --ttl never to keep them"
            )
        if n := tally.restored.total():
            restored = "would be restored" if self.options["dry_run"] else "restored"
            yield f"{format_count(n, 'memory')} {restored} from the trash or after expiry"
        if tally.outcomes["kept"]:
            n = tally.outcomes["kept"]
            yield f"{format_count(n, 'memory')} changed on one side since: the stored version is kept"
        if tally.in_trash:
            memories = format_count(tally.in_trash, "memory")
            yield f"{memories} in the trash or expired in the file: the same here"

    def _warn_of_cap(self) -> None:
        over = find_projects_over_cap(self.tally.created_in, Memory.objects.all(), self.options["dry_run"])
        caps = load_caps(over)
        raised = {project for project in over if project and self.options["raise_cap"]}
        for project, n in over.items():
            name = f"Project {shown(project)}" if project else "The memories without a project"
            text = f"{name}: {n:,} memories, over the cap of {caps[project]:,} (max_memories)"
            if project in raised:
                text += self._raise_cap(project, suggest_cap(n))
            self.stdout.write(self.style.WARNING(text))
        if over.keys() - raised:
            self.stdout.write(self.style.WARNING(OVER_CAP))

    def _raise_cap(self, project: str, cap: int) -> str:
        """Raise a cap, except in a dry run. Return the note for the report."""
        if self.options["dry_run"]:
            return f"; --raise-cap would raise it to {cap:,}"
        configure_project(project, self._load_options().actor, max_memories=cap)
        return f"; raised to {cap:,}"

    def _this_command(self) -> str:
        given = ["manage.py", "import_memories", self.options["file"]]
        for name in ("format", "project", "owner", "actor"):
            if self.options[name]:
                given += [f"--{name}", self.options[name]]
        if self.options["ttl"] is not None:
            given += ["--ttl", f"{self.options['ttl']:g}" if self.options["ttl"] else "never"]
        for name in ("every_owner", "infer_types", "strict", "raise_cap"):
            given += [f"--{name.replace('_', '-')}"] * self.options[name]
        return shlex.join(given)
