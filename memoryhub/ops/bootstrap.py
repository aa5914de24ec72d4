"""Make ``python3 manage.py ...`` work on a machine that has only Python. Uses only the standard library.

If the running Python lacks requirements of ``pyproject.toml``, the first command creates ``.venv`` next
to ``manage.py``, installs the pinned requirements (``test`` also installs the development requirements)
and runs itself again inside it. Later commands find the stamp of the installed requirements and continue
at once. The choice between the real store and that of the demo is also made here, before Django reads the
settings.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import NoReturn

import memoryhub

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
_PACKAGED = Path(__file__).resolve().parents[1] / "data"
# A wheel contains this folder (pyproject.toml); a checkout has its content at the top level.
IS_INSTALLED = _PACKAGED.is_dir()
DATA = _PACKAGED if IS_INSTALLED else ROOT
DEMO_MARKER = "this-is-a-demo"
_BOUND = re.compile(r"(>=|<)\s*(\d+(?:\.\d+)*)")
# Prefixes of the variables that locate and configure a store. The demo has its own home and memoryhub.toml.
_STORE_VARIABLES = ("LETSGO_", "MEMORYHUB_", "DATABASE_URL")


def _demo_home() -> Path:
    """Return the demo's folder: next to ``manage.py``, or in ``LETSGO_HOME`` if the package is installed."""
    if not IS_INSTALLED:
        return ROOT / ".demo"
    home = Path(os.environ.get("LETSGO_HOME") or "~/.letsgo").expanduser().absolute()
    return home if (home / DEMO_MARKER).exists() else home / "demo"


DEMO_HOME = _demo_home()


def main(argv: list[str], run: Callable[[list[str]], None] | None = None) -> None:
    """Install missing requirements, then call ``run`` (default: :func:`run_management_command`).

    Ctrl-C exits with 130, without a stack trace.
    """
    try:
        ensure_environment(argv)
        (run or run_management_command)(argv)
    except BrokenPipeError:
        # The reader of the pipe (head, less) has closed it, so the flush at exit would fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)


def run_management_command(argv: list[str]) -> None:
    """Run a Django command in the store, or in the demo's store for ``quickstart``."""
    command = argv[1] if len(argv) > 1 else ""
    if argv[1:] in (["--version"], ["version"]):
        print(f"memoryhub {memoryhub.__version__}")  # Django would print its own
        return
    if command == "test" and IS_INSTALLED:
        sys.exit("The tests are in the repository; the package leaves them out.")
    if command == "quickstart" and "--no-demo" not in argv:
        enter_demo(os.environ)
    # Tests never open a real store.
    settings = "tests.settings" if command == "test" else "memoryhub.settings"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", settings)
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError

    try:
        if command == "migrate" and "--skip-checks" not in argv:
            _refuse_foreign_file()
        execute_from_command_line(argv)
    except ImproperlyConfigured as error:
        sys.exit(f"memoryhub cannot start:\n{error}")
    except DatabaseError as error:
        sys.exit(f"The store cannot be used: {error}\n{_advice()}")


def _refuse_foreign_file() -> None:
    """Refuse the file of another program before ``migrate``: checks of Django open it, which changes it."""
    import django

    django.setup()
    from memoryhub.ops.checks import store_is_not_foreign

    for error in store_is_not_foreign():
        sys.exit(f"memoryhub cannot start:\n{error.msg}. {error.hint} ({error.id})")


def _advice() -> str:
    """Return what to do about a store that raised a DatabaseError."""
    from django.db import DatabaseError

    from memoryhub.backends import release
    from memoryhub.core.disks import find_full_folders

    if full := find_full_folders():
        return f"The disk of {full[0]} is full. Free some space, then run this again."
    try:
        if release.pending_migrations():
            return "It is not up to date. Run this first: manage.py migrate"
    except DatabaseError:
        pass  # the migrations cannot be read either
    return "Run this to find the cause: manage.py doctor"


def enter_demo(environ: MutableMapping[str, str], home: Path = DEMO_HOME) -> None:
    """Use the demo's folder and ignore all variables that configure a real store."""
    for name in [name for name in environ if name.startswith(_STORE_VARIABLES)]:
        del environ[name]
    environ["LETSGO_HOME"] = str(home)


def ensure_environment(argv: list[str]) -> None:
    """Return if the requirements are installed. Otherwise prepare ``.venv`` and run ``argv`` inside it."""
    for_tests = argv[1:2] == ["test"]
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
    """Return the requirements of ``pyproject.toml`` that are not installed, or too old, in the running
    Python.
    """
    if IS_INSTALLED:  # together with the requirements
        return []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["dependencies"] + (project["optional-dependencies"]["dev"] if for_tests else [])
    return [need for need in wanted if not _is_met(need)]


def _is_met(need: str) -> bool:
    """Return whether a requirement such as ``django>=5.2.8,<5.3`` is installed within its bounds."""
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
    """Install ``requirements`` into ``.venv``. Return False if its stamp shows that they are installed.

    ``make``: create or repair the environment itself. Only a Python outside of it can do that.
    """
    digest = hashlib.sha256((ROOT / requirements).read_bytes()).hexdigest()
    stamp = VENV / f".installed-{requirements}"
    with _installation_lock():
        if python.exists() and stamp.exists() and stamp.read_text() == digest:
            return False
        print(f"Installing memoryhub's requirements into {VENV} (once, about a minute) ...", file=sys.stderr)
        if make:
            _make_environment(python)
        _pip_install(python, requirements)
        stamp.write_text(digest)
    return True


@contextmanager
def _installation_lock() -> Iterator[None]:
    """Lock the installation: if two commands start at once, one installs and the other waits."""
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
    """Create the environment, or complete one that an interrupted start left unfinished."""
    import venv

    if python.exists() and any(VENV.glob("lib/python*/site-packages/pip/__main__.py")):
        return
    if importlib.util.find_spec("ensurepip") is None:
        _exit_without_ensurepip()
    broken = python.is_symlink() and not python.exists()  # its Python was removed
    try:
        venv.create(VENV, with_pip=True, clear=broken)
    except subprocess.CalledProcessError:
        _exit_without_ensurepip()
    except OSError as error:
        sys.exit(f"Cannot create the environment {VENV}: {error}\nFix this and run the command again.")


def _exit_without_ensurepip() -> NoReturn:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    sys.exit(
        f"This Python ({sys.executable}) cannot create an environment with pip: its ensurepip is missing.\n"
        f"Install it (Debian and Ubuntu: apt install python{version}-venv) and run the command again."
    )


def _pip_install(python: Path, requirements: str) -> None:
    """Install exactly the pinned files: pip refuses a file whose hash differs."""
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
            "\nindex (PIP_INDEX_URL sets another one, PIP_PROXY a proxy). Fix this and run the command again."
        )
