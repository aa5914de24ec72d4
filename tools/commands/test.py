"""``manage.py test``: run pytest with the given arguments (``manage.py`` installs what it needs)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand

# The marker expression of each option.
SELECTIONS = {
    "--fast": "not browser and not served and not long and not slow",
    "--long": "long",
    "--served": "served",
}
DEFAULT_SELECTION = "not served and not long"
# The plugin is slow to load, and its only module is slow to collect.
WITHOUT_SCHEMA = ["-p", "no:schemathesis", "--ignore", "tests/api/test_schema.py"]
MAX_PROCESSES = 4  # each starts its own browser
MEMORY_FOLDER, MIN_FREE_BYTES = Path("/dev/shm"), 4 << 30


class Command(BaseCommand):
    help = (
        "Run the tests with pytest: --served those of served processes, --long the longest, --fast the quick"
        " ones; --database postgres on a PostgreSQL server that it starts."
    )
    requires_system_checks = []

    def run_from_argv(self, argv: list[str]) -> None:
        """Pass the arguments to pytest instead of parsing them: ``-k`` and ``-n`` are options of pytest."""
        import pytest

        os.chdir(settings.BASE_DIR)
        # Else each process compiles all test modules again, which takes half of the collection.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        _use_memory_for_files()
        arguments = argv[2:]
        if "--database" not in arguments:
            sys.exit(pytest.main(_pytest_arguments(arguments)))
        at = arguments.index("--database")
        if arguments[at + 1 : at + 2] != ["postgres"]:
            sys.exit("--database: only postgres; without it, the tests run on SQLite")
        del arguments[at : at + 2]
        with _postgres() as url:
            # Another process: the settings of this one have chosen SQLite.
            pytest_command = [sys.executable, "-m", "pytest", *_pytest_arguments(arguments)]
            environment = {**os.environ, "TEST_DATABASE_URL": url}
            sys.exit(subprocess.run(pytest_command, env=environment).returncode)

    def handle(self, *args: object, **options: object) -> None:
        """Run all tests (for ``call_command``)."""
        self.run_from_argv(["manage.py", "test"])


@contextmanager
def _postgres() -> Iterator[str]:
    """Start a PostgreSQL server. Yield the URL of a database with all tables, a template."""
    from tools.cluster.postgres import started

    with started() as server, tempfile.TemporaryDirectory(prefix="home-") as home:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            server.query("postgres", f"ALTER SYSTEM SET {setting} = off")
        server.query("postgres", "SELECT pg_reload_conf()")
        url = server.create_database("memoryhub")
        store = {"DJANGO_SETTINGS_MODULE": "memoryhub.settings", "DATABASE_URL": url, "LETSGO_HOME": home}
        environment = {**os.environ, **store}
        subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], check=True, env=environment)
        yield url


def _use_memory_for_files() -> None:
    """Put temporary files in memory: the tests flush their stores to disk thousands of times."""
    if MEMORY_FOLDER.is_dir() and shutil.disk_usage(MEMORY_FOLDER).free > MIN_FREE_BYTES:
        os.environ.setdefault("TMPDIR", str(MEMORY_FOLDER))
        tempfile.tempdir = None  # look again


def _pytest_arguments(given: list[str]) -> list[str]:
    """Return the arguments for pytest.

    A selection uses all processors, and with browsers one process more, because these tests wait half of
    their time. A few tests are faster in one process. Neighbours stay together, because they share servers
    and stores.
    """
    options = [argument for argument in given if argument in SELECTIONS]
    arguments = [argument for argument in given if argument not in SELECTIONS]
    if arguments and not options:
        return arguments
    if "--long" not in options:
        arguments += WITHOUT_SCHEMA
    processes = os.cpu_count() or 1
    if "--fast" in options:
        arguments += ["--ignore", "tests/browser"]
    else:
        processes = min(processes + 1, MAX_PROCESSES)
    selection = SELECTIONS[options[-1]] if options else DEFAULT_SELECTION
    return [*arguments, "-n", str(processes), "--dist", "worksteal", "-m", selection]
