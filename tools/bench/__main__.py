"""Measure a served store: ``python -m tools.bench --sizes 3000,10000 --corpus FILE``.

For each size: makes a store, imports the memories, starts ``manage.py serve``, sends requests of each kind
with 1, 8 and 32 clients, and prints a Markdown table. CPU and SQL are those of one request in one process,
without network; server CPU is what all server processes used per request, over all clients. The bare FTS5
query (every useful word, OR-ed, ten best) runs on the same file between the searches. With ``--peer``,
mcp-memory-service answers the same queries in the same minutes. With ``--databases sqlite,postgres``, a store
on PostgreSQL of the same size follows each one on SQLite. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

from tools.bench import corpus, maintenance, peer
from tools.bench.clients import crowd
from tools.bench.figures import Row, client_cell, table
from tools.bench.hub import ROOT, Server, manage, server, sign_in, store_environment
from tools.bench.workloads import Lines, Workload, make_queries, workloads
from tools.cluster.postgres import LockWatch, Postgres, started

WARM_UP = 48  # requests of each kind before it is measured, by 8 clients: every worker gets some
IMPORTED_INTO_READY_STORE = 2000
IN_PROCESS_SEED = 1000
MIN_BATCHES = 10
BARE, PEER = "bare FTS5 query", "mcp-memory-service"
BARE_SQL = "SELECT rowid, rank FROM memoryhub_text WHERE memoryhub_text MATCH ? ORDER BY rank LIMIT 10"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--sizes", default="3000,10000", help="memories in the store, comma-separated")
    add("--home", type=Path, help="measure the store in this folder instead; it is changed, so use a copy")
    add("--data", type=Path, help="the same for the database hub of the PostgreSQL server with this data")
    add("--corpus", type=Path, help="JSONL in the API's shape; default: generated text")
    add("--clients", default="1,8,32", help="numbers of clients, comma-separated")
    add("--requests", type=int, default=200, help="requests of each measurement")
    add("--only", default="", help="only kinds of requests whose name matches this expression")
    add("--databases", default="sqlite", help="sqlite, postgres, or both with a comma")
    add("--peer", type=Path, help="python of a virtual environment that has mcp-memory-service")
    add("--maintenance", type=float, default=0, metavar="SECONDS", help="also measure stores during runs")
    options = parser.parse_args()
    lines = corpus.read(options.corpus)
    sizes = [0] if options.home or options.data else map(int, options.sizes.split(","))
    databases = ["postgres"] if options.data else options.databases.split(",")
    for size, database in itertools.product(sizes, databases):
        with tempfile.TemporaryDirectory(prefix="memoryhub-bench-") as folder, ExitStack() as running:
            postgres = running.enter_context(started(options.data)) if database == "postgres" else None
            print(Benchmark(options, lines, Path(folder), size, postgres).run(), flush=True)


class Benchmark:
    """The measurements of one store: a new one of ``size`` memories, or that of ``options.home``.

    ``postgres``: the server of a new database, instead of a SQLite file.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        lines: Lines,
        folder: Path,
        size: int,
        postgres: Postgres | None = None,
    ) -> None:
        self.postgres = postgres
        self.options, self.lines, self.folder = options, lines, folder
        self.home = options.home or folder / "hub"
        self.home.mkdir(exist_ok=True)
        self.environment = store_environment(self.home)
        if postgres:
            is_ready = options.data is not None
            url = postgres.url("hub") if is_ready else postgres.create_database("hub")
            self.environment["DATABASE_URL"] = url
        self.clients = list(map(int, options.clients.split(",")))
        self.workloads = [one for one in workloads(lines) if re.search(options.only, one.name)]
        searches = [one.name for one in self.workloads if one.mode]
        others = [one.name for one in self.workloads if not one.mode]
        self.rows = {name: Row(name) for name in (*searches, BARE, PEER, *others)}
        self.bare_wall: list[float] = []
        self.notes: list[str] = []
        self.size = size

    def run(self) -> str:
        """Measure everything and return the table with a heading and notes."""
        manage(self.environment, "migrate", "--verbosity", "0")
        rights = ("--clearance", "secret", "--rights", "read,write,maintain")
        token = manage(self.environment, "create_token", f"bench-{time.time_ns()}", *rights)
        cookie = sign_in(self.environment)
        self.headers = {"Authorization": f"Bearer {token}"}
        self.page_headers = {"Cookie": cookie}
        self._import()
        parts = [f"### {self._count_memories():,} memories, {'PostgreSQL' if self.postgres else 'SQLite'}"]
        self._measure_in_process()
        with ExitStack() as running:
            hub = running.enter_context(server(self.environment))
            self.notes.append(f"The server was ready after {hub.ready_seconds:.1f} s.")
            if self.postgres:
                self.notes.append(f"The HNSW index was ready {wait_for_hnsw(self.postgres):.0f} s later.")
            other = self._start_peer(running)
            for workload in self.workloads:
                self._measure_served(hub, workload, other)
            self.notes.append(f"Its largest process had {hub.worker_megabytes():.0f} MB (PSS) at the end.")
            if self.options.maintenance and not self.postgres:
                seconds = self.options.maintenance
                self.notes += maintenance.report(hub.port, self.headers, self.database, seconds)
        parts.append(table([row for row in self.rows.values() if row.clients], self.clients))
        return "\n\n".join([*parts, "\n".join(f"- {note}" for note in self.notes)])

    @property
    def database(self) -> Path:
        path: Path = self.home / "memory.db"
        return path

    def _count_memories(self) -> int:
        if self.postgres:
            return int(self.postgres.query("hub", "SELECT count(*) FROM memoryhub_memory"))
        return count_memories(self.database)

    def _import(self) -> None:
        """Import the memories, or some new ones into a ready store. Measure the whole command."""
        count, memories = self.size, corpus.memories(self.lines, self.size)
        if not self.size:
            count = IMPORTED_INTO_READY_STORE
            varied = corpus.memories(self.lines, len(self.lines) + count, time.time_ns())
            memories = islice(varied, len(self.lines), None)
        source = self.folder / "import.jsonl"
        with source.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in memories)
        began = time.perf_counter()
        manage(self.environment, "import_memories", str(source))
        rate = count / (time.perf_counter() - began)
        self.notes.append(f"Import: {rate:,.0f} lines per second, start-up included.")
        if not self.options.data:  # a million would take hours
            run_in_process(self.environment, {}, {})  # inspects the memories
        if self.postgres:
            self.notes += describe_database(self.postgres)

    def _count(self, workload: Workload) -> int:
        """Return the number of requests of one measurement: fewer if each stores many memories."""
        count: int = self.options.requests
        return count if workload.units == 1 else max(count // 10, MIN_BATCHES)

    def _start_peer(self, running: ExitStack) -> peer.Peer | None:
        if self.options.peer is None:
            return None
        if not 0 < self.size <= peer.MAX_MEMORIES:
            self.notes.append("mcp-memory-service: left out, its store takes too long to fill.")
            return None
        try:
            memories = list(corpus.memories(self.lines, self.size))
            found = running.enter_context(peer.started(self.options.peer, self.folder / "peer", memories))
        except (OSError, subprocess.CalledProcessError) as error:
            self.notes.append(f"mcp-memory-service: left out, {error}.")
            return None
        self.notes.append(
            f"{found.name}: ready after {found.server.ready_seconds:.1f} s, stored"
            f" {found.stored_per_second:,.0f} memories per second through its API (2 clients), had"
            f" {found.server.worker_megabytes():.0f} MB (PSS) then."
        )
        return found

    def _measure_served(self, hub: Server, workload: Workload, other: peer.Peer | None) -> None:
        """Measure a workload with each number of clients. Measure searches also with FTS5 and the peer."""
        headers = self.page_headers if workload.is_page else self.headers
        crowd(hub.port, headers, workload.requests(WARM_UP // workload.units or 2, 0), 8)
        began, sent = hub.cpu_seconds(), 0
        for clients in self.clients:
            with ExitStack() as watching:
                lock = watching.enter_context(LockWatch(self.postgres, "hub")) if self.postgres else None
                measured = crowd(
                    hub.port, headers, workload.requests(self._count(workload), clients), clients
                )
            if lock and "store" in workload.name:
                self.notes.append(f"{workload.name}, {clients} clients: {lock.describe()}.")
            times = measured.milliseconds(first_byte=workload.is_page)
            cell = client_cell(times, measured.rate * workload.units, measured.failed)
            self.rows[workload.name].clients.append(cell)
            sent += len(measured.answers)
        self.rows[workload.name].server_cpu = 1000 * (hub.cpu_seconds() - began) / sent
        if workload.mode and not self.postgres:
            self._measure_bare()
        if workload.mode == "hybrid" and other is not None:
            self._measure_peer(other)

    def _measure_bare(self) -> None:
        """Run the queries of one client through ``sqlite3`` alone, and add the times to the row."""
        row = self.rows[BARE]
        cpu, wall = query_fts(self.database, make_queries(self.lines, self.options.requests, self.clients[0]))
        row.cpu, self.bare_wall = [*row.cpu, *cpu], [*self.bare_wall, *wall]
        rate = 1000 * len(self.bare_wall) / sum(self.bare_wall)
        row.clients = [client_cell(self.bare_wall, rate)]

    def _measure_peer(self, other: peer.Peer) -> None:
        row = self.rows[PEER]
        row.name = other.name
        other.search(make_queries(self.lines, WARM_UP, 0), 8)
        began = other.server.cpu_seconds()
        for clients in self.clients:
            queries = make_queries(self.lines, self.options.requests, clients)
            measured = other.search(queries, clients)
            row.clients.append(client_cell(measured.milliseconds(), measured.rate, measured.failed))
        sent = self.options.requests * len(self.clients)
        row.server_cpu = 1000 * (other.server.cpu_seconds() - began) / sent

    def _measure_in_process(self) -> None:
        """Fill in CPU time and SQL statements of each kind of request, in a copy of the store.

        Not of the database of ``--data``, which may be large.
        """
        copy = self.folder / "copy"
        shutil.copytree(self.home, copy)
        environment = store_environment(copy)
        if self.options.data:
            environment["DATABASE_URL"] = self.environment["DATABASE_URL"]
        elif self.postgres:
            environment["DATABASE_URL"] = self.postgres.create_database("copy", template="hub")
        for headers, is_page in ((self.headers, False), (self.page_headers, True)):
            made = {
                one.name: one.requests(self._count(one), IN_PROCESS_SEED)
                for one in self.workloads
                if one.is_page is is_page
            }
            inspects = self.options.data is None
            for name, found in run_in_process(environment, headers, made, inspects=inspects).items():
                self.rows[name].cpu, self.rows[name].statements = found["cpu"], found["statements"]


def run_in_process(
    environment: dict[str, str], headers: dict[str, str], requests: dict[str, Any], *, inspects: bool = True
) -> dict[str, Any]:
    """Return CPU time and statements by name, measured in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.bench.in_process"],
        input=json.dumps({"headers": headers, "requests": requests, "inspects": inspects}),
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def query_fts(database: Path, queries: list[str]) -> tuple[list[float], list[float]]:
    """Return milliseconds of CPU and of wall time of each query through ``sqlite3`` alone."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    from memoryhub.backends.fts_query import parse_query
    from memoryhub.backends.statements import word_expression

    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    connection.execute("PRAGMA mmap_size=268435456")
    connection.execute("PRAGMA cache_size=-65536")
    expressions = [word_expression(parse_query(query)) for query in queries]
    cpu, wall = [], []
    for expression in expressions[:WARM_UP] + expressions:
        began = time.process_time(), time.perf_counter()
        connection.execute(BARE_SQL, (expression,)).fetchall()
        cpu.append(1000 * (time.process_time() - began[0]))
        wall.append(1000 * (time.perf_counter() - began[1]))
    connection.close()
    warm_up = len(expressions[:WARM_UP])
    return cpu[warm_up:], wall[warm_up:]


def describe_database(postgres: Postgres) -> list[str]:
    """Return the size of the database, and of the largest tables and indexes."""
    postgres.query("hub", "VACUUM ANALYZE")
    sizes = postgres.query(
        "hub",
        "SELECT string_agg(relname || ' ' || pg_size_pretty(size), ', ') FROM (SELECT relname,"
        " pg_total_relation_size(oid) AS size FROM pg_class WHERE relkind IN ('r', 'i')"
        " ORDER BY size DESC LIMIT 10) largest",
    )
    total = postgres.query("hub", "SELECT pg_size_pretty(pg_database_size('hub'))")
    return [f"The database has {total}; largest tables and indexes: {sizes}."]


def wait_for_hnsw(postgres: Postgres) -> float:
    """Wait until the hub has made the index of the vectors; return the seconds. Searches are slow before."""
    began = time.perf_counter()
    finished = (
        "SELECT count(*) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
        " JOIN pg_am ON pg_am.oid = relam WHERE amname = 'hnsw' AND indisvalid"
    )
    while postgres.query("hub", finished) == "0":
        time.sleep(0.5)
    return time.perf_counter() - began


def count_memories(database: Path) -> int:
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    count: int = connection.execute("SELECT count(*) FROM memoryhub_memory").fetchone()[0]
    connection.close()
    return count


if __name__ == "__main__":
    main()
