"""The releases that may serve a store: it records the oldest one, and the migrations that it needs."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from django.apps import apps
from django.core.management import CommandError
from django.db import OperationalError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ProjectState, StateApps

import memoryhub
from memoryhub.backends.dialect import IS_POSTGRES, sql
from memoryhub.core.database_errors import FileConnection, is_database_busy

# Raise this when an earlier release would misread or harm a store that this release has written to.
OLDEST_RELEASE = "0.1.0"
ADVICE_WITHOUT_RECORD = (
    "Restore a backup (manage.py restore_backup FILE), or copy all rows into a new store with a record:"
    " manage.py salvage FILE, then manage.py restore_backup FILE."
)
READ_SQL = "PRAGMA user_version"  # of a file
COPY_MARK = "copy_store"  # a lease in the target of ``copy_store`` while the copy is incomplete
_FIND_COPY_MARK = f"SELECT 1 FROM memoryhub_lease WHERE name = '{COPY_MARK}'"
_MAX_PART = 1000
T = TypeVar("T")
_OWN_PREFIX = "memoryhub_"  # of the names of the hub's tables


def to_number(release: str) -> int:
    """Return a release such as ``1.2.3`` as the number that the header of the store contains."""
    major, minor, patch = ([int(part) for part in re.findall(r"\d+", release)] + [0, 0])[:3]
    return (major * _MAX_PART + minor) * _MAX_PART + patch


def _to_release(number: int) -> str:
    return f"{number // _MAX_PART**2}.{number // _MAX_PART % _MAX_PART}.{number % _MAX_PART}"


def record() -> None:
    """Record the oldest release that may serve the store. A later one in the record stays."""
    if sql.read_release() < to_number(OLDEST_RELEASE):
        sql.write_release(to_number(OLDEST_RELEASE))


def rewrite_record() -> None:
    """Write the record as it is: the smallest write that shows whether the store can be written to."""
    sql.write_release(sql.read_release())
    sql.write_temporary_file()  # the record has room in its page, also if the disk is full


def find_refusal() -> str:
    """Return why this release may not serve the store in use, or an empty string."""
    return _refusal(MigrationRecorder(connection).applied_migrations())


def _refusal(applied: Iterable[tuple[str, str]]) -> str:
    return refusal(sql.read_release(), () if IS_POSTGRES else applied)


def read_state() -> tuple[list[Migration], str]:
    """Return :func:`pending_migrations` and :func:`find_refusal`, for which it reads the record once."""
    executor = MigrationExecutor(connection)
    return _pending(executor), _refusal(executor.loader.applied_migrations or ())


def pending_migrations() -> list[Migration]:
    """Return the migrations of this release that the store lacks, in the order in which they apply."""
    return _pending(MigrationExecutor(connection))


def _pending(executor: MigrationExecutor) -> list[Migration]:
    return [migration for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]


def find_later_migrations() -> list[str]:
    """Return the applied migrations that this release does not know.

    On PostgreSQL, nodes of two releases may serve one store during an upgrade. The newer one has raised the
    record if the older one must not.
    """
    return _unknown(MigrationRecorder(connection).applied_migrations())


def find_refusal_of(path: Path) -> str:
    """Return why this release may not serve the store in a file, or an empty string."""
    with closing(_open_for_reading(path)) as file:
        [oldest] = file.execute(READ_SQL).fetchone()
        return refusal(oldest, file.execute("SELECT app, name FROM django_migrations"))


def is_unfinished_copy(path: Path | None) -> bool:
    """Return whether ``copy_store`` was interrupted while it copied into a file, or the store in use."""
    if path is not None:
        with closing(_open_for_reading(path)) as file:
            return file.execute(_FIND_COPY_MARK).fetchone() is not None
    with connection.cursor() as cursor:
        cursor.execute(_FIND_COPY_MARK)
        return cursor.fetchone() is not None


def _open_for_reading(path: Path) -> sqlite3.Connection:
    """Open a file without creating others next to it, as SQLite does for a write-ahead log that is empty."""
    how = "" if Path(f"{path}-wal").exists() else "&immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{how}", uri=True, factory=FileConnection)


def find_foreign_tables(path: Path) -> list[str]:
    """Return the tables of another program in a file; none if the hub has tables in it."""
    with closing(_open_for_reading(path)) as file:
        tables = file.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    names = [name for (name,) in tables if not name.startswith("sqlite_")]
    if any(name.startswith(_OWN_PREFIX) for name in names):
        return []
    known = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    known.add(MigrationRecorder.Migration._meta.db_table)
    return [name for name in names if name not in known]


def find_unrecorded_tables(recorded: StateApps) -> list[str]:
    """Return the tables of the store in use whose models are not among those of its recorded migrations."""
    known = {model._meta.label_lower for model in recorded.get_models(include_auto_created=True)}
    tables = connection.introspection.table_names()
    return [
        model._meta.db_table
        for model in apps.get_models(include_auto_created=True)
        if model._meta.managed and model._meta.label_lower not in known and model._meta.db_table in tables
    ]


def refusal(oldest: int, applied: Iterable[tuple[str, str]]) -> str:
    """Return why this release may not serve such a store, or an empty string.

    ``oldest``: the recorded number of the oldest release. ``applied``: the migrations.
    """
    if oldest > to_number(memoryhub.__version__):
        return (
            f"a newer version of memoryhub wrote it; it needs {_to_release(oldest)} or newer,"
            f" and this is {memoryhub.__version__}"
        )
    unknown = _unknown(applied)
    later = [label for label in unknown if _is_later(label)]
    if later:
        return f"a newer version of memoryhub wrote it ({', '.join(later)})"
    if unknown:
        return f"an unknown early version of memoryhub wrote it ({', '.join(unknown)})"
    return ""


def _unknown(applied: Iterable[tuple[str, str]]) -> list[str]:
    loader = MigrationLoader(None, ignore_no_migrations=True)
    known = set(loader.disk_migrations or {})
    return sorted(
        f"{app}.{name}" for app, name in applied if app in loader.migrated_apps and (app, name) not in known
    )


def _is_later(label: str) -> bool:
    """Whether a migration such as ``memoryhub.0030_name`` has a higher number than all of this release."""
    app, _, name = label.partition(".")
    known = MigrationLoader(None, ignore_no_migrations=True).disk_migrations or {}
    return name[:4] > max(own[:4] for other, own in known if other == app)


def record_migrations_atomically() -> None:
    """Let ``migrate`` record each migration in the transaction that changes the tables.

    Django records a migration with deferred SQL afterwards. A kill between the two transactions would leave
    tables that the record does not name, which the next ``migrate`` refuses.
    """
    MigrationExecutor.apply_migration = _apply_migration  # type: ignore[method-assign, assignment]


_apply_in_two_transactions = MigrationExecutor.apply_migration


def _apply_migration(
    executor: Any,
    state: ProjectState,
    migration: Migration,
    fake: bool = False,
    fake_initial: bool = False,
) -> ProjectState:
    if fake or fake_initial or not migration.atomic:
        return _apply_in_two_transactions(executor, state, migration, fake, fake_initial)
    report: Any = executor.progress_callback or (lambda *arguments: None)
    report("apply_start", migration, fake)

    def apply() -> ProjectState:
        with executor.connection.schema_editor(atomic=True) as schema_editor:
            limit_lock_wait()
            changed = migration.apply(state.clone(), schema_editor)
            executor.record_migration(migration)
        return changed

    state = repeat_while_locked(apply)
    report("apply_success", migration, fake)
    return state


LOCK_SECONDS = 2.0  # less than requests wait
MAX_TRIES, SECONDS_BETWEEN_TRIES = 12, 5.0
LOCKED = (
    "the tables are in use by another transaction, for example pg_dump; pg_stat_activity lists it."
    " Run migrate again when it has ended"
)


def limit_lock_wait() -> None:
    """Let the statements of this transaction wait only briefly for the lock of a table.

    On PostgreSQL, all requests that use the table wait behind a change that waits for its lock.
    """
    if IS_POSTGRES:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{LOCK_SECONDS * 1000:.0f}ms"])


def repeat_while_locked(change: Callable[[], T]) -> T:
    """Change tables, on PostgreSQL again after a pause if a long transaction has them locked."""
    if not IS_POSTGRES or connection.in_atomic_block:
        return change()
    for _ in range(MAX_TRIES):
        try:
            return change()
        except OperationalError as error:
            if not is_database_busy(error):
                raise
        time.sleep(SECONDS_BETWEEN_TRIES)
    raise CommandError(LOCKED)
