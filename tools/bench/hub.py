"""Commands and a server of the hub, for benchmarks."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


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


@contextmanager
def server(environment: dict[str, str]) -> Iterator[int]:
    """Start the production server on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, ROOT / "manage.py", "serve", "--port", str(port)],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        else:
            sys.exit("the server did not start")
        yield port
    finally:
        process.terminate()
        process.wait(20)
