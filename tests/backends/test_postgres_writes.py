"""Writes on PostgreSQL: their lock is free before the commit is flushed, and they read little under it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from memoryhub.backends.dialect import IS_POSTGRES
from memoryhub.backends.statements import read_state_before_store
from memoryhub.core import database
from memoryhub.core.database import write_transaction
from memoryhub.models import Project

pytestmark = [
    pytest.mark.skipif(not IS_POSTGRES, reason="of PostgreSQL"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture(autouse=True)
def flushes(transactional_db: None) -> Iterator[None]:
    """Flush commits, unlike the server of the tests."""
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = on")
        yield
        cursor.execute("RESET synchronous_commit")


def ask(statement: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return str(cursor.fetchone()[0])


def is_free_for_other_threads() -> bool:
    found: list[bool] = []

    def acquire() -> None:
        found.append(database._writer_lock.acquire(blocking=False))
        if found[0]:
            database._writer_lock.release()

    thread = threading.Thread(target=acquire)
    thread.start()
    thread.join()
    return found[0]


def test_lock_is_free_and_the_commit_flushed_before_other_callbacks() -> None:
    seen: list[tuple[str, bool]] = []

    def look() -> None:
        seen.append((ask(f"SELECT pg_current_wal_flush_lsn() >= '{written}'"), is_free_for_other_threads()))

    with write_transaction():
        transaction.on_commit(look)
        Project.objects.create(name="a")
        written = ask("SELECT pg_current_wal_insert_lsn()")
        assert ask("SHOW synchronous_commit") == "off"
        assert not is_free_for_other_threads()
    assert seen == [("True", True)]
    assert ask("SHOW synchronous_commit") == "on"


def test_failed_flush_is_an_error_of_the_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_FLUSH", "SELECT 1 / 0")
    with pytest.raises(Exception, match="division by zero"), write_transaction():
        Project.objects.create(name="a")
    assert is_free_for_other_threads()


def test_nested_write_and_rollback_leave_the_setting_of_the_session() -> None:
    with pytest.raises(ZeroDivisionError), write_transaction():
        raise ZeroDivisionError
    assert ask("SHOW synchronous_commit") == "on"
    with transaction.atomic(), write_transaction():
        assert ask("SHOW synchronous_commit") == "on"
    assert is_free_for_other_threads()


def test_room_of_a_project_is_looked_up_in_the_index() -> None:
    plan: list[str] = []

    def explain(execute: Callable[..., Any], statement: str, *arguments: Any) -> Any:
        execute(f"SET LOCAL enable_seqscan = off; EXPLAIN {statement}", *arguments)
        arguments[-1]["cursor"].nextset()
        plan.extend(line for (line,) in arguments[-1]["cursor"].fetchall())
        return execute(statement, *arguments)

    with transaction.atomic(), connection.execute_wrapper(explain):
        read_state_before_store(["0" * 64], ["a"], 1000, timezone.now())
    assert any("Index Cond" in line and "project = ANY" in line for line in plan), plan
