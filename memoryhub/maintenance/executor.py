"""Execute a run: claimed by one worker, step by step, until it is done, stopped or lost."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.db import OperationalError
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from memoryhub.access.policy import Actor
from memoryhub.backends import statements
from memoryhub.core.transactions import is_database_busy, write_transaction
from memoryhub.maintenance import run_scope
from memoryhub.maintenance.operations.base import Change, Operation, Step
from memoryhub.maintenance.registry import find_operation
from memoryhub.maintenance.results import MAX_LISTED_CHANGES
from memoryhub.memories import StoreError
from memoryhub.models import MaintenanceRun, RunChanges

# What shows no sign of life for so long is given up: of a process on another machine, which cannot be asked,
# and of one that is there but hangs. A step takes a fraction of a second, cleaning the file up some seconds.
HEARTBEAT_TIMEOUT = timedelta(seconds=30)
HANGING_TIMEOUT = timedelta(minutes=15)


def worker_id() -> str:
    """The name of this thread, for as long as its process lives."""
    pid = os.getpid()
    return f"{socket.gethostname()[:100]}/{pid}/{_process_start_time(pid)}/{threading.get_native_id()}"


def is_lost(run: MaintenanceRun, now: datetime) -> bool:
    """Whether nobody can be working on a running run any more."""
    silent = now - (run.heartbeat_at or run.created_at)
    alive = _is_process_alive(run.worker)
    if alive is None:
        return silent > HEARTBEAT_TIMEOUT
    return silent > HANGING_TIMEOUT if alive else True


def _is_process_alive(worker: str) -> bool | None:
    """Whether the process is there; None when it cannot be known."""
    host, _, rest = worker.partition("/")
    pid, _, rest = rest.partition("/")
    if host != socket.gethostname()[:100] or not pid.isdecimal():
        return None
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return None
    return _process_start_time(int(pid)) == rest.partition("/")[0]


def _process_start_time(pid: int) -> str:
    """When a process began, in the system's own count; empty where it does not tell, and for a dead one."""
    try:
        # The second field is the program's name in parentheses, which may hold anything.
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return "" if state[0] in "ZX" else state[19]
    except (OSError, IndexError):
        return ""


logger = logging.getLogger(__name__)
Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause
INTERRUPTED_MESSAGE = "interrupted: whoever worked on it has ended; resume it to go on where it was"
STOPPED_MESSAGE = "stopped; resume it to go on where it was"
SAVE_INTERVAL = 0.5  # seconds between two savings of a dry run's progress
LOG_CHECKPOINT_INTERVAL = 0.2  # seconds between two turns at the write-ahead log
_MAX_TRIES = 3  # of a step that met a busy database

ProgressCallback = Callable[[MaintenanceRun], None]


class RunLost(Exception):
    """The run is somebody else's by now: it was given up, and perhaps resumed."""


class StopRequested(Exception):
    """Somebody asked it to stop."""


class ServerStopping(Exception):
    """The server ends; the run goes back into the queue, to go on in the next one."""


def claim(run: MaintenanceRun) -> bool:
    """Take a waiting run for this thread; False when another was quicker, or it waits no more."""
    now = timezone.now()
    with write_transaction():
        taken = MaintenanceRun.objects.filter(pk=run.pk, status=Status.QUEUED).update(
            status=Status.RUNNING,
            worker=worker_id(),
            started_at=Coalesce(F("started_at"), now),
            heartbeat_at=now,
            stop_requested=False,
        )
    run.refresh_from_db()
    return bool(taken)


def mark_interrupted(now: datetime | None = None) -> int:
    """Mark the runs that nobody works on any more, so that they can be resumed; returns how many."""
    now, marked = now or timezone.now(), 0
    for run in MaintenanceRun.objects.filter(status=Status.RUNNING):
        if is_lost(run, now):
            with write_transaction():
                marked += MaintenanceRun.objects.filter(
                    pk=run.pk, status=Status.RUNNING, worker=run.worker, heartbeat_at=run.heartbeat_at
                ).update(
                    status=Status.FAILED,
                    cause=Cause.INTERRUPTED,
                    error=INTERRUPTED_MESSAGE,
                    finished_at=run.heartbeat_at or now,
                )
    return marked


def execute(
    run: MaintenanceRun, *, watcher: ProgressCallback | None = None, leaving: Callable[[], bool] = bool
) -> bool:
    """Work on a waiting run to its end; False when it could not be taken. ``run`` is kept up to date.

    ``watcher`` is called after each step. ``leaving`` is asked between steps whether to put the run back.
    Whatever goes wrong is written into the run and logged, not raised; but KeyboardInterrupt, which stops it.
    """
    if not claim(run):
        return False
    at_work = _Execution(run, watcher or (lambda run: None), leaving)
    try:
        at_work.go()
    except RunLost:
        logger.warning("run %s of %s is no longer this worker's", run.uid, run.operation)
    except ServerStopping:
        at_work.end(Status.QUEUED)
    except StopRequested:
        at_work.end(Status.FAILED, Cause.STOPPED, STOPPED_MESSAGE)
    except KeyboardInterrupt:
        at_work.end(Status.FAILED, Cause.STOPPED, STOPPED_MESSAGE)
        raise
    except StoreError as error:
        at_work.end(Status.FAILED, Cause.ERROR, error.message)
    except Exception as error:
        logger.exception("run %s of %s failed", run.uid, run.operation)
        # Its own words may hold those of a memory; the log is for operators alone.
        busy = "the database was busy for too long; resume it to go on"
        words = (
            busy if is_database_busy(error) else f"{type(error).__name__}; the log of the hub has the details"
        )
        at_work.end(Status.FAILED, Cause.ERROR, words)
    run.refresh_from_db()
    return True


class _Execution:
    """A run that this thread has taken."""

    def __init__(self, run: MaintenanceRun, watcher: ProgressCallback, leaving: Callable[[], bool]) -> None:
        self.run, self.watcher, self.leaving = run, watcher, leaving
        self.actor = Actor(run.actor, run_scope.clearance_of(run))
        self.unsaved: list[Change] = []  # of a dry run, since its last saving
        self.saved_at = self.tidied_at = time.monotonic()

    @property
    def operation(self) -> Operation[Any]:
        """StoreError for a name that another version of the hub knew."""
        operation = find_operation(self.run.operation)
        if operation is None:
            raise StoreError("this hub knows no operation of this name", "operation")
        return operation

    def go(self) -> None:
        if self.run.undoes:
            self._take_back(self.run.undoes)
        else:
            self._walk()

    def end(self, status: str, cause: str = "", error: str = "") -> None:
        """Let go of the run; nothing is written when it is somebody else's."""
        values: dict[str, Any] = {"cause": cause, "error": error, "worker": ""}
        values["finished_at"] = None if status == Status.QUEUED else timezone.now()
        if status == Status.DONE:
            everything = max(self.run.done, self.run.total)
            values |= {"done": everything, "total": everything, "position": {}}
        with write_transaction():
            self._mine().update(status=status, **values)

    def _walk(self) -> None:
        # One that goes on does so at the moment of its resumption: ages, the journal and the trash tell when
        # something was really done. What it did before does not come up again, because of its position.
        began = timezone.now()
        params = self.operation.Params(**self.run.params)
        if not self.run.total:
            self._save(total=self.operation.total(params, self.actor, began))
        for step in self.operation.steps(params, self.actor, began, self.run.position):
            self._look_up()
            if self.run.dry_run:
                self._plan(step)
            else:
                self._apply(step)
            self.watcher(self.run)
        self._write_down()
        self.end(Status.DONE)

    def _take_back(self, undone: MaintenanceRun) -> None:
        """What was given back already does not come up again, so this needs no position."""
        for given in self.operation.undo(undone.uid, self.actor):
            self._save(**_progress(self.run, given, Counter(undone=given), given))
            self._tidy()
            self.watcher(self.run)
            self._look_up()  # when what was given back is counted
        with write_transaction():
            MaintenanceRun.objects.filter(pk=undone.pk).update(undone_at=timezone.now())
            self.end(Status.DONE)

    def _mine(self) -> QuerySet[MaintenanceRun]:
        return MaintenanceRun.objects.filter(pk=self.run.pk, status=Status.RUNNING, worker=self.run.worker)

    def _look_up(self) -> None:
        """Between steps: whether somebody wants this to end."""
        if self.leaving():
            raise ServerStopping
        if self._mine().filter(stop_requested=True).exists():
            raise StopRequested

    def _apply(self, step: Step) -> None:
        """The step and the position after it, both or none."""
        for left in reversed(range(_MAX_TRIES)):
            try:
                with write_transaction():
                    began = time.perf_counter()
                    changed = step.apply(self.run.uid)
                    listed = self._keep(step.applied)
                    values = _progress(self.run, step.seen, _count_actions(step.applied), changed, listed)
                    self._update(**values, position=step.position)
                # With the commit: so long did others wait, and by that the next step is measured.
                step.took_ms = (time.perf_counter() - began) * 1000
                self._take(**values, position=step.position)
                self._tidy()
                if step.afterwards:
                    step.afterwards()
                return
            except OperationalError as error:
                if not left or not is_database_busy(error):
                    raise

    def _tidy(self) -> None:
        """Now and then, so that no agent's commit has to."""
        if time.monotonic() - self.tidied_at >= LOG_CHECKPOINT_INTERVAL:
            statements.checkpoint_log()
            self.tidied_at = time.monotonic()

    def _plan(self, step: Step) -> None:
        """What a dry run finds is written down now and then: it holds up nobody for that."""
        self.unsaved += step.changes
        planned = sum(len(change.members) or change.count for change in step.changes)
        values = _progress(self.run, step.seen, _count_actions(step.changes), planned)
        self._take(**values, position=step.position)
        if time.monotonic() - self.saved_at >= SAVE_INTERVAL:
            self._write_down()

    def _write_down(self) -> None:
        """What :meth:`_plan` has put aside."""
        if self.run.dry_run:
            with write_transaction():
                self.run.result["listed"] = self.run.result.get("listed", 0) + self._keep(self.unsaved)
                self._save(**{name: getattr(self.run, name) for name in ("done", "result", "position")})
            self.unsaved, self.saved_at = [], time.monotonic()

    def _keep(self, changes: Sequence[Change]) -> int:
        """List changes, as far as there is room; returns how many."""
        room = max(MAX_LISTED_CHANGES - self.run.result.get("listed", 0), 0)
        if listed := [change.as_json() for change in changes[:room]]:
            RunChanges.objects.create(run=self.run, changes=listed)
        return len(listed)

    def _save(self, **values: Any) -> None:
        with write_transaction():
            self._update(**values)
        self._take(**values)

    def _update(self, **values: Any) -> None:
        """Write progress down, with a sign of life; :class:`Lost` when the run is somebody else's."""
        if not self._mine().update(heartbeat_at=timezone.now(), **values):
            raise RunLost

    def _take(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self.run, name, value)


def _count_actions(changes: Sequence[Change]) -> Counter[str]:
    """How many changes of each action."""
    counts: Counter[str] = Counter()
    for change in changes:
        counts[change.action] += change.count
    return counts


def _progress(
    run: MaintenanceRun, seen: int, counts: Counter[str], changed: int, listed: int = 0
) -> dict[str, Any]:
    """The run's numbers after one more step."""
    before = run.result
    return {
        "done": run.done + seen,
        "result": {
            "counts": dict(Counter(before.get("counts", {})) + counts),
            "changes": before.get("changes", 0) + counts.total(),
            "changed": before.get("changed", 0) + changed,
            "listed": before.get("listed", 0) + listed,
        },
    }
