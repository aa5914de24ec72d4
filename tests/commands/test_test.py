"""``manage.py test`` runs pytest."""

from __future__ import annotations

import os

import pytest
from django.conf import settings

from memoryhub.management.commands.test import MAX_PROCESSES, Command
from memoryhub.ops import bootstrap


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record the arguments of pytest."""
    given: list[list[str]] = []
    monkeypatch.setattr(pytest, "main", lambda arguments: given.append(arguments) or 3)
    monkeypatch.chdir(settings.BASE_DIR)
    return given


def test_arguments_and_exit_code_are_those_of_pytest(given):
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "test", "tests/web", "-k", "trash", "-x"])
    assert given == [["tests/web", "-k", "trash", "-x"]]
    assert ended.value.code == 3


@pytest.mark.parametrize(("processors", "processes"), [(2, 3), (64, MAX_PROCESSES)])
def test_default_leaves_out_served_and_uses_all_processors(given, monkeypatch, processors, processes):
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    with pytest.raises(SystemExit):
        Command().run_from_argv(["manage.py", "test"])
    assert given == [["-n", str(processes), "--dist", "worksteal", "-m", "not served"]]


@pytest.mark.parametrize(
    ("option", "selection"),
    [("--fast", "not browser and not served and not slow"), ("--served", "served")],
)
def test_option_selects_tests_by_their_markers(given, option, selection):
    with pytest.raises(SystemExit):
        Command().run_from_argv(["manage.py", "test", "tests/web", option])
    [arguments] = given
    assert arguments[0] == "tests/web"
    assert arguments[-2:] == ["-m", selection]


@pytest.mark.parametrize(("command", "module"), [("test", "tests.settings"), ("check", "memoryhub.settings")])
def test_tests_use_their_own_settings(monkeypatch, command, module):
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE")
    monkeypatch.setattr("django.core.management.execute_from_command_line", lambda argv: None)
    bootstrap.main(["manage.py", command])
    assert os.environ["DJANGO_SETTINGS_MODULE"] == module
