"""Locks and limits of writes on PostgreSQL: other writers, migrations, connections without an answer."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext

import psycopg
import pytest
from django.core.management import CommandError
from django.db import OperationalError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations import Migration, RunSQL
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from memoryhub.access.policy import Actor
from memoryhub.backends import INDEXES, release
from memoryhub.backends.dialect import IS_POSTGRES
from memoryhub.backends.postgres import schema
from memoryhub.backends.schema import find_problems
from memoryhub.core import database, database_errors
from memoryhub.memories import erase_memories, update_memory
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Memory
from memoryhub.ops import serving
from tests.database import run_sql

pytestmark = pytest.mark.skipif(not IS_POSTGRES, reason="of PostgreSQL")


@pytest.mark.django_db(transaction=True)
def test_writer_waits_for_a_writer_on_another_connection() -> None:
    with closing(connection.copy()) as other:
        other.set_autocommit(False)
        other.cursor().execute("SELECT pg_advisory_xact_lock(%s)", [database.WRITER_LOCK])
        with pytest.raises(OperationalError) as caught, database.write_transaction(patience=0.1):
            pass
        assert database_errors.is_database_busy(caught.value)
        other.rollback()
        with database.write_transaction(patience=1):
            pass


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_writing", [True, False])
def test_background_thread_leaves_a_database_that_never_answers(
    monkeypatch: pytest.MonkeyPatch, is_writing: bool
) -> None:
    limit = "BACKGROUND_WRITE_SECONDS" if is_writing else "BACKGROUND_READ_SECONDS"
    monkeypatch.setattr(database, limit, 0.05)
    monkeypatch.setattr(database, "_SECONDS_TO_ANSWER", 0.0)
    monkeypatch.setattr(database, "_limit", database._ReadLimit())  # of this thread
    database.limit_background_thread()
    with (
        pytest.raises(OperationalError) as caught,
        database.write_transaction() if is_writing else nullcontext(),
    ):
        run_sql("SELECT pg_sleep(3600)")
    assert database_errors.is_store_unavailable(caught.value)
    connection.close()
    run_sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE query LIKE '%%pg_sleep(3600)%%' AND pid <> pg_backend_pid()"
    )


@pytest.fixture
def no_connection(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """``no_connection()`` ends the connection, as a lost network does. There is no other."""

    def lose() -> None:
        def fail() -> None:
            raise OperationalError("couldn't get a connection after 10.00 sec")

        connection.connection.pgconn.finish()
        monkeypatch.setattr(connection, "connect", fail)

    return lose


@pytest.mark.django_db(transaction=True)
def test_write_that_lost_its_connection_does_not_wait_for_another(no_connection: Callable[[], None]) -> None:
    """It would wait with the lock of the writers of its process."""

    def write() -> None:
        with database.write_transaction():
            no_connection()
            run_sql("SELECT 1")

    with pytest.raises(OperationalError, match="the connection is closed"):
        write()


@pytest.mark.django_db(transaction=True)
def test_outcome_of_a_commit_is_unknown_also_if_there_is_no_other_connection(
    no_connection: Callable[[], None],
) -> None:
    with pytest.raises(OperationalError) as caught, database.write_transaction():
        no_connection()
    assert database_errors.is_outcome_unknown(caught.value)


@pytest.mark.django_db(transaction=True)
def test_outcome_is_unknown_if_pgbouncer_answers_a_commit_with_two_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It sends the error of PostgreSQL and another one if PostgreSQL has ended the transaction."""

    def commit(lost: psycopg.Connection) -> None:
        lost.pgconn.finish()
        raise psycopg.InternalError("received 2 results from command 'COMMIT'")

    monkeypatch.setattr(psycopg.Connection, "commit", commit)
    with pytest.raises(OperationalError) as caught, database.write_transaction():
        pass
    assert database_errors.is_outcome_unknown(caught.value)


@pytest.mark.django_db(transaction=True)
def test_commit_of_a_background_thread_is_limited_and_what_follows_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[float] = []
    commit = connection._commit

    def commit_with_limit() -> None:
        limits.append(database.answer_limit())
        commit()

    monkeypatch.setattr(connection, "_commit", commit_with_limit)
    monkeypatch.setattr(database, "_limit", database._ReadLimit())
    database.limit_background_thread()
    with database.write_transaction():
        transaction.on_commit(lambda: limits.append(database.answer_limit()))
    assert limits == [65, 905]


@pytest.fixture
def reader(transactional_db: None) -> Iterator[BaseDatabaseWrapper]:
    """Another connection with a long transaction that has read memories, as pg_dump has."""
    with closing(connection.copy()) as other:
        other.set_autocommit(False)
        other.cursor().execute("SELECT count(*) FROM memoryhub_memory")
        yield other


def add_column() -> None:
    """Apply a migration that adds a column to the memories."""
    migration = Migration("added", "memoryhub")
    migration.operations = [RunSQL("ALTER TABLE memoryhub_memory ADD COLUMN added integer")]
    executor = MigrationExecutor(connection)
    release._apply_migration(executor, executor.loader.project_state(), migration)


@pytest.fixture
def without_column(transactional_db: None) -> Iterator[None]:
    yield
    run_sql("ALTER TABLE memoryhub_memory DROP COLUMN IF EXISTS added")
    MigrationRecorder.Migration.objects.filter(name="added").delete()


@pytest.mark.usefixtures("without_column")
def test_migration_that_waits_for_a_long_transaction_lets_requests_pass(
    reader: BaseDatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "LOCK_SECONDS", 0.05)
    counts: list[int] = []

    def serve_meanwhile(seconds: float) -> None:
        with closing(connection.copy()) as other, other.cursor() as cursor:
            cursor.execute("SET lock_timeout = '10s'")
            cursor.execute("SELECT count(*) FROM memoryhub_memory")
            counts.append(cursor.fetchone()[0])
        reader.rollback()

    monkeypatch.setattr(release.time, "sleep", serve_meanwhile)
    add_column()
    assert counts == [0], "it was repeated once"
    assert run_sql("SELECT added FROM memoryhub_memory") == []
    assert MigrationRecorder.Migration.objects.filter(name="added").count() == 1


@pytest.mark.usefixtures("without_column", "reader")
def test_migration_of_tables_in_use_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "LOCK_SECONDS", 0.05)
    monkeypatch.setattr(release, "SECONDS_BETWEEN_TRIES", 0.0)
    with pytest.raises(CommandError, match="in use by another transaction"):
        add_column()
    assert not MigrationRecorder.Migration.objects.filter(name="added").exists()


def is_writer_lock_free() -> bool:
    with closing(connection.copy()) as other, other.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [database.WRITER_LOCK])
        return bool(cursor.fetchone()[0])


@pytest.fixture
def rows_of_other_rules(transactional_db: None, remember: Callable[..., Memory]) -> list[Memory]:
    """Memories whose index rows another release has made by other rules."""
    stored = [remember(f"zebra number {number}") for number in range(60)]
    for table in INDEXES:
        run_sql(f"UPDATE {table} SET {table} = 'other'")
    run_sql("COMMENT ON FUNCTION memoryhub_word_vector IS 'of another release'")
    return stored


@pytest.mark.usefixtures("rows_of_other_rules")
def test_no_node_writes_while_the_rules_for_words_change(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, free = schema.begin_rebuild, []

    def begin_while_another_asks(table: str) -> None:
        free.append(is_writer_lock_free())
        begin(table)

    monkeypatch.setattr(schema, "begin_rebuild", begin_while_another_asks)
    schema.install()
    assert free == [False] * len(INDEXES)


def test_nodes_write_between_the_steps_of_a_rebuild(
    rows_of_other_rules: list[Memory],
    remember: Callable[..., Memory],
    actor: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left, step, free = list(rows_of_other_rules), schema._rebuild_step, []

    def write_before(table: str) -> None:
        free.append(is_writer_lock_free())
        remember(f"okapi {len(free)}")
        update_memory(left.pop(0).uid, MemoryPatch(content=f"okapi, changed {len(free)}"), actor)
        update_memory(left.pop().uid, MemoryPatch(content=f"okapi, changed at the end {len(free)}"), actor)
        erase_memories([left.pop(len(left) // 2).uid], actor)
        step(table)

    monkeypatch.setattr(schema, "_rebuild_step", write_before)
    schema.install()
    assert len(free) >= 6
    assert all(free)
    assert find_problems(deep=True) == []
    assert Memory.objects.search("okapi").count() == 3 * len(free)
    assert Memory.objects.search("zebra").count() == 60 - 3 * len(free)


@pytest.mark.usefixtures("rows_of_other_rules")
def test_rebuild_that_was_killed_is_completed_by_the_next_server(monkeypatch: pytest.MonkeyPatch) -> None:
    step = schema._rebuild_step

    def die_at_second(table: str) -> None:
        if schema.copy_position(table):
            raise SystemExit
        step(table)

    monkeypatch.setattr(schema, "_rebuild_step", die_at_second)
    with pytest.raises(SystemExit):
        schema.install()
    monkeypatch.undo()
    assert find_problems(deep=True) != []
    assert list(serving.prepare_store()) == []
    assert find_problems(deep=True) == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("last_statement", [None, "SELECT 1"])
def test_idle_write_is_ended_as_if_the_store_were_unavailable(
    monkeypatch: pytest.MonkeyPatch, last_statement: str | None
) -> None:
    monkeypatch.setattr(database, "WRITER_IDLE_SECONDS", 0.05)

    def write() -> None:
        with database.write_transaction():
            select.select([connection.connection], [], [], 60)  # until the server has ended it
            if last_statement:
                run_sql(last_statement)

    with pytest.raises(OperationalError) as caught:
        write()
    assert database_errors.is_store_unavailable(caught.value)
    with database.write_transaction(), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
