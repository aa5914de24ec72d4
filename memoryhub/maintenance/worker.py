"""Background worker threads: execute queued runs, follow the schedule, backfill vectors."""

from __future__ import annotations

import atexit
import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.util import Finalize

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections
from django.db.models import Q
from django.utils import timezone

from memoryhub.access.policy import system_actor
from memoryhub.audit import clock
from memoryhub.backends import schema, vector_index
from memoryhub.core.database import is_postgres, limit_background_thread
from memoryhub.core.disks import find_full_folders
from memoryhub.embeddings import Embedder, EmbeddingError, provider
from memoryhub.maintenance import nodes, runs
from memoryhub.maintenance.executor import execute, mark_interrupted
from memoryhub.maintenance.operations import USES_LOCAL_FILES, run_now
from memoryhub.maintenance.operations.reindex import Embed, count_missing
from memoryhub.memories import StoreError
from memoryhub.models import Lease, MaintenanceRun

logger = logging.getLogger(__name__)
Status, Cause = MaintenanceRun.Status, MaintenanceRun.Cause

EMBEDDER_ACTOR = system_actor("embedder")
MAX_INLINE_EMBEDDINGS = 500  # more memories than this are embedded by a run
REST_FACTOR = 100  # pause between checks, as a multiple of the time that counting takes
RETRY_PAUSES = (15.0, 60.0, 600.0)  # seconds after the first, second and further failures of the provider
PAUSE_AFTER_STOP = timedelta(days=1)  # after a user stopped an embedding run
PAUSE_AFTER_FAILURE = timedelta(minutes=10)
POLL_SECONDS = 1.5
ERROR_PAUSE = 15.0
SHUTDOWN_SECONDS = 1.5  # a run whose current step ends within this time goes back to the queue


class EmbeddingBackfill:
    """Embeds memories that lack a vector. Each worker has one and calls :meth:`check` between its runs."""

    def __init__(self) -> None:
        self._next_check = 0.0  # on the monotonic clock
        self._failures = 0
        self._model = ""  # name of the configured model, once it is loaded

    def check(self) -> None:
        """If a check is due, embed memories without a vector, or queue a run if there are many.

        Also load the vectors, so that the first search does not wait for them, and overwrite deleted vectors.
        """
        try:
            vector_index.overwrite_deleted(self._model)
        except OSError:
            logger.exception("deleted vectors were not overwritten")
        start = time.monotonic()
        if start < self._next_check:
            return
        try:
            embedder = provider.configured()
            self._model = embedder.name if embedder else ""
            if embedder and embedder.dimensions:
                vector_index.get_index(embedder.name, embedder.dimensions).prepare()
            count_start = time.monotonic()
            missing = count_missing(embedder.name) if embedder else 0
            self._next_check = start + REST_FACTOR * (time.monotonic() - count_start)
            if embedder and missing:
                self._embed(embedder, missing)
            self._failures = 0
        except (EmbeddingError, StoreError) as error:
            self._pause(error)

    def _embed(self, embedder: Embedder, missing: int) -> None:
        if not nodes.is_scheduler() or not _may_embed():
            return
        if missing <= MAX_INLINE_EMBEDDINGS:
            if not run_now(Embed.name, {}, EMBEDDER_ACTOR).changed:
                self._next_check = time.monotonic() + RETRY_PAUSES[0]
            return
        # Check the provider first, or every attempt would leave a failed run.
        embedder.documents(["Is anybody there?"])
        runs.enqueue(Embed.name, {}, EMBEDDER_ACTOR, may_wait=True)

    def _pause(self, error: EmbeddingError | StoreError) -> None:
        seconds = RETRY_PAUSES[min(self._failures, len(RETRY_PAUSES) - 1)]
        self._failures += 1
        self._next_check = time.monotonic() + seconds
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
        limit_background_thread()
        while not self.ending.is_set():
            if not self._try(self.run_once):
                close_old_connections()
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
    """A background thread that only works in one process: the one that has the lease of this name."""

    def __init__(self, name: str, wake: threading.Condition) -> None:
        super().__init__(name, wake)
        self.key = secrets.token_hex(4)  # a process may have two such threads
        self.is_holder = False

    @property
    def holder(self) -> str:
        return f"{nodes.process_id()}/{self.key}"

    def on_lease_taken(self) -> None:
        """Called once this process has the lease and no other process can be at work."""

    def take_lease(self) -> Lease | None:
        """Return the lease, taking it if it is free; None while another process has it."""
        lease = nodes.take_lease(self.name, self.holder)
        if lease is not None and not self.is_holder:
            self.on_lease_taken()
        self.is_holder = lease is not None
        return lease

    def release_lease(self) -> None:
        """Release the lease, so that another process can take it."""
        if self.is_holder:
            nodes.release_lease(self.name, self.holder)
            self.is_holder = False

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._try(self.release_lease)
            connections.close_all()


class Heartbeat(BackgroundThread):
    """Renews the row of this process, so that other nodes know that it is running."""

    def __init__(self) -> None:
        super().__init__("heartbeat", threading.Condition())

    def run_once(self) -> bool:
        nodes.renew()
        self.ending.wait(nodes.HEARTBEAT_SECONDS)
        return True

    def run(self) -> None:
        super().run()
        self._try(nodes.leave)
        connections.close_all()


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
            self._follow_schedule()
            self.backfill.check()
        run = next_run(self.dry_runs)
        if run is None:
            return False
        if not self.dry_runs:
            nodes.stop_scheduling()  # the run may take a long time
        return execute(run, is_stopping=self.ending.is_set)

    def _follow_schedule(self) -> None:
        if nodes.is_scheduler():
            clock.check()
            runs.resume_interrupted()
            runs.enqueue_due()
            if is_postgres():
                schema.finish_erase()  # of a request
        else:
            clock.current_pause()  # applies what the scheduler found


def next_run(dry_runs: bool) -> MaintenanceRun | None:
    """Return the oldest queued run; None while another writing run is running, except for dry runs."""
    waiting = MaintenanceRun.objects.filter(status=Status.QUEUED, dry_run=dry_runs)
    if is_postgres() and find_full_folders():  # another node has room for the file of an import
        waiting = waiting.exclude(operation__in=USES_LOCAL_FILES)
    queued = waiting.order_by("pk").first()
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
    return start_threads(Worker(dry_runs=False), Worker(dry_runs=True), *more)


def start_threads(*workers: BackgroundThread) -> list[BackgroundThread]:
    """Start threads that end with the process."""
    for worker in workers:
        worker.start()
    # Granian's workers are multiprocessing processes, which skip atexit.
    Finalize(None, stop_workers, args=(workers,), exitpriority=100)
    atexit.register(stop_workers, workers)
    return list(workers)


def stop_workers(workers: Sequence[BackgroundThread]) -> None:
    """End the workers and wait for up to :data:`SHUTDOWN_SECONDS`."""
    for worker in workers:
        worker.end()
    deadline = time.monotonic() + SHUTDOWN_SECONDS
    for worker in workers:
        worker.join(max(deadline - time.monotonic(), 0))
