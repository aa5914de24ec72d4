"""A full disk refuses writes and loses nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, close_old_connections, connection

from memoryhub.audit import journal
from memoryhub.models import Memory
from tests.disk import mounted, read_bytes
from tools.bench.hub import ROOT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
MEGABYTE = 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MB."""
    with mounted(tmp_path / "small", megabytes=16) as folder:
        yield folder
        connection.close()


@pytest.fixture
def store_on_small_disk(own_store: Path, small_disk: Path, settings: Any) -> Iterator[Path]:
    """The store of the test, moved to the small disk, with a file that takes half of the space left."""
    connection.close()
    shutil.copytree(own_store.parent, small_disk / "home")
    settings.HOME = small_disk / "home"
    settings.MEMORY_LOG = settings.HOME / "logs" / "memory-journal.jsonl"
    connection.settings_dict["NAME"] = str(settings.HOME / "memory.db")
    free = shutil.disk_usage(small_disk).free
    (small_disk / "filler").write_bytes(bytes(free - 3 * MEGABYTE))
    yield settings.HOME
    connection.close()
    connection.settings_dict["NAME"] = str(own_store)


def store_until_full(remember: Any) -> list[str]:
    """Store memories until the disk is full; return the ids of those that were stored."""
    stored: list[str] = []
    with pytest.raises(OperationalError, match="full"):  # noqa: PT012 until one fails
        for number in range(1000):
            stored.append(remember(f"memory {number} {'x' * 20_000}").uid)
    return stored


def test_a_full_disk_refuses_writes_and_loses_nothing(store_on_small_disk, remember):
    stored = store_until_full(remember)
    assert stored
    assert set(Memory.objects.values_list("uid", flat=True)) == set(stored)
    connection.close()  # as after a restart
    assert set(Memory.objects.values_list("uid", flat=True)) == set(stored)
    assert journal.verify_chain().ok


def test_writes_continue_when_there_is_space_again(store_on_small_disk, remember):
    stored = store_until_full(remember)
    (store_on_small_disk.parent / "filler").unlink()
    stored.append(remember("after the disk was full").uid)
    assert set(Memory.objects.values_list("uid", flat=True)) == set(stored)
    assert journal.verify().ok


def test_writes_continue_when_a_read_only_disk_is_writable_again(store_on_small_disk, remember):
    disk = str(store_on_small_disk.parent)
    remember("before")
    logs = {path: read_bytes(path) for path in store_on_small_disk.glob("memory.db-[ws]*")}
    connection.close()
    for path, content in logs.items():  # as after a kill: without them, a read-only store cannot be opened
        path.write_bytes(content)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    try:
        assert Memory.objects.count() == 1
        with pytest.raises(OperationalError, match="readonly"):
            remember("while it is read-only")
        assert Memory.objects.count() == 1
        close_old_connections()  # as after a request
        assert Memory.objects.count() == 1
    finally:
        close_old_connections()
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    remember("after")
    assert Memory.objects.count() == 2
    assert journal.verify().ok


def test_a_backup_to_a_full_disk_leaves_nothing_behind(own_store, remember, small_disk, run):
    remember("saved")
    (small_disk / "filler").write_bytes(bytes(shutil.disk_usage(small_disk).free - MEGABYTE // 4))
    ran = run("backup", small_disk / "copy.db")
    assert ran.code == 1
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_a_restore_on_a_full_disk_names_the_folder_and_keeps_the_store(
    store_on_small_disk, remember, run, tmp_path
):
    remember("saved")
    assert run("backup", tmp_path / "saved.db").code == 0
    remember("after the backup")
    filler = store_on_small_disk.parent / "filler"
    with filler.open("ab") as file:
        file.write(bytes(shutil.disk_usage(filler).free - MEGABYTE // 4))
    ran = run("restore_backup", tmp_path / "saved.db", "--yes")
    assert ran.code == 1
    assert f"{store_on_small_disk}: No space left on device" in ran.err
    assert "The current store is as it was before" in ran.err
    assert set(Memory.objects.values_list("content", flat=True)) == {"saved", "after the backup"}


def test_a_command_that_cannot_open_the_store_on_a_full_disk_says_so(store_on_small_disk):
    connection.close()
    filler = store_on_small_disk.parent / "filler"
    with filler.open("ab") as file:
        file.write(bytes(shutil.disk_usage(filler).free))
    environment = {**os.environ, "LETSGO_HOME": str(store_on_small_disk)}
    environment |= {"DJANGO_SETTINGS_MODULE": "memoryhub.settings", "MEMORYHUB_SECRET_KEY": "k" * 50}
    command = [sys.executable, "manage.py", "create_token", "agent"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"The disk of {store_on_small_disk} is full. Free some space" in done.stderr


def test_a_full_disk_is_not_taken_for_a_damaged_backup(store_on_small_disk, remember, run, tmp_path):
    remember("saved " + "x" * 50_000)
    for end in ("", "-wal"):
        shutil.copyfile(f"{store_on_small_disk / 'memory.db'}{end}", tmp_path / f"raw.db{end}")
    size = sum(path.stat().st_size for path in tmp_path.glob("raw.db*"))
    filler = store_on_small_disk.parent / "filler"
    with filler.open("ab") as file:
        file.write(bytes(shutil.disk_usage(filler).free - size - MEGABYTE // 64))
    ran = run("restore_backup", tmp_path / "raw.db", "--yes")
    assert ran.code == 1
    assert "damaged" not in ran.err
