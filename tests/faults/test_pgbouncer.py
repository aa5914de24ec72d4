"""Nodes reach PostgreSQL through PgBouncer in transaction mode, without and with prepared statements.

``PGBOUNCER`` names another program than the one in the path. Prepared statements need version 1.22.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.bench.clients import Client
from tools.bench.hub import free_port, manage
from tools.cluster import mixed, postgres
from tools.cluster.nodes import Node

PGBOUNCER = os.environ.get("PGBOUNCER") or shutil.which("pgbouncer") or ""
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not PGBOUNCER, reason="pgbouncer is not installed")]
SESSIONS = 4
SETTINGS = """[databases]
hub = host={socket} dbname=hub user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 200
server_round_robin = 1
"""


def reads_prepared_statements() -> bool:
    """Whether the program follows prepared statements, and also understands DEALLOCATE ALL."""
    printed = subprocess.run([PGBOUNCER, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"(\d+)\.(\d+)", printed)
    return version is not None and (int(version[1]), int(version[2])) >= (1, 22)


@dataclass(frozen=True)
class Pool:
    """A pooler, which gives each transaction another session of the server."""

    url: str
    is_preparing: bool

    def ask_each_session(self, statement: str) -> list[Any]:
        """Return the first value of a statement in each of the sessions of the server."""
        import psycopg

        address = self.url.partition("?")[0]
        with psycopg.connect(address, autocommit=True, prepare_threshold=None) as connection:
            return [connection.execute(statement).fetchone()[0] for _ in range(SESSIONS)]  # type: ignore[index]


@pytest.fixture(scope="module", params=["", "?prepare_threshold=5"], ids=["plain", "prepared"])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    if request.param and not reads_prepared_statements():
        pytest.skip("pgbouncer is older than 1.22")
    with postgres.started() as server, tempfile.TemporaryDirectory(prefix="pgbouncer-") as folder:
        server.create_database("hub")
        port, file = free_port(), Path(folder, "pgbouncer.ini")
        more = "max_prepared_statements = 20\n" if request.param else ""
        file.write_text(SETTINGS.format(socket=server.folder, port=port, sessions=SESSIONS) + more)
        Path(folder).chmod(0o755)
        file.chmod(0o644)
        user = {"user": server._server.system_user} if os.geteuid() == 0 else {}
        process = subprocess.Popen([PGBOUNCER, file], stderr=subprocess.DEVNULL, **user)
        yield Pool(f"postgres://postgres@127.0.0.1:{port}/hub{request.param}", bool(request.param))
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def nodes(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Node]]:
    home = tmp_path_factory.mktemp("pooled")
    made = [Node(name, home / name, pool.url) for name in ("first", "second")]
    manage(made[0].environment, "migrate", "--verbosity", "0")
    for node in made:
        node.start()
    for node in made:
        node.wait_until_ready()
    yield made
    for node in made:
        node.stop()


@pytest.fixture(scope="module")
def headers(nodes: list[Node]) -> dict[str, str]:
    token = manage(nodes[0].environment, "create_token", "pooled", "--rights", "read,write,maintain")
    return {"Authorization": f"Bearer {token}"}


def test_no_write_is_lost_or_done_twice(nodes: list[Node], headers: dict[str, str]) -> None:
    answers, _ = mixed.work(nodes, headers, 4, 400)
    assert answers.stored
    assert set(answers.statuses) <= {200, 201}
    assert mixed.find_faults(answers, mixed.read_store(nodes[0].environment)) == []


def test_doctor_finds_nothing_wrong(nodes: list[Node]) -> None:
    found: dict[str, Any] = json.loads(manage(nodes[0].environment, "doctor", "--json"))
    assert [check for check in found["checks"] if check["status"] == "fail"] == []


def test_session_of_the_server_keeps_nothing(nodes: list[Node], headers: dict[str, str], pool: Pool) -> None:
    with closing(Client(nodes[0].port, headers)) as client:
        assert client.send("GET", "/api/v1/search?query=harbour")[0].status == 200
    for statement in (
        "SELECT count(*) FROM pg_cursors WHERE name <> ''",
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
        "SELECT current_setting('statement_timeout')::interval > '0'",
        "SELECT current_setting('lock_timeout')::interval > '0'",
    ):
        assert not any(pool.ask_each_session(statement)), statement


def test_statements_are_prepared_only_if_configured(
    nodes: list[Node], headers: dict[str, str], pool: Pool
) -> None:
    mixed.work(nodes, headers, 4, 200)
    counts = pool.ask_each_session("SELECT count(*) FROM pg_prepared_statements")
    assert any(counts) is pool.is_preparing
