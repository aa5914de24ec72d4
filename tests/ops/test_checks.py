"""The system checks: what they find, and under which id."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from memoryhub.config import load_config
from memoryhub.ops import checks
from memoryhub.ops.checks import Mount


def ids(messages) -> list[str]:
    return [message.id for message in messages]


@pytest.fixture
def mounted(monkeypatch):
    """``mounted("nfs4")``: the store lies on such a file system."""

    def on(kind: str) -> None:
        monkeypatch.setattr(checks, "mount_under", lambda path: Mount("/srv", kind))

    return on


def test_this_machine_is_able():
    assert checks.sqlite_is_able() == []


def test_an_old_sqlite_is_an_error(monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 33, 0))
    assert ids(checks.sqlite_is_able()) == ["memoryhub.E001"]


@pytest.mark.sqlite
@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_store_on_a_network_file_system_is_an_error(mounted, kind):
    mounted(kind)
    [message] = checks.database_is_local()
    assert message.id == "memoryhub.E003"
    assert kind in message.msg
    assert "local disk" in message.hint


@pytest.mark.sqlite
def test_a_folder_shared_with_the_host_is_a_warning(mounted):
    mounted("9p")
    assert ids(checks.database_is_local()) == ["memoryhub.W002"]


@pytest.mark.parametrize("kind", ["ext4", "overlay", "tmpfs"])
def test_a_local_file_system_is_fine(mounted, kind):
    mounted(kind)
    assert checks.database_is_local() == []


def test_an_unknown_file_system_is_fine(monkeypatch):
    monkeypatch.setattr(checks, "mount_under", lambda path: None)
    assert checks.database_is_local() == []


@pytest.mark.sqlite
def test_every_command_that_checks_refuses_a_network_file_system(mounted):
    mounted("nfs")
    with pytest.raises(CommandError, match=r"memoryhub\.E003"):
        call_command("check")


@pytest.mark.sqlite
def test_a_server_that_runs_no_checks_refuses_it_too(mounted):
    mounted("nfs")
    with pytest.raises(ImproperlyConfigured, match="network file system"):
        checks.require_usable_store()
    mounted("9p")
    checks.require_usable_store()


def test_the_server_looks_before_it_serves():
    source = Path(checks.__file__).parents[1].joinpath("wsgi.py").read_text()
    assert source.rstrip().endswith("require_usable_store()")


def test_a_misspelt_variable_is_a_warning(settings):
    settings.MEMORYHUB_LOADED = load_config({"MEMORYHUB_MAX_MEMORY": "5"})
    [message] = checks.variables_are_known()
    assert message.id == "memoryhub.W001"
    assert "did you mean MEMORYHUB_MAX_MEMORIES" in message.msg


def test_two_names_for_the_store_are_a_warning(settings):
    settings.DATABASE_URL = "sqlite:////x.db"
    assert ids(checks.store_is_named_once({"LETSGO_MEMORY_DB": "/y.db"})) == ["memoryhub.W003"]
    assert checks.store_is_named_once({}) == []
    settings.DATABASE_URL = ""
    assert checks.store_is_named_once({"LETSGO_MEMORY_DB": "/y.db"}) == []


@pytest.mark.sqlite
def test_every_check_runs_by_default(monkeypatch, settings, mounted):
    settings.MEMORYHUB_LOADED = load_config({"MEMORYHUB_NONSENSE": "5"})
    settings.DATABASE_URL = "sqlite:////x.db"
    monkeypatch.setenv("LETSGO_MEMORY_DB", "/y.db")
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 33, 0))
    mounted("nfs")
    ours = {message.id for message in run_checks() if message.id.startswith("memoryhub.")}
    assert ours == {"memoryhub.E001", "memoryhub.E003", "memoryhub.W001", "memoryhub.W003"}
