"""``backup``: a copy of the store that is whole, whatever goes on meanwhile."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from django.db import connection

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.ops import backup
from tests.commands.conftest import spoil, tamper

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_store")]
WRITER = Actor("token:writer", Clearance.up_to("secret", "ada"))


def remember(content: str, **fields: object) -> None:
    memories.create_memory(MemoryDraft(content=content, **fields), WRITER)


@contextmanager
def writing(threads: int = 3) -> Iterator[None]:
    """Agents that store memories until the block ends."""
    done = threading.Event()
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            count = 0
            while not done.is_set():
                remember(f"writer {number} memory {count}", project=f"p{number}")
                count += 1
        except BaseException as error:  # noqa: BLE001 reported to the test below
            errors.append(error)
        finally:
            connection.close()

    workers = [threading.Thread(target=write, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        done.set()
        for worker in workers:
            worker.join()
    assert errors == []


def copies(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.db"))


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as file:
        return file.execute(sql).fetchall()


def test_a_backup_contains_rows_of_the_write_ahead_log(run, home):
    remember("in the log")
    ran = run("backup")
    assert ran.code == 0
    [copy] = copies(home / "backups")
    assert rows(copy, "SELECT content FROM memoryhub_memory") == [("in the log",)]
    assert "memories 1, in the trash 0" in ran.out
    assert "journal rows 1" in ran.out


def test_a_backup_is_one_file_and_the_mirror_with_mode_0600(run, home):
    remember("words")
    run("backup")
    [copy] = copies(home / "backups")
    names = {path.name for path in (home / "backups").iterdir()}
    assert names == {copy.name, copy.name.removesuffix(".db") + ".journal.jsonl"}
    assert {path.stat().st_mode & 0o777 for path in (home / "backups").iterdir()} == {0o600}
    assert (home / "backups").stat().st_mode & 0o777 == 0o700
    assert rows(copy, "PRAGMA journal_mode") == [("delete",)]


def test_backups_during_writes_are_complete_and_contain_all_earlier_rows(run, home):
    for n in range(50):
        remember(f"before {n}")
    with writing():
        for _ in range(4):
            assert run("backup").code == 0
    found = copies(home / "backups")
    assert len(found) == 4
    sizes = []
    for copy in found:
        contents = backup.inspect(copy)
        assert contents.chain.ok
        # Every memory has the row of its insert in the same copy: no transaction is torn.
        assert contents.chain.rows == contents.memories
        lines = backup.backup_mirror_path(copy).read_text().splitlines()
        assert 50 <= len(lines) <= contents.chain.rows
        assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
        sizes.append(contents.memories)
    assert sizes[0] >= 50
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]


def test_a_folder_or_a_file_may_be_named(run, tmp_path):
    remember("words")
    run("backup", tmp_path / "new" / "folder")
    assert len(copies(tmp_path / "new" / "folder")) == 1
    run("backup", tmp_path / "mine.db")
    assert (tmp_path / "mine.db").is_file()
    assert (tmp_path / "mine.journal.jsonl").is_file()


def test_a_file_that_is_there_is_never_overwritten(run, tmp_path):
    (tmp_path / "mine.db").write_text("precious")
    ran = run("backup", tmp_path / "mine.db")
    assert ran.code == 1
    assert "exists" in ran.err
    assert (tmp_path / "mine.db").read_text() == "precious"


def test_only_the_newest_are_kept_and_nothing_else_is_touched(run, tmp_path):
    remember("words")
    folder = tmp_path / "b"
    run("backup", folder)
    (folder / "notes.db").write_text("mine")
    (folder / "memoryhub-2020.db").write_text("mine")
    for _ in range(3):
        ran = run("backup", folder, "--keep", 2)
    assert ran.out.count("Removed") == 1
    left = {path.name for path in folder.iterdir()}
    assert {"notes.db", "memoryhub-2020.db"} < left
    made = sorted(left - {"notes.db", "memoryhub-2020.db"})
    assert len([name for name in made if name.endswith(".db")]) == 2
    assert len([name for name in made if name.endswith(".journal.jsonl")]) == 2


def test_to_keep_none_is_refused(run, home):
    assert "--keep must be at least 1" in run("backup", "--keep", 0).err
    assert not (home / "backups").exists()


def test_without_a_mirror_the_store_alone_is_copied(run, home):
    run("backup")
    assert [path.suffix for path in (home / "backups").iterdir()] == [".db"]


def test_a_line_of_the_mirror_that_is_being_written_is_left_out(run, home, settings):
    remember("words")
    with settings.MEMORY_LOG.open("ab") as file:
        file.write(b'{"seq":2,"at":')
    run("backup")
    [copy] = copies(home / "backups")
    assert len(backup.backup_mirror_path(copy).read_bytes().splitlines()) == 1


def test_a_backup_that_cannot_be_written_is_reported_and_leaves_no_file(run, tmp_path, monkeypatch):
    remember("words")

    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup, "sync", full)
    ran = run("backup", tmp_path / "b")
    assert ran.code == 1
    assert "No space left" in ran.err
    assert list((tmp_path / "b").iterdir()) == []


def test_a_damaged_store_is_not_passed_off_as_a_backup(run, own_store, tmp_path):
    for n in range(200):
        remember(f"memory {n} " + "words " * 50)
    connection.close()
    spoil(own_store)
    ran = run("backup", tmp_path / "b")
    assert ran.code == 1
    assert "damaged" in ran.err
    assert copies(tmp_path / "b") == []


def test_a_tampered_journal_is_copied_faithfully_and_pointed_out(run, own_store, tmp_path):
    remember("words")
    tamper(
        own_store, "DROP TRIGGER memoryhub_journal_no_update", "UPDATE memoryhub_journalentry SET actor = 'x'"
    )
    ran = run("backup", tmp_path / "b")
    assert ran.code == 1
    assert "the journal's chain is broken at row 1" in ran.out
    assert len(copies(tmp_path / "b")) == 1


def test_without_a_store_there_is_nothing_to_back_up(run, own_store, tmp_path):
    connection.close()
    own_store.unlink()
    ran = run("backup", tmp_path / "b")
    assert ran.code == 1
    assert "there is no store" in ran.err
    assert not own_store.exists()
