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

from memoryhub.audit import journal
from memoryhub.backends import schema
from memoryhub.models import JournalEntry, Memory
from memoryhub.ops import backup, checks
from tests.commands.conftest import contents, kept_aside
from tests.commands.examining import remember
from tests.commands.test_backup import writing
from tests.ops.damaging import damage_statement

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_store")]


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
    assert journal.compare_mirror().in_step


def test_the_journal_and_its_mirror_continue_from_the_backup(run, saved):
    remember("of after")
    run("restore_backup", saved, "--yes")
    assert [row.operation for row in JournalEntry.objects.order_by("seq")] == ["insert", "restore_backup"]
    assert JournalEntry.objects.latest("seq").detail == {"file": "saved.db", "journal_rows": 1}
    remember("another")
    assert journal.verify().ok
    assert journal.compare_mirror().in_step


def test_a_backup_without_a_mirror_gets_a_new_one(run, saved):
    backup.backup_mirror_path(saved).unlink()
    remember("of after")
    run("restore_backup", saved, "--yes")
    found = journal.compare_mirror()
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


def test_a_backup_with_a_statement_that_is_not_utf8_is_refused(run, saved):
    damage_statement(saved, "memoryhub_fact")
    ran = run("restore_backup", saved, "--yes")
    assert ran.code == 1
    assert "is damaged" in ran.err


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
    assert journal.verify() == journal.Verification(True, copied.chain.rows + 1)
    assert journal.compare_mirror().in_step
    with writing():
        pass
    assert journal.verify().ok
    assert schema.find_problems(deep=True) == []


# Lost journal rows


def test_a_restored_backup_is_no_loss_of_journal_rows(run, saved):
    remember("of after")
    run("restore_backup", saved, "--yes")
    remember("another")
    assert journal.verify().ok
    assert run("verify_journal").code == 0


def test_a_restored_backup_without_its_mirror_is_no_loss_of_journal_rows(run, saved):
    backup.backup_mirror_path(saved).unlink()
    remember("of after")
    run("restore_backup", saved, "--yes")
    remember("another")
    assert journal.verify().ok


def test_an_older_file_copied_over_the_store_by_hand_is_a_loss(run, saved, own_store):
    remember("of after")
    connection.close()
    for path in own_store.parent.glob("memory.db*"):
        path.unlink()
    shutil.copy(saved, own_store)
    remember("another")
    assert journal.verify().loss == journal.pending()
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
    assert journal.verify().loss.rows == 1


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
    assert journal.compare_mirror().in_step
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
    assert backup.set_aside() == [missing]


def test_the_advice_for_a_missing_store_puts_it_back(run, missing):
    assert run("restore_backup", missing, "--yes").code == 0
    assert contents() == {"of before"}
    assert backup.set_aside() == []


def test_a_store_set_aside_next_to_a_present_one_is_no_error(run, saved):
    run("restore_backup", saved, "--yes")
    assert checks.store_is_there() == []
