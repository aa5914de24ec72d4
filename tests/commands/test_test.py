"""``manage.py test`` runs pytest."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import pytest
from django.conf import settings

from memoryhub.ops import bootstrap
from tools.commands import test as command
from tools.commands.test import MAX_PROCESSES, MIN_FREE_BYTES, WITHOUT_SCHEMA, Command


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record the arguments of pytest."""
    given: list[list[str]] = []
    monkeypatch.setattr(pytest, "main", lambda arguments: given.append(arguments) or 3)
    monkeypatch.chdir(settings.BASE_DIR)
    monkeypatch.setenv("TMPDIR", tempfile.gettempdir())
    return given


def test_arguments_and_exit_code_are_those_of_pytest(given):
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "test", "tests/web", "-k", "trash", "-x"])
    assert given == [["tests/web", "-k", "trash", "-x"]]
    assert ended.value.code == 3


@pytest.mark.parametrize(("processors", "processes"), [(2, 3), (64, MAX_PROCESSES)])
def test_default_leaves_out_served_and_long_tests(given, monkeypatch, processors, processes):
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    with pytest.raises(SystemExit):
        Command().run_from_argv(["manage.py", "test"])
    selection = ["-n", str(processes), "--dist", "worksteal", "-m", "not served and not long"]
    assert given == [[*WITHOUT_SCHEMA, *selection]]


@pytest.mark.parametrize(
    ("option", "selection"),
    [
        ("--fast", "not browser and not served and not long and not slow"),
        ("--long", "long"),
        ("--served", "served"),
    ],
)
def test_option_selects_tests_by_their_markers(given, option, selection):
    with pytest.raises(SystemExit):
        Command().run_from_argv(["manage.py", "test", "tests/web", option])
    [arguments] = given
    assert arguments[0] == "tests/web"
    assert arguments[-2:] == ["-m", selection]


def test_fast_tests_need_no_process_that_waits(given, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with pytest.raises(SystemExit):
        Command().run_from_argv(["manage.py", "test", "--fast"])
    assert given[0][given[0].index("-n") + 1] == "2"


@pytest.mark.parametrize(("free", "is_used"), [(MIN_FREE_BYTES + 1, True), (MIN_FREE_BYTES - 1, False)])
def test_temporary_files_are_in_memory_if_there_is_room(given, monkeypatch, tmp_path, free, is_used):
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)
    monkeypatch.setattr(command, "MEMORY_FOLDER", tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=free))
    with pytest.raises(SystemExit):
        Command().run_from_argv(["manage.py", "test"])
    assert (os.environ.get("TMPDIR") == str(tmp_path)) == is_used


@pytest.mark.parametrize(("name", "module"), [("test", "tests.settings"), ("check", "memoryhub.settings")])
def test_tests_use_their_own_settings(monkeypatch, name, module):
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE")
    monkeypatch.setattr("django.core.management.execute_from_command_line", lambda argv: None)
    bootstrap.main(["manage.py", name])
    assert os.environ["DJANGO_SETTINGS_MODULE"] == module


@pytest.mark.served
def test_tests_in_one_process_use_the_database_that_is_named(tmp_path):
    (tmp_path / "test_vendor.py").write_text(
        "import pytest\n\n\n@pytest.mark.django_db\ndef test_vendor():\n"
        "    from django.db import connection\n    assert connection.vendor == 'postgresql'\n"
    )
    arguments = ["manage.py", "test", "--database", "postgres", str(tmp_path)]
    done = subprocess.run([sys.executable, *arguments], cwd=settings.BASE_DIR, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
