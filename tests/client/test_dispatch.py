"""The command ``memoryhub`` runs its own commands without Django, and passes all others to Django."""

from __future__ import annotations

import subprocess
import sys

import pytest

from memoryhub import __main__ as command_line
from memoryhub.ops import bootstrap


def test_management_command_is_passed_to_django(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[list[str]] = []
    monkeypatch.setattr("django.core.management.execute_from_command_line", passed.append)
    command_line.main(["memoryhub", "check", "--deploy"])
    assert passed == [["memoryhub", "check", "--deploy"]]


def test_arguments_default_to_those_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "run_management_command", passed.append)
    monkeypatch.setattr(sys, "argv", ["memoryhub", "check"])
    command_line.main()
    assert passed == [["memoryhub", "check"]]


@pytest.mark.parametrize("words", [[], ["help"], ["--help"]])
def test_help_names_the_commands_of_the_client(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.setattr(bootstrap, "run_management_command", lambda argv: None)
    command_line.main(["memoryhub", *words])
    assert ", ".join(command_line.COMMANDS) in capsys.readouterr().out


def test_package_without_its_sources_needs_no_installation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bootstrap, "IS_INSTALLED", True)
    assert bootstrap.missing() == []


def test_manage_py_runs_client_commands_without_django() -> None:
    code = "import runpy, sys\nsys.argv = ['manage.py', 'search', '--help']\ntry:\n"
    code += (
        "    runpy.run_path('manage.py', run_name='__main__')\nfinally:\n    print('django' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=bootstrap.ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1] == "False", done.stderr
