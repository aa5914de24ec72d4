"""Builds a store, serves it, and measures it: ``python -m tools.bench --sizes 10000,100000 --corpus FILE``.

Prints import rate, HTTP store rate, HTTP search and hook latency with 1 and 8 clients, beside each search
figure the same FTS5 query through bare ``sqlite3`` in the same run, and how long a store takes beside each
operation of maintenance and its undo. Nothing is asserted; docs/benchmarks.md
keeps what was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tools.bench import corpus, hook_events, maintenance
from tools.bench.clients import Measured, Request, crowd
from tools.bench.hub import manage, server

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="10000,100000", help="memories in the store, comma-separated")
    parser.add_argument("--corpus", type=Path, help="JSONL in the API's shape; text made here when absent")
    parser.add_argument("--requests", type=int, default=600, help="HTTP requests of each measurement")
    parser.add_argument(
        "--run-seconds", type=float, default=60, help="a maintenance run is stopped after so long"
    )
    parser.add_argument(
        "--page-visits",
        type=int,
        default=0,
        help="open every page in Chromium so often (tools/bench/pages.py)",
    )
    parser.add_argument("--home", type=Path, help="keep the store of the last size here")
    parser.add_argument("--json", action="store_true", help="print figures as JSON too")
    options = parser.parse_args()
    figures = {}
    for size in map(int, options.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="memoryhub-bench-") as folder:
            home = options.home or Path(folder)
            lines = corpus.read(options.corpus)
            figures[size] = measure(
                home, lines, size, options.requests, options.run_seconds, options.page_visits
            )
            report(size, figures[size])
    if options.json:
        print(json.dumps(figures, indent=2))


def measure(
    home: Path, lines: list[dict[str, Any]], size: int, requests: int, seconds: float, visits: int
) -> dict[str, Any]:
    """All figures of one size; a maintenance run beside which stores are measured lasts so many seconds.

    Each page is opened ``visits`` times; 0 leaves out what needs a browser.
    """
    environment = {**os.environ, "LETSGO_HOME": str(home), "MEMORYHUB_MAX_MEMORIES": "0"}
    for name in ("LETSGO_MEMORY_DB", "LETSGO_MEMORY_LOG", "DATABASE_URL"):
        environment.pop(name, None)
    manage(environment, "migrate", "--verbosity", "0")
    token = manage(
        environment, "create_token", "bench", "--clearance", "secret", "--rights", "read,write,maintain"
    )
    found: dict[str, Any] = {"import": import_rate(environment, home, lines, size)}
    queries = make_queries(lines, requests)
    with server(environment) as port:
        warm = [("GET", f"/api/v1/search?query={query.replace(' ', '+')}", None) for query in queries[:50]]
        crowd(port, token, warm, 2)
        for clients in (1, 8):
            found[f"search {clients}"] = latency(crowd(port, token, searches(queries), clients))
        for clients in (1, 8):
            fresh = list(corpus.memories(lines, len(lines) + requests * 2, seed=100 + clients))[
                -requests * 2 :
            ]
            stored = crowd(port, token, [("POST", "/api/v1/memories", dict(line)) for line in fresh], clients)
            found[f"store {clients}"] = latency(stored)
        for clients in (1, 8):
            calls = hook_events.tool_calls(lines, requests, seed=clients)
            found[f"tool:post {clients}"] = latency(crowd(port, token, calls, clients))
            asked = hook_events.prompts(lines, requests, seed=10 + clients)
            found[f"prompt:submit {clients}"] = latency(crowd(port, token, asked, clients))
        if visits:
            from tools.bench import pages

            found["pages"] = list(pages.measure(environment, port, visits))
        found["upkeep"] = tended(port, token, home / "memory.db", seconds)
    found["bare"] = bare(home / "memory.db", queries)
    found["bytes"] = (home / "memory.db").stat().st_size
    return found


def tended(port: int, token: str, database: Path, most: float) -> list[dict[str, Any]]:
    """How long one agent's stores take alone, beside each operation of maintenance, and beside its undo."""
    found = [{"beside": "no run", "seconds": maintenance.ALONE, **waiting(maintenance.alone(port, token))}]
    for one in maintenance.beside_each(port, token, database, most):
        ended = {"beside": one.name, "ended": one.ended, "seconds": round(one.seconds, 1)}
        found.append({**ended, **waiting(one.stores)})
    return found


def searches(queries: list[str]) -> list[Request]:
    return [("POST", "/api/v1/search", {"query": query}) for query in queries]


def make_queries(lines: list[dict[str, Any]], count: int, seed: int = 3) -> list[str]:
    """One to four words out of a title, as people type them."""
    pick = random.Random(seed)
    made: list[str] = []
    while len(made) < count:
        words = [word for word in str(pick.choice(lines).get("title", "")).split() if word.isalpha()]
        if words:
            made.append(" ".join(pick.sample(words, min(len(words), pick.randint(1, 4)))))
    return made


def import_rate(
    environment: dict[str, str], home: Path, lines: list[dict[str, Any]], size: int
) -> dict[str, float]:
    """Memories a second of ``import_memories``, start-up of the command included."""
    source = home / "bench.jsonl"
    with source.open("w", encoding="utf-8") as file:
        for line in corpus.memories(lines, size):
            file.write(json.dumps(line) + "\n")
    began = time.perf_counter()
    manage(environment, "import_memories", str(source))
    elapsed = time.perf_counter() - began
    source.unlink()
    return {"seconds": elapsed, "rate": size / elapsed}


def bare(database: Path, queries: list[str]) -> dict[str, float]:
    """The same words, OR-ed, through ``sqlite3`` alone: ten best by bm25."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    from memoryhub.backends.fts_query import parse_query, word_expression

    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    connection.execute("PRAGMA mmap_size=268435456")
    connection.execute("PRAGMA cache_size=-65536")
    sql = "SELECT rowid, rank FROM memoryhub_text WHERE memoryhub_text MATCH ? ORDER BY rank LIMIT 10"
    expressions = [word_expression(parse_query(query)) for query in queries]
    seconds = []
    for expression in expressions[:50] + expressions:
        began = time.perf_counter()
        connection.execute(sql, (expression,)).fetchall()
        seconds.append(time.perf_counter() - began)
    connection.close()
    return latency(Measured(seconds[50:], {}, sum(seconds[50:])))


def latency(measured: Measured) -> dict[str, Any]:
    return {
        "p50_ms": round(measured.percentile(0.5), 2),
        "p95_ms": round(measured.percentile(0.95), 2),
        "mean_ms": round(1000 * statistics.mean(measured.seconds), 2),
        "rate": round(measured.rate, 1),
        "statuses": measured.statuses,
    }


def waiting(measured: Measured) -> dict[str, Any]:
    """How long a store takes, in milliseconds."""
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "longest": 1.0}
    figures = {name: round(measured.percentile(share), 1) for name, share in shares.items()}
    return {**figures, "statuses": measured.statuses}


def report(size: int, found: dict[str, Any]) -> None:
    plain = found["bare"]
    print(f"\n{size} memories, database {found['bytes'] / 1e6:.0f} MB")
    imported = found["import"]
    print(f"  import                {imported['rate']:8.0f} memories/s ({imported['seconds']:.1f} s)")
    for clients in (1, 8):
        figure = found[f"store {clients}"]
        print(
            f"  HTTP store,  {clients} client(s) {figure['rate']:7.0f} /s   p50 {figure['p50_ms']:7.2f} ms"
            f"   p95 {figure['p95_ms']:7.2f} ms   statuses {figure['statuses']}"
        )
    print(
        f"  bare sqlite3 search               p50 {plain['p50_ms']:7.2f} ms   p95 {plain['p95_ms']:7.2f} ms"
    )
    for clients in (1, 8):
        figure = found[f"search {clients}"]
        ratios = [figure[name] / plain[name] for name in ("p50_ms", "p95_ms")]
        print(
            f"  HTTP search, {clients} client(s) {figure['rate']:7.0f} /s   p50 {figure['p50_ms']:7.2f} ms"
            f"   p95 {figure['p95_ms']:7.2f} ms   {ratios[0]:.2f} x bare at p50, {ratios[1]:.2f} x at p95"
            f"   statuses {figure['statuses']}"
        )
    for event in ("tool:post", "prompt:submit"):
        for clients in (1, 8):
            figure = found[f"{event} {clients}"]
            print(
                f"  {event:13}, {clients} client(s){figure['rate']:7.0f} /s   p50 {figure['p50_ms']:7.2f} ms"
                f"   p95 {figure['p95_ms']:7.2f} ms   statuses {figure['statuses']}"
            )
    if found.get("pages"):
        from tools.bench import pages

        print(pages.HEAD)
        for page in found["pages"]:
            pages.report(page)
    print("  a store of one agent beside maintenance, in ms")
    for run in found["upkeep"]:
        shares = "  ".join(f"{share} {run[share]:6.1f}" for share in ("p50", "p95", "p99", "longest"))
        print(f"    {run['beside']:22} {run['seconds']:6.1f} s {run.get('ended', ''):8} {shares}")


if __name__ == "__main__":
    main()
