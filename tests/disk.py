"""The bytes of the store's files, read by another process.

Closing a file drops all locks that this process holds on it (POSIX), SQLite's too: the next process that
closes the store would take itself for the last one and remove the write-ahead log.
"""

from __future__ import annotations

import subprocess
from pathlib import Path


def read_bytes(*files: Path | str) -> bytes:
    return subprocess.run(["cat", *map(str, files)], capture_output=True, check=False).stdout


def read_store_bytes(name: Path | str) -> bytes:
    """The database file, its write-ahead log and whatever else stands beside it."""
    name = Path(name)
    return read_bytes(*sorted(name.parent.glob(name.name + "*")))
