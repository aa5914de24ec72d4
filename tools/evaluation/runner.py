"""Starts a process for each set, with a home that is empty and is removed at the end."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connection

from memoryhub.core.database import is_postgres
from tools.evaluation.measures import Answered, Asked
from tools.evaluation.sets import RetrievalSet

# What leads to the store of the user. A set gets a database of its own on the same server.
_OF_THE_STORE = ("LETSGO_MEMORY_DB", "LETSGO_MEMORY_LOG", "DATABASE_URL", "DATABASE_URL_FILE")


class Failed(Exception):
    """A set could not be measured; the message is the last thing that was said about it."""


@dataclass(frozen=True)
class Measured:
    """One set, and how each system answered its questions. ``modes``: what answered in a system's place."""

    given: RetrievalSet
    stored_seconds: float
    floor: float
    systems: dict[str, list[tuple[Asked, Answered]]]
    modes: dict[str, str]


def measure(path: Path, given: RetrievalSet, modes: Sequence[str], tell: Callable[[str], None]) -> Measured:
    """Store and ask one set in a process of its own: with the hub's configuration, but not its store.

    ``modes``: of search; empty: all of them.
    """
    said = run_isolated("isolated_run", [str(path.absolute()), *modes], tell, "systems")
    same = said["same"]
    asked = [Asked(query.category, frozenset(same[ref] for ref in query.relevant)) for query in given.queries]
    systems = {
        name: list(zip(asked, (Answered(**answer) for answer in told["answers"]), strict=True))
        for name, told in said["systems"].items()
    }
    used = {name: told["mode"] for name, told in said["systems"].items()}
    return Measured(given, said["stored_seconds"], said["floor"], systems, used)


def run_isolated(
    module: str,
    arguments: list[str],
    tell: Callable[[str], None],
    result: str,
    environ: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run a module of this package with an empty home; return its last line, which has the key ``result``."""
    with tempfile.TemporaryDirectory(prefix="memoryhub-evaluate-") as home:
        own = Path(settings.HOME) / "memoryhub.toml"
        if own.is_file():
            shutil.copy(own, home)
        said = _run([f"tools.evaluation.{module}", *arguments], Path(home), tell, environ or {})
    if result not in said:
        raise Failed(f"{arguments[0]}: {said.get('told', 'ended without a result')}")
    return said


@contextmanager
def _own_database() -> Iterator[dict[str, str]]:
    """Yield the environment of an empty database on the configured PostgreSQL server; empty on SQLite."""
    if not is_postgres():
        yield {}
        return
    name = f"memoryhub_evaluate_{secrets.token_hex(8)}"
    given = os.environ.get("DATABASE_URL") or Path(os.environ["DATABASE_URL_FILE"]).read_text().strip()
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
        yield {"DATABASE_URL": urlsplit(given)._replace(path=f"/{name}").geturl()}
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _run(
    arguments: list[str], home: Path, tell: Callable[[str], None], more: Mapping[str, str]
) -> dict[str, Any]:
    """The last thing that the process says."""
    environ = {name: value for name, value in os.environ.items() if name not in _OF_THE_STORE}
    environ |= {"LETSGO_HOME": str(home), "DJANGO_SETTINGS_MODULE": "memoryhub.settings", **more}
    command = [sys.executable, "-m", *arguments]
    said: dict[str, Any] = {}
    with (home / "stderr").open("w+", encoding="utf-8") as wrong, _own_database() as database:
        environ |= database
        with subprocess.Popen(
            command, cwd=settings.BASE_DIR, env=environ, stdout=subprocess.PIPE, stderr=wrong, text=True
        ) as process:
            try:
                for line in process.stdout or ():
                    said = json.loads(line)
                    if "told" in said:
                        tell(said["told"])
            except BaseException:
                process.kill()  # before its home is removed under it
                process.wait()
                raise
        wrong.seek(0)
        lines = wrong.read().strip().splitlines()
    if process.returncode:
        raise Failed(f"{arguments[1]}: {lines[-1] if lines else f'ended with code {process.returncode}'}")
    return said
