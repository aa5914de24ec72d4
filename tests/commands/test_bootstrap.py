"""manage.py on a machine that has nothing but Python."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
import threading
import time
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest

import memoryhub
from memoryhub.ops import bootstrap

MANAGE = bootstrap.ROOT / "manage.py"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with requirements, in the place of the real one."""
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    monkeypatch.setattr(bootstrap, "VENV", tmp_path / ".venv")
    (tmp_path / "requirements.txt").write_text("django==5.2\n")
    return tmp_path


@pytest.fixture
def python(checkout: Path) -> Path:
    """The interpreter of an environment that has pip."""
    python = checkout / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.touch()
    pip = checkout / ".venv/lib/python3.11/site-packages/pip/__main__.py"
    pip.parent.mkdir(parents=True)
    pip.touch()
    return python


@pytest.fixture
def pip_runs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines that were run instead of pip."""
    runs: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        runs.append(command)
        time.sleep(0.05)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(bootstrap.subprocess, "run", run)
    return runs


def install(python: Path, make: bool = True) -> bool:
    return bootstrap.install(python, "requirements.txt", make=make)


def test_an_old_python_gets_a_message_with_the_version_to_install(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 2, "final", 0))
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or newer, and this is Python 3\.9"):
        runpy.run_path(str(MANAGE), run_name="__main__")


def test_files_that_an_old_python_reads_use_old_syntax():
    """An f-string or an annotation would be a syntax error before the message could be printed."""
    tree = ast.parse(MANAGE.read_text("ascii"))
    newer = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.Match, ast.AsyncFunctionDef)
    assert not [node for node in ast.walk(tree) if isinstance(node, newer)]
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("word", ["--version", "version"])
def test_version_is_that_of_the_hub_and_not_of_django(word, capsys):
    bootstrap.run_management_command(["memoryhub", word])
    assert capsys.readouterr().out == f"memoryhub {memoryhub.__version__}\n"


def test_message_on_windows_names_wsl(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit, match="WSL"):
        runpy.run_path(str(MANAGE), run_name="__main__")


def test_this_environment_lacks_nothing():
    assert bootstrap.missing(for_tests=True) == []


@pytest.mark.parametrize(("group", "file"), [("", "requirements.txt"), ("dev", "requirements-dev.txt")])
def test_every_requirement_is_pinned_with_its_hash(group, file):
    """Otherwise the command would install the pinned files and still lack something."""
    project = tomllib.loads((bootstrap.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *(project["optional-dependencies"][group] if group else [])]
    pinned = re.findall(
        r"^([\w.-]+)==\S+.*\\\n +--hash=sha256:", (bootstrap.ROOT / file).read_text(), re.MULTILINE
    )
    names = {re.split(r"[<>=\[]", need)[0] for need in wanted}
    assert sorted(names - set(pinned)) == []


@pytest.mark.parametrize(
    ("need", "met"),
    [
        ("pytest", True),
        ("pytest>=1", True),
        ("pytest[testing]>=1,!=2.0", True),
        ("pytest >= 1; python_version >= '3'", True),
        ("pytest>=1,<2", False),
        ("pytest>=999.1", False),
        ("no-such-distribution>=1", False),
        ("pip[extra]>=1", True),
    ],
)
def test_a_requirement_is_met_by_a_version_between_its_bounds(need, met):
    assert bootstrap._is_met(need) is met


def test_the_requirements_are_installed_with_their_hashes(python, pip_runs, checkout):
    assert install(python)
    [command] = pip_runs
    assert command[:4] == [str(python), "-m", "pip", "install"]
    assert "--require-hashes" in command
    assert command[-2:] == ["-r", str(checkout / "requirements.txt")]


def test_a_second_start_installs_nothing(python, pip_runs):
    install(python)
    assert not install(python)
    assert len(pip_runs) == 1


def test_changed_requirements_are_installed_again(python, pip_runs, checkout):
    install(python)
    (checkout / "requirements.txt").write_text("django==5.2.1\n")
    assert install(python)
    assert len(pip_runs) == 2


def test_two_first_starts_at_once_install_once(python, pip_runs):
    starts = [threading.Thread(target=install, args=[python]) for _ in range(3)]
    for start in starts:
        start.start()
    for start in starts:
        start.join()
    assert len(pip_runs) == 1


def test_a_failing_pip_is_explained_and_tried_again(python, monkeypatch):
    monkeypatch.setattr(
        bootstrap.subprocess, "run", lambda command, **options: subprocess.CompletedProcess(command, 1)
    )
    for _ in range(2):
        with pytest.raises(SystemExit, match="pip could not install the requirements"):
            install(python)


def test_a_missing_ensurepip_is_named_with_its_package(checkout, monkeypatch):
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"apt install python3\.\d+-venv"):
        install(checkout / ".venv/bin/python")


def test_an_ensurepip_that_fails_is_named_with_its_package(checkout, monkeypatch):
    def fail(*args: object, **options: object) -> None:
        raise subprocess.CalledProcessError(1, "ensurepip")

    monkeypatch.setattr(venv, "create", fail)
    with pytest.raises(SystemExit, match="ensurepip is missing"):
        install(checkout / ".venv/bin/python")


def test_a_folder_that_cannot_be_written_is_named(checkout, monkeypatch):
    def fail(*args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(venv, "create", fail)
    with pytest.raises(SystemExit, match=r"Cannot create the environment .*\.venv: .*Permission denied"):
        install(checkout / ".venv/bin/python")


@pytest.mark.parametrize("dangling", [True, False])
def test_an_environment_of_a_removed_python_is_created_again(dangling, checkout, monkeypatch, pip_runs):
    python = checkout / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(checkout / "gone" if dangling else sys.executable)
    made: list[bool] = []
    monkeypatch.setattr(venv, "create", lambda path, with_pip, clear: made.append(clear))
    install(python)
    assert made == [dangling]


def test_an_incomplete_environment_names_what_it_lacks(checkout, monkeypatch, python, pip_runs):
    install(python)
    monkeypatch.setattr(bootstrap, "missing", lambda for_tests=False: ["django>=5.2"])
    monkeypatch.setattr(sys, "prefix", str(checkout / ".venv"))
    with pytest.raises(SystemExit, match=r"lacks django>=5\.2.*\n.*Remove that folder"):
        bootstrap.ensure_environment(["manage.py", "check"])


def test_the_command_continues_in_the_new_environment(checkout, monkeypatch, python, pip_runs):
    became: list[tuple[Path, list[str]]] = []
    monkeypatch.setattr(bootstrap, "missing", lambda for_tests=False: ["django>=5.2"])
    monkeypatch.setattr(bootstrap.os, "execv", lambda path, argv: became.append((path, argv)))
    bootstrap.ensure_environment(["manage.py", "quickstart", "--port", "8001"])
    assert became == [(python, [str(python), "manage.py", "quickstart", "--port", "8001"])]


def test_ctrl_c_while_pip_runs_ends_without_a_stack_trace(monkeypatch, python):
    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bootstrap, "missing", lambda for_tests=False: ["django>=5.2"])
    monkeypatch.setattr(bootstrap.subprocess, "run", interrupted)
    with pytest.raises(SystemExit) as ended:
        bootstrap.main(["manage.py", "check"])
    assert ended.value.code == 130


def test_the_tests_get_what_they_need(checkout, monkeypatch, python, pip_runs):
    (checkout / "requirements-dev.txt").write_text("pytest==8\n")
    monkeypatch.setattr(bootstrap, "missing", lambda for_tests=False: ["pytest>=8"])
    monkeypatch.setattr(bootstrap.os, "execv", lambda path, argv: None)
    bootstrap.ensure_environment(["manage.py", "test", "-k", "trash"])
    assert pip_runs[0][-1].endswith("requirements-dev.txt")


def test_the_demo_forgets_where_the_real_store_is():
    environ = {
        "PATH": "/bin",
        "LETSGO_HOME": "/real",
        "LETSGO_MEMORY_DB": "/real/memory.db",
        "LETSGO_MEMORY_LOG": "/real/log",
        "DATABASE_URL": "sqlite:////real/memory.db",
        "DATABASE_URL_FILE": "/real/url",
        "MEMORYHUB_CONFIG": "/real/memoryhub.toml",
        "MEMORYHUB_HTTPS": "1",
    }
    bootstrap.enter_demo(environ)
    assert environ == {"PATH": "/bin", "LETSGO_HOME": str(bootstrap.DEMO_HOME)}
