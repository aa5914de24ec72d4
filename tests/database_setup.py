"""The test database: migrated once for many runs, and restored after tests that commit."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import allauth
import django
import pytest
from django.conf import settings as django_settings
from django.db import connection, transaction
from django.test import TransactionTestCase

from memoryhub.backends import change_log
from memoryhub.ops import checks
from tests.settings import NODES, POSTGRES

# What a migrated store is made of, besides the models: files and folders of the package.
_STORE_SOURCES = ("apps.py", "settings.py", "accounts/permissions.py", "migrations", "models", "backends")


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


@pytest.fixture
def migrated_home(tmp_path: Path, db: None, migrated_store: Path) -> Path:
    """A home with a migrated store, for a new process: to migrate an empty one takes seconds."""
    if not POSTGRES:
        shutil.copyfile(migrated_store, tmp_path / "memory.db")
    return tmp_path


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
            with store:  # doctor would miss the maintenance of the days since another run made it
                store.execute("UPDATE django_migrations SET applied = datetime('now')")
            store.backup(empty)
        if not migrated_store.exists():
            for old in migrated_store.parent.glob("*.db"):
                if old != migrated_store:  # another process may have made it meanwhile, and a third copy it
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
