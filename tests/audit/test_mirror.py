"""The journal's mirror: every row once, in order, whatever happens to the file."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress

import pytest
from django.db import connection, transaction

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.audit import journal, mirror
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import JournalEntry, Memory
from tests.audit.test_journal import tamper
from tests.cases import each

pytestmark = pytest.mark.django_db(transaction=True)


def numbers(path):
    return [json.loads(line)["seq"] for line in path.read_text("utf-8").splitlines()]


def everything():
    return list(JournalEntry.objects.order_by("seq").values_list("seq", flat=True))


@pytest.fixture
def write(actor):
    """``write(3)`` stores three more memories, each in its own transaction."""
    count = 0

    def more(times: int = 1) -> None:
        nonlocal count
        for _ in range(times):
            count += 1
            memories.create_memory(MemoryDraft(content=f"memory {count} é 記憶"), actor)

    return more


def test_row_is_a_line_in_the_shape_of_the_api(write, journal_mirror):
    write(3)
    lines = [json.loads(line) for line in journal_mirror.read_text("utf-8").splitlines()]
    assert lines == [journal.to_line(row) for row in JournalEntry.objects.order_by("seq")]
    assert set(lines[0]) == set("seq at actor operation object_type object_id detail hash".split())
    assert lines[0]["at"].endswith("Z")


def test_later_written_rows_are_as_stored(write, journal_mirror):
    """A loaded row lacks the hash of a skipped text, but the mirror is compared with the stored bytes."""
    write()
    memory = Memory.objects.get()
    with transaction.atomic():
        journal.record(Actor("old"), [journal.memory_change("dedup_skip", memory, candidate_hash="5f" * 32)])
    journal_mirror.unlink()
    write()
    assert journal.compare_mirror().in_step
    assert "5f5f" in journal_mirror.read_text("utf-8")


def test_folder_and_file_are_created(write, journal_mirror):
    assert not journal_mirror.parent.exists()
    write()
    assert numbers(journal_mirror) == [1]


def test_rolled_back_change_is_not_mirrored(write, journal_mirror, actor):
    from django.db import transaction

    write()
    with suppress(RuntimeError), transaction.atomic():
        memories.create_memory(MemoryDraft(content="never"), actor)
        raise RuntimeError
    write()
    assert numbers(journal_mirror) == [1, 2]


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_incomplete_last_line_is_written_again(write, journal_mirror, cut):
    write(3)
    whole = journal_mirror.read_bytes()
    journal_mirror.write_bytes(whole[:-cut])
    write()
    assert numbers(journal_mirror) == [1, 2, 3, 4]


def test_incomplete_only_line_is_written_again(write, journal_mirror):
    write()
    journal_mirror.write_bytes(journal_mirror.read_bytes()[:20])
    write()
    assert numbers(journal_mirror) == [1, 2]
    assert len(list(journal_mirror.parent.iterdir())) == 1


def test_rows_missing_after_a_crash_are_written(write, journal_mirror, monkeypatch):
    write()
    with monkeypatch.context() as patch:
        patch.setattr(mirror, "append", lambda lines, after="": None)
        write(3)
    assert numbers(journal_mirror) == [1]
    write()
    assert numbers(journal_mirror) == [1, 2, 3, 4, 5]


def test_removed_file_is_written_again(write, journal_mirror):
    write(3)
    journal_mirror.unlink()
    write()
    assert numbers(journal_mirror) == [1, 2, 3, 4]


def test_empty_file_is_filled(write, journal_mirror):
    write(2)
    journal_mirror.write_bytes(b"")
    write()
    assert numbers(journal_mirror) == [1, 2, 3]


def test_mirror_of_a_longer_store_is_set_aside(write, journal_mirror):
    write(2)
    foreign = dict(journal.to_line(JournalEntry.objects.get(seq=2)), seq=900)
    journal_mirror.write_text(json.dumps(foreign) + "\n")
    write()
    assert numbers(journal_mirror) == [1, 2, 3]
    [kept] = [path for path in journal_mirror.parent.iterdir() if path != journal_mirror]
    assert numbers(kept) == [900]


def test_mirror_of_another_store_of_equal_length_is_set_aside(write, journal_mirror):
    """The numbers match, the rows differ."""
    write(2)
    lines = [json.loads(line) for line in journal_mirror.read_text("utf-8").splitlines()]
    foreign = [json.dumps(dict(line, hash="f" * 64)) + "\n" for line in lines]
    journal_mirror.write_text("".join(foreign), "utf-8")
    write()
    assert numbers(journal_mirror) == [1, 2, 3]
    assert len(list(journal_mirror.parent.iterdir())) == 2


@pytest.mark.parametrize(
    "garbage", [b"hello\n", b"{}\n", b"[1]\n", b'{"seq": "x", "hash": 1}\n', b"\xff\xfe\n" * 9]
)
def test_unrelated_file_is_set_aside(write, journal_mirror, garbage):
    journal_mirror.parent.mkdir(parents=True)
    journal_mirror.write_bytes(garbage)
    write(2)
    assert numbers(journal_mirror) == [1, 2]
    [kept] = [path for path in journal_mirror.parent.iterdir() if path != journal_mirror]
    assert kept.read_bytes() == garbage


def test_long_line_is_read(write, journal_mirror, actor):
    from django.db import transaction

    with transaction.atomic():
        journal.record(actor, [journal.Change("import", "run", "r", {"ids": ["x" * 16] * 9000})])
    write(2)
    assert numbers(journal_mirror) == [1, 2, 3]
    assert len(list(journal_mirror.parent.iterdir())) == 1


def test_unwritable_file_does_not_fail_the_change(write, journal_mirror, caplog):
    journal_mirror.mkdir(parents=True)
    write()
    assert everything() == [1]
    assert "journal mirror" in caplog.text
    journal_mirror.rmdir()
    write()
    assert numbers(journal_mirror) == [1, 2]


@pytest.mark.sqlite
@pytest.mark.django_db
@each("damage", ["at = 'x'", "hash = x'ff'", "seq = 'x'"])
def test_unreadable_row_does_not_fail_the_change(remember, journal_mirror, caplog, damage):
    remember("a memory")
    tamper(f"UPDATE memoryhub_journalentry SET {damage}")
    mirror.append([{"seq": 2, "hash": ""}])
    assert "journal mirror" in caplog.text


def test_rotated_file_is_started_again(write, journal_mirror):
    write(2)
    journal_mirror.rename(journal_mirror.with_suffix(".old"))
    write()
    assert numbers(journal_mirror) == [1, 2, 3]


def test_writer_that_waited_writes_to_the_new_file(write, journal_mirror):
    write()
    with mirror._locked() as locked:
        waiting = threading.Thread(target=lambda: (write(), connection.close()))
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        journal_mirror.rename(journal_mirror.with_suffix(".old"))
        assert locked.fileno() > 0
    waiting.join()
    assert numbers(journal_mirror) == [1, 2]
    assert numbers(journal_mirror.with_suffix(".old")) == [1]


def test_append_needs_no_query_if_the_mirror_is_current(write, journal_mirror, django_assert_num_queries):
    write(2)
    row, before = JournalEntry.objects.get(seq=2), JournalEntry.objects.get(seq=1)
    whole = journal_mirror.read_bytes()
    journal_mirror.write_bytes(whole[: whole.index(b"\n") + 1])
    with django_assert_num_queries(0):
        mirror.append([journal.to_line(row)], before.hash)
    assert journal_mirror.read_bytes() == whole


def test_mirror_is_readable_for_the_owner_only(write, journal_mirror):
    write()
    assert os.stat(journal_mirror).st_mode & 0o077 == 0
