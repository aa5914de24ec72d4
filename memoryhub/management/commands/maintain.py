"""``maintain``: run maintenance operations from the command line and from cron."""

from __future__ import annotations

import gc
import json
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.utils import timezone
from tqdm import tqdm

from memoryhub.access.policy import Clearance, Sensitivity
from memoryhub.audit import clock
from memoryhub.core.text import format_count
from memoryhub.core.vocabulary import Scope
from memoryhub.maintenance import executor, results, runs
from memoryhub.maintenance.operations import OPERATIONS, find_operation
from memoryhub.management import INTERRUPTED, StoreCommand, operator, short_name, shown
from memoryhub.memories import StoreError
from memoryhub.models import MaintenanceRun

MAX_CHANGES = 200  # that are printed; the page of the run and the API list all
MAX_RUNS = 10  # in the overview
_TITLE = 44


def overview(clearance: Clearance) -> Iterator[str]:
    """Yield lines about the operations, the schedule and the latest runs."""
    daily = runs.daily_operations()
    width = max(map(len, OPERATIONS))
    for name, operation in OPERATIONS.items():
        marks = ", ".join(["daily"] * (name in daily) + ["can be undone"] * operation.undoable)
        yield f"{name:<{width}}  {operation.label}" + (f" ({marks})" if marks else "")
        yield f"{'':<{width}}    parameters: {', '.join(operation.Params.model_fields)}"
    yield ""
    following = runs.next_due_time(timezone.now())
    at = settings.MEMORYHUB.maintenance_at
    when = f"at {at} {settings.TIME_ZONE}, next on {following:%Y-%m-%d}" if following else "never"
    yield f"The server runs the daily ones {when}."
    if not settings.MEMORYHUB.maintenance_worker:
        yield "Its worker is switched off (maintenance_worker); only this command runs maintenance."
    recent = list(results.visible_runs(clearance)[:MAX_RUNS])
    if recent:
        yield from ("", "Latest runs:")
    for run in recent:
        yield f"{run.uid}  {run.created_at:%Y-%m-%d %H:%M}  {run.operation:<{width}}  {_describe_run(run)}"


def _describe_run(run: MaintenanceRun) -> str:
    kind = " (dry run)" if run.dry_run else f" (undoes {run.undoes.uid})" if run.undoes else ""
    changes = format_count((run.result or {}).get("changes", 0), "change")
    return f"{run.cause or run.status}{kind}, {changes}, by {shown(run.actor)}"


def describe_changes(run: MaintenanceRun, clearance: Clearance) -> Iterator[str]:
    """Return a line for each change. Output goes to logs and mails, so it contains public titles only."""
    changes = results.list_changes(run, clearance, 0, MAX_CHANGES)
    rows = [(one.change.action, _title(one), one.change.reason) for one in changes]
    action = max((len(row[0]) for row in rows), default=0)
    title = max((len(row[1]) for row in rows), default=0)
    for row in rows:
        yield f"  {row[0]:<{action}}  {row[1]:<{title}}  {row[2]}".rstrip()
    others = (run.result or {}).get("changes", 0) - sum(one.change.count for one in changes)
    if others > 0:
        yield f"  … and {others:,} more; see run {run.uid} in the browser"


def _title(one: results.VisibleChange) -> str:
    if one.memory is None:
        return one.change.uid
    if one.memory.scope == Scope.PERSONAL.value:
        return f"{one.memory.uid} (personal)"
    if one.memory.sensitivity != Sensitivity.PUBLIC.value:
        return f"{one.memory.uid} ({one.memory.sensitivity})"
    return shown(one.memory.title, _TITLE)


Status = MaintenanceRun.Status


class Command(StoreCommand):
    help = (
        "Run maintenance now: the operations of the daily schedule, or those that you name. Each run is "
        "journaled, like one started in the browser."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "operations",
            nargs="*",
            metavar="OPERATION",
            help="operations to run (default: those of the daily schedule)",
        )
        parser.add_argument("--project", metavar="NAME", help="only this project")
        parser.add_argument("--dry-run", action="store_true", help="print what would change; change nothing")
        parser.add_argument(
            *("--param", "-p"),
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="a parameter of the named operation, as JSON or text; repeatable",
        )
        parser.add_argument(
            "--waiting", action="store_true", help="execute the queued runs, and start no others"
        )
        parser.add_argument("--list", action="store_true", help="list the operations and the latest runs")
        parser.add_argument("--resume", metavar="ID", help="resume a failed, interrupted or stopped run")
        parser.add_argument("--undo", metavar="ID", help="undo a run")
        parser.add_argument(
            "--confirm-clock",
            action="store_true",
            help="confirm that the clock is right after a jump, and end the pause; this is journaled",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        gc.freeze()  # a full collection in the middle of a step would let agents' writes wait for it
        self.actor = operator()
        self.failed: list[MaintenanceRun] = []
        executor.mark_interrupted()
        if options["confirm_clock"]:
            self._confirm_clock()
            return
        if options["list"]:
            for line in overview(self.actor.clearance):
                self.stdout.write(line)
            return
        try:
            waiting = self._select_runs(options)
        except StoreError as error:
            place = f"{error.field}: " if error.field else ""
            raise CommandError(f"{place}{error.message}") from None
        if not waiting:
            self.stdout.write("Nothing to do.")
        self._execute_all(waiting, options["verbosity"])
        if self.failed:
            raise CommandError(
                "failed: " + "; ".join(f"{run.operation} ({run.error})" for run in self.failed)
            )

    def _confirm_clock(self) -> None:
        pause = clock.confirm(self.actor)
        if pause:
            self.stdout.write(f"Confirmed: {pause.summary()}. Expiry, decay, purge and eviction continue.")
        else:
            self.stdout.write("Nothing to confirm: the clock has not jumped.")

    def _select_runs(self, options: dict[str, Any]) -> list[MaintenanceRun]:
        one_of = [name for name in ("waiting", "resume", "undo") if options[name]]
        if len(one_of) > 1 or (one_of and (options["operations"] or options["project"] or options["param"])):
            raise CommandError(f"--{one_of[0]} cannot be combined with other options")
        if options["resume"]:
            return [runs.resume(options["resume"], self.actor)]
        if options["undo"]:
            return [runs.undo(options["undo"], self.actor)]
        already = [] if options["dry_run"] else list(MaintenanceRun.objects.filter(status=Status.QUEUED))
        already.sort(key=lambda run: run.pk)
        if options["waiting"]:
            return already
        if options["operations"]:
            return self._enqueue_named(options)
        return [*already, *self._enqueue_daily(options)]

    def _enqueue_named(self, options: dict[str, Any]) -> list[MaintenanceRun]:
        names = options["operations"]
        if options["param"] and len(names) > 1:
            raise CommandError("--param belongs to one operation; name that one alone")
        params = dict(map(_parse_param, options["param"]))
        if options["project"] is not None:
            params["project"] = short_name(options["project"], "--project")
        for name in names:
            runs.require_operation(name)
        return [runs.enqueue(name, params, self.actor, dry_run=options["dry_run"]) for name in names]

    def _enqueue_daily(self, options: dict[str, Any]) -> list[MaintenanceRun]:
        """Enqueue the daily operations. For the whole store, they count as the scheduled ones of the day."""
        if options["param"]:
            raise CommandError("--param belongs to an operation; name it")
        if unknown := runs.unknown_operations():
            raise CommandError(f"maintenance_operations contains unknown names: {', '.join(unknown)}")
        now = timezone.now()
        if not options["dry_run"] and options["project"] is None:
            runs.delete_old_records(now)
            today = timezone.localdate(now)
            done = runs.last_scheduled_day()
            day = None if done and done >= today else today
            return [*runs.enqueue_digests(now), *runs.enqueue_daily(self.actor, day, now)]
        started = []
        for name in runs.daily_operations():
            params = runs.daily_params(name)
            if options["project"] is not None:
                params["project"] = short_name(options["project"], "--project")
            operation = find_operation(name) or name
            started.append(runs.enqueue(operation, params, self.actor, dry_run=options["dry_run"], now=now))
        return started

    def _execute_all(self, waiting: list[MaintenanceRun], verbosity: int) -> None:
        try:
            while waiting:
                self._execute(waiting[0], verbosity)
                waiting.pop(0)
        except KeyboardInterrupt:
            for run in waiting:
                run.refresh_from_db()
                if run.status in runs.PENDING:
                    runs.stop(run.uid, self.actor)
            ids = ", ".join(run.uid for run in waiting)
            raise CommandError(
                f"interrupted; continue with: manage.py maintain --resume ID ({ids})", returncode=INTERRUPTED
            ) from None

    def _execute(self, run: MaintenanceRun, verbosity: int) -> None:
        """Execute a run. If the server has started it first, wait until it is done."""
        began = time.monotonic()
        self._wait_for_others(run)
        with self._bar(run, verbosity) as watch:
            if not executor.execute(run, watcher=watch):
                if run.status == Status.RUNNING:
                    self.stdout.write(f"{run.operation}: the server works on it (run {run.uid}); waiting")
                while run.status in runs.PENDING:
                    time.sleep(0.5)
                    executor.mark_interrupted()
                    run.refresh_from_db()
                    watch(run)
        self._report(run, time.monotonic() - began)

    def _wait_for_others(self, run: MaintenanceRun) -> None:
        """Wait until no other run writes: two at a time would make agents wait longer."""
        reported = ""
        while not run.dry_run:
            others = MaintenanceRun.objects.filter(status=Status.RUNNING, dry_run=False).exclude(pk=run.pk)
            if (other := others.first()) is None:
                return
            if reported != other.uid:
                reported = other.uid
                self.stdout.write(
                    f"{run.operation}: waiting for {other.operation} (run {reported}), "
                    "which the server or another command is running"
                )
                self.stdout.flush()
            time.sleep(0.5)
            executor.mark_interrupted()

    @contextmanager
    def _bar(self, run: MaintenanceRun, verbosity: int) -> Iterator[Any]:
        """Yield a function that updates a progress bar, which only a terminal shows."""
        shows = sys.stderr.isatty() and verbosity > 0
        with tqdm(disable=not shows, desc=run.operation, total=run.total or None, leave=False) as bar:

            def watch(run: MaintenanceRun) -> None:
                bar.total = run.total or None
                bar.update(run.done - bar.n)

            yield watch

    def _report(self, run: MaintenanceRun, took: float) -> None:
        if run.status != Status.DONE:
            self.failed.append(run)
            self.stderr.write(f"{run.operation}: {run.error} (run {run.uid})", self.style.ERROR)
            return
        result = run.result or {}
        counts = ", ".join(f"{n:,} {action}" for action, n in result.get("counts", {}).items())
        what = counts or ("nothing would change" if run.dry_run else "nothing to change")
        dry = " (dry run)" if run.dry_run else ""
        self.stdout.write(f"{run.operation}{dry}: {what} ({run.done:,} checked, {took:.1f} s, run {run.uid})")
        if run.dry_run:
            for line in describe_changes(run, self.actor.clearance):
                self.stdout.write(line)


def _parse_param(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE: ``days=3`` is a number, ``project=x`` a text."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise CommandError(f"--param must be NAME=VALUE, not {shown(text)}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
