"""Nodes, the database and the network between them fail: no acknowledged write is lost or done twice."""

from __future__ import annotations

import http.client
import json
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from memoryhub import __version__
from tests.commands import hub as hubs
from tests.disk import mounted
from tests.faults.cluster import METRICS_TOKEN, SECONDS, Cluster, until
from tools.bench.clients import Client
from tools.bench.hub import manage
from tools.cluster import mixed
from tools.cluster.nodes import Node
from tools.cluster.proxies import BalancingProxy

pytestmark = pytest.mark.slow
MEGABYTE = 1024 * 1024
# Each step of a run takes a second more, so that the run is not done before its node is killed.
SLOW_STEPS = """
CREATE FUNCTION wait_after_step() RETURNS trigger LANGUAGE plpgsql AS
'BEGIN PERFORM pg_sleep(1); RETURN NULL; END';
CREATE TRIGGER slow_steps AFTER UPDATE OF done ON memoryhub_maintenancerun
FOR EACH ROW EXECUTE FUNCTION wait_after_step()
"""


def fill(node: Node, headers: dict[str, str]) -> list[str]:
    """Store memories until the disk is full: a write is refused with 503. Return the ids of those stored."""
    stored: list[str] = []
    with closing(Client(node.port, headers)) as client:
        for number in range(1000):
            body = {"content": f"memory {number} {random.randbytes(8000).hex()}"}
            answer, content = client.send("POST", mixed.MEMORIES, body)
            if answer.status != 201:
                assert answer.status == 503, content
                return stored
            stored.append(Client.decode(content)["memory"]["id"])
    raise AssertionError("the disk is not full")


def figures(node: Node) -> dict[tuple[str, ...], float]:
    """Return the metrics of a node by name and values of their labels."""
    with closing(Client(node.port, {"Authorization": f"Bearer {METRICS_TOKEN}"})) as client:
        answer, content = client.send("GET", "/metrics")
    assert answer.status == 200
    families = text_string_to_metric_families(content.decode())
    samples = [sample for family in families for sample in family.samples]
    return {(one.name, *one.labels.values()): one.value for one in samples}


def test_each_node_reports_its_own_requests_and_the_whole_store(cluster: Cluster) -> None:
    first = cluster.nodes[0]
    key = ("memoryhub_requests_total", "GET", "api/v1/facts", "200")
    before = [figures(node).get(key, 0) for node in cluster.nodes]
    for _ in range(3):
        assert cluster.ask(first, "GET", "/api/v1/facts")[0] == 200
    after = [figures(node) for node in cluster.nodes]
    assert [found.get(key, 0) for found in after] == [before[0] + 3, before[1]]
    live = ("memoryhub_memories", "live")
    assert after[0][live] == after[1][live]
    lines = [json.loads(line) for line in first.log.read_text().splitlines() if line.startswith("{")]
    requests = [line for line in lines if line.get("route") == "api/v1/facts"]
    assert len({line["request_id"] for line in requests}) >= 3
    assert {line["status"] for line in requests} == {200}


def test_writes_survive_the_kill_of_a_node(cluster: Cluster) -> None:
    node = cluster.nodes[1]

    def restart() -> None:
        node.kill()
        time.sleep(1)
        node.start()

    assert cluster.faults_after(restart) == []


def test_writes_survive_the_kill_of_the_database(cluster: Cluster) -> None:
    def restart() -> None:
        cluster.database.kill()
        for node in cluster.nodes:
            until(lambda node=node: node.readiness() == 503)  # its connections end some moments later
        cluster.database.start()

    assert cluster.faults_after(restart) == []


def test_stalled_network_ends_requests_and_not_the_other_node(cluster: Cluster) -> None:
    first, second = cluster.nodes
    cluster.network.stall()
    try:
        status, content = cluster.ask(second, "GET", "/api/v1/memories")
        assert status == 503, content
        assert second.readiness(SECONDS) == 503
        body = {"content": "stored while the other node has no network"}
        assert cluster.ask(first, "POST", mixed.MEMORIES, body)[0] == 201
        assert first.readiness() == 200
    finally:
        cluster.network.resume()
    cluster.wait_until_ready()
    _, found = cluster.ask(second, "GET", "/api/v1/search?query=network")
    assert b"stored while the other node has no network" in found


def test_write_that_lost_its_network_does_not_stop_the_other_node(cluster: Cluster) -> None:
    first, second = cluster.nodes
    code = (
        "import time; from memoryhub.core.database import write_transaction\n"
        "with write_transaction(): print('writing', flush=True); time.sleep(3600)"
    )
    command = [sys.executable, "manage.py", "shell", "--no-imports", "-c", code]
    with subprocess.Popen(
        command, env=second.environment, cwd=second.sources, stdout=subprocess.PIPE
    ) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"writing\n"
            cluster.network.stall()
            body = {"content": "stored while a writer has no network"}
            assert cluster.ask(first, "POST", mixed.MEMORIES, body)[0] == 201
        finally:
            cluster.network.resume()
            writer.kill()
    cluster.wait_until_ready()


def test_run_of_a_killed_node_is_continued_by_the_other(cluster: Cluster) -> None:
    first = cluster.nodes[0]
    path = f"{mixed.MEMORIES}/batch"
    for start in range(0, 1000, 100):
        notes = [f"Aged note {number}" for number in range(start, start + 100)]
        batch = {"memories": [{"content": note, "project": "aged"} for note in notes]}
        until(lambda batch=batch: cluster.ask(first, "POST", path, batch)[0] == 200)
    cluster.execute("UPDATE memoryhub_memory SET updated_at = updated_at - interval '10 days'")
    cluster.execute(SLOW_STEPS)
    body = {"operation": "consolidate", "project": "aged"}
    uid = json.loads(cluster.ask(first, "POST", "/api/v1/maintenance", body)[1])["id"]

    def row() -> tuple[Any, ...]:
        statement = f"SELECT status, done, worker FROM memoryhub_maintenancerun WHERE uid = '{uid}'"
        return cluster.execute(statement)[0]

    until(lambda: row()[1] > 50)
    status, done, worker = row()
    assert status == "running"
    assert done < 1000
    [killed] = [node for node in cluster.nodes if worker.startswith(f"{node.name}.")]
    killed.kill()
    cluster.execute("DROP FUNCTION wait_after_step CASCADE")
    until(lambda: row()[0] == "done")
    killed.start()
    cluster.wait_until_ready()
    assert row()[1] == 1000
    times = dict(cluster.read()["consolidated"])
    assert set(times.values()) == {1}, "nothing was done twice"
    assert len(times) == 1000, "nothing was left out"


def test_requests_reach_a_ready_node_while_another_is_killed(cluster: Cluster) -> None:
    proxy = BalancingProxy([node.port for node in cluster.nodes])
    until(lambda: all(proxy.ready.values()))
    cluster.nodes[1].kill()
    statuses: Counter[int] = Counter()
    for _ in range(20):
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=SECONDS)
        connection.request("GET", "/api/v1/memories", headers=cluster.headers)
        response = connection.getresponse()
        json.loads(response.read())
        statuses[response.status] += 1
        connection.close()
    cluster.nodes[1].start()
    cluster.wait_until_ready()
    proxy.close()
    assert statuses == {200: 20}


def test_nodes_of_two_versions_serve_the_same_store(cluster: Cluster, tmp_path: Path) -> None:
    first, newer = cluster.nodes[0], "9.9.9"
    sources = hubs.copy(tmp_path).folder
    module = sources / "memoryhub" / "__init__.py"
    module.write_text(module.read_text().replace(f'"{__version__}"', f'"{newer}"'))
    node = Node("upgraded", tmp_path / "home of node", cluster.url)
    node.sources = sources
    node.start()
    try:
        node.wait_until_ready()
        for number, (writer, reader) in enumerate([(first, node), (node, first)]):
            body = {"content": f"stored by version {number} of the rolling upgrade"}
            assert cluster.ask(writer, "POST", mixed.MEMORIES, body)[0] == 201
            _, found = cluster.ask(reader, "GET", "/api/v1/search?query=rolling+upgrade")
            assert body["content"].encode() in found
        assert first.readiness() == 200
        versions = {row[0] for row in cluster.execute("SELECT version FROM memoryhub_serverprocess")}
        assert {__version__, newer} <= versions, "doctor reports both"
    finally:
        node.stop()


def test_full_tablespace_refuses_writes_and_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    with mounted(cluster.database.folder.parent / f"{cluster.database.folder.name}-small", 64) as disk:
        cluster.database.add_tablespace("small", disk / "data")
        url = cluster.database.create_database("crowded", tablespace="small")
        node = Node("crowded", tmp_path / "crowded", url)
        manage(node.environment, "migrate", "--verbosity", "0")
        token = manage(node.environment, "create_token", "faults", "--rights", "read,write")
        headers = {"Authorization": f"Bearer {token}"}
        node.start()
        try:
            node.wait_until_ready()
            (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free - 2 * MEGABYTE))
            stored = fill(node, headers)
            assert stored, "something was stored"
            with closing(Client(node.port, headers)) as client:
                answer, content = client.send("GET", f"{mixed.MEMORIES}/{stored[0]}")
                assert answer.status == 200, content
                until(lambda: node.readiness() == 503)
                assert b"No space left on device" in client.send("GET", "/readyz")[1]
                (disk / "filler").unlink()
                until(
                    lambda: (
                        client.send("POST", mixed.MEMORIES, {"content": "there is space"})[0].status == 201
                    )
                )
            node.wait_until_ready()
        finally:
            node.stop()
        found = mixed.read_store(node.environment)
        assert found["intact"]
        assert set(stored) <= {uid for uid, *_ in found["memories"]}
        cluster.database.query("postgres", "DROP DATABASE crowded WITH (FORCE)")
        cluster.database.query("postgres", "DROP TABLESPACE small")
