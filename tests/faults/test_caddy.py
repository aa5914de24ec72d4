"""Caddy with ``deploy/Caddyfile`` in front of three nodes: requests reach only nodes that are ready."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.conf import settings

from tests.faults.cluster import SECONDS, Cluster, until
from tools.bench.clients import Client
from tools.bench.hub import free_port
from tools.cluster import postgres
from tools.cluster.nodes import Node

CADDY = os.environ.get("CADDY") or shutil.which("caddy") or ""
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CADDY, reason="caddy is not installed")]


class Proxied(Cluster):
    """Three nodes behind Caddy."""

    def __init__(self, folder: Path, database: postgres.Postgres) -> None:
        super().__init__(folder, database)
        self.nodes.append(Node("third", folder / "third", self.url))
        self.nodes[2].start()
        self.wait_until_ready()
        self.port, file = free_port(), folder / "Caddyfile"
        file.write_text(self.adapt(Path(settings.BASE_DIR, "deploy", "Caddyfile").read_text()))
        variables = {"XDG_DATA_HOME": str(folder), "CADDY_ADMIN": f"127.0.0.1:{free_port()}"}
        command = [CADDY, "run", "--adapter", "caddyfile", "--config", str(file)]
        self.proxy = subprocess.Popen(command, env=os.environ | variables, stderr=subprocess.DEVNULL)
        until(lambda: self.statuses(30) == {200: 30})

    def adapt(self, configuration: str) -> str:
        """Replace the addresses of containers by those of this machine."""
        addresses = {f"web-{n}:8000": f"127.0.0.1:{node.port}" for n, node in enumerate(self.nodes, 1)}
        for name, address in addresses.items():
            assert name in configuration
            configuration = configuration.replace(name, address)
        return re.sub(r"^:8000", f":{self.port}", configuration, flags=re.M)

    def statuses(self, count: int) -> Counter[int]:
        """Return the statuses of reads, each on a connection of its own."""
        found: Counter[int] = Counter()
        for _ in range(count):
            try:
                with closing(Client(self.port, self.headers)) as client:
                    found[client.send("GET", "/api/v1/memories")[0].status] += 1
            except OSError:  # Caddy does not listen yet
                found[0] += 1
        return found

    def stop(self) -> None:
        self.proxy.terminate()
        self.proxy.wait()
        super().stop()


CLUSTER = Proxied


def test_reads_are_answered_while_a_node_is_killed(cluster: Proxied) -> None:
    node = cluster.nodes[0]
    node.kill()
    assert cluster.statuses(30) == {200: 30}
    node.start()
    cluster.wait_until_ready()


def test_node_that_is_not_ready_gets_no_requests(cluster: Proxied) -> None:
    cluster.network.stall()
    try:
        until(lambda: cluster.statuses(30) == {200: 30})
        assert cluster.nodes[1].readiness(SECONDS) == 503  # the checks of Caddy wait before it
    finally:
        cluster.network.resume()
    cluster.wait_until_ready()


def test_no_write_is_lost_or_done_twice_while_a_node_is_killed(cluster: Proxied) -> None:
    nodes = cluster.nodes
    cluster.nodes, killed = [SimpleNamespace(port=cluster.port)], nodes[2]  # type: ignore[list-item]

    def restart() -> None:
        killed.kill()
        killed.start()
        cluster.nodes = nodes

    assert cluster.faults_after(restart) == []
