"""Writing files that other processes read: private from the start, and never found incomplete. No Django."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def create_file(path: Path, mode: int = 0o600) -> IO[bytes]:
    """Open a new file for writing, by default readable by its owner only. Raise FileExistsError."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb")


@contextmanager
def replace_file(
    path: Path, mode: int = 0o600, *, to_disk: bool = False, draft: Path | None = None
) -> Iterator[IO[bytes]]:
    """Open a file that replaces ``path`` when the context ends, or is removed if the context raises.

    ``to_disk``: flush the content to disk first. ``draft``: the path of the incomplete file.
    """
    draft = draft or path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with create_file(draft, mode) as file:
            yield file
            if to_disk:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
