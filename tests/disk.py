"""Small file systems, and the bytes of the store's files, read in another process.

Closing a file drops all POSIX locks that this process has on it, including SQLite's: the next process that
closes the store would assume that it is the last one and remove the write-ahead log.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount a file system of this size in a new folder; skip the test if that is not allowed."""
    folder.mkdir()
    if os.geteuid() or not shutil.which("mount"):
        pytest.skip("only root can mount a small file system")
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()


def read_bytes(*files: Path | str) -> bytes:
    return subprocess.run(["cat", *map(str, files)], capture_output=True, check=False).stdout


def read_store_bytes(name: Path | str) -> bytes:
    """Return the bytes of the database file, its write-ahead log and other files with its name."""
    name = Path(name)
    return read_bytes(*sorted(name.parent.glob(name.name + "*")))
