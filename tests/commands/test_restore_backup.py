"""``restore_backup``: the store of before, whole, and nothing lost of the one it replaces."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.audit import journal, verification
from memoryhub.backends import schema
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import JournalEntry, Memory
from memoryhub.ops import backup, checks, restore
from tests.commands.conftest import tamper
from tests.commands.test_backup import writing

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_store")]
WRITER = Actor("token:writer", Clearance.up_to("secret", "ada"))


def remember(content: str) -> Memory:
    return memories.create_memory(MemoryDraft(content=content), WRITER).memory


def contents() -> set[str]:
    return set(Memory.objects.values_list("content", flat=True))


@pytest.fixture
def saved(run, tmp_path: Path) -> Path:
    """A backup of a store that held one memory."""
    remember("of before")
    assert run("backup", tmp_path / "saved.db").code == 0
    return tmp_path / "saved.db"


def kept_aside(live: Path) -> Path:
    [path] = live.parent.glob("memory-before-restore-*.db")
    return path


def test_the_store_is_again_what_it_was(run, saved, own_store):
    remember("of after")
    ran = run("restore_backup", saved, "--yes")
    assert ran.code == 0
    assert contents() == {"of before"}
    assert schema.find_problems(deep=True) == []
    assert own_store.stat().st_mode & 0o777 == 0o600
    with connection.cursor() as cursor:
        assert cursor.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_restored_store_can_be_searched_and_written_to(run, saved):
    run("restore_backup", saved, "--yes")
    assert Memory.objects.search("before").count() == 1
    remember("a new one")
    assert Memory.objects.search("new").count() == 1


def test_the_replaced_store_is_kept_under_another_name(run, saved, own_store):
    remember("of after")
    ran = run("restore_backup", saved, "--yes")
    kept = kept_aside(own_store)
    assert str(kept) in ran.out
    with closing(sqlite3.connect(kept)) as file:
        assert sorted(file.execute("SELECT content FROM memoryhub_memory")) == [("of after",), ("of before",)]


def test_the_replaced_store_can_be_restored(run, saved, own_store):
    remember("of after")
    run("restore_backup", saved, "--yes")
    assert run("restore_backup", kept_aside(own_store), "--yes").code == 0
    assert contents() == {"of before", "of after"}
    assert verification.compare_mirror().in_step


def test_the_journal_and_its_mirror_continue_from_the_backup(run, saved):
    remember("of after")
    run("restore_backup", saved, "--yes")
    assert [row.operation for row in JournalEntry.objects.order_by("seq")] == ["insert", "restore_backup"]
    assert JournalEntry.objects.latest("seq").detail == {"file": "saved.db", "journal_rows": 1}
    remember("another")
    assert verification.verify().ok
    assert verification.compare_mirror().in_step


def test_a_backup_without_a_mirror_gets_a_new_one(run, saved):
    backup.backup_mirror_path(saved).unlink()
    remember("of after")
    run("restore_backup", saved, "--yes")
    found = verification.compare_mirror()
    assert found.in_step
    assert found.lines == 2


def test_the_mirror_of_the_store_that_is_replaced_is_kept(run, saved, own_store, settings):
    remember("of after")
    before = settings.MEMORY_LOG.read_bytes()
    run("restore_backup", saved, "--yes")
    assert backup.backup_mirror_path(kept_aside(own_store)).read_bytes() == before


def test_without_yes_nothing_is_replaced_and_both_are_described(run, saved):
    remember("of after")
    ran = run("restore_backup", saved)
    assert ran.code == 1
    assert "--yes renames it and restores the backup" in ran.err
    assert "memories 1," in ran.out
    assert "memories 2," in ran.out
    assert contents() == {"of before", "of after"}


def test_restoring_without_a_present_store_needs_no_confirmation(run, saved, own_store):
    connection.close()
    for path in own_store.parent.glob("memory.db*"):
        path.unlink()
    assert run("restore_backup", saved).code == 0
    assert contents() == {"of before"}


def test_a_dry_run_verifies_and_changes_nothing(run, saved):
    remember("of after")
    ran = run("restore_backup", saved, "--dry-run")
    assert ran.code == 0
    assert "memories 1," in ran.out
    assert contents() == {"of before", "of after"}


def test_a_store_in_use_is_not_replaced(run, saved, own_store):
    remember("of after")
    with closing(sqlite3.connect(own_store)) as server:
        server.execute("SELECT count(*) FROM memoryhub_memory").fetchone()
        ran = run("restore_backup", saved, "--yes")
    assert ran.code == 1
    assert "is in use; stop the server" in ran.err
    assert contents() == {"of before", "of after"}
    assert list(own_store.parent.glob("*before-restore*")) == []


def test_no_file_is_left_next_to_the_store(run, saved, own_store):
    run("restore_backup", saved, "--yes")
    run("restore_backup", saved.parent / "gone.db", "--yes")
    connection.close()
    assert [path.name for path in own_store.parent.iterdir() if path.name.startswith(".")] == []


def test_a_round_trip_under_writers_keeps_every_memory_of_the_copy(run, tmp_path, own_store):
    for n in range(20):
        remember(f"before {n}")
    with writing():
        run("backup", tmp_path / "live.db")
    copied = backup.inspect(tmp_path / "live.db")
    live = Memory.objects.count()
    assert run("restore_backup", tmp_path / "live.db", "--yes").code == 0
    assert 20 <= Memory.objects.count() == copied.memories <= live
    assert verification.verify() == verification.Verification(True, copied.chain.rows + 1)
    assert verification.compare_mirror().in_step
    with writing():
        pass
    assert verification.verify().ok
    assert schema.find_problems(deep=True) == []


# Which files are taken


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
    settings_log = verification.compare_mirror()

    def fail(*args: object, **options: object) -> None:
        raise OSError("the migration failed")

    monkeypatch.setattr(restore, "call_command", fail)
    ran = run("restore_backup", saved, "--yes")
    assert ran.code == 1
    assert "The current store is as it was before" in ran.err
    assert contents() == {"of before", "of after"}
    assert verification.compare_mirror() == settings_log
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
    assert verification.compare_mirror().in_step
    assert list(own_store.parent.glob("*before-restore*")) == []


def test_a_store_that_is_damaged_is_moved_aside_and_replaced(run, saved, own_store):
    connection.close()
    own_store.write_bytes(b"damaged beyond repair " * 1000)
    ran = run("restore_backup", saved)
    assert "what cannot be read" in ran.out
    assert run("restore_backup", saved, "--yes").code == 0
    assert contents() == {"of before"}
    assert kept_aside(own_store).read_bytes().startswith(b"damaged beyond repair")


# Lost journal rows


def test_a_restored_backup_is_no_loss_of_journal_rows(run, saved):
    remember("of after")
    run("restore_backup", saved, "--yes")
    remember("another")
    assert verification.verify().ok
    assert run("verify_journal").code == 0


def test_a_restored_backup_without_its_mirror_is_no_loss_of_journal_rows(run, saved):
    backup.backup_mirror_path(saved).unlink()
    remember("of after")
    run("restore_backup", saved, "--yes")
    remember("another")
    assert verification.verify().ok


def test_an_older_file_copied_over_the_store_by_hand_is_a_loss(run, saved, own_store):
    remember("of after")
    connection.close()
    for path in own_store.parent.glob("memory.db*"):
        path.unlink()
    shutil.copy(saved, own_store)
    remember("another")
    assert verification.verify().loss == journal.pending()
    assert journal.pending().rows == 1
    assert run("verify_journal").code == 1


def test_a_lost_write_ahead_log_is_reported_after_the_next_write(own_store):
    remember("of before")
    with closing(sqlite3.connect(own_store, isolation_level=None)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        remember("only in the log")
        shutil.copy(own_store, own_store.with_name("without-log"))
    connection.close()
    own_store.with_name("without-log").replace(own_store)
    assert contents() == {"of before"}
    remember("the next")
    assert verification.verify().loss.rows == 1


# Interruptions


def whole_store(live: Path) -> set[str]:
    """Contents of the store's file, which must be sound."""
    with closing(sqlite3.connect(live)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return {content for (content,) in file.execute("SELECT content FROM memoryhub_memory")}


@pytest.mark.parametrize("failing", ["link", "replace", "unlink"])
def test_an_interrupt_at_any_step_leaves_the_present_store(run, saved, own_store, monkeypatch, failing):
    remember("of after")
    connection.close()
    usual = getattr(os, failing)
    interrupted = []

    def interrupt(source, *more, **named):
        if not interrupted and "memory" in str(source):
            interrupted.append(source)
            raise KeyboardInterrupt
        return usual(source, *more, **named)

    monkeypatch.setattr(os, failing, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run("restore_backup", saved, "--yes")
    assert interrupted
    assert contents() == {"of before", "of after"}
    assert verification.compare_mirror().in_step
    assert list(own_store.parent.glob("*before-restore*")) == []


def test_without_hard_links_the_store_is_kept_as_a_copy(run, saved, own_store, monkeypatch):
    def refuse(*arguments):
        raise OSError(95, "Operation not supported")

    remember("of after")
    monkeypatch.setattr(os, "link", refuse)
    assert run("restore_backup", saved, "--yes").code == 0
    assert whole_store(kept_aside(own_store)) == {"of before", "of after"}
    assert contents() == {"of before"}


@pytest.fixture
def missing(own_store: Path) -> Path:
    """The store was set aside, and nothing took its place."""
    remember("of before")
    connection.close()
    return own_store.rename(own_store.with_name("memory-before-restore-20260101T000000000Z.db"))


@pytest.mark.parametrize(
    "command", [["serve", "--port", "8765"], ["migrate"], ["quickstart", "--no-demo", "--prepare-only"]]
)
@pytest.mark.parametrize("connected_before", [False, True])
def test_no_empty_store_is_created_next_to_one_that_was_set_aside(
    missing, own_store, command, connected_before
):
    if connected_before:
        connection.ensure_connection()  # makes an empty file
        connection.close()
    with pytest.raises(SystemCheckError) as refused:
        call_command(*command, skip_checks=False)
    assert "E005" in str(refused.value)
    assert str(missing) in str(refused.value)
    assert f"restore_backup {missing} --yes" in str(refused.value)
    assert restore.set_aside() == [missing]


def test_the_advice_for_a_missing_store_puts_it_back(run, missing):
    assert run("restore_backup", missing, "--yes").code == 0
    assert contents() == {"of before"}
    assert restore.set_aside() == []


def test_a_store_set_aside_next_to_a_present_one_is_no_error(run, saved):
    run("restore_backup", saved, "--yes")
    assert checks.store_is_there() == []
