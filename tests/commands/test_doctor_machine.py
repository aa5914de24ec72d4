"""``doctor``: defects of the machine are found, and repaired where that is safe."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections import namedtuple
from pathlib import Path

import pytest

from memoryhub.backends import vector_index
from memoryhub.config import load_config
from memoryhub.ops import checks
from memoryhub.ops.checks import Mount
from memoryhub.ops.doctor import Status, examine, installation, ok
from tests.commands.examining import look, named

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_store", "on_loopback")]


def test_an_old_python_or_sqlite_fails(monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 30, 0))
    assert look(named("python and sqlite")).status is Status.FAIL
    monkeypatch.undo()
    monkeypatch.setattr(installation, "MIN_PYTHON", (9, 0))
    assert named("python and sqlite").findings()[0].text.endswith("is too old")


def test_events_that_wait_for_an_hour_are_warned_about(monkeypatch, tmp_path):
    monkeypatch.setenv("MEMORYHUB_SPOOL", str(tmp_path))
    assert look(named("spool")) == ok("no event waits to be sent")
    event = tmp_path / "123" / "2026-11-23T12-00-00Z-000001-0123456789abcdef"
    event.parent.mkdir()
    event.touch()
    assert look(named("spool")) == ok(f"1 event waits in {tmp_path}, the oldest for 0 minutes")
    os.utime(event, (time.time() - 7200,) * 2)
    assert look(named("spool")).status is Status.WARN
    monkeypatch.delenv("MEMORYHUB_SPOOL")
    monkeypatch.setenv("XDG_STATE_HOME", "")
    monkeypatch.delenv("HOME")
    assert look(named("spool")).status is Status.OK


def test_a_misspelt_variable_is_warned_about(settings):
    settings.MEMORYHUB_LOADED = load_config({"MEMORYHUB_MAX_MEMORY": "5", "MEMORYHUB_MIN_SCORE": "0.2"})
    first, second = named("configuration").findings()
    assert first == ok("1 settings changed, by MEMORYHUB_MIN_SCORE")
    assert second.status is Status.WARN
    assert "MEMORYHUB_MAX_MEMORY" in second.text


def test_a_missing_or_read_only_home_fails(settings, tmp_path):
    settings.HOME = tmp_path / "gone"
    assert "is not there" in look(named("home")).text
    settings.HOME = Path("/proc/self")
    found = look(named("home"))
    assert found.status is Status.FAIL
    assert "cannot be written to" in found.text


def test_files_that_others_may_read_are_found_and_closed(own_store, home):
    (home / "secret-key").write_text("x" * 60)
    (home / "secret-key").chmod(0o640)
    own_store.chmod(0o644)
    vectors = vector_index.path_of(own_store, "a model")
    vectors.touch()
    vectors.chmod(0o644)
    home.chmod(0o755)
    assert {f.text.split()[-1] for f in named("file modes").findings()} == {
        str(own_store),
        str(vectors),
        str(home / "secret-key"),
    }
    report = next(examine([named("file modes")], fix=True))
    assert report.status is Status.OK
    assert len(report.fixed) == 3
    assert own_store.stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o755


def test_a_closed_folder_protects_the_files_in_it(own_store, home):
    own_store.chmod(0o644)
    home.chmod(0o700)
    assert look(named("file modes")).status is Status.OK


def test_a_folder_that_others_may_write_to_is_found_and_closed(home):
    home.chmod(0o777)
    assert "other users of this machine can write to" in named("file modes").findings()[0].text
    assert next(examine([named("file modes")], fix=True)).status is Status.OK
    assert home.stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_files_of_different_owners_are_found(own_store):
    os.chown(own_store, 12345, -1)
    found = look(named("file owner"))
    assert found.status is Status.WARN
    assert f"{own_store} belongs to 12345" in found.text


def test_a_network_file_system_fails_and_a_local_one_is_named(monkeypatch):
    monkeypatch.setattr(checks, "mount_under", lambda path: Mount("/srv", "nfs4"))
    assert look(named("file system")).status is Status.FAIL
    monkeypatch.setattr(checks, "mount_under", lambda path: Mount("/", "ext4"))
    assert look(named("file system")) == ok("ext4, mounted at /")
    monkeypatch.setattr(checks, "mount_under", lambda path: None)
    assert look(named("file system")) == ok("not known on this system")


@pytest.mark.parametrize(("free", "status"), [(10_000_000, "fail"), (100_000_000, "warn"), (10**12, "ok")])
def test_a_disk_that_fills_up_is_found(monkeypatch, free, status):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**13, 0, free))
    assert look(named("disk space")).status == status


@pytest.mark.parametrize("key", ["pass", "ab" * 40, "django-insecure-" + "abcdefgh" * 8])
def test_a_weak_secret_key_fails(settings, key):
    settings.SECRET_KEY = key
    found = look(named("secret key"))
    assert found.status is Status.FAIL
    assert key not in found.text + found.hint
