"""The fixtures of a store of the test's own, in a SQLite file or in a database of PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from memoryhub.core.database import close_before_fork, is_postgres
from tests.commands.conftest import home, own_store, run  # noqa: F401 fixtures
from tests.faults.cluster import Cluster
from tools.cluster import postgres


def create_database(name: str, template: str = "template0") -> None:
    """Create a database, or replace it; without a template, an empty one. SQLite's files need none."""
    if not is_postgres():
        return
    close_before_fork()  # a template must not be in use
    drop_database(name)
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} TEMPLATE {template} ENCODING 'UTF8'")


def drop_database(name: str) -> None:
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def store_home(request: pytest.FixtureRequest, home: Path, settings: Any) -> Iterator[Path]:  # noqa: F811
    """The home of an empty, migrated store of the test's own, which is the default database."""
    if not is_postgres():
        request.getfixturevalue("own_store")
        yield home
        return
    request.getfixturevalue("transactional_db")
    settings.MEMORY_LOG = home / "logs" / "memory-journal.jsonl"
    shared = connection.settings_dict["NAME"]
    own = f"{shared}_own"
    create_database(own, template=shared)
    connection.settings_dict["NAME"] = own
    try:
        yield home
    finally:
        close_before_fork()
        connection.settings_dict["NAME"] = shared
        drop_database(own)


@pytest.fixture
def snapshot(store_home: Path, tmp_path: Path) -> Iterator[Any]:
    """``snapshot()`` saves the home and the store; ``snapshot.put_back()`` restores them."""
    saved_home, store = tmp_path / "saved-home", connection.settings_dict["NAME"]
    saved = f"{store}_saved"

    class Snapshot:
        def __call__(self) -> None:
            close_before_fork()
            shutil.copytree(store_home, saved_home)
            create_database(saved, template=store)

        def put_back(self) -> None:
            close_before_fork()
            shutil.rmtree(store_home)
            shutil.copytree(saved_home, store_home)
            create_database(store, template=saved)

    yield Snapshot()
    if is_postgres():
        drop_database(saved)


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Nodes on a PostgreSQL server of their own. A module may set ``CLUSTER`` to a class for its nodes."""
    kind = getattr(request.module, "CLUSTER", Cluster)
    with postgres.started() as database:
        made = kind(tmp_path_factory.mktemp("cluster"), database)
        yield made
        made.stop()
