"""Read the bytes of the store's files in another process.

Closing a file drops all POSIX locks that this process has on it, including SQLite's: the next process that
closes the store would assume that it is the last one and remove the write-ahead log.
"""

from __future__ import annotations

import subprocess
from pathlib import Path


def read_bytes(*files: Path | str) -> bytes:
    return subprocess.run(["cat", *map(str, files)], capture_output=True, check=False).stdout


def read_store_bytes(name: Path | str) -> bytes:
    """Return the bytes of the database file, its write-ahead log and other files with its name."""
    name = Path(name)
    return read_bytes(*sorted(name.parent.glob(name.name + "*")))
