"""Two nodes of one PostgreSQL, whose clients are checked while something fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from tools.bench.clients import Client
from tools.bench.hub import manage
from tools.cluster import mixed, postgres
from tools.cluster.nodes import Node
from tools.cluster.proxies import StallingProxy

SECONDS = 300  # for what must happen some time
MIN_STORED = 10  # memories, before something fails
METRICS_TOKEN = "a-token-for-prometheus"


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.2)


class Cluster:
    """Two nodes of one database. The connections of the second one pass a proxy that can stall.

    ``standby``: a second server that the first node knows. ``variables``: of the environment of the nodes.
    """

    def __init__(
        self,
        folder: Path,
        database: postgres.Postgres,
        standby: postgres.Postgres | None = None,
        **variables: str,
    ) -> None:
        self.database = database
        self.url = url = self.database.create_database("hub")
        if standby:
            self.url = url = f"{url},{standby.folder}&target_session_attrs=read-write"
        self.network = StallingProxy(self.database.socket)
        stalling = f"postgres://postgres@127.0.0.1:{self.network.port}/hub"
        limits = {"MEMORYHUB_REQUEST_SECONDS": "5", "MEMORYHUB_LOG_FORMAT": "json"}
        limits |= {"MEMORYHUB_METRICS_TOKEN": METRICS_TOKEN, **variables}
        self.nodes = [
            Node("first", folder / "first", url, **limits),
            Node("second", folder / "second", stalling, **limits),
        ]
        environment = self.nodes[0].environment
        manage(environment, "migrate", "--verbosity", "0")
        token = manage(environment, "create_token", "faults", "--rights", "read,write,maintain")
        self.headers = {"Authorization": f"Bearer {token}"}
        for node in self.nodes:
            node.start()
        self.wait_until_ready()

    def ask(self, node: Node, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Send a request to a node; return the status, 0 without an answer, and the content."""
        with closing(Client(node.port, self.headers)) as client:
            answer, content = client.send(method, path, body)
        return answer.status, content

    def wait_until_ready(self) -> None:
        for node in self.nodes:
            node.wait_until_ready()

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()
        self.network.close()

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Execute a statement and return its rows."""
        with psycopg.connect(self.url) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def count_memories(self) -> int:
        return int(self.execute("SELECT count(*) FROM memoryhub_memory")[0][0])

    def read(self) -> dict[str, Any]:
        return mixed.read_store(self.nodes[0].environment)

    def faults_after(self, fail: Callable[[], object], operations: int = 400) -> list[str]:
        """Let clients work while something fails. Return what was lost or done twice."""
        outcomes: list[mixed.Outcome] = []
        work = threading.Thread(
            target=lambda: outcomes.append(mixed.work(self.nodes, self.headers, 4, operations)[0]),
            daemon=True,
        )
        before = self.count_memories()
        work.start()
        until(lambda: self.count_memories() >= before + MIN_STORED)
        fail()
        work.join(SECONDS)
        assert not work.is_alive(), "a request hangs"
        self.wait_until_ready()
        assert outcomes[0].stored, "something was stored"
        assert 500 not in outcomes[0].statuses
        return mixed.find_faults(outcomes[0], self.read())
