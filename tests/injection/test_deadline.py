"""Injections are on time or empty: they never raise, block or return late."""

from __future__ import annotations

import sqlite3
import threading
import time

import pytest
from django.db import DatabaseError, connection

from memoryhub.core import database
from memoryhub.core.database import Deadline, DeadlinePassed
from memoryhub.injection.requests import InjectionRequest
from memoryhub.injection.services import inject_context
from memoryhub.models import Injection, Memory
from memoryhub.security.prompt_injection import inspect_fields
from tests.injection.conftest import PROMPT, uids


def run_endless_query():
    """Run a query that takes minutes."""
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000)"
            " SELECT count(*) FROM n"
        )
    return cursor.fetchone()


@pytest.mark.django_db
def test_read_is_interrupted_at_the_deadline():
    began = time.thread_time()
    with pytest.raises(DeadlinePassed), Deadline(50).reading():
        run_endless_query()
    assert time.thread_time() - began < 2


@pytest.mark.django_db
def test_passed_deadline_does_not_interrupt_later_reads():
    with pytest.raises(DeadlinePassed), Deadline(5).reading():
        run_endless_query()
    assert Memory.objects.count() == 0


@pytest.mark.django_db
def test_other_database_errors_are_raised():
    with (
        pytest.raises(DatabaseError, match=r"no such table|does not exist"),
        Deadline(1000).reading(),
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT * FROM nowhere")


def test_slow_search_gives_an_empty_result(remember, ask, configure, monkeypatch):
    remember("zebra stripes")
    configure(injection_deadline_ms=60)
    monkeypatch.setattr("memoryhub.injection.services.find_candidates", lambda *_: run_endless_query())
    began = time.thread_time()
    found = ask()
    assert time.thread_time() - began < 2
    assert found.context == ""
    assert found.injected == []
    assert found.skipped == ["injection: not ready after 60 ms"]
    assert Injection.objects.get().injected == []


def test_slow_detector_gives_an_empty_result(remember, ask, configure, monkeypatch):
    from memoryhub.injection import selection

    for n in range(4):
        remember(f"zebra stripes {n}")
    configure(injection_deadline_ms=100)
    real = selection.inspect_fields

    def slow(*given):
        time.sleep(0.06)
        return real(*given)

    monkeypatch.setattr(selection, "inspect_fields", slow)
    assert ask().skipped == ["injection: not ready after 100 ms"]


def test_error_gives_an_empty_result(remember, ask, monkeypatch, caplog):
    remember("zebra stripes")
    monkeypatch.setattr("memoryhub.injection.services.find_candidates", lambda *_: 1 / 0)
    found = ask()
    assert (found.context, found.injected) == ("", [])
    assert found.skipped == ["injection failed; the log has the details"]
    assert "ZeroDivisionError" in caplog.text


@pytest.fixture
def stored(transactional_db, actor):
    """A committed memory, visible to other connections. The rules are loaded before a deadline counts."""
    from memoryhub import memories
    from memoryhub.memories.schemas import MemoryDraft

    inspect_fields({"content": "zebra stripes"})
    return memories.create_memory(MemoryDraft(content="zebra stripes"), actor).memory


@pytest.mark.sqlite
def test_write_by_another_process_gives_an_empty_result_without_waiting(stored, actor, configure):
    configure(injection_deadline_ms=2000)
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        began = time.thread_time()
        found = inject_context(InjectionRequest(PROMPT, session_id="s1"), actor)
        assert time.thread_time() - began < 2
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert found.context == ""
    assert found.skipped == ["injection: it could not be logged in time, so nothing is shown"]
    stored.refresh_from_db()
    assert stored.accessed_count == 0
    assert uids(inject_context(InjectionRequest(PROMPT, session_id="s1"), actor)) == {stored.uid}


def test_write_by_another_thread_gives_an_empty_result_without_waiting(stored, actor, configure):
    configure(injection_deadline_ms=2000)
    held, done = threading.Event(), threading.Event()

    def hold():
        with database._writer_lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    found = inject_context(InjectionRequest(PROMPT), actor)
    assert thread.is_alive(), "it waited for the other thread"
    done.set()
    thread.join()
    assert found.context == ""


@pytest.mark.sqlite
def test_short_patience_does_not_change_the_connection(stored):
    def timeout():
        with connection.cursor() as cursor:
            return cursor.execute("PRAGMA busy_timeout").fetchone()[0]

    before = timeout()
    with database.write_transaction(patience=0.2):
        assert timeout() == before
    assert timeout() == before
    with pytest.raises(ZeroDivisionError), database.write_transaction(patience=0.2):
        raise ZeroDivisionError
    assert timeout() == before
