"""Trash, restore and erase."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from django.db import connection, transaction

from memoryhub import memories as store
from memoryhub.access.policy import system_actor
from memoryhub.audit import journal
from memoryhub.backends import schema, vector_index
from memoryhub.core.vocabulary import TrashReason
from memoryhub.facts import services
from memoryhub.maintenance.operations import run_now
from memoryhub.memories.schemas import FactDraft, MemoryDraft, MemoryPatch
from memoryhub.models import Event, Fact, JournalEntry, Memory, Session
from memoryhub.ops import worker
from memoryhub.ops.doctor import Status, examine
from memoryhub.ops.doctor import store as doctor
from tests import disk
from tests.database import index_is_sound


def bytes_of_the_store() -> bytes:
    return disk.read_store_bytes(connection.settings_dict["NAME"])


def test_trashed_memory_is_invisible_until_restored(remember, actor):
    memory = remember("zebra", tags=["t"])
    assert store.trash_memories([memory.uid], actor) == [memory]
    stored = Memory.objects.get()
    assert (stored.trash_reason, stored.deleted_at is None) == (TrashReason.FORGOTTEN.value, False)
    assert not Memory.objects.live().exists()
    assert store.restore_memories([memory.uid], actor) == [memory]
    stored = Memory.objects.live().get()
    assert (stored.trash_reason, stored.labels.get().value) == ("", "t")


def test_trash_and_restore_do_not_change_updated_at(remember, actor):
    memory = remember("zebra")
    store.trash_memories([memory.uid], actor)
    store.restore_memories([memory.uid], actor)
    assert Memory.objects.get().updated_at == memory.updated_at


def test_trashing_twice_is_journaled_once(remember, actor):
    memory = remember("zebra")
    store.trash_memories([memory.uid], actor)
    assert store.trash_memories([memory.uid], actor) == []
    assert JournalEntry.objects.filter(operation="delete").count() == 1


def test_restore_of_a_live_memory_changes_nothing(remember, actor):
    memory = remember("zebra")
    assert store.restore_memories([memory.uid], actor) == []
    assert JournalEntry.objects.count() == 1


def test_unknown_ids_are_ignored(remember, actor):
    memory = remember("zebra")
    assert store.trash_memories([memory.uid, "nosuch", ""], actor) == [memory]


@pytest.mark.sqlite
def test_any_number_of_ids_is_accepted(remember, actor):
    """SQLite's limit of parameters depends on the build. This test sets a low one."""
    memories = [remember(f"{n}") for n in range(30)]
    ids = [f"id-{n}" for n in range(5000)] + [memory.uid for memory in memories]
    connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 2000)
    try:
        assert store.trash_memories(ids, actor) == memories
        assert store.restore_memories(ids, actor) == memories
        assert store.erase_memories(ids, actor) == [memory.uid for memory in memories]
    finally:
        connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 250_000)


def test_repeat_revives_a_trashed_memory(remember, actor):
    memory = remember("zebra")
    store.trash_memories([memory.uid], actor)
    assert remember("zebra") == memory
    assert store.restore_memories([memory.uid], actor) == []


def test_restore_next_to_a_new_twin_is_no_error(remember, actor, low):
    hidden = remember("zebra", sensitivity="private")
    store.trash_memories([hidden.uid], actor)
    remember("zebra", by=low)
    twin = remember("zebra", by=low, sensitivity="private")
    store.restore_memories([hidden.uid], actor)
    assert set(Memory.objects.live()) == {hidden, twin}


def test_empty_trash_erases_trashed_memories(remember, actor):
    gone, kept = remember("gone"), remember("kept")
    store.trash_memories([gone.uid], actor)
    assert run_now("empty_trash", {"older_than_days": 1}, actor).changed == 0
    assert run_now("empty_trash", {}, actor).changed == 1
    assert Memory.objects.get() == kept
    assert JournalEntry.objects.get(operation="erase").object_id == gone.uid


def test_system_empties_the_trash_of_everyone(remember, actor):
    mine = remember("mine", scope="personal")
    store.trash_memories([mine.uid], actor)
    assert run_now("empty_trash", {}, system_actor("daily")).changed == 1


def test_memory_merged_into_an_erased_one_can_be_restored(remember, actor):
    target, source = remember("target"), remember("source")
    store.trash_memories([source.uid], actor, TrashReason.MERGED, into=target)
    store.erase_memories([target.uid], actor)
    assert store.restore_memories([source.uid], actor) == [source]


def test_erase_leaves_only_the_hash_in_the_journal(remember, actor):
    memory = remember("zebra")
    assert store.erase_memories([memory.uid], actor) == [memory.uid]
    assert JournalEntry.objects.get(operation="erase").detail["content_hash"] == memory.content_hash
    assert journal.verify().ok


@pytest.fixture
def quark(remember, actor):
    """A memory whose words are in every place that stores words of a memory."""
    fillers = [MemoryDraft(content=f"filler number {n} with words", tags=[f"filler{n}"]) for n in range(50)]
    store.create_memories(fillers, actor)
    memory = remember(
        "the xylophonequark content of old",
        title="xylophonequark title",
        subtitle="xylophonequark subtitle",
        overview="xylophonequark overview",
        tags=["xylophonequark-tag"],
        concepts=["xylophonequark-concept"],
        aliases=["xylophonequark-alias"],
        files_read=["src/xylophonequark.py"],
        entities=[{"entity": "xylophonequark entity"}],
        session_id="s",
    )
    store.update_memory(memory.uid, MemoryPatch(content="the xylophonequark content of today"), actor)
    services.create_fact(
        FactDraft(subject="xylophonequark", predicate="p", object="o", memory_id=memory.uid), actor
    )
    Event.objects.create(
        session=Session.objects.get(),
        event="tool:post",
        memory=memory,
        preview="xylophonequark",
        keywords=["xylophonequark"],
    )
    return memory


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
def test_erased_memory_leaves_no_byte_in_the_file(quark, actor):
    assert bytes_of_the_store().lower().count(b"xylophonequark") > 8
    store.erase_memories([quark.uid], actor)
    left = bytes_of_the_store()
    assert b"filler number 7" in left
    assert b"xylophonequark" not in left.lower()
    assert b"xylop" not in left.lower()  # nor a prefix in an index
    assert not Fact.objects.exists()
    event = Event.objects.get()
    assert (event.memory, event.preview, event.keywords) == (None, "", [])
    assert index_is_sound()


@pytest.mark.django_db(transaction=True)
def test_erase_in_a_transaction_cleans_the_file_after_commit(quark, actor):
    with transaction.atomic():
        store.erase_memories([quark.uid], actor)
    assert b"xylop" not in bytes_of_the_store().lower()


@pytest.mark.django_db(transaction=True)
def test_erase_in_a_failed_transaction_erases_nothing(quark, actor):
    with suppress(RuntimeError), transaction.atomic():
        store.erase_memories([quark.uid], actor)
        raise RuntimeError
    assert Memory.objects.filter(uid=quark.uid).exists()
    assert index_is_sound()


@pytest.mark.django_db(transaction=True)
def test_empty_trash_cleans_the_file(quark, actor):
    store.trash_memories([quark.uid], actor)
    run_now("empty_trash", {"compact": True}, actor)
    assert b"xylop" not in bytes_of_the_store().lower()


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
def test_erase_succeeds_while_the_file_is_in_use(quark, actor, caplog):
    rows = Memory.objects.all().iterator(chunk_size=5)
    next(rows)  # a statement in progress on this connection: SQLite refuses to VACUUM
    store.erase_memories([quark.uid], actor)
    assert "still holds bytes" in caplog.text
    assert not Memory.objects.filter(uid=quark.uid).exists()
    rows.close()
    [report] = examine([doctor.erased_memories])
    assert "interrupted" in report.findings[0].text
    [report] = examine([doctor.erased_memories], fix=True)
    assert report.status is Status.OK
    assert b"xylop" not in bytes_of_the_store().lower()


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
def test_erase_that_begins_during_another_stays_recorded(quark, actor, monkeypatch):
    monkeypatch.setattr(vector_index, "overwrite_deleted", schema.begin_erase)
    store.erase_memories([quark.uid], actor)
    assert schema.is_erase_pending()
    monkeypatch.undo()
    schema.finish_erase()
    assert not schema.is_erase_pending()


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
def test_record_that_a_full_disk_left_empty_ends_too():
    Path(f"{connection.settings_dict['NAME']}-erasing").touch()
    assert schema.is_erase_pending()
    schema.finish_erase()
    assert not schema.is_erase_pending()


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
def test_worker_that_starts_completes_an_interrupted_erase(quark, actor, monkeypatch):
    monkeypatch.setattr(schema, "scrub_erased", lambda: None)
    store.erase_memories([quark.uid], actor)
    assert b"xylop" in bytes_of_the_store().lower()
    thread = threading.Thread(target=worker.finish_erase)
    thread.start()
    thread.join()
    assert b"xylop" not in bytes_of_the_store().lower()


READER = """
import sqlite3, sys
file = sqlite3.connect(sys.argv[1], isolation_level=None)
file.execute("BEGIN"); file.execute("SELECT count(*) FROM memoryhub_memory").fetchone()
print("reading", flush=True); sys.stdin.readline()
"""


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
def test_erase_during_a_read_cleans_the_log_later(remember, actor):
    name = connection.settings_dict["NAME"]
    gone = remember("the xylophonequark is secret")
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with reader:
        assert reader.stdout.readline() == "reading\n"
        began = time.monotonic()
        store.erase_memories([gone.uid], actor)
        assert time.monotonic() - began < 10  # does not wait 20 s for the reader
        reader.stdin.write("\n")
        reader.stdin.close()
    for _ in range(1200):  # a busy machine takes its time
        time.sleep(0.1)
        if b"xylophonequark" not in disk.read_bytes(name + "-wal"):
            break
    else:
        pytest.fail("the log still contains the erased memory")
    assert b"xylophonequark" not in disk.read_bytes(name)
