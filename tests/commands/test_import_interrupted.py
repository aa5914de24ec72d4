"""``import_memories``: an import that was interrupted goes on where it was."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import contextmanager

import pytest
from django.db import OperationalError, connection

from memoryhub import memories as store
from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Fact, Memory
from memoryhub.transfer import loader
from tests.database import without_journal_triggers

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("home")]


@pytest.fixture
def interrupted(monkeypatch):
    """``with interrupted(2):`` batches of two, of which the third is interrupted before it is stored."""

    @contextmanager
    def arm(batches: int, error: BaseException):
        real, left = store.create_memories, [batches]

        def remember_many(*args, **kwargs):
            if not left[0]:
                raise error
            left[0] -= 1
            return real(*args, **kwargs)

        with monkeypatch.context() as patched:
            patched.setattr(loader, "BATCH_SIZE", 2)
            patched.setattr(loader, "BATCH_CHARACTERS", 1_000_000)
            patched.setattr(store, "create_memories", remember_many)
            yield

    return arm


def six(jsonl, **more):
    return jsonl(*({"content": f"memory {n}"} for n in range(6)), **more)


def test_an_interrupted_import_prints_how_to_resume_and_resumes_there(run, jsonl, home, interrupted):
    path = six(jsonl)
    with interrupted(2, KeyboardInterrupt()):
        ran = run("import_memories", path, "--project", "a zoo")
    assert ran.code == 130
    assert f"import_memories {path} --project 'a zoo' --resume" in ran.err
    assert Memory.objects.count() == 4
    ran = run("import_memories", path, "--project", "a zoo", "--resume")
    assert "Continuing after line 4" in ran.out
    assert "2 created, 0 refreshed" in ran.out
    assert Memory.objects.count() == 6
    assert list((home / "imports").iterdir()) == []


def test_a_busy_store_stops_an_import_in_words(run, jsonl, interrupted):
    with interrupted(1, OperationalError("database is locked")):
        ran = run("import_memories", six(jsonl))
    assert ran.code == 1
    assert "stopped: database is locked" in ran.err
    assert "--resume" in ran.err
    assert Memory.objects.count() == 2


def test_a_folder_without_room_for_the_map_of_ids_stops_an_import_in_words(run, jsonl, monkeypatch):
    def fail(*args: object, **options: object) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(sqlite3, "connect", fail)
    ran = run("import_memories", six(jsonl))
    assert ran.code == 1
    assert "stopped: unable to open database file. See manage.py doctor." in ran.err


def test_without_resume_it_starts_again_and_mentions_the_interruption(run, jsonl, interrupted):
    path = six(jsonl)
    with interrupted(1, KeyboardInterrupt()):
        run("import_memories", path)
    ran = run("import_memories", path)
    assert "An earlier run stopped after line 2" in ran.out
    assert "4 created, 2 refreshed" in ran.out


def test_the_position_is_found_though_the_file_was_moved_or_packed(run, jsonl, interrupted, tmp_path):
    path = six(jsonl)
    with interrupted(1, KeyboardInterrupt()):
        run("import_memories", path)
    elsewhere = tmp_path / "elsewhere.gz"
    elsewhere.write_bytes(gzip.compress(path.read_bytes()))
    assert "Continuing after line 2" in run("import_memories", elsewhere, "--resume").out


def test_an_import_resumes_in_a_file_that_has_grown(run, jsonl, interrupted):
    lines = [{"content": f"memory {n} " + "x" * 40_000} for n in range(6)]
    with interrupted(2, KeyboardInterrupt()):
        run("import_memories", jsonl(*lines))
    ran = run("import_memories", jsonl(*lines, {"content": "added"}), "--resume")
    assert "Continuing after line 4" in ran.out
    assert Memory.objects.count() == 7


def test_a_file_that_changed_before_the_position_is_read_from_the_beginning(run, jsonl, interrupted):
    lines = [{"content": f"memory {n} " + "x" * 40_000} for n in range(6)]
    with interrupted(2, KeyboardInterrupt()):
        run("import_memories", jsonl(*lines))
    lines[2]["content"] = "changed " + "y" * 40_000
    ran = run("import_memories", jsonl(*lines), "--resume")
    assert "starting at the beginning" in ran.out
    assert "3 created, 3 refreshed" in ran.out


def test_another_store_begins_at_the_beginning(run, jsonl, interrupted):
    path = six(jsonl)
    with interrupted(2, KeyboardInterrupt()):
        run("import_memories", path)
    with without_journal_triggers(), connection.cursor() as cursor:
        cursor.execute("UPDATE memoryhub_journalentry SET hash = 'of another store'")
    ran = run("import_memories", path, "--resume")
    assert "starting at the beginning" in ran.out


def test_resume_without_an_interruption_begins_at_the_beginning(run, jsonl):
    ran = run("import_memories", six(jsonl), "--resume")
    assert ran.code == 0
    assert "No interrupted import of this file is known" in ran.out
    assert "6 created" in ran.out


def test_a_position_that_cannot_be_read_is_none(run, jsonl, home, interrupted):
    path = six(jsonl)
    with interrupted(1, KeyboardInterrupt()):
        run("import_memories", path)
    [kept] = (home / "imports").glob("*.json")
    kept.write_text("{")
    assert "No interrupted import" in run("import_memories", path, "--resume").out


def test_an_import_that_cannot_be_resumed_is_reported(run, jsonl):
    assert "--resume cannot be combined" in run("import_memories", "-", "--resume").err
    assert "--resume cannot be combined" in run("import_memories", six(jsonl), "--resume", "--dry-run").err


def test_an_import_of_another_format_resumes_by_its_items(run, tmp_path, interrupted):
    path = tmp_path / "CLAUDE.md"
    path.write_text("# Rules\n\n" + "".join(f"- rule number {n}\n" for n in range(6)))
    with interrupted(2, KeyboardInterrupt()):
        ran = run("import_memories", path)
    assert "--resume" in ran.err
    assert Memory.objects.count() == 4
    ran = run("import_memories", path, "--resume")
    assert "Continuing after item 4" in ran.out
    assert "2 created, 0 refreshed" in ran.out
    path.write_text(path.read_text() + "- another rule\n")
    assert "7 memories" in run("import_memories", path).out


def test_a_file_of_another_kind_that_changed_is_read_from_the_beginning(run, tmp_path, interrupted):
    path = tmp_path / "CLAUDE.md"
    path.write_text("# Rules\n\n" + "".join(f"- rule number {n} {'x' * 30_000}\n" for n in range(6)))
    with interrupted(2, KeyboardInterrupt()):
        run("import_memories", path)
    path.write_text(path.read_text() + "- another rule\n")
    ran = run("import_memories", path, "--resume")
    assert "starting at the beginning" in ran.out
    assert "3 created, 4 refreshed" in ran.out


def test_references_to_rows_before_the_interruption_are_resolved(run, jsonl, home, interrupted):
    memories = [{"content": f"memory {n}", "id": f"id{n}", "project": "zoo"} for n in range(4)]
    fact = {
        "kind": "fact",
        "subject": "s",
        "predicate": "p",
        "object": "o",
        "project": "zoo",
        "memory_id": "id0",
    }
    store.create_memory(MemoryDraft(content="memory 0", project="zoo"), Actor("token:before", Clearance()))
    path = jsonl(*memories, fact)
    with interrupted(1, KeyboardInterrupt()):
        run("import_memories", path)
    ran = run("import_memories", path, "--resume")
    assert ran.code == 0
    assert Fact.objects.get().memory.content == "memory 0"
    assert list((home / "imports").iterdir()) == []
