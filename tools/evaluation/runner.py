"""Measure each set in a process of its own, with an empty home that is removed at the end."""

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
from tools.evaluation.measures import Answer, Question
from tools.evaluation.sets import RetrievalSet

# Variables that name the store of the user. On PostgreSQL, a set gets its own database on the same server.
_STORE_VARIABLES = ("LETSGO_MEMORY_DB", "LETSGO_MEMORY_LOG", "DATABASE_URL", "DATABASE_URL_FILE")


class RunFailed(Exception):
    """A set could not be measured. The message is the last one of its process."""


@dataclass(frozen=True)
class Measured:
    """A set and the answers of each system. ``modes``: the search mode that each system used in fact."""

    given: RetrievalSet
    stored_seconds: float
    floor: float
    systems: dict[str, list[tuple[Question, Answer]]]
    modes: dict[str, str]


def measure(path: Path, given: RetrievalSet, modes: Sequence[str], report: Callable[[str], None]) -> Measured:
    """Measure a set in a process of its own, with the hub's configuration but another store.

    ``modes``: of search; empty: all of them. ``report`` gets messages about the progress.
    """
    result = run_isolated("isolated_run", [str(path.absolute()), *modes], report, "systems")
    same = result["same"]
    questions = [
        Question(query.category, frozenset(same[ref] for ref in query.relevant)) for query in given.queries
    ]
    systems = {
        name: list(zip(questions, (Answer(**answer) for answer in system["answers"]), strict=True))
        for name, system in result["systems"].items()
    }
    used = {name: system["mode"] for name, system in result["systems"].items()}
    return Measured(given, result["stored_seconds"], result["floor"], systems, used)


def run_isolated(
    module: str,
    arguments: list[str],
    report: Callable[[str], None],
    key: str,
    environ: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run a module of this package with an empty home; return its last line, which has this key."""
    with tempfile.TemporaryDirectory(prefix="memoryhub-evaluate-") as home:
        own = Path(settings.HOME) / "memoryhub.toml"
        if own.is_file():
            shutil.copy(own, home)
        result = _run([f"tools.evaluation.{module}", *arguments], Path(home), report, environ or {})
    if key not in result:
        raise RunFailed(f"{arguments[0]}: {result.get('message', 'ended without a result')}")
    return result


@contextmanager
def _own_database() -> Iterator[dict[str, str]]:
    """Yield the environment of an empty database on the configured PostgreSQL server; empty on SQLite."""
    if not is_postgres():
        yield {}
        return
    name = f"memoryhub_evaluate_{secrets.token_hex(8)}"
    given = settings.DATABASE_URL
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
        yield {"DATABASE_URL": urlsplit(given)._replace(path=f"/{name}").geturl()}
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _run(
    arguments: list[str], home: Path, report: Callable[[str], None], more: Mapping[str, str]
) -> dict[str, Any]:
    """Run a module, pass on its messages, and return its last line."""
    environ = {name: value for name, value in os.environ.items() if name not in _STORE_VARIABLES}
    environ |= {"LETSGO_HOME": str(home), "DJANGO_SETTINGS_MODULE": "memoryhub.settings", **more}
    command = [sys.executable, "-m", *arguments]
    result: dict[str, Any] = {}
    with (home / "stderr").open("w+", encoding="utf-8") as errors, _own_database() as database:
        environ |= database
        with subprocess.Popen(
            command, cwd=settings.BASE_DIR, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process:
            try:
                for line in process.stdout or ():
                    result = json.loads(line)
                    if "message" in result:
                        report(result["message"])
            except BaseException:
                process.kill()  # before its home is removed
                process.wait()
                raise
        errors.seek(0)
        lines = errors.read().strip().splitlines()
    if process.returncode:
        raise RunFailed(f"{arguments[1]}: {lines[-1] if lines else f'ended with code {process.returncode}'}")
    return result
