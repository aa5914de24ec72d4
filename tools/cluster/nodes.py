"""Nodes: servers of one store, each with a home of its own."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tools.bench.hub import ROOT, free_port, store_environment

SECONDS_TO_START = 300
KEY = "the-secret-key-of-all-nodes-of-this-cluster-0123456789-0123456789"


def node_environment(home: Path, url: str, name: str, **variables: str) -> dict[str, str]:
    """Return the environment of a node. ``url``: of its database; empty: SQLite in its home."""
    environment = store_environment(home)
    environment |= {
        "DJANGO_SETTINGS_MODULE": "memoryhub.settings",
        "MEMORYHUB_NODE_NAME": name,
        "MEMORYHUB_SECRET_KEY": KEY,
        "MEMORYHUB_EMBEDDINGS": "none",
    }
    if url:
        environment["DATABASE_URL"] = url
    return environment | variables


class Node:
    """One server with several worker processes. ``sources``: where its ``manage.py`` is."""

    sources = ROOT

    def __init__(self, name: str, home: Path, url: str, workers: int = 1, **variables: str) -> None:
        home.mkdir(exist_ok=True, parents=True)
        self.name, self.port, self.workers = name, free_port(), workers
        self.environment = node_environment(home, url, name, **variables)
        self.log = home / "server.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server; :meth:`wait_until_ready` waits for it."""
        command = [
            sys.executable,
            "manage.py",
            "serve",
            "--port",
            str(self.port),
            "--workers",
            str(self.workers),
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                env=self.environment,
                cwd=self.sources,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_until_ready(self, seconds: float = SECONDS_TO_START) -> None:
        deadline = time.monotonic() + seconds
        while self.readiness() != 200:
            if time.monotonic() > deadline:
                raise OSError(f"node {self.name} is not ready: {self.log.read_text()[-2000:]}")
            time.sleep(0.1)

    def readiness(self, timeout: float = 60) -> int:
        """Return the status of ``/readyz``, 0 without an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def kill(self) -> None:
        """Kill the server and its workers without warning."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None


class Killer:
    """Kills and restarts one node after the other while the ``with`` block runs.

    ``seconds``: between two kills, or longer if a node takes longer to start. 0 kills none.
    ``max_kills``: None for no limit.
    """

    def __init__(self, nodes: Sequence[Node], seconds: float, max_kills: int | None = None) -> None:
        self.nodes, self.seconds, self.max_kills, self.kills = nodes, seconds, max_kills, 0
        self._ending, self._thread = threading.Event(), threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Killer:
        if self.seconds:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        if self.seconds:
            self._thread.join()

    def _run(self) -> None:
        pause = self.seconds
        while self.kills != self.max_kills and not self._ending.wait(max(pause, 0)):
            began, node = time.monotonic(), self.nodes[self.kills % len(self.nodes)]
            self.kills += 1
            node.kill()
            node.start()
            node.wait_until_ready()
            pause = self.seconds - (time.monotonic() - began)
