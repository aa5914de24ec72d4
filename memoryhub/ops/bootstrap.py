"""Makes ``python3 manage.py …`` work on a machine that has nothing but Python. Standard library only.

Where the running Python lacks what ``pyproject.toml`` asks for, the first command makes ``.venv`` beside
``manage.py``, installs the pinned requirements (for ``test`` and ``screenshots`` also what these need) and
runs itself again inside. Later commands find the stamp of the installed requirements and go straight on.
Which store a command is about, the real one or the demo's, is settled here too, before Django reads the
settings.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
DEMO_HOME = ROOT / ".demo"
passing_home: Path | None = None  # of the command that pictures the demo, and of no other
_BOUND = re.compile(r"(>=|<)\s*(\d+(?:\.\d+)*)")
# What says where a store is and how it is served; a demo has its own answers (and its own memoryhub.toml).
_OF_A_REAL_STORE = ("LETSGO_", "MEMORYHUB_", "DATABASE_URL")


def main(argv: list[str]) -> None:
    """Run a management command: ``argv`` as ``manage.py`` got it. Ctrl-C ends it without a stack trace."""
    try:
        ensure_environment(argv)
        _run(argv)
    except KeyboardInterrupt:
        sys.exit(130)


def _run(argv: list[str]) -> None:
    command = argv[1] if len(argv) > 1 else ""
    if command == "quickstart" and "--no-demo" not in argv:
        enter_demo(os.environ)
    if command == "screenshots":
        enter_passing_store(os.environ)
    # A run of the tests must not so much as look at a real store.
    settings = "tests.settings" if command == "test" else "memoryhub.settings"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", settings)
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError

    try:
        execute_from_command_line(argv)
    except ImproperlyConfigured as error:
        sys.exit(f"memoryhub cannot start:\n{error}")
    except DatabaseError as error:
        sys.exit(f"The store cannot be used: {error}\nSee what is wrong with it: manage.py doctor")
    except BrokenPipeError:
        # The reader of a pipe (head, less) has had enough; at exit, too, nothing may be written there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)


def enter_demo(environ: MutableMapping[str, str], home: Path = DEMO_HOME) -> None:
    """Point at the demo's folder, whatever the environment says about a real store."""
    for name in [name for name in environ if name.startswith(_OF_A_REAL_STORE)]:
        del environ[name]
    environ["LETSGO_HOME"] = str(home)


def enter_passing_store(environ: MutableMapping[str, str]) -> None:
    """Point at a folder that is gone when this process ends."""
    global passing_home
    passing_home = Path(tempfile.mkdtemp(prefix="memoryhub-")).resolve()
    atexit.register(shutil.rmtree, passing_home, ignore_errors=True)
    enter_demo(environ, passing_home)


def ensure_environment(argv: list[str]) -> None:
    """Return where the requirements are met already; otherwise prepare ``.venv`` and run ``argv`` in it."""
    for_tests = argv[1:2] in (["test"], ["screenshots"])
    if not missing(for_tests):
        return
    python = VENV / "bin" / "python"
    inside = Path(sys.prefix).resolve() == VENV.resolve()
    installed = install(python, "requirements-dev.txt" if for_tests else "requirements.txt", make=not inside)
    if inside and not installed:
        sys.exit(
            f"The environment in {VENV} lacks {', '.join(missing(for_tests))}, although they were installed."
            "\nRemove that folder and run the command again."
        )
    os.execv(python, [str(python), *argv])  # noqa: S606  the same command, in the environment just made


def missing(for_tests: bool = False) -> list[str]:
    """What ``pyproject.toml`` asks for and the running Python does not have, or has too old."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["dependencies"] + (project["optional-dependencies"]["dev"] if for_tests else [])
    return [need for need in wanted if not _is_met(need)]


def _is_met(need: str) -> bool:
    """Whether a requirement like ``django>=5.2.8,<5.3`` is installed in a version between its bounds."""
    try:
        found = _numbers(metadata.version(re.split(r"[\s<>=\[]", need)[0]))
    except metadata.PackageNotFoundError:
        return False
    bounds = _BOUND.findall(need)
    return all(
        found >= _numbers(bound) if sign == ">=" else found < _numbers(bound) for sign, bound in bounds
    )


def _numbers(version: str) -> list[int]:
    leading = re.match(r"\d+(?:\.\d+)*", version)
    return [int(part) for part in leading.group().split(".")] if leading else [0]


def install(python: Path, requirements: str, *, make: bool) -> bool:
    """Bring ``.venv`` to the state of ``requirements``; False when its stamp says that this was done already.

    ``make``: create or repair the environment itself, which only a Python outside of it can.
    """
    digest = hashlib.sha256((ROOT / requirements).read_bytes()).hexdigest()
    stamp = VENV / f".installed-{requirements}"
    with _one_at_a_time():
        if python.exists() and stamp.exists() and stamp.read_text() == digest:
            return False
        print(f"Installing memoryhub's requirements into {VENV} (once, about a minute) ...", file=sys.stderr)
        if make:
            _make_environment(python)
        _pip_install(python, requirements)
        stamp.write_text(digest)
    return True


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Two first commands at once install once: the second waits for the first."""
    folder = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for another command that is installing the requirements ...", file=sys.stderr)
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _make_environment(python: Path) -> None:
    """Create the environment, or what an interrupted start left out of it."""
    import venv

    if python.exists() and any(VENV.glob("lib/python*/site-packages/pip/__main__.py")):
        return
    if importlib.util.find_spec("ensurepip") is None:
        _stop_for_want_of_ensurepip()
    broken = python.is_symlink() and not python.exists()  # of a Python that is gone
    try:
        venv.create(VENV, with_pip=True, clear=broken)
    except subprocess.CalledProcessError:
        _stop_for_want_of_ensurepip()
    except OSError as error:
        sys.exit(f"Cannot make the environment {VENV}: {error}\nMend that and run the command again.")


def _stop_for_want_of_ensurepip() -> NoReturn:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    sys.exit(
        f"This Python ({sys.executable}) cannot make an environment with pip: its ensurepip is missing.\n"
        f"Install it (Debian and Ubuntu: apt install python{version}-venv) and run the command again."
    )


def _pip_install(python: Path, requirements: str) -> None:
    """Exactly the pinned files: pip refuses one whose hash differs."""
    command = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
    ]
    done = subprocess.run([*command, "-r", str(ROOT / requirements)], check=False)
    if done.returncode:
        sys.exit(
            "pip could not install the requirements; its message is above. It must reach a package"
            "\nindex (PIP_INDEX_URL names another one, PIP_PROXY a proxy). Mend that and run this again."
        )
