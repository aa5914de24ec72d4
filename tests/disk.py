"""The bytes of the store's files, read by another process.

Closing a file drops all locks that this process holds on it (POSIX), SQLite's too: the next process that
closes the store would take itself for the last one and remove the write-ahead log.
"""

from __future__ import annotations

import subprocess
from pathlib import Path


def bytes_of(*files: Path | str) -> bytes:
    return subprocess.run(["cat", *map(str, files)], capture_output=True, check=False).stdout


def bytes_of_the_store(name: Path | str) -> bytes:
    """The database file, its write-ahead log and whatever else stands beside it."""
    name = Path(name)
    return bytes_of(*sorted(name.parent.glob(name.name + "*")))
