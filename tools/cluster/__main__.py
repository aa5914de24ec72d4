"""Check and measure several nodes: ``python -m tools.cluster --operations 100000``.

Starts PostgreSQL and three nodes with two workers each. Eight clients store, update, delete and search, each
request at another node. With ``--kill-every 10``, a node is killed and started again every ten seconds. Then
every acknowledged write is looked up. ``--database sqlite`` does the same with one node on SQLite.
Exits with 1 if a write was lost or done twice.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from tools.bench.clients import Client
from tools.bench.figures import percentile
from tools.bench.hub import manage, sign_in
from tools.cluster import mixed, postgres
from tools.cluster.nodes import Node, node_environment

STALE_SECONDS = 2.0
STALENESS_SAMPLES = 20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--database", choices=("postgres", "sqlite"), default="postgres")
    add("--nodes", type=int, default=3)
    add("--workers", type=int, default=2, help="of each node")
    add("--clients", type=int, default=8)
    add("--operations", type=int, default=100_000)
    add("--kill-every", type=float, default=0, metavar="SECONDS")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cluster-") as folder, ExitStack() as running:
        sys.exit(Cluster(options, Path(folder), running).check())


class Cluster:
    """The nodes of one database."""

    def __init__(self, options: argparse.Namespace, folder: Path, running: ExitStack) -> None:
        self.options, url = options, ""
        if options.database == "postgres":
            server = running.enter_context(postgres.started())
            url = server.create_database("hub")
        self.environment = node_environment(folder / "node-0", url, "check")
        (folder / "node-0").mkdir()
        manage(self.environment, "migrate", "--verbosity", "0")
        token = manage(self.environment, "create_token", "cluster", "--rights", "read,write,maintain")
        self.headers = {"Authorization": f"Bearer {token}"}
        count = options.nodes if url else 1
        self.nodes = [Node(f"node-{n}", folder / f"node-{n}", url, options.workers) for n in range(count)]
        self.ending = threading.Event()
        self.kills = 0
        for node in self.nodes:
            node.start()
            running.callback(node.stop)
        for node in self.nodes:
            node.wait_until_ready()

    def check(self) -> int:
        """Run everything, print the figures and return the exit code."""
        killer = threading.Thread(target=self._kill_nodes, daemon=True)
        if self.options.kill_every:
            killer.start()
        answers, seconds = mixed.work(self.nodes, self.headers, self.options.clients, self.options.operations)
        self.ending.set()
        if self.options.kill_every:
            killer.join()
        stale = [] if len(self.nodes) < 2 else self._measure_staleness()
        faults = mixed.find_faults(answers, mixed.read_store(self.environment))
        self._print(answers, seconds, stale)
        for fault in faults[:20]:
            print(f"FAULT {fault}")
        print(f"{len(faults)} faults")
        return 1 if faults or any(one > STALE_SECONDS for one in stale) else 0

    def _kill_nodes(self) -> None:
        while not self.ending.wait(self.options.kill_every):
            node = self.nodes[self.kills % len(self.nodes)]
            self.kills += 1
            node.kill()
            node.start()
            node.wait_until_ready()

    def _measure_staleness(self) -> list[float]:
        """Return the seconds until a page of another node shows a new memory."""
        writer = Client(self.nodes[0].port, self.headers)
        reader = Client(self.nodes[1].port, {"Cookie": sign_in(self.environment)})
        found = []
        for number in range(STALENESS_SAMPLES):
            reader.send("GET", "/memories/?project=stale")
            title = f"Staleness sample {number}"
            body = {"content": f"{title} {time.time_ns()}", "title": title, "project": "stale"}
            writer.send("POST", mixed.MEMORIES, body)
            began = time.monotonic()
            while title.encode() not in reader.send("GET", "/memories/?project=stale")[1]:
                if time.monotonic() - began > 10 * STALE_SECONDS:
                    break
            found.append(time.monotonic() - began)
        return found

    def _print(self, answers: mixed.Outcome, seconds: float, stale: list[float]) -> None:
        count = sum(map(len, answers.milliseconds.values()))
        options = self.options
        print(f"{options.database}, {len(self.nodes)} nodes x {options.workers} workers,", end=" ")
        print(f"{options.clients} clients, {self.kills} kills:", end=" ")
        print(f"{count:,} requests in {seconds:.0f} s, {count / seconds:.0f} per second")
        for kind, times in answers.milliseconds.items():
            numbers = ", ".join(f"p{part} {percentile(times, part / 100):.0f} ms" for part in (50, 95, 99))
            print(f"  {kind}: {len(times):,}, {numbers}, longest {max(times):.0f} ms")
        print(f"  answers by status: {dict(answers.statuses)}; {len(answers.unknown)} without an answer")
        if stale:
            print(f"  another node shows a new memory after {max(stale):.2f} s at most")


if __name__ == "__main__":
    main()
