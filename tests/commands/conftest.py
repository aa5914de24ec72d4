"""Running commands in this process, and a store of one's own that may be damaged and replaced."""

from __future__ import annotations

import io
import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection

from memoryhub.accounts import tokens
from memoryhub.models import Memory
from tests.commands.examining import WRITER, remember


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


@pytest.fixture
def run() -> Callable[..., Ran]:
    """``run("backup", "--keep", 3)`` as on a command line; an error becomes its code and its words."""

    def run_command(name: str, *arguments: Any) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        try:
            call_command(name, *map(str, arguments), stdout=out, stderr=err)
        except CommandError as error:
            return Ran(error.returncode, out.getvalue(), f"{err.getvalue()}{error}")
        return Ran(0, out.getvalue(), err.getvalue())

    return run_command


@pytest.fixture
def home(tmp_path: Path, settings: Any) -> Path:
    """A home of the test's own, beside the shared test database."""
    settings.HOME = tmp_path / "home"
    settings.HOME.mkdir(mode=0o700)
    return settings.HOME


@pytest.fixture
def jsonl(tmp_path: Path) -> Callable[..., Path]:
    """``jsonl({"content": "x"}, b"raw")`` writes a file of these lines."""

    def write(*lines: dict[str, Any] | bytes, name: str = "memories.jsonl") -> Path:
        raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
        path = tmp_path / name
        path.write_bytes(b"".join(line + b"\n" for line in raw))
        return path

    return write


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """``piped(b"…")`` is what standard input gives."""

    def feed(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))  # type: ignore[arg-type]

    return feed


@pytest.fixture
def own_store(home: Path, settings: Any, transactional_db: None) -> Iterator[Path]:
    """An empty, migrated store in a file of the test's own, in use as the default database."""
    shared = connection.settings_dict["NAME"]
    path = home / "memory.db"
    settings.MEMORY_LOG = home / "logs" / "memory-journal.jsonl"
    with closing(sqlite3.connect(shared)) as template, closing(sqlite3.connect(path)) as copy:
        template.backup(copy)
    path.chmod(0o600)
    connection.close()
    connection.settings_dict["NAME"] = str(path)
    try:
        yield path
    finally:
        connection.close()
        connection.settings_dict["NAME"] = shared


@pytest.fixture
def on_loopback(settings: Any) -> None:
    """The test runner adds a host of its own."""
    settings.ALLOWED_HOSTS = settings.LOOPBACK_HOSTS


@pytest.fixture
def sound(own_store: Path) -> Path:
    """An installation that nothing is wrong with."""
    User.objects.create_superuser("ada", password="x")
    tokens.issue_token("claude", "ada", actor=WRITER)
    remember()
    return own_store


@pytest.fixture
def saved(run: Callable[..., Ran], tmp_path: Path) -> Path:
    """A backup of a store with one memory."""
    remember("of before")
    assert run("backup", tmp_path / "saved.db").code == 0
    return tmp_path / "saved.db"


def kept_aside(live: Path) -> Path:
    """The store that a restore replaced."""
    [path] = live.parent.glob("memory-before-restore-*.db")
    return path


def contents() -> set[str]:
    return set(Memory.objects.values_list("content", flat=True))


def tamper(path: Path, *statements: str) -> None:
    """Change a store behind the hub's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        for statement in statements:
            file.execute(statement)


def spoil(path: Path) -> None:
    """Spoil a page of the file that is in use: in the middle there may be free ones."""
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [[size]] = file.execute("PRAGMA page_size")
        [[page]] = file.execute("SELECT rootpage FROM sqlite_master WHERE name = 'memory_updated'")
    with path.open("r+b") as damaged:
        damaged.seek((page - 1) * size)
        damaged.write(b"\xaa" * size)
