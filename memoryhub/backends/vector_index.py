"""The vectors of one model on SQLite: the cosines of all of them in a few milliseconds.

All processes of a store share them in a mapped file (:mod:`memoryhub.backends.vector_file`), which takes 4
bytes for each dimension of each vector: 104 MB for 100 000 vectors of 256. Each use applies the changes since
the last one (:mod:`memoryhub.backends.change_log`), so it is correct after every write of every process.
Deleted vectors are overwritten at once. The file is rewritten when a quarter of it is deleted vectors.

On PostgreSQL, :func:`get_index` returns :mod:`memoryhub.backends.postgres.vectors`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from memoryhub.backends import change_log, vector_file
from memoryhub.backends.change_log import NO_POSITION, STORED_TYPE, LogPosition
from memoryhub.backends.dialect import IS_POSTGRES
from memoryhub.backends.vector_file import Identity, Records, VectorFile
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
                return self._update_file(now, vector_file.path_of(database, self.model), identity)
            except OSError as error:
                logger.warning("this process has its own copy of the vectors: %s", error)
                self._retry_at = time.monotonic() + RETRY_SECONDS
        return self._update_file(now, None, identity)

    def _update_file(self, now: LogPosition, path: Path | None, identity: Identity) -> VectorView:
        with vector_file.locked(path, identity, self._file) as file:
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
    for model, dimensions in vector_file.stored_models(database):
        if model != in_use and now.models[0] == now.models[1] and now.models[0] not in ("", model):
            _indexes.pop((model, dimensions), None)
            vector_file.path_of(database, model).unlink(missing_ok=True)
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
