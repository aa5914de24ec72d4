"""Backup, restore, migration, import and more, killed at every rename, flush and transaction.

On PostgreSQL too, but for backup and restore, which are of SQLite.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from datetime import timedelta
from io import StringIO
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from memoryhub import memories
from memoryhub.audit import journal
from memoryhub.backends import schema
from memoryhub.core.database import is_postgres
from memoryhub.maintenance import runs
from memoryhub.maintenance.executor import execute
from memoryhub.maintenance.operations import base
from memoryhub.memories import stored_secrets, undo
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import JournalEntry, Memory
from memoryhub.ops import backup, copying
from memoryhub.transfer import loader
from tests import disk
from tests.faults.conftest import create_database, drop_database
from tests.faults.killing import kill_at_every_point
from tests.security.conftest import TOKEN
from tests.settings import POSTGRES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
OLD_MIGRATION = "0005_identity"


def contents_of(store: Path) -> set[str]:
    with closing(sqlite3.connect(store)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return {content for (content,) in file.execute("SELECT content FROM memoryhub_memory")}


def test_a_killed_backup_leaves_no_half_backup(own_store, snapshot, remember, run, tmp_path):
    remember("saved")
    snapshot()
    target = tmp_path / "backups" / "copy.db"

    def prepare() -> None:
        shutil.rmtree(target.parent, ignore_errors=True)

    for point in kill_at_every_point(lambda: call_command("backup", str(target)), prepare=prepare):
        if target.exists():
            assert contents_of(target) == {"saved"}, point
        assert journal.verify().ok
        target.unlink(missing_ok=True)
        assert run("backup", target).code == 0, point
        assert contents_of(target) == {"saved"}


def test_a_killed_restore_leaves_a_whole_store(own_store, snapshot, remember, run, tmp_path):
    remember("of before")
    saved = tmp_path / "saved.db"
    assert run("backup", saved).code == 0
    remember("of after")
    snapshot()
    points = []

    def restore_saved() -> None:
        call_command("restore_backup", str(saved), "--yes")

    for point in kill_at_every_point(restore_saved, prepare=snapshot.put_back):
        points.append(point)
        assert contents_of(own_store) in ({"of before"}, {"of before", "of after"}), point
        remember("another")
        assert journal.verify().ok, point
        assert run("restore_backup", saved, "--yes").code == 0, point
        assert backup.second_names(own_store) == []
        assert set(Memory.objects.values_list("content", flat=True)) == {"of before"}
    assert {"link", "replace", "fsync", "unlink", "COMMIT"} <= set(points)


def make_old() -> None:
    """Migrate the store back to an older version."""
    schema.drop_triggers()
    schema.uninstall()  # the indexes of this version do not fit the older tables
    MigrationExecutor(connection).migrate([("memoryhub", OLD_MIGRATION)])


def test_a_killed_migration_continues_at_the_next_try(store_home, snapshot, remember):
    remember("of an older version")
    make_old()
    snapshot()

    def migrate() -> None:
        call_command("migrate", verbosity=0)

    every = 5 if is_postgres() else 13  # SQLite commits each change of the schema
    for point in kill_at_every_point(migrate, prepare=snapshot.put_back, every=every):
        call_command("migrate", verbosity=0)
        assert schema.find_problems(deep=True) == [], point
        assert [memory.content for memory in Memory.objects.search("older")] == ["of an older version"]
        assert journal.verify().ok, point


def test_a_migration_whose_record_fails_is_rolled_back(store_home, monkeypatch):
    make_old()
    record, failed = MigrationRecorder.record_applied, []

    def fail_once(recorder: MigrationRecorder, app: str, name: str) -> None:
        if name not in failed:
            failed.append(name)
            raise InterruptedError
        record(recorder, app, name)

    monkeypatch.setattr(MigrationRecorder, "record_applied", fail_once)
    migrated = False
    while not migrated:
        with suppress(InterruptedError):
            call_command("migrate", verbosity=0)
            migrated = True
    assert len(failed) > 10
    assert schema.find_problems(deep=True) == []


def test_a_killed_import_is_resumed_without_loss_or_repetition(
    store_home, snapshot, run, tmp_path, monkeypatch, configure
):
    configure(import_workers=0)
    monkeypatch.setattr(loader, "BATCH_SIZE", 4)
    file = tmp_path / "memories.jsonl"
    wanted = {f"memory number {n}" for n in range(10)}
    file.write_text("".join(json.dumps({"content": text}) + "\n" for text in sorted(wanted)))
    snapshot()

    def import_file() -> None:
        call_command("import_memories", str(file))

    for point in kill_at_every_point(import_file, prepare=snapshot.put_back):
        assert run("import_memories", file, "--resume").code == 0, point
        assert Counter(Memory.objects.values_list("content", flat=True)) == Counter(wanted), point
        assert journal.verify().ok, point
        assert not list((store_home / "imports").glob("*.json"))


def test_a_killed_export_leaves_no_half_file(store_home, snapshot, remember, run, tmp_path):
    remember("exported")
    snapshot()
    target = tmp_path / "out" / "memories.jsonl"
    target.parent.mkdir()
    for point in kill_at_every_point(
        lambda: call_command("export_memories", str(target)), prepare=lambda: target.unlink(missing_ok=True)
    ):
        if target.exists():
            assert "exported" in target.read_text(), point
        assert run("export_memories", target).code == 0, point
        assert "exported" in target.read_text()


def test_stored_memories_survive_a_kill_at_every_transaction(store_home, snapshot, actor):
    def store() -> None:
        for number in range(3):
            memories.create_memory(MemoryDraft(content=f"memory {number}"), actor)
            (store_home / f"stored-{number}").touch()

    snapshot()
    for point in kill_at_every_point(store, prepare=snapshot.put_back):
        acknowledged = len(list(store_home.glob("stored-*")))
        assert Memory.objects.count() in (acknowledged, acknowledged + 1), point
        assert journal.verify().ok, point
        assert connection.is_usable()


@pytest.mark.sqlite
def test_the_bytes_of_a_killed_erase_are_removed_later(store_home, snapshot, remember, actor):
    memory = remember("xylophone of the garden")
    remember("another")
    snapshot()

    def erase() -> None:
        memories.erase_memories([memory.uid], actor)

    for point in kill_at_every_point(erase, prepare=snapshot.put_back):
        is_erased = not Memory.objects.filter(uid=memory.uid).exists()
        schema.finish_erase()
        assert not schema.is_erase_pending(), point
        found = disk.read_store_bytes(connection.settings_dict["NAME"]).count(b"xylop")
        assert (found == 0) == is_erased, point
        assert journal.verify().ok, point


def kill_run_at_every_point(run, snapshot):
    """Kill a maintenance run at every point. Yield each point when the run has been continued to its end."""
    for point in kill_at_every_point(lambda: execute(run), prepare=snapshot.put_back):
        runs.resume_interrupted()
        run.refresh_from_db()
        if run.status != run.Status.DONE:
            assert execute(run), point
        yield point


def test_a_killed_maintenance_run_continues_and_changes_each_memory_once(
    store_home, snapshot, remember, actor, monkeypatch
):
    monkeypatch.setattr(base.Pace, "page", lambda pace, rows, weigh: rows[:2])
    now = timezone.now()
    aged = {remember(f"aged note {n}", created_at=now - timedelta(days=20)).uid for n in range(6)}
    run = runs.enqueue("consolidate", {}, actor)
    snapshot()
    for point in kill_run_at_every_point(run, snapshot):
        assert (run.status, run.done) == (run.Status.DONE, 6), point
        details = JournalEntry.objects.filter(operation="consolidate").values_list("detail", flat=True)
        changed = Counter(change[0] for detail in details for change in detail.get("changes", ()))
        assert changed == Counter(aged), point
        assert journal.verify().ok, point


def test_a_killed_condense_run_continues_and_replaces_each_memory_once(
    store_home, snapshot, remember, actor, configure
):
    configure(compression_min_members=2)
    now = timezone.now()
    topics = ("the staging server listens on port 8443", "releases are signed with the offline key of ada")
    sources = {
        remember(f"{topic}, seen by {name}", created_at=now - timedelta(days=20)).uid
        for topic in topics
        for name in ("bob", "eve")
    }
    run = runs.enqueue("compress", {}, actor)
    snapshot()
    for point in kill_run_at_every_point(run, snapshot):
        details = JournalEntry.objects.filter(object_type="memories", operation="compress")
        replaced = Counter(uid for row in details for uid in row.detail["members"])
        assert replaced == Counter(sources), point
        assert set(Memory.objects.trashed().values_list("uid", flat=True)) == sources, point
        assert Memory.objects.live().count() == len(topics), point
        assert journal.verify().ok, point


def test_a_killed_redaction_is_completed_by_the_next(
    store_home, snapshot, remember, run, configure, monkeypatch
):
    monkeypatch.setattr(stored_secrets, "_WRITE_CHUNK", 1)
    configure(block_secrets=False)
    leaking = {remember(f"deploy {number} with {TOKEN}").uid for number in range(3)}
    remember("without a credential")
    configure(block_secrets=True)
    snapshot()

    def redact() -> None:
        call_command("scan_secrets", "--redact", stdout=StringIO())

    for point in kill_at_every_point(redact, prepare=snapshot.put_back):
        again = run("scan_secrets", "--redact")
        assert again.code == 0, (point, again.err)
        assert not schema.is_erase_pending(), point
        assert not Memory.objects.filter(content__contains=TOKEN).exists(), point
        rows = JournalEntry.objects.filter(operation="redact").values_list("object_id", flat=True)
        assert Counter(rows) == Counter(leaking), point
        assert journal.verify().ok, point
        if not is_postgres():
            assert TOKEN.encode() not in disk.read_store_bytes(connection.settings_dict["NAME"]), point


def test_a_killed_bulk_action_changes_the_rest_when_it_is_repeated(
    store_home, snapshot, remember, actor, monkeypatch
):
    monkeypatch.setattr(undo, "CHUNK_SIZE", 1)
    uids = [remember(f"note {number}").uid for number in range(3)]
    snapshot()

    def trash() -> None:
        memories.apply_bulk_action("trash", uids, actor)

    for point in kill_at_every_point(trash, prepare=snapshot.put_back):
        rows = JournalEntry.objects.filter(operation="delete").order_by("seq")
        assert [row.object_id for row in rows] == uids[: len(rows)], point
        trashed = Memory.objects.trashed().order_by("pk").values_list("uid", flat=True)
        assert list(trashed) == uids[: len(rows)], point
        trash()
        assert Counter(rows.all().values_list("object_id", flat=True)) == Counter(uids), point
        assert journal.verify().ok, point


def test_a_killed_copy_continues_and_is_equal(store_home, snapshot, remember, run, tmp_path, monkeypatch):
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    monkeypatch.setenv("LETSGO_HOME", str(tmp_path / "home of the target"))
    monkeypatch.setattr(copying, "BATCH_SIZE", 100)
    url, copied = f"sqlite:///{tmp_path / 'copy.db'}", f"{connection.settings_dict['NAME']}_copy"
    if is_postgres():
        url = urlsplit(POSTGRES)._replace(path=f"/{copied}").geturl()
    for number in range(3):
        remember(f"copied {number}")
    snapshot()

    def empty_target() -> None:
        for file in tmp_path.glob("copy.db*"):
            file.unlink()
        create_database(copied)

    for point in kill_at_every_point(
        lambda: call_command("copy_store", to=url),
        prepare=empty_target,
        every=70,
        calls=[(copying.Target, "_ask")],
    ):
        if not point:
            break  # it was not killed, so the target is no longer empty
        ran = run("copy_store", "--to", url)
        assert ran.code == 0, (point, ran.err)
        assert "Both stores are equal" in ran.out
        assert journal.verify().ok, point
    if is_postgres():
        drop_database(copied)
