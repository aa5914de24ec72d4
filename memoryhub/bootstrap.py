"""Makes ``python3 manage.py …`` work on a machine that has nothing but Python. Standard library only.

Outside a virtual environment that holds Django, the first command makes ``.venv`` beside ``manage.py``, installs
the pinned requirements (for ``test`` also what the tests need) and runs itself again inside. Later commands find
the stamp of the installed requirements and go straight on.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"


def ensure_environment(argv: list[str]) -> None:
    """Return where Django can be imported already; otherwise prepare ``.venv`` and run ``argv`` in it."""
    needs_tests = argv[1:2] == ["test"]
    if importlib.util.find_spec("django") and (not needs_tests or importlib.util.find_spec("pytest")):
        return
    python = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if _inside(python):
        sys.exit(f"The environment in {VENV} is incomplete; remove that folder and run the command again.")
    install(python, "requirements-dev.txt" if needs_tests else "requirements.txt")
    os.execv(python, [str(python), *argv])  # noqa: S606 the same command, in the environment just made


def install(python: Path, requirements: str) -> None:
    """Make the environment and install ``requirements`` unless its stamp says that this was done."""
    wanted = (ROOT / requirements).read_bytes()
    stamp = VENV / f".installed-{requirements}"
    digest = hashlib.sha256(wanted).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == digest:
        return
    print(f"Installing memoryhub's requirements into {VENV} (once) …", flush=True)
    if not python.exists():
        venv.create(VENV, with_pip=True)
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", ROOT / requirements],
        check=False,
    )
    if done.returncode:
        sys.exit("pip could not install the requirements (its message is above); mend that and run again.")
    stamp.write_text(digest)


def _inside(python: Path) -> bool:
    return Path(sys.prefix).resolve() == VENV.resolve() and python.exists()
