"""Commands and servers for benchmarks, and what their processes use (from ``/proc``: Linux only)."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS_TO_START = 300
_TICKS = os.sysconf("SC_CLK_TCK")
_SIGN_IN = """
from django.contrib.auth.models import User
from django.test import Client
user, _ = User.objects.get_or_create(username="bench-pages", is_staff=True, is_superuser=True)
client = Client()
client.force_login(user)
print(client.cookies.output(header="", sep=";"))
"""


def free_port() -> int:
    """Return a free port of loopback, which no other program gets while this process runs.

    A server that reuses addresses can listen at the port, also again after it was killed. The socket that
    stays bound prevents Linux from choosing the port for another server or for an outgoing connection.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    port: int = reserved.getsockname()[1]
    if sys.platform == "linux":
        reserved.detach()  # it stays open until the process ends
    else:  # the server could not bind the same address
        reserved.close()
    return port


def store_environment(home: Path) -> dict[str, str]:
    """Return the environment of commands for the store in a folder."""
    environment = {**os.environ, "LETSGO_HOME": str(home), "MEMORYHUB_MAX_MEMORIES": "0"}
    environment |= {"MEMORYHUB_RATE_PER_TOKEN": "0", "MEMORYHUB_RATE_PER_ADDRESS": "0"}
    for name in ("LETSGO_MEMORY_DB", "LETSGO_MEMORY_LOG", "DATABASE_URL"):
        environment.pop(name, None)
    return environment


def manage(environment: dict[str, str], *arguments: str) -> str:
    """Run a management command and return its standard output without the last newline."""
    done = subprocess.run(
        [sys.executable, ROOT / "manage.py", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    if done.returncode:
        sys.exit(f"manage.py {arguments[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def sign_in(environment: dict[str, str]) -> str:
    """Create an administrator, unless there is one of an earlier run, and return a session cookie."""
    cookies = manage(environment, "shell", "--no-imports", "-c", _SIGN_IN)
    return str(re.findall(r"[\w-]*sessionid=[^;\s]+", cookies)[0])


@dataclass(frozen=True)
class Server:
    """A running server. ``ready_seconds``: from the start of its process to the first answer."""

    pid: int
    port: int
    ready_seconds: float

    def cpu_seconds(self) -> float:
        """Return the CPU time that its processes have used."""
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.pids()]
        return sum(int(one[11]) + int(one[12]) for one in fields) / _TICKS

    def worker_megabytes(self) -> float:
        """Return the proportional set size of its largest process."""
        rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in self.pids()]
        return max(int(re.findall(r"^Pss: +(\d+) kB", text, re.M)[0]) for text in rollups) / 1024

    def pids(self) -> list[int]:
        """Return its processes: the first one and all that descend from it."""
        pids = [self.pid]
        for pid in pids:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                with suppress(OSError):  # the thread has ended
                    pids += map(int, children.read_text().split())
        return pids


@contextmanager
def start(
    command: Sequence[str | Path],
    environment: dict[str, str],
    ready_path: str,
    log: int | Path,
    port: int = 0,
) -> Iterator[Server]:
    """Run a server; ``{port}`` in its command becomes a free port. It is ready when the path answers 200.

    ``port``: of a command that names its port.
    """
    port = port or free_port()
    arguments = [str(one).replace("{port}", str(port)) for one in command]
    output = log.open("w") if isinstance(log, Path) else log
    began = time.perf_counter()
    process = subprocess.Popen(arguments, env=environment, cwd=ROOT, stdout=output, stderr=output)
    try:
        while not _is_ready(f"http://127.0.0.1:{port}{ready_path}"):
            if process.poll() is not None or time.perf_counter() - began > SECONDS_TO_START:
                raise OSError(f"{arguments[0]} did not start")
            time.sleep(0.01)
        yield Server(process.pid, port, time.perf_counter() - began)
    finally:
        process.terminate()
        process.wait(60)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


@contextmanager
def server(environment: dict[str, str]) -> Iterator[Server]:
    """Start the production server on a free port."""
    command: list[str | Path] = [sys.executable, ROOT / "manage.py", "serve", "--port", "{port}"]
    with start(command, environment, "/readyz", subprocess.DEVNULL) as running:
        yield running
