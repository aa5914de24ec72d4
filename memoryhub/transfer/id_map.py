"""What the ids of a file have become here: facts and links refer to memories by them.

Kept in a small file beside the position of an import, so that a million ids fill no memory and one that goes
on knows what came before. Holds ids alone.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from memoryhub.core.chunks import batched

_CHUNK_SIZE = 500


class IdMap:
    """Source ids and ours. Without a ``path`` they are gone when it is closed."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        # An empty name: SQLite keeps it in memory, and on the disk when it grows.
        self._file = sqlite3.connect("" if path is None else path, isolation_level=None)
        try:
            self._begin()
        except sqlite3.DatabaseError:
            # Cut short by a crash: what is missing is imported anew, or said to be missing.
            if path is None:
                raise
            self._file.close()
            path.unlink()
            self._file = sqlite3.connect(path, isolation_level=None)
            self._begin()

    def _begin(self) -> None:
        # If it is lost in a crash, so is the position that would make use of it, or little is.
        self._file.execute("PRAGMA synchronous = OFF")
        self._file.execute(
            "CREATE TABLE IF NOT EXISTS ids (source TEXT PRIMARY KEY, ours TEXT) WITHOUT ROWID"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def add(self, pairs: Mapping[str, str]) -> None:
        """Take note of what these have become."""
        if pairs:
            self._file.execute("BEGIN")
            self._file.executemany("INSERT OR REPLACE INTO ids VALUES (?, ?)", pairs.items())
            self._file.execute("COMMIT")

    def find(self, sources: Iterable[str]) -> dict[str, str]:
        """Those that are known."""
        found: dict[str, str] = {}
        for some in batched(dict.fromkeys(filter(None, sources)), _CHUNK_SIZE):
            marks = ", ".join("?" * len(some))
            rows = self._file.execute(f"SELECT source, ours FROM ids WHERE source IN ({marks})", some)  # noqa: S608
            found.update(rows.fetchall())
        return found

    def forget(self) -> None:
        """The import is over: nothing of this stays."""
        self._file.close()
        if self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()
