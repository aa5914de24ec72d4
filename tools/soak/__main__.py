"""Load a served store for long, kill its processes under load, and check every acknowledged write.

``python -m tools.soak --minutes 10 --kills 100`` prints two Markdown tables for ``docs/reliability.md``. With
``--database postgres``, the store is on a PostgreSQL server that it starts, and kills in turn. The
exit code is 1 if a write was lost, a process was left behind, an answer was a server error, or the store is
not sound. Linux only.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path

from tools.bench import corpus
from tools.bench.hub import ROOT, Server, free_port, manage, start, store_environment
from tools.cluster.postgres import Postgres, started
from tools.soak.load import Crowd, Record, count_repeated, find_lost

SAMPLE_SECONDS = 2.0
SECONDS_TO_END = 30  # of processes whose main process was killed
TARGETS = ("the main process", "a worker", "all processes")
DATABASE = "PostgreSQL"
Figures = list[tuple[str, str]]


class Soak:
    """One store, its server, and the figures of both parts."""

    def __init__(self, folder: Path, clients: int, workers: int, postgres: Postgres | None = None) -> None:
        self.clients, self.workers, self.home, self.postgres = clients, workers, folder / "hub", postgres
        self.home.mkdir()
        self.environment = store_environment(self.home)
        self.database: Path | str = self.home / "memory.db"
        if postgres:
            self.database = postgres.create_database(f"soak_{os.urandom(4).hex()}")
            self.environment["DATABASE_URL"] = self.database
        manage(self.environment, "migrate", "--verbosity", "0")
        rights = ("--clearance", "secret", "--rights", "read,write,maintain")
        self.headers = {
            "Authorization": f"Bearer {manage(self.environment, 'create_token', 'soak', *rights)}"
        }
        self.lines, self.record, self.failures = corpus.own_text(), Record(), list[str]()
        self.port = free_port()

    def serve(self) -> AbstractContextManager[Server]:
        """Start the server, each time on the same port."""
        command: list[str | Path] = [sys.executable, ROOT / "manage.py", "serve", "--port", str(self.port)]
        command += ["--workers", str(self.workers)]
        return start(command, self.environment, "/readyz", subprocess.DEVNULL, self.port)

    def crowd(self) -> Crowd:
        return Crowd(self.port, self.headers, self.lines, self.clients, self.record)

    def run_long(self, minutes: float) -> Figures:
        """Load the server for some minutes; compare its start with its end."""
        memory, files, log = list[float](), list[int](), list[int]()
        with self.serve() as server:
            began = time.monotonic()
            until = began + 60 * minutes
            crowd = self.crowd()
            crowd.start()
            while time.monotonic() < until:
                time.sleep(min(SAMPLE_SECONDS, max(until - time.monotonic(), 0)))
                memory.append(server.worker_megabytes())
                files.append(max(count_files(pid) for pid in server.pids()))
                log.append(size_of(Path(f"{self.home / 'memory.db'}-wal")))
            crowd.stop()
            seconds = time.monotonic() - began
        fifth = seconds / 5
        early = [took for at, took in self.record.times if at < began + fifth]
        late = [took for at, took in self.record.times if at > began + 4 * fifth]
        answers = sum(self.record.statuses.values())
        return [
            ("duration, minutes", f"{seconds / 60:.1f}"),
            ("responses, per second", f"{answers:,}, {answers / seconds:.0f}"),
            ("responses by status", describe(self.record)),
            ("p50 / p95 in the first fifth, ms", quantiles(early)),
            ("p50 / p95 in the last fifth, ms", quantiles(late)),
            (
                "memory of the largest process, MB: after a fifth / at the end",
                f"{memory[len(memory) // 5]:.0f} / {memory[-1]:.0f}",
            ),
            ("open files of a process, most", str(max(files))),
            ("write-ahead log, most, MB", f"{max(log) / 1e6:.1f}"),
            *self.check(),
        ]

    def run_kills(self, rounds: int) -> Figures:
        """Kill the server under load, again and again, and check what it acknowledged after each time."""
        left_behind, restarted, lost = list[str](), list[float](), set[str]()
        targets = (*TARGETS, DATABASE) if self.postgres else TARGETS
        for number, target in zip(range(rounds), itertools.cycle(targets)):
            with self.serve() as server:
                restarted.append(server.ready_seconds)
                crowd = self.crowd()
                crowd.start()
                time.sleep(random.uniform(0.3, 2))
                if self.postgres and target == DATABASE:
                    self.postgres.kill()
                    self.postgres.start()
                else:
                    left_behind += kill(server, target)
                crowd.stop()
            lost.update(find_lost(self.database, self.record))
            print(f"{number + 1} of {rounds}: killed {target}, lost {len(lost)}", file=sys.stderr)
        if left_behind:
            self.failures.append(f"processes were left behind: {left_behind}")
        return [
            ("kills", f"{rounds:,} ({', '.join(targets)}, in turn)"),
            ("responses by status (0: none, because of the kill)", describe(self.record)),
            ("restart on the same port until ready, s: p50 / longest", spread(restarted)),
            ("processes left behind", str(len(left_behind))),
            *self.check(),
        ]

    def check(self) -> Figures:
        """Check all acknowledged writes and the store, with the server stopped."""
        lost, repeated = find_lost(self.database, self.record), count_repeated(self.database)
        found = [("acknowledged writes", f"{self.record.writes:,}"), ("lost or altered", str(len(lost)))]
        found.append(("texts stored twice", str(repeated)))
        if lost or repeated:
            self.failures.append(f"lost {lost[:5]}, {repeated} texts stored twice")
        if self.record.unexpected:
            self.failures.append(f"server errors: {describe(self.record)}")
        for command in (("verify_journal",), ("doctor",)):
            done = subprocess.run(
                [sys.executable, ROOT / "manage.py", *command],
                env=self.environment,
                cwd=ROOT,
                capture_output=True,
                text=True,
            )
            found.append((f"`{command[0]}`", "sound" if done.returncode == 0 else "not sound"))
            if done.returncode:
                self.failures.append(f"{command[0]}: {done.stdout}{done.stderr}")
        return found


def kill(server: Server, target: str) -> list[str]:
    """Kill processes of the server. Describe each process that is still alive after some time."""
    if target == "a worker":
        os.kill(random.choice(server.pids()[1:]), signal.SIGKILL)
        time.sleep(1)  # the other workers go on, and a new one starts
    os.kill(server.pid, signal.SIGSTOP)  # else it might start a worker that is not in the list
    pids = server.pids()
    for pid in pids if target != "the main process" else pids[:1]:
        end(pid)
    until = time.monotonic() + SECONDS_TO_END
    while (alive := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < until:
        time.sleep(0.05)
    found = [describe_process(pid) for pid in alive]
    for pid in alive:
        end(pid)
    return found


def end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def describe_process(pid: int) -> str:
    """Return the state of each thread and what it waits for in the kernel."""
    threads = Path(f"/proc/{pid}/task").glob("*")
    with suppress(OSError):
        states = [(thread / "stat").read_text().rpartition(")")[2].split()[0] for thread in threads]
        return f"{pid}: {' '.join(states)} {Path(f'/proc/{pid}/wchan').read_text()}"
    return f"{pid}: ended late"


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def count_files(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def describe(record: Record) -> str:
    return ", ".join(f"{status}: {n:,}" for status, n in sorted(record.statuses.items()))


def quantiles(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return "–"
    cuts = statistics.quantiles(seconds, n=20)
    return f"{1000 * cuts[9]:.0f} / {1000 * cuts[18]:.0f}"


def spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.1f} / {max(seconds):.1f}"


def table(title: str, figures: Figures) -> str:
    rows = "\n".join(f"| {name} | {value} |" for name, value in figures)
    return f"### {title}\n\n| | |\n|---|---|\n{rows}\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10, help="duration of the load without kills (10)")
    parser.add_argument("--kills", type=int, default=100, help="rounds of kills under load (100)")
    parser.add_argument("--clients", type=int, default=8, help="clients (8)")
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--workers", type=int, default=2, help="workers of the server (2)")
    options = parser.parse_args()
    with ExitStack() as running:
        postgres = running.enter_context(started()) if options.database == "postgres" else None
        failures = run(options, postgres)
    for failure in failures:
        print(f"FAILED: {failure}")
    sys.exit(bool(failures))


def run(options: argparse.Namespace, postgres: Postgres | None) -> list[str]:
    """Run both parts, each with a store of its own; print their tables and return what failed."""
    failures = []
    for title, amount, part in (
        ("Soak", options.minutes, Soak.run_long),
        ("Kills under load", options.kills, Soak.run_kills),
    ):
        if not amount:
            continue
        folder = Path(tempfile.mkdtemp(prefix="memoryhub-soak-"))
        soak = Soak(folder, options.clients, options.workers, postgres)
        print(table(f"{title}, {options.database}", part(soak, amount)), flush=True)
        failures += soak.failures
        if soak.failures:
            print(f"The store is left in {folder}.")
        else:
            shutil.rmtree(folder)
    return failures


if __name__ == "__main__":
    main()
