"""The file of a model's vectors, which all processes of a store map into their memory.

A header and one record for each vector, ascending by key: the keys of the vector and of its memory, and the
normalised vector. Records are appended; a deleted one is overwritten with zeros and only its first key stays.
The file is next to the database, readable by its owner alone. It is a cache: backups leave it out, and a file
that is missing, damaged or of another store is made again.

A change takes a lock on the file, which ends with the process. The header counts records only once they are
written, so a process can be killed at any time. After a crash of the system, some of what was written may be
missing, so a file is valid only until the next boot.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import mmap
import os
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_HEADER = struct.Struct("<16s32sIQQ800s")
_MAGIC = b"memoryhub vec 1\n"
_HEADER_BYTES = 1024
_COUNTS = struct.Struct("<QQ")
_COUNTS_OFFSET = 16 + 32 + 4
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MAX_TRIES = 100  # to open the file while others replace it
MIN_SPARE_RECORDS = 1024  # space for new records after the file has grown, at least
Records = NDArray[np.void]


class Identity(NamedTuple):
    """The model of a file, its dimensions, and the store (its era in the change log)."""

    model: str
    dimensions: int
    store: tuple[str, int, int]

    @property
    def record(self) -> np.dtype[np.void]:
        return np.dtype([("id", "<i8"), ("key", "<i8"), ("vector", "<f4", (self.dimensions,))])

    def digest(self) -> bytes:
        boot = _BOOT_ID.read_bytes() if _BOOT_ID.exists() else b""
        return hashlib.sha256(repr((*self, boot)).encode()).digest()


def path_of(database: str | Path, model: str) -> Path:
    """Return the path of a model's file: next to the database."""
    return Path(f"{database}-vectors-{hashlib.sha256(model.encode()).hexdigest()[:12]}")


def paths(database: str | Path) -> list[Path]:
    """Return the files of a database."""
    return sorted(map(Path, glob.glob(f"{glob.escape(str(database))}-vectors-{'[0-9a-f]' * 12}")))


def stored_models(database: str | Path) -> Iterator[tuple[str, int]]:
    """Yield the model and the dimensions of each file of a database. Remove invalid files."""
    for path in paths(database):
        try:
            with path.open("rb") as file:
                magic, _, dimensions, *_, model = _HEADER.unpack(file.read(_HEADER.size))
            if magic != _MAGIC:
                raise ValueError
            yield model.rstrip(b"\0").decode(), dimensions
        except OSError:
            continue
        except (struct.error, ValueError):
            path.unlink(missing_ok=True)


class VectorFile:
    """An open file. ``path``: None for one without a name, which no other process sees."""

    def __init__(self, file: int, path: Path | None, identity: Identity) -> None:
        self._file, self.path, self.identity = file, path, identity
        self._inode = os.fstat(file).st_ino
        self.records: Records = np.zeros(0, identity.record)

    def __del__(self) -> None:
        os.close(self._file)

    def is_fit(self) -> bool:
        """Whether it belongs to this model and store and is as long as its header says."""
        header = os.pread(self._file, _HEADER.size, 0).ljust(_HEADER.size, b"\0")
        magic, digest, _, rows, _, _ = _HEADER.unpack(header)
        needed: int = _HEADER_BYTES + rows * self.identity.record.itemsize
        if (magic, digest) != (_MAGIC, self.identity.digest()):
            return False
        return os.fstat(self._file).st_size >= needed

    def _map(self) -> None:
        """Map the file again after it has grown. Earlier views keep their mapping."""
        size = os.fstat(self._file).st_size
        mapped = mmap.mmap(self._file, size, access=mmap.ACCESS_READ)
        count = (size - _HEADER_BYTES) // self.identity.record.itemsize
        self.records = np.frombuffer(mapped, self.identity.record, count, _HEADER_BYTES)

    def counts(self) -> tuple[int, int]:
        """Return the number of records and the last key of the table that they include. Needs the lock."""
        rows, last = _COUNTS.unpack(os.pread(self._file, _COUNTS.size, _COUNTS_OFFSET))
        if rows > len(self.records):
            self._map()
        return rows, last

    def append(self, ids: NDArray[np.int64], keys: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Append records, which include the keys of the table up to the last one. Needs the lock."""
        rows, last = self.counts()
        added = np.zeros(len(ids), self.identity.record)
        added["id"], added["key"], added["vector"] = ids, keys, vectors
        self._grow(rows + len(ids))
        self._write(added.tobytes(), rows)
        self.count(rows + len(ids), int(ids[-1]) if len(ids) else last)

    def count(self, rows: int, last: int) -> None:
        """Count the records, which include the keys of the table up to ``last``. Needs the lock."""
        os.pwrite(self._file, _COUNTS.pack(rows, last), _COUNTS_OFFSET)

    def erase(self, rows: NDArray[np.int64]) -> None:
        """Overwrite the memory's key and the vector of records with zeros."""
        size = self.identity.record.itemsize
        for row in rows.tolist():
            os.pwrite(self._file, bytes(size - 8), _HEADER_BYTES + row * size + 8)

    def is_in_place(self) -> bool:
        """Whether the path still leads to this file."""
        try:
            return self.path is None or os.stat(self.path).st_ino == self._inode
        except FileNotFoundError:
            return False

    def remove(self) -> None:
        """Remove the file from the folder. Other processes notice when they lock it."""
        if self.path:
            self.path.unlink(missing_ok=True)

    def _grow(self, rows: int) -> None:
        if rows > len(self.records):
            space = rows + max(MIN_SPARE_RECORDS, rows // 8)
            os.truncate(self._file, _HEADER_BYTES + space * self.identity.record.itemsize)
            self._map()

    def _write(self, data: bytes, row: int) -> None:
        offset, start = _HEADER_BYTES + row * self.identity.record.itemsize, 0
        while start < len(data):
            start += os.pwrite(self._file, data[start:], offset + start)


@contextmanager
def locked(path: Path | None, identity: Identity, known: VectorFile | None) -> Iterator[VectorFile]:
    """Open the file, or use the one that is open already, and lock it. Raise OSError if that fails."""
    for _ in range(_MAX_TRIES):
        file = known if known and (known.path, known.identity) == (path, identity) else _open(path, identity)
        known = None
        if file is None:  # look again
            continue
        fcntl.flock(file._file, fcntl.LOCK_EX)
        try:
            if file.is_in_place():
                yield file
                return
        finally:
            fcntl.flock(file._file, fcntl.LOCK_UN)
    raise OSError(f"{path} is replaced repeatedly")


def _open(path: Path | None, identity: Identity) -> VectorFile | None:
    """Open the file. Return None if it was missing or did not fit; then there is a new one, or none."""
    if path is None:
        file = _create_unnamed()
        _write_header(file, identity)
        return VectorFile(file, None, identity)
    try:
        found = VectorFile(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), path, identity)
    except FileNotFoundError:
        _create(path, identity)
        return None
    except PermissionError:  # another user made it
        path.unlink(missing_ok=True)
        return None
    if found.is_fit():
        return found
    if found.is_in_place():
        found.remove()
    return None


def _create_unnamed() -> int:
    """Create a file without a name: in memory where the system can, because the disk may be full."""
    if sys.platform == "linux":
        return os.memfd_create("memoryhub-vectors")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _create(path: Path, identity: Identity) -> None:
    """Create an empty file that its owner alone can read, unless another process has just created it."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.") as draft:
        _write_header(draft.fileno(), identity)
        if os.geteuid() == 0:  # the server may run as the owner of the folder
            folder = path.parent.stat()
            os.fchown(draft.fileno(), folder.st_uid, folder.st_gid)
        with suppress(FileExistsError):
            os.link(draft.name, path)


def _write_header(file: int, identity: Identity) -> None:
    model = identity.model.encode()
    header = _HEADER.pack(_MAGIC, identity.digest(), identity.dimensions, 0, 0, model)
    os.pwrite(file, header.ljust(_HEADER_BYTES, b"\0"), 0)
