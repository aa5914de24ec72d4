"""Map from ids in an import file to stored ids, because facts and links reference memories by id.

The map is a small SQLite file next to the checkpoint, so that a million ids do not fill the memory and a
resumed import knows the earlier ids. It contains only ids.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from memoryhub.core.database import batched

_CHUNK_SIZE = 500


class IdMap:
    """Map from source ids to stored ids. Without a ``path`` it is temporary."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        # With an empty name, SQLite uses memory and spills to disk.
        self._file = sqlite3.connect("" if path is None else path, isolation_level=None)
        try:
            self._create_table()
        except sqlite3.DatabaseError:
            # Damaged by a crash. Missing entries are imported again or reported as missing.
            if path is None:
                raise
            self._file.close()
            path.unlink()
            self._file = sqlite3.connect(path, isolation_level=None)
            self._create_table()

    def _create_table(self) -> None:
        # A crash that loses the map loses the checkpoint too, or only the latest entries.
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
        """Add source ids and their stored ids."""
        if pairs:
            self._file.execute("BEGIN")
            self._file.executemany("INSERT OR REPLACE INTO ids VALUES (?, ?)", pairs.items())
            self._file.execute("COMMIT")

    def find(self, sources: Iterable[str]) -> dict[str, str]:
        """Return the stored ids of known source ids."""
        found: dict[str, str] = {}
        for chunk in batched(dict.fromkeys(filter(None, sources)), _CHUNK_SIZE):
            placeholders = ", ".join("?" * len(chunk))
            sql = f"SELECT source, ours FROM ids WHERE source IN ({placeholders})"  # noqa: S608
            rows = self._file.execute(sql, chunk)
            found.update(rows.fetchall())
        return found

    def delete(self) -> None:
        """Delete the map at the end of an import."""
        self._file.close()
        if self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()
