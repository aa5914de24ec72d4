"""Backup, restore, migration and import, killed at every rename, flush and transaction."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor

from memoryhub import memories
from memoryhub.audit import verification
from memoryhub.backends import schema
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Memory
from memoryhub.ops import restore
from memoryhub.transfer import loader
from tests.faults.killing import kill_at_every_point

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
OLD_MIGRATION = "0005_identity"


@pytest.fixture
def snapshot(own_store: Path, tmp_path: Path) -> Any:
    """``snapshot()`` saves the home; ``snapshot.put_back()`` restores it."""

    class Snapshot:
        saved = tmp_path / "saved-home"

        def __call__(self) -> None:
            connections.close_all()
            shutil.copytree(own_store.parent, self.saved)

        def put_back(self) -> None:
            connections.close_all()
            shutil.rmtree(own_store.parent)
            shutil.copytree(self.saved, own_store.parent)

    return Snapshot()


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
        assert verification.verify().ok
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
        assert verification.verify().ok, point
        assert run("restore_backup", saved, "--yes").code == 0, point
        assert restore.second_names(own_store) == []
        assert set(Memory.objects.values_list("content", flat=True)) == {"of before"}
    assert {"link", "replace", "fsync", "unlink", "COMMIT"} <= set(points)


def test_a_killed_migration_goes_on_at_the_next_try(own_store, snapshot, remember):
    remember("of an older version")
    schema.drop_triggers()
    schema.uninstall()  # the indexes of this version do not fit the older tables
    MigrationExecutor(connection).migrate([("memoryhub", OLD_MIGRATION)])
    snapshot()

    def migrate() -> None:
        call_command("migrate", verbosity=0)

    for point in kill_at_every_point(migrate, prepare=snapshot.put_back, every=13):
        call_command("migrate", verbosity=0)
        assert schema.find_problems(deep=True) == [], point
        assert [memory.content for memory in Memory.objects.search("older")] == ["of an older version"]
        assert verification.verify().ok, point


def test_a_killed_import_is_resumed_without_loss_or_repetition(
    own_store, snapshot, run, tmp_path, monkeypatch, configure
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
        assert verification.verify().ok, point
        assert not list((own_store.parent / "imports").glob("*.json"))


def test_a_killed_export_leaves_no_half_file(own_store, snapshot, remember, run, tmp_path):
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


def test_stored_memories_survive_a_kill_at_every_transaction(own_store, snapshot, actor):
    def store() -> None:
        for number in range(3):
            memories.create_memory(MemoryDraft(content=f"memory {number}"), actor)
            (own_store.parent / f"stored-{number}").touch()

    snapshot()
    for point in kill_at_every_point(store, prepare=snapshot.put_back):
        acknowledged = len(list(own_store.parent.glob("stored-*")))
        assert Memory.objects.count() in (acknowledged, acknowledged + 1), point
        assert verification.verify().ok, point
        assert connection.is_usable()
