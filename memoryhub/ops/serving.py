"""Serve with granian: check the address, load the application, start the workers."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import resource
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from granian.constants import HTTPModes, Interfaces
from granian.log import LogLevels
from granian.server import Server

from memoryhub.access.policy import system_actor
from memoryhub.audit import clock, journal
from memoryhub.backends import schema
from memoryhub.core import database, database_errors, disks
from memoryhub.core.database import close_before_fork, write_transaction
from memoryhub.core.logs import JsonFormatter
from memoryhub.maintenance import nodes

logger = logging.getLogger(__name__)
APPLICATION = "memoryhub.ops.worker:create_application"
# Processes: one per CPU, because threads share the interpreter lock. Few, because each needs memory.
WORKERS = min(os.cpu_count() or 1, 4)
# Threads per worker: more would wait for the interpreter lock; with one, a slow client would block the rest.
THREADS = 2
MAX_CONNECTIONS = 512  # connections of one worker process
MIN_CONNECTIONS = 32
MIN_ADDRESS_SPACE = 2**30  # of a process: half of it is for libraries, the rest for threads
RESERVED_FILES = 96  # files that a worker process opens besides connections: store, logs, libraries
MAX_NAMED = 20  # problems in one journal row
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 of Linux
# How long a start waits for the port: workers of a killed server need some time to end.
SECONDS_TO_FREE_PORT = 3.0


class CannotServe(Exception):
    """The server cannot start. The message says why and what to do."""


def require_free(host: str, port: int, seconds: float = 0) -> None:
    """Raise :class:`CannotServe` unless this address belongs to this machine and is free.

    Checked before the start, because granian would share a port with another granian.
    ``seconds``: how long to wait for a port that is taken.
    """
    if not 0 < port < 65_536:
        raise CannotServe(f"--port must be between 1 and 65535, not {port}")
    until = time.monotonic() + seconds
    while True:
        try:
            return _bind(host, port)
        except socket.gaierror as error:
            raise CannotServe(f"--host {host}: {error.strerror or error}") from None
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= until:
                raise CannotServe(_reason(error, host, port)) from None
        time.sleep(0.1)


def _bind(host: str, port: int) -> None:
    [family, kind, protocol, _, address], *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)


def prepare_store() -> Iterator[str]:
    """Check the store before it is served, and repair its schema. Yield messages for the operator.

    Raise :class:`CannotServe` if the store cannot be served.
    """
    if left := disks.remove_abandoned():
        yield f"Removed files that a killed process had left: {', '.join(map(str, left))}"
    if problems := schema.find_problems():
        _repair_schema(problems)
        yield f"Repaired at the start: {'; '.join(problems)}"
    schema.finish_rebuilds()  # of the repair, or of a migration that was killed
    if node := nodes.find_node_with_other_key():
        raise CannotServe(
            f"node {node} serves this store with another secret key; set the same MEMORYHUB_SECRET_KEY on all"
        )
    if loss := journal.record_loss():
        yield f"{loss.summary()}. Find out why, then run: manage.py verify_journal --acknowledge-loss"
    if pause := clock.inspect():
        yield f"{pause.summary()}; expiry, decay, purge and eviction are paused. Run: manage.py doctor"
    if database.is_damage_recorded():
        yield f"Damage was found before, and /readyz is 503: {database_errors.DAMAGE_ADVICE}"


def _repair_schema(problems: list[str]) -> None:
    """Install missing triggers and indexes again. Changes made without them are not in the journal."""
    try:
        with write_transaction():
            schema.install()
            problems_left = schema.find_problems()
            change = journal.Change("repair_schema", "store", "", {"problems": problems[:MAX_NAMED]})
            journal.record(system_actor("serve"), [change])
    except DatabaseError:
        problems_left = problems
    if problems_left:
        raise CannotServe(f"{'; '.join(problems_left)}; run: manage.py doctor")


def _reason(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is taken, perhaps by a running hub; choose another: --port {port + 1}"
    if error.errno == errno.EACCES:
        return f"port {port} is reserved for the system's administrator; choose one above 1023: --port 8000"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"--host {host} is not an address of this machine; 0.0.0.0 means all of them"
    return f"cannot listen at {host} port {port}: {error.strerror}"


def require_limits() -> int:
    """Return how many connections a worker may have under the limits of the system.

    Raise the limit of open files as far as allowed. Raise :class:`CannotServe` if a limit is too low.
    """
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if resource.RLIM_INFINITY != space < MIN_ADDRESS_SPACE:
        raise CannotServe(
            f"the address space of a process is limited to {space / 1e6:,.0f} MB here, and a worker needs"
            f" {MIN_ADDRESS_SPACE / 1e6:,.0f} MB; raise the limit: ulimit -v {MIN_ADDRESS_SPACE // 1024}"
        )
    wanted = MAX_CONNECTIONS + RESERVED_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY != soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < MIN_CONNECTIONS + RESERVED_FILES:
            raise CannotServe(
                f"a process may open only {soft} files here, and a worker needs"
                f" {MIN_CONNECTIONS + RESERVED_FILES}; raise the limit: ulimit -n {wanted}"
            )
        return min(MAX_CONNECTIONS, soft - RESERVED_FILES)
    return MAX_CONNECTIONS


# Replaces the formatters of granian's two handlers.
_JSON_LOGS = {"formatters": {name: {"()": JsonFormatter} for name in ("generic", "access")}}


class _Server(Server):  # type: ignore[misc, valid-type]
    """A server that never reports an ended worker as alive.

    Granian (2.8) waits for a worker in two threads. The one that does not get the exit code may report a
    worker that "refused to gracefully stop".
    """

    def _spawn_worker(self, *arguments: Any, **options: Any) -> Any:
        worker = super()._spawn_worker(*arguments, **options)
        worker.is_alive = lambda: not connection.wait([worker.inner.sentinel], 0)
        return worker


def serve(
    host: str, port: int, *, workers: int = WORKERS, threads: int = THREADS, quiet: bool = False
) -> None:
    """Serve until a signal ends the server. Workers are forked once the application is loaded.

    Raise :class:`CannotServe` if the limits of the system are too low.
    """
    max_connections = require_limits()

    # Spawned workers read the settings again, perhaps in another working folder.
    os.environ["LETSGO_HOME"] = str(settings.HOME)
    os.environ["LETSGO_MEMORY_DB"] = str(settings.MEMORY_DB)
    os.environ["LETSGO_MEMORY_LOG"] = str(settings.MEMORY_LOG)
    if sys.platform == "linux":
        multiprocessing.set_start_method("fork", force=True)
        _reset_sigterm_in_children()
    with _shared_metrics():
        from memoryhub.ops import worker

        os.environ[worker.THREADS_VARIABLE] = str(threads)
        worker.load()
        close_before_fork()
        sys.stdout.flush()
        sys.stderr.flush()
        _Server(
            APPLICATION,
            host,
            port,
            interface=Interfaces.RSGI,
            workers=workers,
            http=HTTPModes.http1,  # with HTTP/2, one connection could carry many requests
            websockets=False,
            backpressure=max_connections,
            log_level=LogLevels.warning if quiet else LogLevels.info,
            log_dictconfig=_JSON_LOGS if settings.LOG_FORMAT == "json" else None,
            # Otherwise the server ends when one worker does, for example when the system runs out of memory.
            respawn_failed_workers=True,
            workers_kill_timeout=worker.SECONDS_TO_END,
            factory=True,
        ).serve()


@contextmanager
def _shared_metrics() -> Iterator[None]:
    """Let the workers share their figures for ``/metrics`` in a temporary folder, if it is enabled.

    prometheus-client reads the variable when it is imported, so that ``ops.worker`` is imported after this.
    """
    if not settings.METRICS_TOKEN:
        yield
        return
    # A write to a mapped file on a full disk would kill the worker, so the files are in memory.
    place = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="memoryhub-metrics-", dir=place) as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        yield


def _reset_sigterm_in_children() -> None:
    """Let SIGTERM end a forked worker until granian sets the worker's own handler.

    A worker would inherit the handler of the main process, and a SIGTERM that came first would be lost.
    The signal is blocked during the fork, so that the worker gets it when the handler is gone.
    """
    sigterm = {signal.SIGTERM}

    def reset() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, sigterm)

    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, sigterm),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, sigterm),
        after_in_child=reset,
    )
