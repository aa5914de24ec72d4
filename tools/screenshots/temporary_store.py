"""A store for screenshots: an empty home that is removed when the process ends."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

from memoryhub.ops import bootstrap

home: Path | None = None  # set by ``enter``


def enter(environ: MutableMapping[str, str]) -> None:
    """Point ``environ`` at a temporary home. Call it before Django reads the settings."""
    global home
    home = Path(tempfile.mkdtemp(prefix="memoryhub-")).resolve()
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    bootstrap.enter_demo(environ, home)
