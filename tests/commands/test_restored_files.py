"""``restore_backup``: which files it takes, and which it refuses."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection

from memoryhub.audit import journal
from memoryhub.backends import schema
from memoryhub.ops import backup
from tests.commands.conftest import contents, kept_aside, tamper
from tests.commands.examining import remember

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_store")]


def test_a_raw_copy_with_its_log_is_restored_and_not_changed(run, own_store, tmp_path):
    remember("in the log")
    raw = tmp_path / "raw.db"
    for end in ("", "-wal"):
        shutil.copy(f"{own_store}{end}", f"{raw}{end}")
    before = {path: path.read_bytes() for path in tmp_path.glob("raw.db*")}
    assert len(before) == 2
    assert run("restore_backup", raw, "--yes").code == 0
    assert contents() == {"in the log"}
    assert {path: path.read_bytes() for path in tmp_path.glob("raw.db*")} == before


def test_the_log_of_a_linked_copy_is_read_next_to_its_target(run, own_store, tmp_path):
    remember("of before")
    for end in ("", "-wal"):
        shutil.copyfile(f"{own_store}{end}", tmp_path / f"raw.db{end}")
    (tmp_path / "link.db").symlink_to("raw.db")
    remember("of after")
    assert run("restore_backup", tmp_path / "link.db", "--yes").code == 0
    assert contents() == {"of before"}


def test_a_store_behind_a_link_is_replaced_where_it_is(run, saved, own_store, tmp_path):
    connection.close()
    disk = tmp_path / "disk"
    disk.mkdir()
    target = own_store.rename(disk / "memory.db")
    own_store.symlink_to(target)
    remember("of after")
    assert run("restore_backup", saved, "--yes").code == 0
    assert own_store.is_symlink()
    assert contents() == {"of before"}
    assert run("restore_backup", kept_aside(target), "--yes").code == 0
    assert contents() == {"of before", "of after"}


@pytest.mark.parametrize(
    ("raw", "said"),
    [(b"no database at all" * 100, "not an SQLite database"), (b"", "it lacks django_migrations")],
)
def test_a_file_that_is_not_a_store_is_refused(run, tmp_path, raw, said):
    remember("stays")
    path = tmp_path / "x.db"
    path.write_bytes(raw)
    ran = run("restore_backup", path, "--yes")
    assert ran.code == 1
    assert said in ran.err
    assert str(path) in ran.err
    assert contents() == {"stays"}


def test_another_programs_database_is_refused(run, tmp_path):
    with closing(sqlite3.connect(tmp_path / "x.db")) as file:
        file.execute("CREATE TABLE notes(text)")
    assert "is not a store of memoryhub" in run("restore_backup", tmp_path / "x.db", "--yes").err


def test_a_backup_cut_short_is_refused(run, saved):
    remember("stays")
    with saved.open("r+b") as file:
        file.truncate(saved.stat().st_size // 2)
    ran = run("restore_backup", saved, "--yes")
    assert ran.code == 1
    assert "damaged" in ran.err
    assert contents() == {"of before", "stays"}


def test_a_missing_file_or_the_store_in_use_is_refused(run, tmp_path, own_store):
    assert "there is no such file" in run("restore_backup", tmp_path / "gone.db").err
    assert "is the store in use" in run("restore_backup", own_store, "--yes").err


def test_a_backup_of_a_newer_version_is_refused(run, saved):
    tamper(
        saved,
        "INSERT INTO django_migrations(app, name, applied) VALUES ('memoryhub', '9999_later', '2030-01-01')",
    )
    ran = run("restore_backup", saved, "--yes")
    assert ran.code == 1
    assert "a newer version of memoryhub wrote it (memoryhub.9999_later)" in ran.err


def test_a_backup_that_needs_a_newer_version_is_refused(run, saved):
    tamper(saved, "PRAGMA user_version = 99001002")
    ran = run("restore_backup", saved, "--yes")
    assert ran.code == 1
    assert "it needs 99.1.2 or newer" in ran.err


def test_a_tampered_backup_is_taken_only_by_force(run, saved):
    tamper(saved, "DROP TRIGGER memoryhub_journal_no_update", "UPDATE memoryhub_journalentry SET actor = 'x'")
    remember("of after")
    ran = run("restore_backup", saved, "--yes")
    assert ran.code == 1
    assert "--force restores it anyway" in ran.err
    assert contents() == {"of before", "of after"}
    assert run("restore_backup", saved, "--yes", "--force").code == 0
    assert contents() == {"of before"}
    assert schema.find_problems() == []


def test_a_backup_with_a_changed_text_is_taken_only_by_force(run, saved):
    tamper(saved, "UPDATE memoryhub_memory SET content = 'of bEfore'")
    ran = run("restore_backup", saved, "--yes")
    assert ran.code == 1
    assert "the text of 1 memories was changed" in ran.out
    assert "--force restores it anyway" in ran.err
    assert run("restore_backup", saved, "--yes", "--force").code == 0


def test_a_backup_of_a_store_with_a_changed_text_is_reported(run, own_store):
    uid = remember("of before").uid
    tamper(own_store, "UPDATE memoryhub_memory SET content = 'of bEfore'")
    ran = run("backup")
    assert ran.code == 1
    assert uid in ran.out


def test_triggers_that_the_backup_lacks_are_installed(run, saved):
    tamper(
        saved, *(f"DROP TRIGGER {name}" for name in ("memoryhub_text_insert", "memoryhub_journal_no_delete"))
    )
    assert run("restore_backup", saved, "--yes").code == 0
    assert schema.find_problems(deep=True) == []


def test_an_older_backup_is_migrated(run, tmp_path):
    remember("of an older version")
    call_command("migrate", "sessions", "zero", verbosity=0)
    assert "django_session" not in connection.introspection.table_names()
    run("backup", tmp_path / "older.db")
    call_command("migrate", verbosity=0)
    assert run("restore_backup", tmp_path / "older.db", "--yes").code == 0
    assert "django_session" in connection.introspection.table_names()
    assert contents() == {"of an older version"}


def test_when_its_migration_fails_the_present_store_is_back(run, saved, own_store, monkeypatch):
    remember("of after")
    settings_log = journal.compare_mirror()

    def fail(*args: object, **options: object) -> None:
        raise OSError("the migration failed")

    monkeypatch.setattr(backup, "call_command", fail)
    ran = run("restore_backup", saved, "--yes")
    assert ran.code == 1
    assert "The current store is as it was before" in ran.err
    assert contents() == {"of before", "of after"}
    assert journal.compare_mirror() == settings_log
    assert list(own_store.parent.glob("*before-restore*")) == []


def test_when_the_present_store_cannot_be_moved_as_a_whole_all_of_it_stays(
    run, saved, own_store, monkeypatch
):
    remember("of after")
    move = shutil.move

    def fail_for_the_mirror(source: Path, target: Path) -> None:
        if Path(source).suffix == ".jsonl":
            raise OSError(28, "No space left on device")
        move(source, target)

    monkeypatch.setattr(shutil, "move", fail_for_the_mirror)
    ran = run("restore_backup", saved, "--yes")
    assert ran.code == 1
    assert "No space left" in ran.err
    assert contents() == {"of before", "of after"}
    assert journal.compare_mirror().in_step
    assert list(own_store.parent.glob("*before-restore*")) == []


def test_a_store_that_is_damaged_is_moved_aside_and_replaced(run, saved, own_store):
    connection.close()
    own_store.write_bytes(b"damaged beyond repair " * 1000)
    ran = run("restore_backup", saved)
    assert "what cannot be read" in ran.out
    assert run("restore_backup", saved, "--yes").code == 0
    assert contents() == {"of before"}
    assert kept_aside(own_store).read_bytes().startswith(b"damaged beyond repair")
