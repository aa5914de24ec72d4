"""The command ``memoryhub`` runs its own commands without Django, and passes all others to Django."""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.core.management import get_commands

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


def test_overview_lists_every_command_of_the_hub(capsys: pytest.CaptureFixture[str]) -> None:
    command_line.main(["manage.py", "help"])
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
    own = {name for name, app in get_commands().items() if app == "memoryhub"}
    assert listed == own | set(command_line.COMMANDS) | {"migrate", "createsuperuser", "changepassword"}


def test_overview_of_a_package_leaves_out_commands_that_need_a_checkout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap, "IS_INSTALLED", True)
    command_line.main(["memoryhub"])
    assert "evaluate" not in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["help"], ["--help"], ["-h"]])
def test_overview_does_not_install_the_requirements(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.setattr(bootstrap, "ensure_environment", lambda argv: pytest.fail("installs them"))
    command_line.main(["/usr/bin/memoryhub", *words])
    assert "usage: memoryhub COMMAND [options]" in capsys.readouterr().out


def test_help_with_a_client_command_prints_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["memoryhub", "help", "search"])
    assert "usage: memoryhub search" in capsys.readouterr().out


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
