"""Background worker threads: execute queued runs, follow the schedule, backfill vectors."""

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
from memoryhub.audit import clock
from memoryhub.backends import vector_index
from memoryhub.embeddings import Embedder, EmbeddingError
from memoryhub.maintenance import runs, scheduler
from memoryhub.maintenance.executor import execute, mark_interrupted
from memoryhub.maintenance.operations import run_now
from memoryhub.maintenance.operations.reindex import Embed, count_missing
from memoryhub.memories import StoreError
from memoryhub.models import MaintenanceRun

logger = logging.getLogger(__name__)
Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause

EMBEDDER_ACTOR = system_actor("embedder")
MAX_INLINE_EMBEDDINGS = 500  # more memories than this are embedded by a run
REST_FACTOR = 100  # pause between checks, as a multiple of the time that counting takes in a large store
RETRY_PAUSES = (15.0, 60.0, 600.0)  # seconds after the first, second and further failures of the provider
PAUSE_AFTER_STOP = timedelta(days=1)  # after a user stopped an embedding run
PAUSE_AFTER_FAILURE = timedelta(minutes=10)
POLL_SECONDS = 1.5
ERROR_PAUSE = 15.0
SHUTDOWN_SECONDS = 1.5  # a run that finishes its step within this time goes back to the queue


class EmbeddingBackfill:
    """Embeds memories that lack a vector. Each worker has one and calls :meth:`check` between its runs."""

    def __init__(self) -> None:
        self._due = 0.0  # on the monotonic clock
        self._failures = 0
        self._model = ""  # the configured one, once it is loaded

    def check(self) -> None:
        """If it is time, embed memories without a vector, or queue a run for many.

        This also loads the vectors, so that the first search does not wait for them, and overwrites deleted
        ones.
        """
        try:
            vector_index.overwrite_deleted(self._model)
        except OSError:
            logger.exception("deleted vectors were not overwritten")
        start = time.monotonic()
        if start < self._due:
            return
        try:
            embedder = embeddings.configured()
            self._model = embedder.name if embedder else ""
            if embedder and embedder.dimensions:
                vector_index.get_index(embedder.name, embedder.dimensions).view()
            counting = time.monotonic()
            lacking = count_missing(embedder.name) if embedder else 0
            self._due = start + REST_FACTOR * (time.monotonic() - counting)
            if embedder and lacking:
                self._embed(embedder, lacking)
            self._failures = 0
        except (EmbeddingError, StoreError) as error:
            self._pause(error)

    def _embed(self, embedder: Embedder, lacking: int) -> None:
        with _embedding_lock() as is_locked:
            if not is_locked or not _may_embed():
                return
            if lacking <= MAX_INLINE_EMBEDDINGS:
                if not run_now(Embed.name, {}, EMBEDDER_ACTOR).changed:
                    self._due = time.monotonic() + RETRY_PAUSES[0]
                return
            # Check the provider first, or every attempt would leave a failed run.
            embedder.documents(["Is anybody there?"])
            runs.enqueue(Embed.name, {}, EMBEDDER_ACTOR, may_wait=True)

    def _pause(self, error: EmbeddingError | StoreError) -> None:
        seconds = RETRY_PAUSES[min(self._failures, len(RETRY_PAUSES) - 1)]
        self._failures += 1
        self._due = time.monotonic() + seconds
        logger.warning("embedding waits %.0f seconds: %s", seconds, error)


def _may_embed() -> bool:
    """Whether no embedding run is pending, and the newest one was not stopped and did not fail recently."""
    now = timezone.now()
    embed_runs = MaintenanceRun.objects.filter(operation=Embed.name, dry_run=False)
    recent = Q(cause=Cause.STOPPED, finished_at__gt=now - PAUSE_AFTER_STOP)
    recent |= Q(cause=Cause.ERROR, finished_at__gt=now - PAUSE_AFTER_FAILURE)
    newest = embed_runs.order_by("-pk")[:1].values("pk")
    paused = embed_runs.filter(recent, status=Status.FAILED, pk__in=newest)
    return not embed_runs.filter(status__in=runs.PENDING).exists() and not paused.exists()


@contextmanager
def _embedding_lock() -> Iterator[bool]:
    """Yield whether this process got the lock: each server process of the store has a worker."""
    with Path(settings.HOME, "embedding.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


class BackgroundThread(threading.Thread):
    """A thread that repeats :meth:`run_once` until :meth:`end` is called. Errors are logged, with a pause.

    ``wake``: notified when there is work, so that the thread does not wait for the next poll.
    """

    def __init__(self, name: str, wake: threading.Condition) -> None:
        super().__init__(name=name, daemon=True)
        self.wake = wake
        self.ending = threading.Event()

    def run_once(self) -> bool:
        """Do one unit of work; return False if there is none."""
        raise NotImplementedError

    def run(self) -> None:
        while not self.ending.is_set():
            if not self._try(self.run_once):
                self._rest(POLL_SECONDS)
        connections.close_all()

    def end(self) -> None:
        """Ask the thread to end; :meth:`join` waits for it."""
        self.ending.set()
        with self.wake:
            self.wake.notify_all()

    def _try(self, work: Callable[[], object]) -> bool:
        try:
            return bool(work())
        except DatabaseError as error:
            logger.error("%s pauses because of a database error: %s", self.name, error)
        except Exception:
            logger.exception("%s continues after an error", self.name)
        connections.close_all()
        self._rest(ERROR_PAUSE)
        return False

    def _rest(self, seconds: float) -> None:
        with self.wake:
            if not self.ending.is_set():
                self.wake.wait(seconds)


class ExclusiveThread(BackgroundThread):
    """A background thread that only works in one process: the one that has the lock.

    The lock is the file ``<name>.lock`` in the home directory.
    """

    def __init__(self, name: str, wake: threading.Condition) -> None:
        super().__init__(name, wake)
        self.lock_file: IO[str] | None = None

    def on_lock_acquired(self) -> None:
        """Called once this process has the lock and no other process can be at work."""

    def acquire_lock(self) -> IO[str] | None:
        """Return the open lock file, taking the lock if it is free; None while another process has it."""
        if self.lock_file is None:
            file = Path(settings.HOME, f"{self.name}.lock").open("a+")  # noqa: SIM115 open until release_lock
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                return None
            self.lock_file = file
            self.on_lock_acquired()
        return self.lock_file

    def release_lock(self) -> None:
        """Release the lock to other processes."""
        if self.lock_file is not None:
            self.lock_file.close()
            self.lock_file = None

    def run(self) -> None:
        try:
            super().run()
        finally:
            self.release_lock()


class Worker(BackgroundThread):
    """Executes queued runs: either dry runs or all others."""

    def __init__(self, *, dry_runs: bool) -> None:
        super().__init__("maintenance-" + ("dry-runs" if dry_runs else "runs"), runs.queue_changed)
        self.dry_runs = dry_runs
        self.backfill = EmbeddingBackfill()

    def run(self) -> None:
        if not self.dry_runs:
            self._try(mark_interrupted)
        super().run()

    def run_once(self) -> bool:
        """Execute the next run; return False if there is none."""
        if not self.dry_runs:
            clock.check()
            scheduler.enqueue_due()
            self.backfill.check()
        run = next_run(self.dry_runs)
        return run is not None and execute(run, is_stopping=self.ending.is_set)


def next_run(dry_runs: bool) -> MaintenanceRun | None:
    """Return the oldest queued run; None while another writing run is running, except for dry runs."""
    queued = MaintenanceRun.objects.filter(status=Status.QUEUED, dry_run=dry_runs).order_by("pk").first()
    if queued is None or dry_runs:
        return queued
    writing = MaintenanceRun.objects.filter(status=Status.RUNNING, dry_run=False)
    if writing.exists():
        mark_interrupted()
    return None if writing.exists() else queued


def start_workers(*more: BackgroundThread) -> list[BackgroundThread]:
    """Start the workers of this process and ``more``, unless disabled. They end with the process."""
    if not settings.MEMORYHUB.maintenance_worker:
        return []
    workers = [Worker(dry_runs=False), Worker(dry_runs=True), *more]
    for worker in workers:
        worker.start()
    # Granian's workers are multiprocessing processes, which skip atexit.
    Finalize(None, stop_workers, args=(workers,), exitpriority=100)
    atexit.register(stop_workers, workers)
    return workers


def stop_workers(workers: Sequence[BackgroundThread]) -> None:
    """End the workers and wait for up to :data:`SHUTDOWN_SECONDS`."""
    for worker in workers:
        worker.end()
    deadline = time.monotonic() + SHUTDOWN_SECONDS
    for worker in workers:
        worker.join(max(deadline - time.monotonic(), 0))
