"""The server's own worker: threads beside the requests that work on waiting runs and keep the schedule.

One thread works on runs that write, one run at a time among all processes; another on dry runs, so that a
preview need not wait for them. Only the server starts them (``memoryhub/worker.py``): no command, no test.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable
from multiprocessing.util import Finalize

from django.conf import settings
from django.db import DatabaseError, connections

from memoryhub.lifecycle import runs, schedule
from memoryhub.lifecycle.catching_up import CatchUp
from memoryhub.lifecycle.working import mark_interrupted, work
from memoryhub.models import MaintenanceRun

logger = logging.getLogger(__name__)
POLL = 1.5  # seconds between two looks at the queue
AFTER_ERROR = 15.0
SECONDS_TO_END = 1.5  # a run that is between two steps by then goes back into the queue
Status = MaintenanceRun.Status


class Worker(threading.Thread):
    """Looks for waiting runs until it is told to end; an error is logged and waited out."""

    def __init__(self, *, dry_runs: bool) -> None:
        super().__init__(name="maintenance-" + ("dry-runs" if dry_runs else "runs"), daemon=True)
        self.dry_runs = dry_runs
        self.ending = threading.Event()
        self.vectors = CatchUp()

    def run(self) -> None:
        if not self.dry_runs:
            self._try(mark_interrupted)
        while not self.ending.is_set():
            if not self._try(self.turn):
                self._rest(POLL)
        connections.close_all()

    def turn(self) -> bool:
        """Work on one run; False when there was none to work on."""
        if not self.dry_runs:
            schedule.start_due()
            self.vectors.look()
        run = next_run(self.dry_runs)
        return run is not None and work(run, leaving=self.ending.is_set)

    def end(self) -> None:
        """Ask it to end; :meth:`join` waits until it has."""
        self.ending.set()
        with runs.queued:
            runs.queued.notify_all()

    def _try(self, deed: Callable[[], object]) -> bool:
        try:
            return bool(deed())
        except DatabaseError as error:
            logger.error("maintenance waits, because the database says: %s", error)
        except Exception:
            logger.exception("maintenance met an error and goes on")
        connections.close_all()
        self._rest(AFTER_ERROR)
        return False

    def _rest(self, seconds: float) -> None:
        with runs.queued:
            if not self.ending.is_set():
                runs.queued.wait(seconds)


def next_run(dry_runs: bool) -> MaintenanceRun | None:
    """The run that has waited longest. One that writes waits for any other that does."""
    waiting = MaintenanceRun.objects.filter(status=Status.QUEUED, dry_run=dry_runs).order_by("pk").first()
    if waiting is None or dry_runs:
        return waiting
    writing = MaintenanceRun.objects.filter(status=Status.RUNNING, dry_run=False)
    if writing.exists():
        mark_interrupted()
    return None if writing.exists() else waiting


def begin() -> list[Worker]:
    """Start this process's workers, and see to it that they end with it; none where they are switched off."""
    if not settings.MEMORYHUB.maintenance_worker:
        return []
    workers = [Worker(dry_runs=False), Worker(dry_runs=True)]
    for worker in workers:
        worker.start()
    # Granian's workers are multiprocessing's, which skip atexit.
    Finalize(None, finish, args=(workers,), exitpriority=100)
    atexit.register(finish, workers)
    return workers


def finish(workers: list[Worker]) -> None:
    """Let the workers end, and wait for it a moment."""
    for worker in workers:
        worker.end()
    deadline = time.monotonic() + SECONDS_TO_END
    for worker in workers:
        worker.join(max(deadline - time.monotonic(), 0))
