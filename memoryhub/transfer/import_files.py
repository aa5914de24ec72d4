"""Files in ``LETSGO_HOME/imports``: uploads, checkpoints and id maps of imports; and readers that can resume.

If nodes share a database, it contains a copy of an upload in parts, because any node may execute the import.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import count, islice
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from memoryhub.core.database import batched, is_postgres, write_transaction
from memoryhub.core.files import replace_file
from memoryhub.models import JournalEntry, MaintenanceRun, UploadPart
from memoryhub.transfer.files import LineReader, Source, open_source, write_atomically
from memoryhub.transfer.formats.hub import HubFormat
from memoryhub.transfer.records import Format, Item, ReadOptions

RETENTION_DAYS = 7  # for uploads that are never fully imported
_PART_BYTES = 1024 * 1024
_KEY = re.compile(r"[0-9a-f]{32}")
_SECONDS_TO_STORE = 600  # the copy of an upload, at most
_PENDING = (MaintenanceRun.Status.QUEUED, MaintenanceRun.Status.RUNNING)


class UploadTooLarge(Exception):
    """The file exceeds ``max_upload_mb``. The message contains the fix."""


def max_upload_bytes() -> int:
    """Return the size limit in bytes."""
    return settings.MEMORYHUB.max_upload_mb * 1024 * 1024


def upload_too_large() -> UploadTooLarge:
    mebibytes = settings.MEMORYHUB.max_upload_mb
    return UploadTooLarge(
        f"the file is larger than {mebibytes} MiB (max_upload_mb); import it with manage.py import_memories"
    )


def save_upload(chunks: Iterable[bytes]) -> str:
    """Save an upload atomically, readable by its owner only; return its key.

    Raise :class:`UploadTooLarge`.
    """
    delete_old_uploads()
    key = secrets.token_hex(16)
    write_atomically(upload_path(key), _require_size(chunks))
    if is_postgres():
        _store_parts(key)
    return key


def _require_size(chunks: Iterable[bytes]) -> Iterator[bytes]:
    left = max_upload_bytes()
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise upload_too_large()
        yield chunk


def _store_parts(key: str) -> None:
    with write_transaction(), upload_path(key).open("rb") as file:
        for number in count():
            content = file.read(_PART_BYTES)
            if not content:
                return
            UploadPart.objects.create(key=key, number=number, size=len(content), content=content)


def find_upload(key: str) -> Path | None:
    """Return the path of an upload, which another node may have received; None if it is gone."""
    path = upload_path(key)
    parts = UploadPart.objects.filter(key=key).order_by("number").values_list("content", flat=True)
    if not path.exists() and parts.exists():
        write_atomically(path, map(bytes, parts.iterator(chunk_size=1)))
    return path if path.exists() else None


def is_stored(key: str) -> bool:
    """Return whether :func:`find_upload` would find an upload."""
    return upload_path(key).exists() or UploadPart.objects.filter(key=key).exists()


def upload_path(key: str) -> Path:
    """Return the path of an upload. Raise ValueError for an invalid key."""
    if not _KEY.fullmatch(key):
        raise ValueError("this is not the key of an upload")
    return imports_folder() / f"upload-{key}"


def id_map_path(key: str) -> Path:
    return upload_path(key).with_suffix(".ids")


def delete_upload(key: str) -> None:
    """Delete an upload and its id map."""
    with write_transaction():
        UploadPart.objects.filter(key=key).delete()
    for path in (upload_path(key), id_map_path(key)):
        path.unlink(missing_ok=True)


def delete_old_uploads() -> None:
    """Delete uploads after the retention time, unless a run still needs them.

    Also delete files of this node that were imported: the import was killed at its end, or another node did
    it.
    """
    pending = MaintenanceRun.objects.filter(operation="import", status__in=_PENDING)
    needed = {str(params.get("upload")) for params in pending.values_list("params", flat=True)}
    before = time.time() - RETENTION_DAYS * 24 * 3600
    limit = timezone.now() - timedelta(days=RETENTION_DAYS)
    old = UploadPart.objects.filter(created_at__lt=limit).exclude(key__in=needed)
    if old.exists():
        with write_transaction():
            old.delete()
    for path in imports_folder().glob("upload-*"):
        with suppress(FileNotFoundError):
            key, written_at = path.stem.removeprefix("upload-"), path.stat().st_mtime
            if key not in needed and (written_at < before or _is_imported(key, written_at)):
                with write_transaction():
                    UploadPart.objects.filter(key=key).delete()
                path.unlink()


def _is_imported(key: str, written_at: float) -> bool:
    """Whether an upload was imported. Its copy in the database is stored after the file."""
    if time.time() - written_at <= _SECONDS_TO_STORE:
        return False
    if is_postgres() and not UploadPart.objects.filter(key=key).exists():
        return True
    imports = MaintenanceRun.objects.filter(operation="import", dry_run=False, params__upload=key)
    return imports.filter(status=MaintenanceRun.Status.DONE).exists()


_CHUNK = 1024 * 1024
ImportMark = dict[str, Any]


class HubReader:
    """Reader for the hub's own format: resumes by byte offset and checks a digest of the bytes before it.

    ``done`` of ``total`` is the progress in ``unit``: bytes of the file, or items.
    """

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
        """Return the position after all items so far, or ``before`` the last one."""
        lines = self._lines
        if not before:
            lines.finish_line()
        position = {"number": lines.number, "offset": lines.offset, "digest": lines.digest}
        return {**position, "header": lines.header}

    def resume(self, mark: ImportMark) -> bool:
        """Skip the items before a mark; return False if the file has changed."""
        header = int(mark.get("header", 0))  # older releases do not write it
        return self._lines.skip(int(mark["number"]), int(mark["offset"]), str(mark["digest"]), header)


class ItemReader:
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


ImportReader = HubReader | ItemReader


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
            yield HubReader(format, stack.enter_context(open_source(name)))
        else:
            yield ItemReader(format, Path(name), options)


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
