"""Temporary files of backup, restore and export do not outlive a killed process for long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from memoryhub import memories
from memoryhub.core import disks
from memoryhub.core.disks import draft_file, draft_folder
from memoryhub.ops import serving
from memoryhub.ops.doctor import Status, examine
from tests.commands.conftest import home, own_store, run  # noqa: F401 fixtures
from tests.commands.examining import WRITER, named, remember

pytestmark = pytest.mark.django_db(transaction=True)
KILLED = """
import os, sys
import django; django.setup()
from django.core.management import call_command
number = int(sys.argv[1])
def killed(descriptor, usual=os.fsync):
    global number
    number -= 1
    if not number:
        os.kill(os.getpid(), 9)
    usual(descriptor)
os.fsync = killed
call_command(*sys.argv[2:])
"""


@pytest.fixture
def killed(own_store, settings):  # noqa: F811
    """``killed(2, "backup")`` kills the command at its second fsync."""
    remember("a memory in plain text")

    def run_and_kill(number: int, *command: object) -> None:
        environ = {**os.environ, "LETSGO_HOME": str(own_store.parent), "PYTHONPATH": str(settings.BASE_DIR)}
        environ |= {"DJANGO_SETTINGS_MODULE": "memoryhub.settings"}
        for name in ("LETSGO_MEMORY_DB", "LETSGO_MEMORY_LOG", "DATABASE_URL"):
            environ.pop(name, None)
        connection.close()
        arguments = [sys.executable, "-c", KILLED, str(number), *map(str, command)]
        assert subprocess.run(arguments, env=environ, check=False).returncode == -signal.SIGKILL

    return run_and_kill


@pytest.fixture
def left(killed, tmp_path) -> Path:
    """What a killed export left in a folder that the hub does not know."""
    (tmp_path / "elsewhere").mkdir()
    killed(1, "export_memories", tmp_path / "elsewhere" / "x.jsonl.gz")
    [path] = (tmp_path / "elsewhere").iterdir()
    return path


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_next_backup_removes_what_a_killed_one_left(killed, own_store, run):  # noqa: F811
    killed(2, "backup")
    folder = own_store.parent / "backups"
    assert len(hidden(folder)) == 1
    assert run("backup").code == 0
    assert hidden(folder) == []


def test_next_command_removes_what_a_killed_restore_left(killed, own_store, run, tmp_path):  # noqa: F811
    run("backup", tmp_path / "saved.db")
    killed(1, "restore_backup", tmp_path / "saved.db", "--yes")
    assert len(hidden(own_store.parent)) == 1
    assert run("restore_backup", tmp_path / "saved.db", "--yes").code == 0
    assert hidden(own_store.parent) == []


def test_start_of_the_server_removes_what_was_left(left):
    assert str(left) in next(serving.prepare_store())
    assert not left.exists()
    assert list(disks._drafts_folder().iterdir()) == []


def test_doctor_names_and_removes_what_was_left(left):
    report = next(examine([named("temporary files")]))
    assert report.status is Status.WARN
    assert str(left) in report.findings[0].text
    assert next(examine([named("temporary files")], fix=True)).status is Status.OK
    assert not left.exists()


def test_erasing_removes_what_was_left(left):
    memories.erase_memories([remember("another").uid], WRITER)
    assert not left.exists()


def test_files_in_use_are_not_removed(own_store, tmp_path):  # noqa: F811
    with draft_folder(own_store.parent) as folder, draft_file(tmp_path / "x.jsonl") as file:
        file.write_text("a line")
        assert disks.remove_abandoned() == []
        assert folder.is_dir()
        assert file.exists()
    assert not folder.exists()
    assert not file.exists()
    assert list(disks._drafts_folder().iterdir()) == []


def test_folders_of_earlier_releases_are_found(own_store):  # noqa: F811
    path = own_store.parent / ".memoryhub-0123456789ab"
    path.mkdir()
    (path / "copy").write_text("a memory")
    assert disks.find_abandoned() == [path]
    assert disks.remove_abandoned() == [path]


def test_only_names_of_temporary_files_are_removed(own_store, tmp_path):  # noqa: F811
    precious = tmp_path / "precious"
    precious.write_text("stays")
    disks._drafts_folder().mkdir()
    (disks._drafts_folder() / "entry").write_text(str(precious))
    assert disks.remove_abandoned() == []
    assert precious.exists()


def test_export_works_when_it_cannot_be_listed(own_store, run, tmp_path):  # noqa: F811
    disks._drafts_folder().write_text("a file in the place of the folder")
    assert run("export_memories", tmp_path / "x.jsonl").code == 0
    assert (tmp_path / "x.jsonl").exists()
