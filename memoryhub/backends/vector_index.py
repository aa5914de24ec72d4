"""The vectors of one model in memory: exact cosines of all of them in a few milliseconds.

A float32 matrix with spare rows. Each use applies the changes since the last one
(:mod:`memoryhub.backends.change_log`), so it is correct after every write of every process. It takes 4 bytes
for each dimension of each vector (100 MB for 100 000 vectors of 256), an eighth of that for spare rows, and
up to a quarter for deleted vectors, which are overwritten with zeros at once and removed later.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from memoryhub.backends import change_log
from memoryhub.backends.change_log import NO_POSITION, LogPosition

Vectors: TypeAlias = NDArray[np.float32]
Keys: TypeAlias = NDArray[np.int64]
STORED_TYPE = np.dtype("<f2")
PAGE_SIZE = 10_000  # vectors fetched at a time
MIN_SPARE_ROWS = 1024  # spare rows after a compaction, at least
MAX_DEAD_SHARE = 0.25  # share of deleted rows that triggers a compaction
MAX_INDEXES = 2  # while vectors of a new model replace the old ones, there are two
# A mean is computed as if this number of zero vectors took part, because the mean of a few vectors is noise.
PRIOR = 32
MAX_CACHED_MEANS = 4  # for which the distances to all vectors are cached
_EPSILON = 1e-6  # the smallest divisor for a squared length


class Scores(NamedTuple):
    """Primary keys of memories and their cosines, in the same order, unsorted."""

    pks: Keys
    cosines: Vectors


def encode_vector(vector: Vectors) -> bytes:
    """Return a vector as the table stores it."""
    return vector.astype(STORED_TYPE).tobytes()


@dataclass(frozen=True)
class VectorView:
    """The vectors of a model at one position of the log.

    Later views share the arrays and write only after ``rows``, except that a deleted row gets the key 0 and a
    zero vector at once. ``extra``: rows that an open transaction wrote and no other may see.
    """

    position: LogPosition
    matrix: Vectors
    ids: Keys  # of the Embedding rows, ascending
    keys: Keys  # of the memories; 0: deleted
    rows: int
    dead: int
    total: NDArray[np.float64]  # the sum of all vectors
    extra: Vectors
    distances: OrderedDict[bytes, Vectors] = field(default_factory=OrderedDict, repr=False)

    def __len__(self) -> int:
        return self.rows + len(self.extra) - self.dead

    @property
    def pks(self) -> Keys:
        """The keys of memories with a vector."""
        keys = self._keys()
        present: Keys = keys[keys != 0]
        return present

    def scores(self, query: Vectors, *, centred: bool = True, mean: Vectors | None = None) -> Scores:
        """See :meth:`VectorIndex.scores`."""
        if not len(self) or not query.any():
            return Scores(np.empty(0, np.int64), np.empty(0, np.float32))
        if centred:
            cosines = self._centred(query, _shrunk_mean(self.total, len(self)) if mean is None else mean)
        else:
            cosines = self._times(query)
        keys = self._keys()
        present = keys != 0
        return Scores(keys[present], cosines[present])

    def of(self, pks: Sequence[int] | Keys) -> dict[int, Vectors]:
        """Return the vectors of these memories, if they have one."""
        rows = self._where(pks)
        return dict(zip(self.keys[rows].tolist(), self._vectors(rows), strict=True))

    def in_order(self, pks: Sequence[int] | Keys) -> tuple[Vectors, NDArray[np.bool_]]:
        """Return the vectors of distinct memories in this order (zeros if missing), and which have one."""
        wanted = np.asarray(pks, np.int64)
        rows, order = self._where(wanted), np.argsort(wanted)
        places = order[np.searchsorted(wanted, self.keys[rows], sorter=order)]
        matrix = np.zeros((len(wanted), self.matrix.shape[1]), np.float32)
        present = np.zeros(len(wanted), bool)
        matrix[places], present[places] = self._vectors(rows), True
        return matrix, present

    def mean(self, pks: Sequence[int] | Keys) -> Vectors:
        """Return the mean of these memories' vectors, shrunk towards zero if they are few (:data:`PRIOR`)."""
        rows = self._where(pks)
        return _shrunk_mean(self._vectors(rows).sum(axis=0, dtype=np.float64), len(rows))

    def _keys(self) -> Keys:
        return self.keys[: self.rows + len(self.extra)]

    def _where(self, pks: Sequence[int] | Keys) -> Keys:
        wanted = np.asarray(pks, np.int64)
        return np.flatnonzero(np.isin(self._keys(), wanted[wanted > 0]))

    def _vectors(self, rows: Keys) -> Vectors:
        vectors: Vectors = self.matrix[rows[rows < self.rows]]
        beyond = rows[rows >= self.rows] - self.rows
        return np.concatenate([vectors, self.extra[beyond]]) if len(beyond) else vectors

    def _times(self, columns: Vectors) -> Vectors:
        """Multiply all rows by one vector, or by several as columns."""
        product: Vectors = self.matrix[: self.rows] @ columns
        return np.concatenate([product, self.extra @ columns]) if len(self.extra) else product

    def _centred(self, query: Vectors, mean: Vectors) -> Vectors:
        """Compute centred cosines in one pass: ``(q-m)·(x-m)`` is ``(q-m)·x`` minus a constant."""
        difference, name = query - mean, mean.tobytes()
        distances = self.distances.get(name)
        if distances is None:
            both = self._times(np.stack([difference, mean], axis=1))
            products = both[:, 0]
            distances = np.sqrt(np.maximum(1 - 2 * both[:, 1] + float(mean @ mean), _EPSILON))
            self.distances[name] = distances
            while len(self.distances) > MAX_CACHED_MEANS:
                self.distances.popitem(last=False)
        else:
            products = self._times(difference)
        length = float(np.sqrt(max(float(difference @ difference), _EPSILON)))
        cosines: Vectors = (products - float(mean @ difference)) / (distances * length)
        return cosines


class VectorIndex:
    """All vectors of one model. Thread-safe."""

    def __init__(self, model: str, dimensions: int) -> None:
        self.model, self.dimensions = model, dimensions
        self._lock = threading.Lock()
        self._cached = self._empty()

    def __len__(self) -> int:
        return len(self.view())

    @property
    def memory_bytes(self) -> int:
        """The bytes of memory that the index uses."""
        cached = self._cached
        return cached.matrix.nbytes + cached.ids.nbytes + cached.keys.nbytes

    def refresh(self) -> None:
        """Apply changes, if the index is loaded. This removes erased vectors from memory."""
        if self._cached.position != NO_POSITION:
            self.view()

    def scores(self, query: Vectors, *, centred: bool = True, mean: Vectors | None = None) -> Scores:
        """Return the cosine of every vector with this unit vector, or nothing for a zero vector.

        ``centred``: subtract a mean from both first, ``(q-m)·(x-m) / (|q-m| |x-m|)``, which removes what all
        texts have in common. By default it is the mean of all vectors, including those of hidden memories.
        """
        return self.view().scores(query, centred=centred, mean=mean)

    def of(self, pks: Sequence[int] | Keys) -> dict[int, Vectors]:
        """The vectors of these memories, of those that have one."""
        return self.view().of(pks)

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
            if now.follows(self._cached.position):
                self._cached = self._advance(self._cached, now)
            elif not self._cached.position.follows(now):  # else another thread is ahead
                self._cached = self._advance(self._empty_for_all(now), now)
            cached = self._cached
            if not now.era[0]:
                self._cached = self._empty()  # deletions are not tracked now: do not cache
            return cached

    def _nothing(self) -> NDArray[np.float64]:
        return np.zeros(self.dimensions)

    def _empty(self, position: LogPosition = NO_POSITION, capacity: int = 0) -> VectorView:
        return VectorView(
            position=position,
            matrix=np.zeros((capacity, self.dimensions), np.float32),
            ids=np.zeros(capacity, np.int64),
            keys=np.zeros(capacity, np.int64),
            rows=0,
            dead=0,
            total=self._nothing(),
            extra=np.empty((0, self.dimensions), np.float32),
        )

    def _transaction_view(self, cached: VectorView, now: LogPosition) -> VectorView:
        base = cached if now.follows(cached.position) else self._empty()
        gone = _find_rows(base, change_log.deleted_vectors_between(base.position, now) if base.rows else [])
        keys = base.keys[: base.rows].copy()
        keys[gone] = 0
        pages = [(base.ids[:0], base.keys[:0], base.extra)]
        self._read(base.position.last_vector, now.last_vector, lambda *page: pages.append(page))
        ids, new_keys, extra = (np.concatenate(parts) for parts in zip(*pages, strict=True))
        change = extra.sum(axis=0, dtype=np.float64) - base.matrix[gone].sum(axis=0, dtype=np.float64)
        return replace(
            base,
            position=now,
            ids=np.concatenate([base.ids[: base.rows], ids]),
            keys=np.concatenate([keys, new_keys]),
            dead=base.dead + len(gone),
            total=base.total + change,
            extra=extra,
            distances=OrderedDict(),
        )

    def _empty_for_all(self, now: LogPosition) -> VectorView:
        """Return an empty view with space for all vectors, positioned before the first one."""
        rows = change_log.count_vectors(self.model)
        return self._empty(now._replace(last_vector=0), rows + max(MIN_SPARE_ROWS, rows // 8))

    def _advance(self, cached: VectorView, now: LogPosition) -> VectorView:
        """Append new vectors, then remove deleted ones, which can be among the new ones."""
        views = [cached]
        start, end = cached.position.last_vector, now.last_vector
        self._read(start, end, lambda *page: views.append(_append_rows(views.pop(), *page)))
        view = views.pop()
        gone = _find_rows(view, change_log.deleted_vectors_between(cached.position, now))
        total = view.total - view.matrix[gone].sum(axis=0, dtype=np.float64)
        view.keys[gone] = 0
        view.matrix[gone] = 0
        dead = view.dead + len(gone)
        view = replace(view, position=now, dead=dead, total=total, distances=OrderedDict())
        return _compact(view) if dead > max(MIN_SPARE_ROWS, MAX_DEAD_SHARE * view.rows) else view

    def _read(self, start: int, end: int, take: Callable[[Keys, Keys, Vectors], None]) -> None:
        """Pass the vectors with keys above ``start`` up to ``end``, normalised. Skips zero vectors."""
        size = self.dimensions * STORED_TYPE.itemsize
        while start < end:
            page = change_log.vectors_between(start, end, self.model, size, PAGE_SIZE)
            if page:
                ids, pks, blobs = zip(*page, strict=True)
                vectors = np.frombuffer(b"".join(blobs), STORED_TYPE).astype(np.float32)
                vectors = vectors.reshape(len(page), self.dimensions)
                lengths = np.linalg.norm(vectors, axis=1)
                valid = np.isfinite(lengths) & (lengths > 0)
                vectors = vectors[valid] / lengths[valid, None]
                take(np.array(ids, np.int64)[valid], np.array(pks, np.int64)[valid], vectors)
            start = page[-1][0] if len(page) == PAGE_SIZE else end


_indexes: OrderedDict[tuple[str, int], VectorIndex] = OrderedDict()
_indexes_lock = threading.Lock()


def get_index(model: str, dimensions: int) -> VectorIndex:
    """Return this process's index of a model."""
    with _indexes_lock:
        key = (model, dimensions)
        found = _indexes.setdefault(key, VectorIndex(model, dimensions))
        _indexes.move_to_end(key)
        while len(_indexes) > MAX_INDEXES:
            _indexes.popitem(last=False)
        return found


def refresh_indexes() -> None:
    """Apply changes to all indexes of this process."""
    for held in list(_indexes.values()):
        held.refresh()


def _shrunk_mean(total: NDArray[np.float64], rows: int) -> Vectors:
    return (total / (rows + PRIOR)).astype(np.float32)


def _find_rows(view: VectorView, ids: list[int]) -> Keys:
    """Return the row numbers of these embeddings, without those that are not in the view."""
    known = view.ids[: view.rows]
    wanted = np.unique(np.array(ids, np.int64))
    rows = np.searchsorted(known, wanted)
    inside = rows < view.rows
    rows, wanted = rows[inside], wanted[inside]
    here: Keys = rows[(known[rows] == wanted) & (view.keys[rows] != 0)]
    return here


def _append_rows(view: VectorView, ids: Keys, keys: Keys, vectors: Vectors) -> VectorView:
    if view.rows + len(ids) > len(view.matrix):
        view = _compact(view, len(ids))
    rows = view.rows + len(ids)
    new = slice(view.rows, rows)
    view.matrix[new], view.ids[new], view.keys[new] = vectors, ids, keys
    return replace(view, rows=rows, total=view.total + vectors.sum(axis=0, dtype=np.float64))


def _compact(view: VectorView, coming: int = 0) -> VectorView:
    """Return the view in new arrays, without deleted rows, with space for new ones."""
    present = np.flatnonzero(view.keys[: view.rows])
    rows = len(present)
    capacity = rows + coming + max(MIN_SPARE_ROWS, (rows + coming) // 8)
    matrix = np.zeros((capacity, view.matrix.shape[1]), np.float32)
    ids, keys = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
    matrix[:rows] = view.matrix[present]
    ids[:rows], keys[:rows] = view.ids[present], view.keys[present]
    return replace(view, matrix=matrix, ids=ids, keys=keys, rows=rows, dead=0)
