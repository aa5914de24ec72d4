"""A hub in a folder of its own, run as a person would run it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from tests.settings import POSTGRES
from tools.bench.hub import free_port  # noqa: F401 ``hubs.free_port()``

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("memoryhub", "templates", "static", "fixtures", "tools")


@dataclass(frozen=True)
class Hub:
    """``folder`` holds a copy of the sources, ``home`` is an empty home of its user. ``variables``: of its
    environment.
    """

    folder: Path
    home: Path
    variables: dict[str, str] = field(default_factory=dict)

    def environment(self, **more: str) -> dict[str, str]:
        """Return what a login shell has, the hub's variables and ``more``."""
        shell = {"HOME": str(self.home), "PATH": os.defpath, "LANG": "C.UTF-8"}
        return shell | self.variables | more

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a management command to its end."""
        return self._run(["manage.py", *arguments], **more)

    def run_tool(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a developer tool to its end."""
        return self._run(["-m", "tools", *arguments], **more)

    def run_code(self, code: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run Python code that uses the hub's settings."""
        return self._run(["-c", code], DJANGO_SETTINGS_MODULE="memoryhub.settings", **more)

    def _run(self, arguments: list[str], **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=300,  # a busy machine takes its time
            check=False,
        )

    @contextmanager
    def serving(
        self,
        port: int,
        *arguments: str,
        output: IO[str] | None = None,
        program: str = "manage.py",
        **more: str,
    ) -> Iterator[subprocess.Popen[str]]:
        """A command that serves at ``port``, in a process group of its own; ended at the end."""
        with self.starting(*arguments, output=output, program=program, **more) as process:
            wait_until_it_answers(process, port)
            yield process

    @contextmanager
    def starting(
        self, *arguments: str, output: IO[str] | None = None, program: str = "manage.py", **more: str
    ) -> Iterator[subprocess.Popen[str]]:
        """A command in a process group of its own; ended at the end."""
        process = subprocess.Popen(
            [sys.executable, program, *arguments],
            cwd=self.folder,
            env=self.environment(**more),
            stdout=output or subprocess.PIPE,
            stderr=output or subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def copy(folder: Path, **variables: str) -> Hub:
    """A fresh copy of the sources, with what Python compiled of them: it need not be done for each copy."""
    source, home = folder / "memoryhub", folder / "home"
    source.mkdir(parents=True)
    home.mkdir()
    for name in SOURCES:
        # Python first writes what it compiles to "….pyc.12345", which another process may be doing now.
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("*.pyc.*"))
    for name in ("manage.py", "pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / name, source / name)
    # The server kills workers that do not end in time. Only those that hang, not those of a busy machine.
    worker = source / "memoryhub" / "ops" / "worker.py"
    text = worker.read_text()
    assert "\nSECONDS_TO_END = 10 " in text
    worker.write_text(text.replace("\nSECONDS_TO_END = 10 ", "\nSECONDS_TO_END = 100 "))
    return Hub(source, home, variables)


def database_variables() -> dict[str, str]:
    """Return the variables of a new database, if the tests run on PostgreSQL; else the hub uses SQLite."""
    if not POSTGRES:
        return {}
    import psycopg

    name, server = f"served_{uuid.uuid4().hex}", urlsplit(POSTGRES)
    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    return {"DATABASE_URL": server._replace(path=f"/{name}").geturl()}


def wait_until_it_answers(process: subprocess.Popen[str], port: int) -> None:
    """Wait until ``/healthz`` answers 200. Fail with its output if it ends or never answers."""
    deadline = time.monotonic() + 180  # a busy machine takes its time
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
                return
        except OSError:  # refused, reset or timed out
            time.sleep(0.1)
    raise AssertionError(f"nothing answers at port {port}")


def wait_until_it_ended(process: subprocess.Popen[str]) -> None:
    """Wait until a server that was stopped has ended, and fail if it had to kill a worker."""
    printed = process.communicate(timeout=120)  # a busy machine takes its time
    assert process.returncode == 0, printed
    assert not any("refused to gracefully stop" in text for text in printed), printed


def press_ctrl_c(process: subprocess.Popen[str]) -> tuple[str, str]:
    """As a terminal does it: the whole group gets the signal. Returns what was printed."""
    os.killpg(process.pid, signal.SIGINT)
    return process.communicate(timeout=120)  # a busy machine takes its time
