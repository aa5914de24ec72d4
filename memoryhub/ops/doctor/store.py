"""Store checks: file, WAL, migrations, tables, triggers, indexes, pages, journal and mirror."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from django.apps import apps
from django.conf import settings
from django.db import DatabaseError, OperationalError, connection, connections, models
from django.db.migrations.executor import MigrationExecutor

from memoryhub import backends
from memoryhub.audit import journal, mirror
from memoryhub.backends import release, schema
from memoryhub.backends.postgres import replica, server
from memoryhub.core.database import (
    REPLICA,
    clear_damage,
    execute,
    fetch_all,
    fetch_one,
    is_postgres,
    write_transaction,
)
from memoryhub.core.database_errors import is_database_busy
from memoryhub.core.text import join_first
from memoryhub.ops import backup, checks, salvage
from memoryhub.ops.doctor import REBUILD, RESTORE, Finding, Status, check, fail, ok, to_findings, warn


def _server() -> Iterator[Finding]:
    if problems := list(to_findings(checks.postgres_is_able())):
        yield from problems
        if any(one.status is Status.FAIL for one in problems):
            return
    if schema.tables_missing():
        yield fail(
            f"the database {connection.settings_dict['NAME']} is empty",
            "Create the tables: manage.py migrate.",
        )
        return
    facts = server.read_facts()
    size = schema.database_bytes() / 1e6
    yield ok(f"PostgreSQL {facts.version}, database {connection.settings_dict['NAME']}, {size:,.1f} MB")
    yield _backup_of_server(server.read_backup_facts())
    if REPLICA in settings.DATABASES:
        try:
            _, seq = replica.read_position()
            yield ok(f"the replica has {journal.last_seq() - seq:,} journal rows to replay")
        except replica.ReplicaError as error:
            yield warn(f"reads go to the primary: {error}", "Start it, or correct DATABASE_REPLICA_URL.")


def _backup_of_server(facts: server.BackupFacts) -> Finding:
    """Report whether the server can be restored to any point in time."""
    if facts.failing:
        return warn(
            "a write-ahead log could not be archived: newer changes are in no backup",
            "Correct archive_command; the log of the PostgreSQL server has its error.",
        )
    if not facts.archives:
        return ok("back it up with pg_dump; only with archive_mode = on, any point in time can be restored")
    since = f"{facts.last_archived:%Y-%m-%d %H:%M}" if facts.last_archived else "never"
    return ok(
        f"write-ahead logs are archived (last: {since}); with a base backup, every moment can be restored"
    )


@check("store", needs="home")
def database() -> Iterator[Finding]:
    if is_postgres():
        yield from _server()
        return
    path = backup.live_path()
    if aside := backup.set_aside():
        yield fail(
            f"there is no store at {path}, but a restore has set aside {', '.join(map(str, aside))}",
            f"Put it back: manage.py restore_backup {aside[0]} --yes",
        )
        return
    if not path.is_file():
        yield fail(f"there is no store at {path}", "Make an empty one: manage.py migrate.")
        return
    if foreign := list(to_findings(checks.store_is_not_foreign())):
        yield from foreign
        return
    try:
        # Use SQLite: closing the file after reading it directly would drop all locks of this process on it.
        execute("SELECT count(*) FROM sqlite_master")
    except DatabaseError as error:
        if "not a database" not in str(error):
            raise
        yield fail(f"{path} is not an SQLite database", f"Move it away. {RESTORE}")
        return
    for name in backup.second_names(path):
        yield warn(
            f"{name} is a second name of the store, from an interrupted restore; never open it",
            f"Remove it: rm {name}",
        )
    yield ok(f"{path}, {path.stat().st_size / 1e6:,.1f} MB")


@check("write-ahead log", needs="store")
def write_ahead_log() -> Iterator[Finding]:
    if is_postgres():
        yield ok("PostgreSQL has its own")
        return
    mode = fetch_one("PRAGMA journal_mode")[0]
    if mode != "wal":
        yield fail(
            f"the store is in mode {mode}: reading and writing wait for each other",
            "Its folder must be on a local disk and writable; then any command turns it on.",
        )
        return
    yield ok("on")


@check("writing", needs="store", fine="the store is writable")
def writing() -> Iterator[Finding]:
    try:
        with write_transaction():
            release.rewrite_record()
    except OperationalError as error:
        if is_database_busy(error):
            raise
        yield fail(
            f"nothing can be written: {error}",
            "Make room on the disk, and let the user that runs the hub write to the store and its folder.",
        )


@check("migrations", needs="store")
def migrations() -> Iterator[Finding]:
    if unfinished := list(to_findings(checks.store_is_copied())):
        yield from unfinished
        return
    plan = release.pending_migrations()
    newer = release.find_refusal()
    if newer:
        yield fail(newer, checks.REFUSED_STORE_HINT)
    if plan:
        names = join_first([f"{migration.app_label}.{migration.name}" for migration in plan], 3)
        executor = MigrationExecutor(connection)
        state = executor._create_project_state(with_applied_migrations=True)  # type: ignore[attr-defined]
        unrecorded = release.find_unrecorded_tables(state.apps)
        advice = release.ADVICE_WITHOUT_RECORD if unrecorded else "manage.py backup, then manage.py migrate."
        yield fail(f"not applied: {names}", advice)
    if not newer and (later := release.find_later_migrations()):
        yield warn(f"a newer version has added {', '.join(later)}", "Finish the upgrade of this node.")
    elif not plan and not newer:
        yield ok("all applied")


def _reinstall() -> Iterator[str]:
    schema.install()
    yield "installed the triggers and indexes again"


def _rebuild() -> Iterator[str]:
    """Rebuild all indexes from the rows. If damaged pages prevent that, make a new file."""
    if is_postgres():
        schema.rebuild_indexes()
        yield "rebuilt the indexes"
        return
    try:
        execute("REINDEX")
        schema.rebuild_indexes()
        if not _damaged_lines():
            yield "rebuilt the indexes"
            return
    except DatabaseError as error:
        if is_database_busy(error):
            raise
    connections.close_all()
    damaged = salvage.rebuild_file()
    yield f"rebuilt the store from its rows; the damaged file is {damaged}"


@check("triggers", needs="tables", fix=_reinstall, fine="the triggers of indexes and journal are installed")
def triggers() -> Iterator[Finding]:
    for problem in schema.find_problems():
        yield fail(problem, "doctor --fix, or: manage.py migrate")


def _unsound_indexes() -> list[str]:
    """Return the damaged indexes. Works on a copy, because the check would block all writers."""
    try:
        return schema.find_unsound_indexes()
    except (OSError, sqlite3.Error):  # no room for a copy, or no access
        return [table for table in backends.INDEXES if not schema.is_index_sound(table)]


@check("text index", needs="triggers", slow=True, fix=_rebuild)
def text_index() -> Iterator[Finding]:
    problems = schema.find_problems() or [
        f"index {table} does not match its table" for table in _unsound_indexes()
    ]
    for problem in problems:
        yield fail(f"{problem}: searches miss memories or find deleted ones", "doctor --fix")
    if not problems:
        size = schema.storage_sizes()["index_bytes"] / 1e6
        yield ok(f"matches the memories, {size:,.1f} MB")


def _damaged_lines() -> list[str]:
    return [row[0] for row in fetch_all("PRAGMA integrity_check(5)") if row[0] != "ok"]


@check("integrity", needs="store", slow=True, fix=_rebuild)
def integrity() -> Iterator[Finding]:
    if is_postgres():
        if server.read_backup_facts().has_checksums:
            yield ok("PostgreSQL checks its pages when it reads them; pg_amcheck examines all of them")
        else:
            yield warn(
                "the PostgreSQL server has no checksums of its pages: damage by a disk is not noticed",
                "Stop PostgreSQL, then: pg_checksums --enable",
            )
        return
    lines = _damaged_lines()
    orphans = len(fetch_all("PRAGMA foreign_key_check"))
    for line in lines:
        yield fail(f"the file is damaged: {line}", REBUILD)
    if orphans:
        yield fail(f"{orphans} rows belong to rows that are gone", RESTORE)
    if not lines and not orphans:
        clear_damage()
        yield ok("the file is intact")


@check("journal", needs="tables", slow=True)
def journal_chain() -> Iterator[Finding]:
    chain = journal.verify_chain()
    if chain.ok:
        yield ok(f"the chain is intact, {chain.rows:,} rows")
        return
    yield fail(
        f"the chain is broken at row {chain.first_bad_seq}: the journal was changed outside the hub",
        "It cannot be repaired; compare with the mirror and a backup (manage.py verify_journal).",
    )


@check("journal loss", needs="tables", fine="no rows are recorded as lost, no mirror was set aside")
def lost_rows() -> Iterator[Finding]:
    loss = journal.pending()
    if loss:
        yield fail(
            loss.summary(),
            "Find out why, restore a backup if need be, then: manage.py verify_journal --acknowledge-loss.",
        )
    aside = [path for path in mirror.set_aside() if not loss or path.name not in loss.files]
    if aside:
        names = ", ".join(path.name for path in aside)
        yield warn(
            f"mirrors set aside in {aside[0].parent}: {names}",
            "They contain rows that the journal does not. Compare them, then move them to another folder.",
        )


def _rewrite_mirror() -> Iterator[str]:
    before = journal.compare_mirror()
    if journal.repair_mirror(before):
        yield "added the missing rows to the mirror"


@check("mirror", needs="tables", slow=True, fix=_rewrite_mirror)
def journal_mirror() -> Iterator[Finding]:
    state = journal.compare_mirror()
    if state.in_step or (not state.exists and not state.behind):
        yield ok(f"up to date, {state.path}")
        return
    text = "; ".join(state.findings())
    if state.ok:
        yield warn(text, f"The next change repairs {state.path}, or doctor --fix.")
    else:
        yield fail(
            text,
            f"Keep a copy of {state.path}, which is evidence, and compare it. The next change sets it aside.",
        )


_Index = models.Index | models.UniqueConstraint


@check("tables", needs="migrations")
def present() -> Iterator[Finding]:
    existing = set(connection.introspection.table_names())
    wanted = backends.managed_tables()
    missing = [table for table in wanted if table not in existing]
    for table in missing:
        yield fail(f"table {table} is missing, and its rows are lost", RESTORE)
    if not missing:
        yield ok(f"all {len(wanted)} exist")


def _missing_indexes() -> list[tuple[type[models.Model], _Index]]:
    """Return the declared indexes that are missing. An unnamed one is identified by its column."""
    missing: list[tuple[type[models.Model], _Index]] = []
    for model in apps.get_app_config("memoryhub").get_models(include_auto_created=True):
        if not model._meta.managed:
            continue
        with connection.cursor() as cursor:
            existing = connection.introspection.get_constraints(cursor, model._meta.db_table)
        named: list[_Index] = [*model._meta.indexes, *_unique_indexes(model)]
        missing += [(model, index) for index in named if index.name not in existing]
        columns = {tuple(one["columns"]) for one in existing.values() if one["index"] or one["unique"]}
        for field in model._meta.local_concrete_fields:
            indexed = getattr(field, "db_index", False) and not field.unique
            if indexed and (field.column,) not in columns:
                missing.append((model, models.Index(fields=[field.name])))
    return missing


def _unique_indexes(model: type[models.Model]) -> list[models.UniqueConstraint]:
    """Return the unique constraints that are indexes: those with a condition."""
    constraints = model._meta.constraints
    return [one for one in constraints if isinstance(one, models.UniqueConstraint) and one.condition]


def _make_indexes() -> Iterator[str]:
    with connection.schema_editor() as editor:
        for model, index in _missing_indexes():
            if isinstance(index, models.UniqueConstraint):
                editor.add_constraint(model, index)
            else:
                if not index.name:
                    index.set_name_with_model(model)
                editor.add_index(model, index)
            yield f"made index {index.name}"


@check("indexes", needs="tables", fix=_make_indexes, fine="no index is missing")
def indexes() -> Iterator[Finding]:
    for model, index in _missing_indexes():
        name = index.name or f"of {index.fields[0]}"
        yield warn(f"index {name} of table {model._meta.db_table} is missing", "doctor --fix")


def _finish_erase() -> Iterator[str]:
    if schema.is_erase_pending():
        schema.finish_erase()
        if not schema.is_erase_pending():
            yield "removed the bytes of erased memories"


@check("erased memories", needs="tables", fix=_finish_erase, fine="no erase was interrupted")
def erased_memories() -> Iterator[Finding]:
    if schema.is_erase_pending() and is_postgres():
        yield warn(
            "pages of erased memories wait for a vacuum",
            "A server vacuums them within seconds. Without a server, run: doctor --fix",
        )
    elif schema.is_erase_pending():
        yield warn(
            "the database file may still contain bytes of erased memories: the erase was interrupted",
            "doctor --fix, or restart the hub",
        )
