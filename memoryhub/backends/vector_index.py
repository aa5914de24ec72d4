"""The vectors of one model on SQLite: the cosines of all of them in a few milliseconds.

All processes of a store share them in a mapped file, which takes 4 bytes for each dimension of each vector:
104 MB for 100 000 vectors of 256. Each use applies the changes since the last one
(:mod:`memoryhub.backends.change_log`), so it is correct after every write of every process.

The file has a header and one record for each vector, ascending by key: the keys of the vector and of its
memory, and the normalised vector. Records are appended; a deleted one is overwritten with zeros at once and
only its first key stays. The file is rewritten when a quarter of it is deleted vectors. It is next to the
database, readable by its owner alone. It is a cache: backups leave it out, and a file that is missing,
damaged or of another store is made again.

A change takes a lock on the file, which ends with the process. The header counts records only once they are
written, so a process can be killed at any time. After a crash of the system, some of what was written may be
missing, so a file is valid only until the next boot.

On PostgreSQL, :func:`get_index` returns :mod:`memoryhub.backends.postgres.vectors`.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import logging
import mmap
import os
import struct
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from memoryhub.backends import change_log
from memoryhub.backends.change_log import NO_POSITION, STORED_TYPE, LogPosition
from memoryhub.backends.dialect import IS_POSTGRES
from memoryhub.backends.vector_view import (
    Cosines,
    Keys,
    Vectors,
    VectorView,
    VisibleMemories,
    extend_codes,
    extend_distances,
    unit_vectors,
)
from memoryhub.core.database import store_path

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


PAGE_SIZE = 10_000  # vectors fetched at a time
MIN_DEAD_ROWS = 1024  # deleted rows before a file is rewritten, at least
MAX_DEAD_SHARE = 0.25  # share of deleted rows from which a file is rewritten
MAX_INDEXES = 2  # while vectors of a new model replace the old ones, there are two
RETRY_SECONDS = 60.0  # after the file could not be written
_MAX_LENGTH_ERROR = 0.01  # of the vectors in an undamaged file
logger = logging.getLogger(__name__)


class ModelVectors(Protocol):
    """The vectors of a model, as both databases provide them."""

    @property
    def position(self) -> LogPosition: ...
    def cosines(self, query: Vectors, mean: Vectors | None, visible: VisibleMemories) -> Cosines: ...
    def of(self, pks: Sequence[int] | Keys) -> dict[int, Vectors]: ...
    def in_order(self, pks: Sequence[int] | Keys) -> tuple[Vectors, NDArray[np.bool_]]: ...
    def mean(self, pks: Sequence[int] | Keys) -> Vectors: ...


class ModelIndex(Protocol):
    """Provides the vectors of a model at a position of the change log."""

    def view(self, now: LogPosition | None = None) -> ModelVectors: ...
    def of(self, pks: Sequence[int] | Keys) -> dict[int, Vectors]: ...
    def prepare(self) -> None: ...


class VectorIndex:
    """All vectors of one model. Thread-safe."""

    def __init__(self, model: str, dimensions: int) -> None:
        self.model, self.dimensions = model, dimensions
        self._lock = threading.Lock()
        self._file: VectorFile | None = None
        self._retry_at = 0.0  # on the monotonic clock: when to try the shared file again
        self._cached = self._empty()

    def __len__(self) -> int:
        return len(self.view())

    def of(self, pks: Sequence[int] | Keys) -> dict[int, Vectors]:
        """The vectors of these memories, of those that have one."""
        return self.view().of(pks)

    def prepare(self) -> None:
        """Load the vectors before the first search."""
        self.view()

    def view(self, now: LogPosition | None = None) -> VectorView:
        """Return the vectors as this connection sees them. Rows of an open transaction are not cached.

        ``now``: the current position, if the caller has read it.
        """
        now = now or change_log.current_position()
        if now == self._cached.position:
            return self._cached
        if connection.in_atomic_block:
            return self._transaction_view(self._cached, now)
        with self._lock:
            if self._cached.position.follows(now):  # another thread is ahead
                return self._cached
            cached = self._cached = self._update(now)
            if not now.era[0]:
                self._cached = self._empty()  # deletions are not tracked now: do not cache
            return cached

    def _empty(self) -> VectorView:
        none = np.zeros(0, np.int64)
        vectors = np.zeros((0, self.dimensions), np.float32)
        return VectorView(NO_POSITION, vectors, none, none, 0, vectors)

    def _transaction_view(self, cached: VectorView, now: LogPosition) -> VectorView:
        base = cached if now.follows(cached.position) else self._empty()
        removed = change_log.deleted_vectors_between(base.position, now) if base.rows else []
        deleted = _find_rows(base, removed)
        keys = base.keys.copy()
        keys[deleted] = 0
        pages = [(base.ids, keys, base.extra), *self._read(base.position.last_vector, now.last_vector)]
        ids, keys, extra = (np.concatenate(parts) for parts in zip(*pages, strict=True))
        dead = base.dead + len(deleted)
        return replace(
            base, position=now, ids=ids, keys=keys, dead=dead, extra=extra, distances=OrderedDict()
        )

    def _update(self, now: LogPosition) -> VectorView:
        """Bring the file up to date. Without a file that can be written, use one of this process."""
        identity = Identity(self.model, self.dimensions, now.era)
        database = store_path()
        if now.era[0] and time.monotonic() >= self._retry_at:
            try:
                return self._update_file(now, path_of(database, self.model), identity)
            except OSError as error:
                logger.warning("this process has its own copy of the vectors: %s", error)
                self._retry_at = time.monotonic() + RETRY_SECONDS
        return self._update_file(now, None, identity)

    def _update_file(self, now: LogPosition, path: Path | None, identity: Identity) -> VectorView:
        with locked(path, identity, self._file) as file:
            is_known = file is self._file and now.follows(self._cached.position)
            known = self._cached if is_known else self._empty()
            self._file = None  # until it is known to be sound
            view = self._advance(file, known, now)
            if view is not None:
                self._file = file
                return view
            file.remove()
        return self._update_file(now, path, identity)

    def _advance(self, file: VectorFile, known: VectorView, now: LogPosition) -> VectorView | None:
        """Append new vectors and overwrite deleted ones. Return None if the file must be rewritten."""
        _, last = file.counts()
        for page in self._read(last, now.last_vector):
            file.append(*page)
        rows, last = file.counts()
        file.count(rows, max(last, now.last_vector))
        records = file.records[:rows]
        if known.position == NO_POSITION and not _is_sound(records):
            return None
        # Another process may be ahead: its records count at a later position.
        rows = int(np.searchsorted(records["id"], now.last_vector, "right"))
        view = VectorView(
            position=now,
            matrix=records["vector"][:rows],
            ids=np.concatenate([known.ids, records["id"][known.rows : rows]]),
            keys=np.concatenate([known.keys, records["key"][known.rows : rows]]),
            dead=0,
            extra=np.zeros((0, self.dimensions), np.float32),
            distances=extend_distances(known, records["vector"][known.rows : rows]),
            codes=extend_codes(known.codes, records["vector"][:rows]),
        )
        self._erase_deleted(file, view, known.position, now)
        view = replace(view, dead=int(np.count_nonzero(view.keys == 0)))
        is_full = view.dead > max(MIN_DEAD_ROWS, MAX_DEAD_SHARE * view.rows)
        return None if is_full else view

    def _erase_deleted(
        self, file: VectorFile, view: VectorView, since: LogPosition, now: LogPosition
    ) -> None:
        """Overwrite the vectors that were deleted since; of a file that is read first, all without a row."""
        if since == NO_POSITION:
            deleted = np.flatnonzero(~np.isin(view.ids, change_log.vector_ids(self.model)))
        else:
            deleted = _find_rows(view, change_log.deleted_vectors_between(since, now))
        view.keys[deleted] = 0
        file.erase(deleted)
        if view.codes is not None:
            view.codes.erase(deleted)

    def _read(self, start: int, end: int) -> Iterator[tuple[Keys, Keys, Vectors]]:
        """Yield the vectors with keys above ``start`` up to ``end``, normalised. Skips zero vectors."""
        size = self.dimensions * STORED_TYPE.itemsize
        while start < end:
            page = change_log.vectors_between(start, end, self.model, size, PAGE_SIZE)
            if page:
                ids, pks, blobs = zip(*page, strict=True)
                vectors, valid = unit_vectors(blobs, self.dimensions)
                yield np.array(ids, np.int64)[valid], np.array(pks, np.int64)[valid], vectors
            start = page[-1][0] if len(page) == PAGE_SIZE else end


_indexes: OrderedDict[tuple[str, int], VectorIndex] = OrderedDict()
_indexes_lock = threading.Lock()
os.register_at_fork(after_in_child=_indexes.clear)  # a lock on an inherited file would not exclude the parent


def get_index(model: str, dimensions: int) -> ModelIndex:
    """Return the index of a model: on SQLite that of this process."""
    if IS_POSTGRES:
        from memoryhub.backends.postgres.vectors import TableVectors

        return TableVectors(model, dimensions)
    return _own_index(model, dimensions)


def exact_cosines(view: ModelVectors, query: Vectors, mean: Vectors, pks: Keys) -> Vectors | None:
    """Return the exact cosine of each memory, NaN without a vector; None if the scores have no estimates."""
    if not isinstance(view, VectorView) or view.codes is None:
        return None
    return view.exact_cosines(query, mean, pks)


def find_obstacle() -> str:
    """Return why the database cannot compare vectors, or an empty text."""
    if not IS_POSTGRES:
        return ""
    from memoryhub.backends.postgres import vectors

    return vectors.find_obstacle()


def _own_index(model: str, dimensions: int) -> VectorIndex:
    with _indexes_lock:
        key = (model, dimensions)
        found = _indexes.setdefault(key, VectorIndex(model, dimensions))
        _indexes.move_to_end(key)
        while len(_indexes) > MAX_INDEXES:
            _indexes.popitem(last=False)
        return found


def overwrite_deleted(in_use: str = "") -> None:
    """Overwrite deleted vectors in the files of this store. Remove the file of a model that was replaced.

    ``in_use``: the configured model, which may have no vectors yet. PostgreSQL has no files.
    """
    if IS_POSTGRES:
        return
    database, now = store_path(), change_log.current_position()
    for model, dimensions in stored_models(database):
        if model != in_use and now.models[0] == now.models[1] and now.models[0] not in ("", model):
            _indexes.pop((model, dimensions), None)
            path_of(database, model).unlink(missing_ok=True)
        else:
            _own_index(model, dimensions).view(now)
    for index in list(_indexes.values()):  # also those without a file
        index.view(now)


def _find_rows(view: VectorView, ids: list[int]) -> Keys:
    """Return the row numbers of these embeddings, without those that are not in the view."""
    wanted = np.unique(np.array(ids, np.int64))
    rows = np.searchsorted(view.ids, wanted)
    inside = rows < len(view.ids)
    rows, wanted = rows[inside], wanted[inside]
    here: Keys = rows[(view.ids[rows] == wanted) & (view.keys[rows] != 0)]
    return here


def _is_sound(records: Records) -> bool:
    """Whether the keys of an opened file ascend, and its vectors have the length 1."""
    vectors = records["vector"]
    squares = np.einsum("ij,ij->i", vectors, vectors)[records["key"] != 0]
    return bool((np.diff(records["id"]) > 0).all() and (np.abs(squares - 1) < _MAX_LENGTH_ERROR).all())
