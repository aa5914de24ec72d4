"""Resumable readers for import files, the checkpoints of interrupted imports, and their id maps.

Checkpoint and id map are files in ``LETSGO_HOME/imports``.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from django.conf import settings

from memoryhub.core.database import batched
from memoryhub.core.files import replace_file
from memoryhub.models import JournalEntry
from memoryhub.transfer.files import Source, open_source
from memoryhub.transfer.formats.hub import HubFormat
from memoryhub.transfer.jsonl import LineReader
from memoryhub.transfer.records import Format, Item, ReadOptions

_CHUNK = 1024 * 1024
ImportMark = dict[str, Any]


class ImportReader(Protocol):
    """A reader of items. ``done`` of ``total`` is the progress in ``unit``: bytes of the file, or items."""

    unit: str
    total: int | None

    @property
    def done(self) -> int: ...

    def __iter__(self) -> Iterator[Item]: ...

    def mark(self, *, before: bool = False) -> ImportMark:
        """Return the position after all items so far, or ``before`` the last one."""
        ...

    def resume(self, mark: ImportMark) -> bool:
        """Skip the items before a mark; return False if the file has changed."""
        ...


class _LineReader:
    """Reader for the hub's own format: resumes by byte offset and checks a digest of the bytes before it."""

    unit = "B"

    def __init__(self, format: HubFormat, source: Source) -> None:
        self._format, self._source = format, source
        self._lines = LineReader(source.stream)
        self.total = source.size

    @property
    def done(self) -> int:
        return self._source.progress if self.total is not None else self._lines.number

    def __iter__(self) -> Iterator[Item]:
        return self._format.items(self._lines)

    def mark(self, *, before: bool = False) -> ImportMark:
        lines = self._lines
        if not before:
            lines.finish_line()
        return {"number": lines.number, "offset": lines.offset, "digest": lines.digest}

    def resume(self, mark: ImportMark) -> bool:
        return self._lines.skip(int(mark["number"]), int(mark["offset"]), str(mark["digest"]))


class _ItemReader:
    """Reader for other formats: resumes by item number if the digest of the file is unchanged."""

    unit = " items"

    def __init__(self, format: Format, path: Path, options: ReadOptions) -> None:
        self._path, self._format, self._options = path, format, options
        self._digest = ""
        self._skip = 0
        self.done = 0
        self.total = format.count(path)

    def __iter__(self) -> Iterator[Item]:
        for item in islice(self._format.read(self._path, self._options), self._skip, None):
            self.done += 1
            yield item

    def mark(self, *, before: bool = False) -> ImportMark:
        self._digest = self._digest or file_digest(self._path)
        return {"number": self.done - before, "digest": self._digest}

    def resume(self, mark: ImportMark) -> bool:
        self._digest = file_digest(self._path)
        if mark["digest"] != self._digest:
            return False
        self._skip = self.done = int(mark["number"])
        return True


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names, sizes and dates of the files of a folder."""
    if path.is_dir():
        stats = ((file, file.lstat()) for file in sorted(path.rglob("*")))
        listing = "\n".join(f"{file} {stat.st_size} {stat.st_mtime_ns}" for file, stat in stats)
        return hashlib.sha256(listing.encode()).hexdigest()
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def open_import(format: Format, name: str, options: ReadOptions) -> Iterator[ImportReader]:
    """Open a file, or standard input for ``-`` (own format only). Raise UnreadableFile."""
    with ExitStack() as stack:
        if isinstance(format, HubFormat):
            if Path(name).is_file():
                format.refuse_document(Path(name))
            yield _LineReader(format, stack.enter_context(open_source(name)))
        else:
            yield _ItemReader(format, Path(name), options)


_HEAD_BYTES = 65_536


def imports_folder() -> Path:
    """Return the folder for imports, readable by its owner only."""
    path = Path(settings.HOME) / "imports"
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


@dataclass(frozen=True)
class Checkpoint:
    """All items up to ``mark`` are stored; the mark also identifies the file.

    The last journal row at that time identifies the store: another store, or one restored from a backup, does
    not contain these items.
    """

    mark: ImportMark
    journal_seq: int
    journal_hash: str

    @property
    def number(self) -> int:
        """Number of lines or items before the mark."""
        return int(self.mark["number"])

    def is_of_this_store(self) -> bool:
        return JournalEntry.objects.filter(seq=self.journal_seq, hash=self.journal_hash).exists()


def checkpoint_path(name: str) -> Path:
    """Return the checkpoint path of a file, identified by its first bytes, or of a folder, by its path."""
    if Path(name).is_dir():
        head = str(Path(name).absolute()).encode()
    else:
        with open(name, "rb") as file:
            head = file.read(_HEAD_BYTES)
    if head.startswith(b"\x1f\x8b"):  # a compressed file has the same checkpoint as its content
        with open_source(name) as source:
            head = source.stream.read(_HEAD_BYTES)
    return imports_folder() / f"{hashlib.sha256(head).hexdigest()[:32]}.json"


def load_checkpoint(path: Path) -> Checkpoint | None:
    """Return the checkpoint of an earlier run, or None if there is no readable one."""
    try:
        found = Checkpoint(**json.loads(path.read_text("utf-8")))
        return found if isinstance(found.mark, dict) and "number" in found.mark else None
    except (FileNotFoundError, ValueError, TypeError):
        return None


def save_checkpoint(path: Path, mark: ImportMark) -> None:
    """Save that everything before the mark is stored. The write is atomic."""
    seq, digest = JournalEntry.objects.order_by("-seq").values_list("seq", "hash").first() or (0, "")
    with replace_file(path) as file:
        file.write(json.dumps(asdict(Checkpoint(mark, seq, digest))).encode())


_IDS_PER_QUERY = 500


class IdMap:
    """Map from ids in a file to stored ids, because facts and links refer to memories by id.

    The map is a small SQLite file at ``path``, so that a million ids do not fill the memory and a resumed
    import knows the earlier ids. Without a path it is temporary.
    """

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
        for chunk in batched(dict.fromkeys(filter(None, sources)), _IDS_PER_QUERY):
            placeholders = ", ".join("?" * len(chunk))
            sql = f"SELECT source, ours FROM ids WHERE source IN ({placeholders})"  # noqa: S608
            rows = self._file.execute(sql, chunk)
            found.update(rows.fetchall())
        return found

    def delete(self) -> None:
        """Delete the map at the end of an import."""
        self._file.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
