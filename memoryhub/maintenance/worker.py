"""Background worker threads: execute waiting runs, follow the schedule, backfill vectors."""

from __future__ import annotations

import atexit
import fcntl
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.util import Finalize
from pathlib import Path
from typing import IO

from django.conf import settings
from django.db import DatabaseError, connections
from django.db.models import Q
from django.utils import timezone

from memoryhub import embeddings
from memoryhub.access.policy import system_actor
from memoryhub.backends import vector_index
from memoryhub.embeddings import Embedder, EmbeddingError
from memoryhub.maintenance import runs, scheduler
from memoryhub.maintenance.executor import execute, mark_interrupted
from memoryhub.maintenance.operations.embed import Embed, count_missing
from memoryhub.maintenance.registry import run_now
from memoryhub.memories import StoreError
from memoryhub.models import MaintenanceRun

EMBEDDER_ACTOR = system_actor("embedder")
MAX_INLINE_EMBEDDINGS = 500  # memories that are embedded without a run
# Looking takes some milliseconds in a large store: that much more time passes before the next look.
REST_FACTOR = 100
RETRY_PAUSES = (15.0, 60.0, 600.0)  # seconds that a provider that fails is left alone
PAUSE_AFTER_STOP = timedelta(days=1)  # what somebody stopped does not begin again by itself any earlier
PAUSE_AFTER_FAILURE = timedelta(minutes=10)
BackfillStatus, Cause = MaintenanceRun.Status, MaintenanceRun.Cause


class EmbeddingBackfill:
    """One for each worker; :meth:`look` is called between its runs, as often as it likes."""

    def __init__(self) -> None:
        self._due = 0.0  # on the monotonic clock
        self._failures = 0

    def look(self) -> None:
        """Embed what lacks a vector, or queue a run for it, when it is time to look again.

        This process's index is brought up to date too: the first search need not wait for it, and what was
        erased leaves the memory of a process that nobody asks.
        """
        vector_index.refresh_indexes()
        began = time.monotonic()
        if began < self._due:
            return
        try:
            embedder = embeddings.configured()
            if embedder and embedder.dimensions:
                vector_index.get_index(embedder.name, embedder.dimensions).view()
            counted = time.monotonic()
            lacking = count_missing(embedder.name) if embedder else 0
            self._due = began + REST_FACTOR * (time.monotonic() - counted)
            if embedder and lacking:
                self._tend(embedder, lacking)
            self._failures = 0
        except (EmbeddingError, StoreError) as error:
            self._fail(error)

    def _tend(self, embedder: Embedder, lacking: int) -> None:
        with _embedding_lock() as alone:
            if not alone or not _may_embed():
                return
            if lacking <= MAX_INLINE_EMBEDDINGS:
                if not run_now(Embed.name, {}, EMBEDDER_ACTOR).changed:
                    self._due = time.monotonic() + RETRY_PAUSES[0]
                return
            embedder.documents(["Is anybody there?"])  # or every attempt would leave a run that failed
            runs.enqueue(Embed.name, {}, EMBEDDER_ACTOR, may_wait=True)

    def _fail(self, error: EmbeddingError | StoreError) -> None:
        pause = RETRY_PAUSES[min(self._failures, len(RETRY_PAUSES) - 1)]
        self._failures += 1
        self._due = time.monotonic() + pause
        logger.warning("embedding waits %.0f seconds: %s", pause, error)


def _may_embed() -> bool:
    """Whether nobody is at it, or has had it stopped, or has just failed."""
    now = timezone.now()
    of_embed = MaintenanceRun.objects.filter(operation=Embed.name, dry_run=False)
    lately = Q(cause=Cause.STOPPED, finished_at__gt=now - PAUSE_AFTER_STOP)
    lately |= Q(cause=Cause.ERROR, finished_at__gt=now - PAUSE_AFTER_FAILURE)
    newest = of_embed.order_by("-pk")[:1].values("pk")
    held_up = of_embed.filter(lately, status=BackfillStatus.FAILED, pk__in=newest)
    return not of_embed.filter(status__in=runs.PENDING).exists() and not held_up.exists()


@contextmanager
def _embedding_lock() -> Iterator[bool]:
    """Whether no other process of this store is at it: each of the server's has a worker."""
    with Path(settings.HOME, "embedding.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


logger = logging.getLogger(__name__)
POLL_SECONDS = 1.5  # seconds between two looks at the queue
ERROR_PAUSE = 15.0
SHUTDOWN_SECONDS = 1.5  # a run that is between two steps by then goes back into the queue
Status = MaintenanceRun.Status


class BackgroundThread(threading.Thread):
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
                self._rest(POLL_SECONDS)
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
        self._rest(ERROR_PAUSE)
        return False

    def _rest(self, seconds: float) -> None:
        with self.wake:
            if not self.ending.is_set():
                self.wake.wait(seconds)


class ExclusiveThread(BackgroundThread):
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


class Worker(BackgroundThread):
    """Looks for waiting runs."""

    def __init__(self, *, dry_runs: bool) -> None:
        super().__init__("maintenance-" + ("dry-runs" if dry_runs else "runs"), runs.queue_changed)
        self.dry_runs = dry_runs
        self.vectors = EmbeddingBackfill()

    def run(self) -> None:
        if not self.dry_runs:
            self._try(mark_interrupted)
        super().run()

    def turn(self) -> bool:
        """Work on one run; False when there was none to work on."""
        if not self.dry_runs:
            scheduler.enqueue_due()
            self.vectors.look()
        run = next_run(self.dry_runs)
        return run is not None and execute(run, leaving=self.ending.is_set)


def next_run(dry_runs: bool) -> MaintenanceRun | None:
    """The run that has waited longest. One that writes waits for any other that does."""
    waiting = MaintenanceRun.objects.filter(status=Status.QUEUED, dry_run=dry_runs).order_by("pk").first()
    if waiting is None or dry_runs:
        return waiting
    writing = MaintenanceRun.objects.filter(status=Status.RUNNING, dry_run=False)
    if writing.exists():
        mark_interrupted()
    return None if writing.exists() else waiting


def start_workers(*more: BackgroundThread) -> list[BackgroundThread]:
    """Start this process's workers, and see to it that they end with it; none where they are switched off.

    ``more``: others that live and end beside them.
    """
    if not settings.MEMORYHUB.maintenance_worker:
        return []
    workers = [Worker(dry_runs=False), Worker(dry_runs=True), *more]
    for worker in workers:
        worker.start()
    # Granian's workers are multiprocessing's, which skip atexit.
    Finalize(None, stop_workers, args=(workers,), exitpriority=100)
    atexit.register(stop_workers, workers)
    return workers


def stop_workers(workers: Sequence[BackgroundThread]) -> None:
    """Let the workers end, and wait for it a moment."""
    for worker in workers:
        worker.end()
    deadline = time.monotonic() + SHUTDOWN_SECONDS
    for worker in workers:
        worker.join(max(deadline - time.monotonic(), 0))
