"""Shared fixtures: actors with different clearances, stored memories, and a corpus to search."""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import allauth
import django.test.client
import hypothesis
import pytest
from django.conf import settings as django_settings
from django.db import connection, transaction
from django.template import Context, Template
from django.test import TransactionTestCase
from django.test.utils import ContextList
from hypothesis import HealthCheck, settings
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.backends import change_log, schema
from memoryhub.embeddings import Embedder, provider
from memoryhub.memories.schemas import EntityDraft, MemoryDraft
from memoryhub.models import Memory
from memoryhub.ops import checks
from tests.cases import clear_caches
from tests.maintenance.fixtures import five, lifting  # noqa: F401 fixtures
from tests.search.corpus import make_corpus
from tests.settings import HOME_OF_TESTS, NODES, POSTGRES
from tools import slow_tests

# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("hub", deadline=None)
hypothesis.settings.load_profile("hub")


@contextmanager
def without_journal_triggers() -> Iterator[None]:
    """Allow changes of journal rows. The app never does this."""
    schema.drop_triggers()
    try:
        yield
    finally:
        schema.install()


def cut_journal(after: int) -> None:
    """Delete the newest journal rows, as if the write-ahead log was lost."""
    with without_journal_triggers(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM memoryhub_journalentry WHERE seq > %s", [after])


def run_in_new_process(code: str, home: Path) -> Any:
    """Run code with the settings of the app. Return the JSON of the last line that it prints."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("LETSGO_", "MEMORYHUB_"))
    }
    environment |= {"DJANGO_SETTINGS_MODULE": "memoryhub.settings", "LETSGO_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=django_settings.BASE_DIR,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


# What a migrated store is made of, besides the models: files and folders of the package.
_STORE_SOURCES = ("apps.py", "settings.py", "accounts/roles.py", "migrations", "models", "backends")


@pytest.fixture(scope="session")
def migrated_store(request: pytest.FixtureRequest) -> Path:
    """The path of a copy of the empty store, which another run may have made. To migrate takes seconds."""
    package = Path(django_settings.BASE_DIR) / "memoryhub"
    folders = [package / name for name in _STORE_SOURCES]
    files = sorted(file for one in folders for file in (one.rglob("*.*") if one.is_dir() else [one]))
    sources = [file.read_bytes() for file in files if file.suffix != ".pyc"]
    versions = f"{django.VERSION} {allauth.__version__} {sqlite3.sqlite_version}".encode()
    key = hashlib.sha256(b"\0".join([*sources, versions])).hexdigest()[:16]
    return request.config.cache.mkdir("migrated-stores") / f"{key}.db"


@pytest.fixture(scope="session")
def django_db_keepdb(django_db_modify_db_settings: None, migrated_store: Path) -> bool:
    """Start with the copy. ``migrate`` then finds nothing to do. PostgreSQL has a template instead."""
    if POSTGRES or not migrated_store.exists():
        return bool(NODES)
    shutil.copyfile(migrated_store, django_settings.DATABASES["default"]["TEST"]["NAME"])
    return True


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any, migrated_store: Path) -> Iterator[None]:
    """Undo commits of a test by restoring a copy of the empty store, ten times faster than a flush.

    Django's flush creates all permissions again, and the journal's triggers refuse its DELETE.
    """

    if connection.vendor == "postgresql":
        yield from _restore_tables(django_db_blocker)
        return

    def restore(case: TransactionTestCase) -> None:
        connection.ensure_connection()
        empty.backup(connection.connection)
        with connection.cursor() as cursor:  # keys start again, so cached vectors are invalid
            change_log.stop_tracking(cursor)
            change_log.start_tracking(cursor, restart=False)

    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as empty:
        with django_db_blocker.unblock(), closing(sqlite3.connect(connection.settings_dict["NAME"])) as store:
            store.backup(empty)
        if not migrated_store.exists():
            for old in migrated_store.parent.glob("*.db"):
                old.unlink(missing_ok=True)
            draft = migrated_store.with_suffix(f".{os.getpid()}")
            with closing(sqlite3.connect(draft)) as copied:
                empty.backup(copied)
            draft.replace(migrated_store)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TransactionTestCase, "_fixture_teardown", restore)
            yield


# Servers write them while tests run (``python -m tools.cluster --journeys``).
TABLES_OF_SERVERS = {"memoryhub_serverprocess", "memoryhub_lease"}


def _restore_tables(blocker: Any) -> Iterator[None]:
    """Undo commits of a test on PostgreSQL: give every table the rows that it had before the tests."""
    with blocker.unblock(), connection.cursor() as cursor:
        names = set(connection.introspection.table_names())
        tables = sorted(one for one in names - TABLES_OF_SERVERS if "migrations" not in one)
        cursor.execute("DROP SCHEMA IF EXISTS before CASCADE; CREATE SCHEMA before")
        for table in tables:
            cursor.execute(f"CREATE TABLE before.{table} AS TABLE {table}")

    def restore(case: TransactionTestCase) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")  # no triggers, no foreign keys
            for table in tables:
                cursor.execute(f"DELETE FROM {table}")
                cursor.execute(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE TABLE before.{table}")
            change_log.stop_tracking(cursor)
            change_log.start_tracking(cursor, restart=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", restore)
        yield


if POSTGRES:
    # At import it checks the database, which is not there while tests are collected.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "require_usable_store", lambda: None)
        import memoryhub.wsgi  # noqa: F401

# Test modules that start a server or a process of the hub: ``manage.py test --served``.
_SERVED = (
    "tests/backends/test_replica.py",
    "tests/client/test_served.py",
    "tests/commands/test_evaluate.py",
    "tests/commands/test_maintenance_served.py",
    "tests/commands/test_quickstart.py",
    "tests/commands/test_readme.py",
    "tests/commands/test_serve.py",
    "tests/commands/test_start.py",
    "tests/faults/test_caddy.py",
    "tests/faults/test_failover.py",
    "tests/faults/test_kills.py",
    "tests/faults/test_nodes.py",
    "tests/faults/test_pgbouncer.py",
    "tests/faults/test_server_backups.py",
    "tests/faults/test_tls.py",
    "tests/http/test_raw_sockets.py",
    "tests/http/test_request_buffering.py",
    "tests/mcp/test_claude_code.py",
    "tests/mcp/test_oauth_clients.py",
    "tests/mcp/test_python_client.py",
    "tests/mcp/test_stdio.py",
    "tests/mcp/test_typescript_client.py",
    "tests/ops/test_drafts.py",
    "tests/plugin/test_claude_code.py",
    "tests/plugin/test_other_agents.py",
    "tests/package/",
    "tests/recorded/",
)


# It runs first: at the end, the other processes would wait for it.
_LONGEST_TEST = "test_every_page.py::test_every_page_passes_all_checks"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of served processes, and those that were measured to be slow."""
    items.sort(key=lambda item: not item.nodeid.endswith(_LONGEST_TEST))
    slow = slow_tests.read()
    for item in items:
        if item.nodeid.startswith(_SERVED) or "served" in getattr(item, "fixturenames", ()):
            item.add_marker("served")
        of_sqlite = item.get_closest_marker("sqlite") or "own_store" in getattr(item, "fixturenames", ())
        if POSTGRES and of_sqlite:
            item.add_marker(pytest.mark.skip(reason="of SQLite's files"))
        if slow_tests.function_of(item.nodeid) in slow:
            item.add_marker("slow")


def pytest_collectstart() -> None:
    """Collect no garbage while tests are collected; not called where others collect them (pytest-xdist)."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection, and collect less often: a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 20, 100)


def _find_static_files_once(find: Callable[[WhiteNoiseMiddleware], None]) -> Callable[..., None]:
    """Cache the static files that whitenoise finds for the middleware of each client."""
    found: dict[str, StaticFile] = {}

    def add_files_from_finders(middleware: WhiteNoiseMiddleware) -> None:
        if not found:
            find(middleware)
            found.update(middleware.files)
        middleware.files.update(found)

    return add_files_from_finders


WhiteNoiseMiddleware.add_files_from_finders = _find_static_files_once(  # type: ignore[method-assign]
    WhiteNoiseMiddleware.add_files_from_finders
)


def _store_rendered_page(
    stored: dict[str, Any], sender: object, template: Template, context: Context, **_: object
) -> None:
    """Copy the context of a page for ``response.context``, but not of each of its includes and widgets."""
    if context.template is template and not (template.name or "").startswith("django/forms/"):
        stored.setdefault("templates", []).append(template)
        stored.setdefault("context", ContextList()).append(copy(context))


django.test.client.store_rendered_templates = _store_rendered_page

ALL_LEVELS = Clearance.up_to("secret", owner="ada")


@pytest.fixture
def actor() -> Actor:
    """An actor who sees everything except other people's personal memories."""
    return Actor("token:tests", ALL_LEVELS)


@pytest.fixture
def configure(settings: Any) -> Callable[..., None]:
    """``configure(max_memories=5)`` changes tunables for one test."""

    def change(**values: Any) -> None:
        settings.MEMORYHUB = django_settings.MEMORYHUB.model_copy(update=values)

    return change


@pytest.fixture
def embedding(configure: Callable[..., None]) -> Embedder:
    """Turn embeddings on, with the built-in provider."""
    configure(embeddings="wordllama")
    embedder = provider.configured()
    assert embedder is not None
    return embedder


@pytest.fixture
def remember(db: None, actor: Actor) -> Callable[..., Memory]:
    """``remember("text", project="p")`` stores a memory and returns it."""

    def store_one(content: str = "a memory", by: Actor | None = None, **fields: Any) -> Memory:
        return memories.create_memory(MemoryDraft(content=content, **fields), by or actor).memory

    return store_one


@pytest.fixture
def four_levels(remember: Callable[..., Memory]) -> dict[str, Memory]:
    """A memory of each level and one of an unknown level, about the same subject."""
    levels = ("public", "private", "secret")
    made = {
        level: remember(f"zebra stripes {level}words", sensitivity=level, project="zoo") for level in levels
    }
    odd = remember("zebra stripes unknownwords", project="zoo")
    Memory.objects.filter(pk=odd.pk).update(sensitivity="cosmic")
    odd.refresh_from_db()
    return {**made, "cosmic": odd}


@pytest.fixture(autouse=True)
def _empty_caches() -> None:
    """Clear what other tests have cached: each test has its own store."""
    clear_caches()


_numbers = itertools.count()


@pytest.fixture(autouse=True)
def journal_mirror(settings: Any) -> Path:
    """A mirror for each test. ``tmp_path`` would create and later delete a folder for each."""
    settings.MEMORY_LOG = Path(HOME_OF_TESTS, "logs", str(next(_numbers)), "memory-journal.jsonl")
    return Path(settings.MEMORY_LOG)


settings.register_profile(
    "core",
    deadline=None,
    max_examples=60,
    derandomize=not os.environ.get(
        "EXPLORE"
    ),  # a suite that is green today is green tomorrow; run with --hypothesis-seed=0 … to look further
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("core")


@pytest.fixture
def low() -> Actor:
    """An agent that sees only public memories."""
    return Actor("token:low", Clearance.up_to("public", owner="lou"))


@pytest.fixture
def stranger() -> Actor:
    """Another person with full clearance."""
    return Actor("token:stranger", Clearance.up_to("secret", owner="bob"))


@pytest.fixture
def confined() -> Actor:
    """Full clearance, but only in the project ``zoo``."""
    return Actor("token:confined", Clearance.up_to("secret", owner="kim", projects=["zoo"]))


@pytest.fixture
def corpus(db: None, actor: Actor, configure: Callable[..., None]) -> list[Memory]:
    """320 memories about a fictional project."""
    configure(max_memories=0)
    results = memories.create_memories([MemoryDraft(**fields) for fields in make_corpus()], actor)
    return [result.memory for result in results]


@pytest.fixture
def three(remember: Callable[..., Memory]) -> list[Memory]:
    """Three similar memories that differ in every field that a merge combines."""
    one = remember(
        "The build cache lives on the runner",
        tags=["ci"],
        aliases=["CI", "runner"],
        files_read=["ci.yml"],
        importance=0.3,
        trust=0.9,
    )
    two = remember(
        "The build cache lives on the runner itself",
        tags=["cache", "ci"],
        concepts=["gotcha"],
        aliases=["ci"],
        files_modified=["Dockerfile"],
        entities=[EntityDraft(entity="runner")],
        sensitivity="private",
        importance=0.8,
        confidence=0.7,
        ttl_days=None,
    )
    three = remember("The build cache is on the runner", sensitivity="secret", category="ops")
    for memory, count in ((one, 2), (two, 3), (three, 4)):
        Memory.objects.filter(pk=memory.pk).update(
            accessed_count=count,
            consolidated_accesses=1,
            last_accessed_at=datetime(2026, 1, count, tzinfo=UTC),
            updated_at=datetime(2026, 2, count, tzinfo=UTC),
        )
        memory.refresh_from_db()
    return [one, two, three]


def run_sql(sql: str, *params: Any) -> list[tuple[Any, ...]]:
    """Run SQL directly, bypassing the app."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall() if cursor.description else []


def index_is_sound() -> bool:
    return not schema.find_problems(deep=True)
