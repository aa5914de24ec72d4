"""``doctor``: defects of the store are found, and repaired where that is safe."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing

import pytest
from django.core.management import call_command
from django.db import connection

from memoryhub.audit import journal, mirror
from memoryhub.backends import schema
from memoryhub.backends.release import COPY_MARK
from memoryhub.models import Lease, Memory
from memoryhub.ops.doctor import Status, examine, fail
from tests.commands.conftest import spoil, tamper
from tests.commands.examining import look, named, remember
from tests.database import cut_journal, without_journal_triggers

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_store", "on_loopback")]


def test_a_missing_store_fails_and_is_not_created(run, own_store):
    connection.close()
    for path in own_store.parent.glob("memory.db*"):
        path.unlink()
    ran = run("doctor")
    assert ran.code == 1
    assert "FAIL  store: there is no store at" in ran.out
    assert "→ Make an empty one: manage.py migrate." in ran.out
    assert "SKIP  tokens: skipped because of: tables" in ran.out
    assert not own_store.exists()


def test_a_file_that_is_no_database_fails(run, own_store):
    connection.close()
    for path in own_store.parent.glob("memory.db?*"):
        path.unlink()
    own_store.write_bytes(b"something else" * 1000)
    ran = run("doctor")
    assert ran.code == 1
    assert "is not an SQLite database" in ran.out
    assert own_store.read_bytes().startswith(b"something else")


def test_a_store_without_its_log_fails(own_store):
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode=DELETE")
    assert "mode delete" in look(named("write-ahead log")).text


def test_migrations_that_are_pending_fail(own_store):
    call_command("migrate", "sessions", "zero", verbosity=0)
    found = look(named("migrations"))
    assert found.status is Status.FAIL
    assert "not applied: sessions.0001_initial" in found.text


def test_an_unfinished_copy_fails(own_store):
    Lease.objects.create(name=COPY_MARK)
    found = look(named("migrations"))
    assert found.status is Status.FAIL
    assert "copy_store was interrupted" in found.text


def test_a_store_of_a_newer_version_fails(own_store):
    tamper(
        own_store,
        "INSERT INTO django_migrations(app,name,applied) VALUES ('memoryhub','9999_x','2030-01-01')",
    )
    found = look(named("migrations"))
    assert found.status is Status.FAIL
    assert "a newer version" in found.text


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TRIGGER memoryhub_trigram_update",
        "DROP TRIGGER memoryhub_journal_no_delete",
        "DROP TABLE memoryhub_trigram",
    ],
)
def test_an_incomplete_schema_fails_and_is_fixed(sound, damage):
    connection.close()
    tamper(sound, damage)
    assert look(named("triggers")).status is Status.FAIL
    report = next(examine([named("triggers")], fix=True))
    assert report.status is Status.OK
    assert schema.find_problems(deep=True) == []


def test_an_index_that_does_not_fit_fails_and_is_rebuilt(sound):
    tamper(sound, "INSERT INTO memoryhub_text(memoryhub_text) VALUES ('delete-all')")
    assert Memory.objects.search("words").count() == 0
    assert look(named("text index")).status is Status.FAIL
    report = next(examine([named("text index")], fix=True))
    assert report.status is Status.OK
    assert Memory.objects.search("words").count() == 1


def test_the_index_is_examined_while_another_process_writes(sound):
    with closing(sqlite3.connect(sound, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert look(named("text index")).status is Status.OK


def test_without_room_for_a_copy_the_index_is_examined_in_place(sound, monkeypatch):
    def full(**options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    assert look(named("text index")).status is Status.OK
    tamper(sound, "INSERT INTO memoryhub_text(memoryhub_text) VALUES ('delete-all')")
    assert look(named("text index")).status is Status.FAIL


def test_a_damaged_file_fails(sound):
    for n in range(100):
        remember(f"memory {n} " + "words " * 50, tags=[f"t{n}"])
    connection.close()
    spoil(sound)
    found = named("integrity").findings()
    assert {one.status for one in found} == {Status.FAIL}


def test_rows_that_belong_to_none_fail(sound):
    tamper(sound, "DELETE FROM memoryhub_memory")
    remember_orphan = "INSERT INTO memoryhub_label(memory_id, kind, value) VALUES (999, 'tag', 'x')"
    tamper(sound, remember_orphan)
    found = look(named("integrity"))
    assert found == fail(
        "1 rows belong to rows that are gone", "Restore a backup: manage.py restore_backup FILE."
    )


def test_a_tampered_journal_fails_and_is_not_fixed(sound):
    with without_journal_triggers(), connection.cursor() as cursor:
        cursor.execute("UPDATE memoryhub_journalentry SET actor = 'x' WHERE seq = 1")
    report = next(examine([named("journal")], fix=True))
    assert report.status is Status.FAIL
    assert "broken at row 1" in report.findings[0].text
    assert not journal.verify().ok


def test_a_mirror_that_is_behind_is_a_warning_and_is_fixed(sound, settings):
    settings.MEMORY_LOG.unlink()
    assert look(named("mirror")).status is Status.WARN
    report = next(examine([named("mirror")], fix=True))
    assert (report.status, report.fixed) == (Status.OK, ["added the missing rows to the mirror"])
    assert journal.compare_mirror().in_step


def test_a_mirror_that_contradicts_the_store_fails_and_is_kept(sound, settings):
    settings.MEMORY_LOG.write_text(
        settings.MEMORY_LOG.read_text().replace("claude", "clause").replace("a", "b")
    )
    before = settings.MEMORY_LOG.read_bytes()
    report = next(examine([named("mirror")], fix=True))
    assert (report.status, report.fixed) == (Status.FAIL, [])
    assert "evidence" in report.findings[0].hint
    assert settings.MEMORY_LOG.read_bytes() == before


def test_lost_journal_rows_fail_until_they_are_acknowledged(sound, run):
    cut_journal(1)
    remember("the next")
    found = look(named("journal loss"))
    assert found.status is Status.FAIL
    assert "lost (2" in found.text
    assert "--acknowledge-loss" in found.hint
    run("verify_journal", "--acknowledge-loss")
    assert look(named("journal loss")).status is Status.WARN


def test_mirrors_that_were_set_aside_are_listed(sound):
    assert look(named("journal loss")).status is Status.OK
    kept = mirror.move_aside()
    found = look(named("journal loss"))
    assert found.status is Status.WARN
    assert kept.name in found.text


def test_a_store_that_is_missing_next_to_one_set_aside_fails_and_names_it(sound):
    connection.close()
    aside = sound.rename(sound.with_name("memory-before-restore-20260101T000000000Z.db"))
    found = look(named("store"))
    assert found.status is Status.FAIL
    assert str(aside) in found.text
    assert f"restore_backup {aside} --yes" in found.hint


def test_a_second_name_of_the_store_is_a_warning(sound):
    second = sound.with_name("memory-before-restore-20260101T000000000Z.db")
    second.hardlink_to(sound)
    found = named("store").findings()
    assert [one.status for one in found] == [Status.WARN, Status.OK]
    assert str(second) in found[0].text
