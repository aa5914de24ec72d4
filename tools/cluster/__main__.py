"""Check and measure several nodes: ``python -m tools.cluster --operations 100000``.

Starts PostgreSQL and three nodes with two workers each. Eight clients store (also in batches), update, delete
and search, and send each request to another node. Meanwhile maintenance runs are requested, and pages of one
node are checked for what another node has stored. With ``--kill-every 10``, a node is killed and restarted
every ten seconds. Then every acknowledged write is looked up. ``--database sqlite``: one node on SQLite.
``--journeys`` copies the demo into the database, puts a proxy in front of the nodes, and runs the browser
journeys and the official MCP clients against it. Exits with 1 if a write was lost or done twice, a run was
not done once, a page was stale, or a test failed.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from tools.bench.clients import Client
from tools.bench.figures import percentile
from tools.bench.hub import manage, sign_in
from tools.cluster import mixed, postgres
from tools.cluster.journeys import Journeys
from tools.cluster.nodes import Killer, Node, node_environment

STALE_SECONDS = 2.0
SECONDS_BETWEEN_SAMPLES = 3.0
SECONDS_BETWEEN_RUNS = 5.0
SECONDS_FOR_RUNS = 600.0  # after the last request


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
    add("--kills", type=int, help="at most")
    add("--journeys", action="store_true", help="run the browser journeys and MCP clients instead")
    add("--brief", action="store_true", help="of these, each journey once, and one client")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cluster-") as folder, ExitStack() as running:
        if options.journeys:
            sys.exit(Journeys(options, Path(folder), running).check())
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
        self.stale: list[float] = []
        for node in self.nodes:
            node.start()
            running.callback(node.stop)
        for node in self.nodes:
            node.wait_until_ready()
        self.killer = Killer(self.nodes, options.kill_every, options.kills)

    def check(self) -> int:
        """Run everything, print the figures and return the exit code."""
        mixed.store_aged_memories(self.nodes[0], self.headers, self.environment)
        others = [threading.Thread(target=self._request_runs), threading.Thread(target=self._watch_pages)]
        for thread in others:
            thread.start()
        with self.killer:
            answers, seconds = mixed.work(
                self.nodes, self.headers, self.options.clients, self.options.operations
            )
        self.ending.set()
        for thread in others:
            thread.join()
        stored = self._wait_for_runs()
        faults = mixed.find_faults(answers, stored) + mixed.find_faults_of_runs(stored)
        faults += [f"a page was stale for {one:.1f} s" for one in self.stale if one > STALE_SECONDS]
        self._print(answers, seconds, stored)
        for fault in faults[:20]:
            print(f"FAULT {fault}")
        print(f"{len(faults)} faults")
        return 1 if faults else 0

    def _request_runs(self) -> None:
        mixed.request_runs(self.nodes, self.headers, lambda: self.ending.wait(SECONDS_BETWEEN_RUNS))

    def _wait_for_runs(self) -> dict[str, Any]:
        """Return what the database contains after the last run has ended."""
        deadline = time.monotonic() + SECONDS_FOR_RUNS
        while True:
            stored = mixed.read_store(self.environment)
            pending = [run for run in stored["runs"] if run[1] in ("queued", "running")]
            if not pending or time.monotonic() > deadline:
                return stored
            time.sleep(SECONDS_BETWEEN_RUNS)

    def _watch_pages(self) -> None:
        """Store memories at one node, and visit a page of another that must show them."""
        cookie, numbers = {"Cookie": sign_in(self.environment)}, itertools.count()
        while len(self.nodes) > 1 and not self.ending.wait(SECONDS_BETWEEN_SAMPLES):
            number = next(numbers)
            writer, reader = random.sample(self.nodes, 2)
            with suppress(OSError):  # a node was killed
                self.stale.append(self._staleness(writer, Client(reader.port, cookie), number))

    def _staleness(self, writer: Node, reader: Client, number: int) -> float:
        """Return the seconds from the answer to a write until the last request for a page that lacked it."""
        title, page = f"Staleness sample {number}", "/memories/?project=stale"
        body = {"content": f"{title} {time.time_ns()}", "title": title, "project": "stale"}
        _read_page(reader, page)
        with closing(reader), closing(Client(writer.port, self.headers)) as client:
            if client.send("POST", mixed.MEMORIES, body)[0].status != 201:
                raise ConnectionError
            stored_at, stale = time.monotonic(), 0.0
            while title.encode() not in _read_page(reader, page):
                stale = time.monotonic() - stored_at
                if stale > 10 * STALE_SECONDS:
                    break
        return stale

    def _print(self, answers: mixed.Outcome, seconds: float, stored: dict[str, Any]) -> None:
        """Print a Markdown table for ``docs/reliability.md``."""
        options, count = self.options, sum(map(len, answers.milliseconds.values()))
        nodes = f"{options.database}, {len(self.nodes)} nodes × {options.workers} workers"
        rows = [(nodes, f"{options.clients} clients, {self.killer.kills} kills")]
        rows.append(("load of the machine, last 15 minutes", f"{os.getloadavg()[2]:.0f}"))
        rows.append(("operations", f"{options.operations:,} in {seconds / 60:.1f} minutes"))
        rows.append(("requests, per second", f"{count:,}, {count / seconds:.0f}"))
        statuses = ", ".join(f"{status}: {n:,}" for status, n in sorted(answers.statuses.items()))
        rows.append(("responses by status (0: cut off, -1: not connected)", statuses))
        for kind, times in answers.milliseconds.items():
            parts = " / ".join(f"{percentile(times, part / 100):.0f}" for part in (50, 95, 99))
            rows.append((f"{kind}: requests, p50 / p95 / p99 in ms", f"{len(times):,}, {parts}"))
        rows.append(("acknowledged memories", f"{len(answers.stored):,}"))
        rows.append(("journal rows, intact", f"{stored['rows']:,}, {stored['intact']}"))
        rows.append(("maintenance runs", str(len(stored["runs"]))))
        if self.stale:
            rows.append(("pages of another node: samples", str(len(self.stale))))
            rows.append(("stale after a write, longest", f"{max(self.stale):.2f} s"))
        print("\n".join(f"| {name} | {value} |" for name, value in rows))


def _read_page(reader: Client, page: str) -> bytes:
    answer, content = reader.send("GET", page)
    if answer.status != 200:
        raise ConnectionError
    return content


if __name__ == "__main__":
    main()
