"""The server's own worker: threads beside the requests that work on waiting runs and keep the schedule.

One thread works on runs that write, one run at a time among all processes; another on dry runs, so that a
preview need not wait for them. Only the server starts them (``memoryhub/worker.py``): no command, no test.
"""

from __future__ import annotations

import atexit
import fcntl
import logging
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.util import Finalize
from pathlib import Path
from typing import IO

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


class Background(threading.Thread):
    """Takes one turn after the other until it is told to end; an error is logged and waited out.

    ``wake``: told when there is something to do, so that nobody waits for the next look.
    """

    def __init__(self, name: str, wake: threading.Condition) -> None:
        super().__init__(name=name, daemon=True)
        self.wake = wake
        self.ending = threading.Event()

    def turn(self) -> bool:
        """Do one thing; False when there was nothing to do."""
        raise NotImplementedError

    def run(self) -> None:
        while not self.ending.is_set():
            if not self._try(self.turn):
                self._rest(POLL)
        connections.close_all()

    def end(self) -> None:
        """Ask it to end; :meth:`join` waits until it has."""
        self.ending.set()
        with self.wake:
            self.wake.notify_all()

    def _try(self, deed: Callable[[], object]) -> bool:
        try:
            return bool(deed())
        except DatabaseError as error:
            logger.error("%s waits, because the database says: %s", self.name, error)
        except Exception:
            logger.exception("%s met an error and goes on", self.name)
        connections.close_all()
        self._rest(AFTER_ERROR)
        return False

    def _rest(self, seconds: float) -> None:
        with self.wake:
            if not self.ending.is_set():
                self.wake.wait(seconds)


class OneAtATime(Background):
    """Of all processes that have this thread, the one that holds the lock works, until it ends.

    The lock is the file ``<name>.lock`` in the home.
    """

    def __init__(self, name: str, wake: threading.Condition) -> None:
        super().__init__(name, wake)
        self.held: IO[str] | None = None

    def taken_over(self) -> None:
        """What the holder does first: nobody else can be at work now."""

    def hold(self) -> IO[str] | None:
        """The file of the lock, open, which is taken if it is free; None while another process has it."""
        if self.held is None:
            file = Path(settings.HOME, f"{self.name}.lock").open("a+")  # noqa: SIM115 held for life
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                return None
            self.held = file
            self.taken_over()
        return self.held

    def let_go(self) -> None:
        """Give the lock back; another process may work from now on."""
        if self.held is not None:
            self.held.close()
            self.held = None

    def run(self) -> None:
        try:
            super().run()
        finally:
            self.let_go()


class Worker(Background):
    """Looks for waiting runs."""

    def __init__(self, *, dry_runs: bool) -> None:
        super().__init__("maintenance-" + ("dry-runs" if dry_runs else "runs"), runs.queued)
        self.dry_runs = dry_runs
        self.vectors = CatchUp()

    def run(self) -> None:
        if not self.dry_runs:
            self._try(mark_interrupted)
        super().run()

    def turn(self) -> bool:
        """Work on one run; False when there was none to work on."""
        if not self.dry_runs:
            schedule.start_due()
            self.vectors.look()
        run = next_run(self.dry_runs)
        return run is not None and work(run, leaving=self.ending.is_set)


def next_run(dry_runs: bool) -> MaintenanceRun | None:
    """The run that has waited longest. One that writes waits for any other that does."""
    waiting = MaintenanceRun.objects.filter(status=Status.QUEUED, dry_run=dry_runs).order_by("pk").first()
    if waiting is None or dry_runs:
        return waiting
    writing = MaintenanceRun.objects.filter(status=Status.RUNNING, dry_run=False)
    if writing.exists():
        mark_interrupted()
    return None if writing.exists() else waiting


def begin(*more: Background) -> list[Background]:
    """Start this process's workers, and see to it that they end with it; none where they are switched off.

    ``more``: others that live and end beside them.
    """
    if not settings.MEMORYHUB.maintenance_worker:
        return []
    workers = [Worker(dry_runs=False), Worker(dry_runs=True), *more]
    for worker in workers:
        worker.start()
    # Granian's workers are multiprocessing's, which skip atexit.
    Finalize(None, finish, args=(workers,), exitpriority=100)
    atexit.register(finish, workers)
    return workers


def finish(workers: Sequence[Background]) -> None:
    """Let the workers end, and wait for it a moment."""
    for worker in workers:
        worker.end()
    deadline = time.monotonic() + SECONDS_TO_END
    for worker in workers:
        worker.join(max(deadline - time.monotonic(), 0))
