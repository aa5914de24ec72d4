"""The vectors of one model in this process's memory: exact cosines of all of them, in a few milliseconds.

One matrix of float32 with spare room, brought up to date at each use by what has come and gone since
(:mod:`memoryhub.backends.vector_log`), so that it is right after every write of every process. It takes
4 bytes for each dimension of each vector (100 MB for 100 000 of 256), an eighth of that as spare room, and
up to a quarter for vectors that are gone and not yet cleared away, which are overwritten with zeros at once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from memoryhub.backends import vector_log
from memoryhub.backends.vector_log import NO_POSITION, LogPosition

Vectors: TypeAlias = NDArray[np.float32]
Keys: TypeAlias = NDArray[np.int64]
STORED_TYPE = np.dtype("<f2")
PAGE_SIZE = 10_000  # vectors that are fetched at a time
MIN_SPARE_ROWS = 1024  # least spare room, in vectors
MAX_DEAD_SHARE = 0.25  # share of vectors that are gone at which the rest is moved together
MAX_INDEXES = 2  # indexes that are kept: while a model is being exchanged for another there are two
# A mean counts as if so many vectors without direction took part: of a handful it says nothing.
PRIOR = 32
MAX_CACHED_MEANS = 4  # whose distances from each vector are kept
_EPSILON = 1e-6  # of a squared length that is divided by


class Scores(NamedTuple):
    """The memories' primary keys and their cosines, in step, in no order."""

    pks: Keys
    cosines: Vectors


def encode_vector(vector: Vectors) -> bytes:
    """A vector as the table keeps it."""
    return vector.astype(STORED_TYPE).tobytes()


@dataclass(frozen=True)
class VectorView:
    """The vectors of a model at one moment.

    Arrays are shared with later views, which write behind ``rows`` alone. But for rows that are gone, where
    the key becomes 0 and the vector zeros: who still looks at them finds what is not there any more.
    ``extra``: rows that an open transaction wrote, which no other may see.
    """

    moment: LogPosition
    matrix: Vectors
    ids: Keys  # of the embeddings, ascending
    keys: Keys  # of the memories; 0: gone
    rows: int
    dead: int
    total: NDArray[np.float64]  # the sum of all vectors
    extra: Vectors
    distances: OrderedDict[bytes, Vectors] = field(default_factory=OrderedDict, repr=False)
    drawn: dict[object, Any] = field(default_factory=dict, repr=False)  # room for who draws samples of it

    def __len__(self) -> int:
        return self.rows + len(self.extra) - self.dead

    @property
    def pks(self) -> Keys:
        """The memories that have a vector."""
        keys = self._keys()
        there: Keys = keys[keys != 0]
        return there

    def scores(self, query: Vectors, *, centred: bool = True, mean: Vectors | None = None) -> Scores:
        """See :meth:`VectorIndex.scores`."""
        if not len(self) or not query.any():
            return Scores(np.empty(0, np.int64), np.empty(0, np.float32))
        if centred:
            cosines = self._centred(query, _shrunk_mean(self.total, len(self)) if mean is None else mean)
        else:
            cosines = self._times(query)
        keys = self._keys()
        there = keys != 0
        return Scores(keys[there], cosines[there])

    def of(self, pks: Sequence[int] | Keys) -> dict[int, Vectors]:
        """The vectors of these memories, of those that have one."""
        rows = self._where(pks)
        return dict(zip(self.keys[rows].tolist(), self._vectors(rows), strict=True))

    def in_order(self, pks: Sequence[int] | Keys) -> tuple[Vectors, NDArray[np.bool_]]:
        """The vector of each of these different memories, zeros for one that has none; and which have one."""
        wanted = np.asarray(pks, np.int64)
        rows, order = self._where(wanted), np.argsort(wanted)
        places = order[np.searchsorted(wanted, self.keys[rows], sorter=order)]
        matrix = np.zeros((len(wanted), self.matrix.shape[1]), np.float32)
        there = np.zeros(len(wanted), bool)
        matrix[places], there[places] = self._vectors(rows), True
        return matrix, there

    def mean(self, pks: Sequence[int] | Keys) -> Vectors:
        """The mean of these memories' vectors, drawn towards nothing where they are few (:data:`PRIOR`)."""
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
        """All rows times one vector, or several as columns."""
        product: Vectors = self.matrix[: self.rows] @ columns
        return np.concatenate([product, self.extra @ columns]) if len(self.extra) else product

    def _centred(self, query: Vectors, mean: Vectors) -> Vectors:
        """One pass through the matrix: ``(q-m)·(x-m)`` is ``(q-m)·x`` less a number that is one for all."""
        aside, name = query - mean, mean.tobytes()
        distances = self.distances.get(name)
        if distances is None:
            both = self._times(np.stack([aside, mean], axis=1))
            products = both[:, 0]
            distances = np.sqrt(np.maximum(1 - 2 * both[:, 1] + float(mean @ mean), _EPSILON))
            self.distances[name] = distances
            while len(self.distances) > MAX_CACHED_MEANS:
                self.distances.popitem(last=False)
        else:
            products = self._times(aside)
        length = float(np.sqrt(max(float(aside @ aside), _EPSILON)))
        cosines: Vectors = (products - float(mean @ aside)) / (distances * length)
        return cosines


class VectorIndex:
    """All vectors of one model. Any number of threads may use it at once."""

    def __init__(self, model: str, dimensions: int) -> None:
        self.model, self.dimensions = model, dimensions
        self._lock = threading.Lock()
        self._kept = self._empty()

    def __len__(self) -> int:
        return len(self.view())

    @property
    def memory_bytes(self) -> int:
        """What it takes of this process's memory now."""
        kept = self._kept
        return kept.matrix.nbytes + kept.ids.nbytes + kept.keys.nbytes

    def refresh(self) -> None:
        """Take in what has changed, if anything is held at all: what is erased leaves the memory too."""
        if self._kept.moment != NO_POSITION:
            self.view()

    def scores(self, query: Vectors, *, centred: bool = True, mean: Vectors | None = None) -> Scores:
        """The cosine of every vector with this one of unit length; nothing for one without direction.

        ``centred``: after ``mean`` (or else the mean of all vectors here, hidden memories' too) is taken off
        both: ``(q-m)·(x-m) / (|q-m| |x-m|)``, which leaves out what all texts have in common.
        """
        return self.view().scores(query, centred=centred, mean=mean)

    def of(self, pks: Sequence[int] | Keys) -> dict[int, Vectors]:
        """The vectors of these memories, of those that have one."""
        return self.view().of(pks)

    def view(self) -> VectorView:
        """As this connection sees the table now. What a transaction wrote stays out of what is kept."""
        now = vector_log.current_position()
        if now == self._kept.moment:
            return self._kept
        if connection.in_atomic_block:
            return self._of_transaction(self._kept, now)
        with self._lock:
            if now.follows(self._kept.moment):
                self._kept = self._advanced(self._kept, now)
            elif not self._kept.moment.follows(now):  # else another thread has come further meanwhile
                self._kept = self._advanced(self._all_anew(now), now)
            kept = self._kept
            if not now.era[0]:
                self._kept = self._empty()  # nothing tells what is deleted: good for this time alone
            return kept

    def _nothing(self) -> NDArray[np.float64]:
        return np.zeros(self.dimensions)

    def _empty(self, moment: LogPosition = NO_POSITION, room: int = 0) -> VectorView:
        return VectorView(
            moment=moment,
            matrix=np.zeros((room, self.dimensions), np.float32),
            ids=np.zeros(room, np.int64),
            keys=np.zeros(room, np.int64),
            rows=0,
            dead=0,
            total=self._nothing(),
            extra=np.empty((0, self.dimensions), np.float32),
        )

    def _of_transaction(self, kept: VectorView, now: LogPosition) -> VectorView:
        base = kept if now.follows(kept.moment) else self._empty()
        gone = _find_rows(base, vector_log.deleted_between(base.moment, now) if base.rows else [])
        keys = base.keys[: base.rows].copy()
        keys[gone] = 0
        pages = [(base.ids[:0], base.keys[:0], base.extra)]
        self._read(base.moment.last, now.last, lambda *page: pages.append(page))
        ids, new_keys, extra = (np.concatenate(parts) for parts in zip(*pages, strict=True))
        change = extra.sum(axis=0, dtype=np.float64) - base.matrix[gone].sum(axis=0, dtype=np.float64)
        return replace(
            base,
            moment=now,
            ids=np.concatenate([base.ids[: base.rows], ids]),
            keys=np.concatenate([keys, new_keys]),
            dead=base.dead + len(gone),
            total=base.total + change,
            extra=extra,
            distances=OrderedDict(),
            drawn={},
        )

    def _all_anew(self, now: LogPosition) -> VectorView:
        """An empty view with room for all, of before the first vector."""
        rows = vector_log.count_vectors(self.model)
        return self._empty(now._replace(last=0), rows + max(MIN_SPARE_ROWS, rows // 8))

    def _advanced(self, kept: VectorView, now: LogPosition) -> VectorView:
        """Take in what came, then what went: some of it may have come since, too."""
        grown = [kept]
        self._read(kept.moment.last, now.last, lambda *page: grown.append(_append_rows(grown.pop(), *page)))
        view = grown.pop()
        gone = _find_rows(view, vector_log.deleted_between(kept.moment, now))
        total = view.total - view.matrix[gone].sum(axis=0, dtype=np.float64)
        view.keys[gone] = 0
        view.matrix[gone] = 0
        dead = view.dead + len(gone)
        view = replace(view, moment=now, dead=dead, total=total, distances=OrderedDict(), drawn={})
        return _compact(view) if dead > max(MIN_SPARE_ROWS, MAX_DEAD_SHARE * view.rows) else view

    def _read(self, start: int, end: int, take: Callable[[Keys, Keys, Vectors], None]) -> None:
        """Hand over the vectors numbered above ``start`` up to ``end``, of unit length; none without one."""
        size = self.dimensions * STORED_TYPE.itemsize
        while start < end:
            page = vector_log.vectors_between(start, end, self.model, size, PAGE_SIZE)
            if page:
                ids, pks, blobs = zip(*page, strict=True)
                vectors = np.frombuffer(b"".join(blobs), STORED_TYPE).astype(np.float32)
                vectors = vectors.reshape(len(page), self.dimensions)
                lengths = np.linalg.norm(vectors, axis=1)
                sound = np.isfinite(lengths) & (lengths > 0)
                vectors = vectors[sound] / lengths[sound, None]
                take(np.array(ids, np.int64)[sound], np.array(pks, np.int64)[sound], vectors)
            start = page[-1][0] if len(page) == PAGE_SIZE else end


_indexes: OrderedDict[tuple[str, int], VectorIndex] = OrderedDict()
_indexes_lock = threading.Lock()


def get_index(model: str, dimensions: int) -> VectorIndex:
    """This process's index of a model; it is brought up to date whenever it is used."""
    with _indexes_lock:
        key = (model, dimensions)
        found = _indexes.setdefault(key, VectorIndex(model, dimensions))
        _indexes.move_to_end(key)
        while len(_indexes) > MAX_INDEXES:
            _indexes.popitem(last=False)
        return found


def refresh_indexes() -> None:
    """Bring those up to date that this process holds."""
    for held in list(_indexes.values()):
        held.refresh()


def _shrunk_mean(total: NDArray[np.float64], rows: int) -> Vectors:
    return (total / (rows + PRIOR)).astype(np.float32)


def _find_rows(view: VectorView, ids: list[int]) -> Keys:
    """Where those of these embeddings lie that are here and not gone yet."""
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
    """The same in new arrays, without what is gone, with room for what comes and some more."""
    there = np.flatnonzero(view.keys[: view.rows])
    rows = len(there)
    room = rows + coming + max(MIN_SPARE_ROWS, (rows + coming) // 8)
    matrix = np.zeros((room, view.matrix.shape[1]), np.float32)
    ids, keys = np.zeros(room, np.int64), np.zeros(room, np.int64)
    matrix[:rows] = view.matrix[there]
    ids[:rows], keys[:rows] = view.ids[there], view.keys[there]
    return replace(view, matrix=matrix, ids=ids, keys=keys, rows=rows, dead=0)
