"""The database fails, a streaming replica is promoted, and the nodes find it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from memoryhub.backends.postgres.server import LimitedConnection
from memoryhub.core.database import WRITER_LOCK
from tests.faults.cluster import SECONDS, Cluster, until
from tools.bench.hub import ROOT, free_port
from tools.cluster import mixed, postgres
from tools.cluster.nodes import node_environment
from tools.cluster.proxies import Cut, StallingProxy

pytestmark = pytest.mark.slow


class Failover(Cluster):
    """A cluster whose database has a synchronous standby.

    The first node knows the addresses of both servers. That of the second node moves to the standby.
    """

    def __init__(self, folder: Path, database: postgres.Postgres, standby: postgres.Postgres) -> None:
        self.standby = standby
        super().__init__(folder, database, standby)
        database.query("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'")
        database.query("postgres", "SELECT pg_reload_conf()")
        until(lambda: database.query("postgres", "SELECT sync_state FROM pg_stat_replication") == "sync")

    def lose_the_primary(self) -> None:
        self.database.kill()
        self.network.move(self.standby.socket)

    def promote(self) -> None:
        assert self.standby.query("postgres", "SELECT pg_promote()") == "True"

    def write_at_both_nodes(self) -> None:
        for node in self.nodes:
            body = {"content": f"stored after the failover by {node.name}"}
            until(lambda body=body, node=node: self.ask(node, "POST", mixed.MEMORIES, body)[0] in (200, 201))
        assert self.readiness() == [200, 200]

    def readiness(self) -> list[int]:
        return [node.readiness() for node in self.nodes]


@pytest.fixture
def server() -> Iterator[postgres.Postgres]:
    with postgres.started() as started:
        yield started


@pytest.fixture
def cluster(server: postgres.Postgres, tmp_path: Path) -> Iterator[Failover]:
    folder = server.folder.with_name(f"{server.folder.name}-standby")
    standby = server.add_standby(folder)
    made = Failover(tmp_path, server, standby)
    yield made
    made.stop()
    standby.stop()
    shutil.rmtree(folder)


def test_acknowledged_writes_survive_a_failover(cluster: Failover) -> None:
    def fail_over() -> None:
        cluster.lose_the_primary()
        cluster.promote()

    assert cluster.faults_after(fail_over) == []
    cluster.write_at_both_nodes()


def test_write_is_stored_once_if_the_primary_fails_during_its_commit(cluster: Failover) -> None:
    node, body = cluster.nodes[1], {"content": "stored once"}
    cluster.network.cut = Cut(body["content"], is_committed=True)
    status, content = cluster.ask(node, "POST", mixed.MEMORIES, body)
    assert (status, json.loads(content)["code"]) == (503, "outcome_unknown")
    cluster.lose_the_primary()
    cluster.promote()
    cluster.wait_until_ready()
    statuses: list[int] = []
    until(lambda: statuses.append(cluster.ask(node, "POST", mixed.MEMORIES, body)[0]) or statuses[-1] != 503)
    assert statuses[-1] == 200, "the standby had it"
    assert cluster.count_memories() == 1
    assert cluster.read()["intact"]


def test_nodes_leave_a_primary_that_is_silent(cluster: Failover) -> None:
    """Connections of the second node are neither answered nor closed, as if the machine lost power."""

    def fail_over() -> None:
        cluster.network.stall()
        cluster.lose_the_primary()
        cluster.promote()

    assert cluster.faults_after(fail_over, operations=200) == []
    cluster.write_at_both_nodes()


def test_nodes_are_not_ready_until_the_standby_is_promoted(cluster: Failover) -> None:
    first, second = cluster.nodes
    stored = {"content": "stored before the failover"}
    assert cluster.ask(first, "POST", mixed.MEMORIES, stored)[0] == 201
    cluster.lose_the_primary()
    until(lambda: cluster.ask(second, "GET", "/api/v1/search?query=failover")[0] == 200)
    assert cluster.readiness() == [503, 503]
    for node in cluster.nodes:
        assert cluster.ask(node, "POST", mixed.MEMORIES, {"content": "refused"})[0] == 503
    cluster.promote()
    cluster.wait_until_ready()
    cluster.write_at_both_nodes()
    for node in cluster.nodes:
        assert stored["content"].encode() in cluster.ask(node, "GET", "/api/v1/search?query=failover")[1]


def test_pool_replaces_silent_connections_after_the_first_check(server: postgres.Postgres) -> None:
    network = StallingProxy(server.socket)
    url = f"postgres://postgres@127.0.0.1:{network.port}/postgres"
    check = ConnectionPool.check_connection
    with ConnectionPool(url, min_size=4, connection_class=LimitedConnection, check=check) as pool:
        pool.wait()
        network.stall()
        network.move(server.socket)
        for _ in range(4):
            with pool.connection() as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
        assert pool.get_stats()["connections_lost"] == 1
    network.close()


_UNREAD_RESULT = """
import time, django
django.setup()
from django.db import connection
from memoryhub.core.database import write_transaction
with write_transaction():
    connection.connection.pgconn.send_query(b"SELECT repeat('x', 10000) FROM generate_series(1, 20000)")
    print("writing", flush=True)
    time.sleep(3600)
"""


def test_writer_that_reads_no_result_does_not_stop_the_others(
    server: postgres.Postgres, tmp_path: Path
) -> None:
    """It was stopped, or lost its network, while the server sent it a result."""
    url = server.listen(free_port())
    environment = node_environment(tmp_path, url, "stopped")
    command = [sys.executable, "-c", _UNREAD_RESULT]
    with (
        psycopg.connect(url, autocommit=True) as other,
        subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE) as writer,
    ):
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"writing\n"
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite'"
            until(lambda: other.execute(waits).fetchone() == (1,))
            other.execute(f"SET lock_timeout = '{SECONDS}s'")
            other.execute("SELECT pg_advisory_lock(%s)", [WRITER_LOCK])
        finally:
            writer.kill()
