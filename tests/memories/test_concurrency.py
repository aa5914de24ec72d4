"""Concurrent writers: no lost writes, no lock errors, a valid chain and a complete mirror."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.db import OperationalError, connection, connections, transaction

from memoryhub import memories
from memoryhub.audit import journal
from memoryhub.core import database
from memoryhub.facts import services
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import Fact, JournalEntry, Memory, Revision
from tests.database import index_is_sound

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
THREADS = 8


def at_once(work, times=THREADS):
    """Run ``work(number)`` in threads that start together. Return the exceptions."""
    barrier, raised = threading.Barrier(times), []

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except Exception as error:  # noqa: BLE001 whatever a thread meets, the test must see
            raised.append(error)
        finally:
            connection.close()

    connection.close()  # the pool of PostgreSQL has one for each thread, and none for this one
    threads = [threading.Thread(target=run, args=(number,)) for number in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def mirrored(path):
    return [json.loads(line)["seq"] for line in path.read_text("utf-8").splitlines()]


@pytest.mark.sqlite
def test_the_database_is_a_file_in_wal_mode(db):
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        assert cursor.fetchone() == ("wal",)
    assert Path(connection.settings_dict["NAME"]).is_file()


@pytest.mark.conformance("pigo-18")
def test_threads_store_memories_concurrently(actor, configure, journal_mirror):
    configure(max_memories=0)

    def work(number: int) -> None:
        for n in range(100):
            memories.create_memory(
                MemoryDraft(content=f"memory {n} of thread {number}", session_id="s"), actor
            )

    assert at_once(work) == []
    assert Memory.objects.count() == 800
    assert journal.verify() == journal.Verification(True, 800, None)
    assert mirrored(journal_mirror) == list(range(1, 801))
    assert index_is_sound()


def test_threads_store_the_same_memories(actor, journal_mirror):
    def work(number: int) -> None:
        for n in range(25):
            memories.create_memory(MemoryDraft(content=f"memory {n}"), actor)

    assert at_once(work) == []
    assert Memory.objects.count() == 25
    assert JournalEntry.objects.filter(operation="insert").count() == 25
    assert JournalEntry.objects.filter(operation="dedup_refresh").count() == 175
    assert mirrored(journal_mirror) == list(range(1, 201))


def test_concurrent_updates_are_not_lost(actor, remember):
    memory = remember("version 0")

    def work(number: int) -> None:
        for n in range(15):
            memories.update_memory(memory.uid, MemoryPatch(content=f"version {number}/{n}"), actor)

    assert at_once(work) == []
    numbers = Revision.objects.order_by("number").values_list("number", flat=True)
    assert list(numbers) == list(range(1, THREADS * 15 + 1))
    said = {row.before["content"] for row in Revision.objects.all()} | {Memory.objects.get().content}
    assert len(said) == THREADS * 15 + 1


def test_threads_upsert_one_key(actor):
    def work(number: int) -> None:
        for n in range(15):
            memories.create_memory(MemoryDraft(content=f"words {number}/{n}", key="k"), actor)

    assert at_once(work) == []
    assert Memory.objects.count() == 1
    assert journal.verify().ok


def test_concurrent_accesses_are_all_counted(actor, remember):
    memory = remember("read often")
    assert (
        at_once(
            lambda number: [memories.count_accesses([Memory.objects.get(pk=memory.pk)]) for _ in range(25)]
        )
        == []
    )
    assert Memory.objects.get().accessed_count == THREADS * 25


def test_different_writers_run_concurrently(actor, remember, configure, journal_mirror):
    configure(max_memories=0)
    shared = [remember(f"shared {n}") for n in range(20)]

    def work(number: int) -> None:
        for n, memory in enumerate(shared):
            kind = (number + n) % 5
            if kind == 0:
                memories.create_memory(
                    MemoryDraft(content=f"{number} {n}", tags=["t"], files_read=["f"]), actor
                )
            elif kind == 1:
                memories.trash_memories([memory.uid], actor)
            elif kind == 2:
                memories.restore_memories([memory.uid], actor)
            elif kind == 3:
                services.create_fact(FactDraft(subject="s", predicate="p", object=f"{n}"), actor)
            else:
                assert list(Memory.objects.search("shared")[:5]) is not None

    assert at_once(work) == []
    assert journal.verify().ok
    assert mirrored(journal_mirror) == list(
        JournalEntry.objects.order_by("seq").values_list("seq", flat=True)
    )
    assert Fact.objects.count() <= 20
    assert index_is_sound()


def test_reads_continue_during_an_erase(actor, remember, configure):
    configure(max_memories=0)
    memories.create_memories([MemoryDraft(content=f"zebra {n}") for n in range(300)], actor)
    gone = [remember(f"secret xylophone {n}") for n in range(4)]
    found = []

    def work(number: int) -> None:
        if number < 2:
            for memory in gone[number * 2 : number * 2 + 2]:
                memories.erase_memories([memory.uid], actor)
        else:
            found.extend(Memory.objects.search("zebra").count() for _ in range(30))

    assert at_once(work) == []
    assert set(found) == {300}
    assert Memory.objects.count() == 300


WRITER = """
import os, sys
import django
from django.conf import settings
django.setup()
settings.DATABASES["default"]["NAME"] = os.environ["TEST_DB"]
settings.MEMORY_LOG = os.environ["TEST_LOG"]
from django.db import connection
from memoryhub import memories as store
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.access.policy import Actor; from memoryhub.access.policy import Clearance
assert connection.settings_dict["NAME"] == os.environ["TEST_DB"]
print("ready", flush=True)
sys.stdin.readline()
for n in range(60):
    draft = MemoryDraft(content=f"process {sys.argv[1]} memory {n}")
    store.create_memory(draft, Actor("p", Clearance.up_to("secret")))
"""


@pytest.mark.conformance("store-1")
def test_two_processes_write_store_and_mirror(configure, journal_mirror):
    """Like two workers of a server, which share only the files."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "TEST_DB": str(connection.settings_dict["NAME"]),
        "TEST_LOG": str(journal_mirror),
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(number)],
            env=environment,
            cwd=django_settings.BASE_DIR,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.communicate("go\n", timeout=120)
    assert [process.returncode for process in processes] == [0, 0]
    assert Memory.objects.count() == 120
    assert journal.verify() == journal.Verification(True, 120, None)
    assert mirrored(journal_mirror) == list(range(1, 121))
    connections.close_all()


def test_write_inside_a_transaction_does_not_deadlock(actor):
    """The admin opens a transaction first, so it has SQLite's lock before it waits for the thread lock."""
    opened, waiting = threading.Event(), threading.Event()

    def work(number: int) -> None:
        if number:
            assert opened.wait(60)
            waiting.set()
            memories.create_memory(MemoryDraft(content="by the API"), actor)
            return
        with transaction.atomic():
            opened.set()
            assert waiting.wait(60)
            time.sleep(0.3)  # the other thread has the thread lock now and waits for SQLite
            memories.create_memory(MemoryDraft(content="by the admin"), actor)

    assert at_once(work, times=2) == [], "a deadlock raises an error, when SQLite has waited"
    assert Memory.objects.count() == 2


def test_lock_timeout_raises_database_locked(actor, monkeypatch):
    monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.05)
    opened, done = threading.Event(), threading.Event()

    def work(number: int) -> None:
        if number:
            assert opened.wait(60)
            try:
                memories.create_memory(MemoryDraft(content="in a hurry"), actor)
            finally:
                done.set()
        else:
            with database.write_transaction():
                opened.set()
                assert done.wait(60)

    [error] = at_once(work, times=2)
    assert isinstance(error, OperationalError)
    assert "locked" in str(error)


def test_on_commit_callback_may_write(actor):
    def again() -> None:
        memories.create_memory(MemoryDraft(content="after the commit"), actor)

    with database.write_transaction():
        memories.create_memory(MemoryDraft(content="in the transaction"), actor)
        transaction.on_commit(again)
    assert Memory.objects.count() == 2
