"""Execute a run: a worker claims it and applies its steps until it is done, stopped or lost."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import OperationalError
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from memoryhub.access.policy import Actor
from memoryhub.backends.dialect import sql
from memoryhub.core.database import database_time, write_transaction
from memoryhub.core.database_errors import is_database_busy
from memoryhub.maintenance import results
from memoryhub.maintenance.nodes import HEARTBEAT_TIMEOUT, is_running, worker_id
from memoryhub.maintenance.operations import find_operation, notify_changes, require_confirmed_clock
from memoryhub.maintenance.operations.base import UNCHANGED, Change, Operation, Refusals, Step, count_memories
from memoryhub.maintenance.results import MAX_LISTED_CHANGES
from memoryhub.memories import StoreError
from memoryhub.models import MaintenanceRun, RunChanges

logger = logging.getLogger(__name__)
Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause
# A run without a heartbeat for this long is lost, even if its process is alive. A step takes a fraction of a
# second, and rewriting the file takes some seconds.
HANGING_TIMEOUT = timedelta(minutes=15)
INTERRUPTED_MESSAGE = "interrupted: its worker has ended; resume it to continue"
STOPPED_MESSAGE = "stopped; resume it to continue"
SAVE_INTERVAL = 0.5  # seconds between writes of a dry run's progress
LOG_CHECKPOINT_INTERVAL = 0.2  # seconds between checkpoints of the write-ahead log
_MAX_TRIES = 3  # of a step while the database is busy

ProgressCallback = Callable[[MaintenanceRun], None]


class RunLost(Exception):
    """The run was marked as interrupted; another worker may have resumed it."""


class StopRequested(Exception):
    """A user asked the run to stop."""


class ServerStopping(Exception):
    """The server stops; the run goes back to the queue for the next server."""


def is_lost(run: MaintenanceRun, now: datetime) -> bool:
    """Whether the worker of a running run has ended or hangs. ``now``: the time of the database."""
    silence = now - (run.heartbeat_at or run.created_at)
    alive = is_running(run.worker)
    if alive is None:
        return silence > HEARTBEAT_TIMEOUT
    return silence > HANGING_TIMEOUT if alive else True


def claim(run: MaintenanceRun) -> bool:
    """Assign a queued run to this thread; return False if another worker was faster."""
    now = timezone.now()
    with write_transaction():
        # Other workers skip the row while this one claims it, where the database can lock rows.
        queued = MaintenanceRun.objects.filter(pk=run.pk, status=Status.QUEUED)
        is_free = bool(queued.select_for_update(skip_locked=True).values_list("pk"))
        claimed = is_free and queued.update(
            status=Status.RUNNING,
            worker=worker_id(),
            started_at=Coalesce(F("started_at"), now),
            heartbeat_at=database_time(),
            stop_requested=False,
        )
    run.refresh_from_db()
    return bool(claimed)


def mark_interrupted(now: datetime | None = None) -> int:
    """Mark lost runs as interrupted, so that they can be resumed; return their number.

    ``now``: the time of the database, because the clocks of nodes differ.
    """
    marked = 0
    for run in MaintenanceRun.objects.filter(status=Status.RUNNING):
        now = now or database_time()
        if is_lost(run, now):
            with write_transaction():
                marked += MaintenanceRun.objects.filter(
                    pk=run.pk, status=Status.RUNNING, worker=run.worker, heartbeat_at=run.heartbeat_at
                ).update(
                    status=Status.FAILED,
                    cause=Cause.INTERRUPTED,
                    error=INTERRUPTED_MESSAGE,
                    interruptions=F("interruptions") + 1,
                    finished_at=run.heartbeat_at or now,
                )
    return marked


def execute(
    run: MaintenanceRun, *, watcher: ProgressCallback | None = None, is_stopping: Callable[[], bool] = bool
) -> bool:
    """Execute a queued run to its end and refresh ``run``; return False if another worker claimed it.

    ``watcher`` is called after each step. When ``is_stopping`` returns True between steps, the run goes back
    to the queue. Errors are stored with the run and logged, not raised, except KeyboardInterrupt, which stops
    the run.
    """
    if not claim(run):
        return False
    execution = _Execution(run, watcher or (lambda run: None), is_stopping)
    try:
        execution.run_steps()
    except RunLost:
        logger.warning("run %s of %s now belongs to another worker", run.uid, run.operation)
    except ServerStopping:
        execution.finish(Status.QUEUED)
    except StopRequested:
        execution.finish(Status.FAILED, Cause.STOPPED, STOPPED_MESSAGE)
    except KeyboardInterrupt:
        execution.finish(Status.FAILED, Cause.STOPPED, STOPPED_MESSAGE)
        raise
    except StoreError as error:
        execution.finish(Status.FAILED, Cause.ERROR, error.message)
    except Exception as error:
        logger.exception("run %s of %s failed", run.uid, run.operation)
        # The text of the error may contain content of a memory, so it only goes to the log.
        message = f"{type(error).__name__}; see the log of the hub"
        if is_database_busy(error):
            message = "the database was busy for too long; resume the run to continue"
        execution.finish(Status.FAILED, Cause.ERROR, message)
    run.refresh_from_db()
    if run.status == Status.DONE and not run.dry_run and (run.result or {}).get("changed"):
        notify_changes()
    return True


class _Execution:
    """The execution of a run that this thread has claimed."""

    def __init__(
        self, run: MaintenanceRun, watcher: ProgressCallback, is_stopping: Callable[[], bool]
    ) -> None:
        self.run, self.watcher, self.is_stopping = run, watcher, is_stopping
        self.actor = Actor(run.actor, results.clearance_of(run), run.reach.get("may_delete", True))
        self.unsaved: list[Change] = []  # changes of a dry run since its progress was saved
        self.saved_at = self.checkpointed_at = time.monotonic()

    def run_steps(self) -> None:
        operation = find_operation(self.run.operation)
        if operation is None:  # another version of the app queued it
            raise StoreError("unknown operation", "operation")
        if self.run.undoes:
            self._undo(operation, self.run.undoes)
        else:
            self._execute_steps(operation)

    def finish(self, status: str, cause: str = "", error: str = "") -> None:
        """Release the run with its final status, unless another worker has it now."""
        values: dict[str, Any] = {"cause": cause, "error": error, "worker": ""}
        values["finished_at"] = None if status == Status.QUEUED else timezone.now()
        if status == Status.DONE:
            total = max(self.run.done, self.run.total)
            values |= {"done": total, "total": total, "position": {}}
        with write_transaction():
            self._claimed_row().update(status=status, **values)

    def _execute_steps(self, operation: Operation[Any]) -> None:
        if not self.run.dry_run:
            require_confirmed_clock(operation)
        # A resumed run uses the time of its resumption, because the journal and the trash must show when
        # something really happened. Its position prevents it from repeating steps.
        now = timezone.now()
        params = operation.Params(**self.run.params)
        if not self.run.total:
            self._save(total=operation.total(params, self.actor, now))
        for step in operation.steps(params, self.actor, now, self.run.position):
            self._check_for_stop()
            if self.run.dry_run:
                self._plan(step)
            else:
                self._apply(step)
            self.watcher(self.run)
        self._save_plan()
        self.finish(Status.DONE)
        operation.clean_up(params)

    def _undo(self, operation: Operation[Any], undone: MaintenanceRun) -> None:
        """Undo a run. This needs no position, because restored memories are not found again."""
        refused: Refusals = []
        for restored in operation.undo(undone.uid, self.actor, refused=refused):
            unchanged = [Change(UNCHANGED, uid, reason=reason) for uid, reason in refused]
            refused.clear()
            counts = Counter({"undone": restored, UNCHANGED: len(unchanged)})
            with write_transaction():
                listed = self._list_changes(unchanged)
                self._save(**self._progress(counts.total(), counts, restored, listed))
            self._checkpoint_log()
            self.watcher(self.run)
            self._check_for_stop()  # only now, because the restored memories must be counted
        with write_transaction():
            MaintenanceRun.objects.filter(pk=undone.pk).update(undone_at=timezone.now())
            self.finish(Status.DONE)

    def _claimed_row(self) -> QuerySet[MaintenanceRun]:
        return MaintenanceRun.objects.filter(pk=self.run.pk, status=Status.RUNNING, worker=self.run.worker)

    def _check_for_stop(self) -> None:
        if self.is_stopping():
            raise ServerStopping
        if self._claimed_row().filter(stop_requested=True).exists():
            raise StopRequested

    def _apply(self, step: Step) -> None:
        """Apply a step and save the position after it in one transaction."""
        for tries_left in reversed(range(_MAX_TRIES)):
            try:
                with write_transaction():
                    start = time.perf_counter()
                    changed = step.apply(self.run.uid)
                    listed = self._list_changes(step.applied)
                    values = self._progress(step.seen, _count_actions(step.applied), changed, listed)
                    self._update_row(**values, position=step.position, interruptions=0)
                # Including the commit, because other writers wait for that too.
                step.took_ms = (time.perf_counter() - start) * 1000
                self._set_attributes(**values, position=step.position)
                self._checkpoint_log()
                if step.afterwards:
                    step.afterwards()
                return
            except OperationalError as error:
                if not tries_left or not is_database_busy(error):
                    raise

    def _checkpoint_log(self) -> None:
        """Checkpoint the write-ahead log at intervals, so that the commits of agents do not have to."""
        if time.monotonic() - self.checkpointed_at >= LOG_CHECKPOINT_INTERVAL:
            sql.checkpoint_log()
            self.checkpointed_at = time.monotonic()

    def _plan(self, step: Step) -> None:
        """Record a step of a dry run; save the progress at intervals, to write as little as possible."""
        self.unsaved += step.changes
        planned = count_memories(step.changes)
        values = self._progress(step.seen, _count_actions(step.changes), planned)
        self._set_attributes(**values, position=step.position)
        if time.monotonic() - self.saved_at >= SAVE_INTERVAL:
            self._save_plan()

    def _save_plan(self) -> None:
        if self.run.dry_run:
            with write_transaction():
                listed = self._list_changes(self.unsaved)
                self.run.result["listed"] = self.run.result.get("listed", 0) + listed
                self._save(**{name: getattr(self.run, name) for name in ("done", "result", "position")})
            self.unsaved, self.saved_at = [], time.monotonic()

    def _list_changes(self, changes: Sequence[Change]) -> int:
        """Store changes in the run's list, up to its limit; return the number stored."""
        room = max(MAX_LISTED_CHANGES - self.run.result.get("listed", 0), 0)
        if listed := [change.as_json() for change in changes[:room]]:
            RunChanges.objects.create(run=self.run, changes=listed)
        return len(listed)

    def _save(self, **values: Any) -> None:
        with write_transaction():
            self._update_row(**values)
        self._set_attributes(**values)

    def _update_row(self, **values: Any) -> None:
        """Write values and a heartbeat to the run's row; raise RunLost if another worker has the run."""
        if not self._claimed_row().update(heartbeat_at=database_time(), **values):
            raise RunLost

    def _set_attributes(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self.run, name, value)

    def _progress(self, seen: int, counts: Counter[str], changed: int, listed: int = 0) -> dict[str, Any]:
        """Return the values of the run's progress fields after one more step."""
        previous = self.run.result
        return {
            "done": self.run.done + seen,
            "result": {
                "counts": dict(Counter(previous.get("counts", {})) + counts),
                "changes": previous.get("changes", 0) + counts.total(),
                "changed": previous.get("changed", 0) + changed,
                "listed": previous.get("listed", 0) + listed,
            },
        }


def _count_actions(changes: Sequence[Change]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for change in changes:
        counts[change.action] += change.count
    return counts
