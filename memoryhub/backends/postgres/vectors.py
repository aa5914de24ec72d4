"""The vectors of a model in PostgreSQL: the nearest of the visible memories, found with pgvector.

Triggers copy each vector from its row to a table with a column of pgvector. An HNSW index for each model
finds the nearest under the access filter: an iterative scan continues until it has found enough visible
memories. A few visible memories are compared one by one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from django.db import DatabaseError, connection, transaction
from django.db.backends.utils import CursorWrapper
from numpy.typing import NDArray

from memoryhub.backends import Trigger, change_log
from memoryhub.backends.change_log import NO_POSITION, STORED_TYPE, VECTOR_TABLE, LogPosition
from memoryhub.backends.dialect.postgres import IN_KEYS
from memoryhub.backends.postgres import server
from memoryhub.backends.vector_view import (
    PRIOR_VECTORS,
    Cosines,
    Keys,
    Vectors,
    VisibleMemories,
    unit_vectors,
)
from memoryhub.core.database import fetch_all

logger = logging.getLogger(__name__)
TABLE = "memoryhub_vector_index"
FUNCTION = "memoryhub_halfvec"
MAX_EXACT_ROWS = 2000  # visible memories that are compared one by one
MIN_NEAREST = 200  # memories that a search in the index finds, at least; fewer are candidates
_DIRECTION = "(SELECT direction FROM question)"  # of the query, compared with the vectors
MAX_INDEXED_DIMENSIONS = 4000  # of an HNSW index; vectors with more are compared one by one
RETRY_SECONDS = 60.0  # after the extension was missing
_MAX_STORED_BYTES = 32_000  # of a vector: pgvector stores at most 16,000 dimensions
# An iterative scan reads at most so many vectors. Callers who see a smaller share of them are found by rows.
_SETTINGS = (
    "SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true),"
    " set_config('hnsw.max_scan_tuples', '100000', true),"
    f" set_config('hnsw.ef_search', '{MIN_NEAREST}', true)"
)
# A vector is stored as numbers of 16 bits, which PostgreSQL cannot read: a sign, 5 bits of exponent, 10 of
# fraction, the low byte first. Returns NULL for a zero vector and for numbers that are not finite.
CREATE_FUNCTION = f"""CREATE OR REPLACE FUNCTION {FUNCTION}(stored bytea) RETURNS halfvec
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $body$
    SELECT CASE WHEN length(stored) BETWEEN 2 AND {_MAX_STORED_BYTES}
        AND array_position(numbers, NULL) IS NULL AND l2_norm(numbers::halfvec) > 0 THEN numbers::halfvec END
    FROM (SELECT ARRAY(SELECT CASE high & 124 WHEN 124 THEN NULL WHEN 0 THEN 2 * (low + 256 * (high & 3))
            ELSE (1024 + low + 256 * (high & 3))::bigint << ((high >> 2) & 31) END
            * CASE WHEN high < 128 THEN 1 ELSE -1 END / 33554432::float8
        FROM (SELECT get_byte(stored, n), get_byte(stored, n + 1)
            FROM generate_series(0, length(stored) - 2, 2) AS n OFFSET 0) AS bytes (low, high))::real[]
        OFFSET 0) AS vectors (numbers) $body$"""
CREATE_TABLE = (
    f"CREATE TABLE {TABLE} (id bigint PRIMARY KEY, memory_id bigint NOT NULL, model text NOT NULL,"
    " dimensions integer NOT NULL, vector halfvec)",
    f"CREATE INDEX {TABLE}_memory ON {TABLE} (memory_id)",
)
_COPY = "{0}.id, {0}.memory_id, {0}.model, length({0}.vector) / 2, " + FUNCTION + "({0}.vector)"
TRIGGERS = {
    f"{TABLE}_insert": Trigger(
        "AFTER INSERT", VECTOR_TABLE, f"INSERT INTO {TABLE} VALUES ({_COPY.format('new')});"
    ),
    f"{TABLE}_delete": Trigger("AFTER DELETE", VECTOR_TABLE, f"DELETE FROM {TABLE} WHERE id = old.id;"),
}


def create_extension(cursor: CursorWrapper) -> bool:
    """Create the extension if the server lets the user. Return whether it can be used."""
    facts = server.read_facts()
    if not facts.vector and server.is_vector_usable(facts.available):
        try:
            with transaction.atomic():
                cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except DatabaseError as error:
            logger.warning("search uses words only: the extension vector cannot be created: %s", error)
    return has_extension(cursor)


def has_extension(cursor: CursorWrapper) -> bool:
    """Whether the extension is installed in a version that can be used."""
    cursor.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    row = cursor.fetchone()
    return row is not None and server.is_vector_usable(row[0])


def drop_leftovers(cursor: CursorWrapper) -> None:
    """Drop the table if its column of pgvector went with the extension."""
    cursor.execute(
        "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = 'vector'"
        " AND NOT attisdropped",
        [TABLE],
    )
    if not cursor.fetchone():
        cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")


def copy_missing(cursor: CursorWrapper) -> None:
    """Copy vectors that no trigger has copied, and remove those of deleted rows."""
    cursor.execute(
        f"DELETE FROM {TABLE} AS i WHERE NOT EXISTS (SELECT 1 FROM {VECTOR_TABLE} AS e WHERE e.id = i.id)"
    )
    cursor.execute(
        f"INSERT INTO {TABLE} SELECT {_COPY.format('e')} FROM {VECTOR_TABLE} AS e"
        f" WHERE NOT EXISTS (SELECT 1 FROM {TABLE} AS i WHERE i.id = e.id)"
    )


def is_complete(cursor: CursorWrapper) -> bool:
    """Whether the table has a row for each vector. Compares counts only."""
    cursor.execute(f"SELECT (SELECT count(*) FROM {TABLE}) = (SELECT count(*) FROM {VECTOR_TABLE})")
    return bool(cursor.fetchone()[0])


_usable = {"is_usable": False, "retry_at": 0.0}


def find_obstacle() -> str:
    """Return why vectors cannot be searched, or an empty text."""
    if _usable["is_usable"]:
        return ""
    if time.monotonic() >= _usable["retry_at"]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [TABLE])
            _usable["is_usable"] = bool(cursor.fetchone()[0]) and has_extension(cursor)
        _usable["retry_at"] = time.monotonic() + RETRY_SECONDS
    return "" if _usable["is_usable"] else "the database has no extension vector; doctor says how to add it"


def forget_obstacle() -> None:
    """Look again at the next call."""
    _usable.update(is_usable=False, retry_at=0.0)


@dataclass(frozen=True)
class TableVectors:
    """The vectors of one model, with the methods of ``VectorIndex`` and ``VectorView``."""

    model: str
    dimensions: int
    position: LogPosition = NO_POSITION
    # What ``mean`` has read: the keys that it asked for, the keys with a vector, and the vectors.
    _samples: list[tuple[Keys, Keys, Vectors]] = field(default_factory=list, init=False, repr=False)

    def view(self, now: LogPosition | None = None) -> TableVectors:
        return replace(self, position=now or change_log.current_position())

    def cosines(self, query: Vectors, mean: Vectors | None, visible: VisibleMemories) -> Cosines:
        """Return the cosines of the visible memories with a unit vector: of all, or of the nearest if many.

        ``mean`` is subtracted from both first.
        """
        mean = np.zeros_like(query) if mean is None else mean
        if not (query - mean).any() or find_obstacle():
            return Cosines(np.empty(0, np.int64), np.empty(0, np.float32))
        if known := self._known(visible.keys):
            return _compare(*known, query, mean)
        if visible.size <= MAX_EXACT_ROWS:
            statement, params = self._select(f"memory_id IN ({visible.query})", visible.params)
        else:
            nearest, params = self._select_nearest(visible)
            # These are rows that the search has read under the access filter.
            others, keys = self._select(f"memory_id {IN_KEYS}", [json.dumps(visible.others())])
            statement, params = f"({nearest}) UNION ALL {others}", [*params, *keys]
        with connection.cursor() as cursor:
            # One round trip: the settings last until its end, or that of the transaction.
            cursor.execute(
                f"{_SETTINGS}; WITH question AS (SELECT %s::vector AS direction),"
                f" compared AS MATERIALIZED ({statement}) SELECT memory_id,"
                f" 1 - ((l2_normalize(vector::vector) - %s::vector) <=> {_DIRECTION}) FROM compared",
                [_as_text(query - mean), *params, _as_text(mean)],
            )
            cursor.nextset()
            found = {pk: cosine for pk, cosine in cursor.fetchall() if cosine is not None}
        return Cosines(np.fromiter(found, np.int64), np.fromiter(found.values(), np.float32))

    def _select(self, condition: str, params: Sequence[Any]) -> tuple[str, list[Any]]:
        """Return a statement for the vectors of the memories of a condition."""
        statement = (
            f"SELECT memory_id, vector FROM {TABLE} WHERE model = %s AND dimensions = {self.dimensions:d}"
            f" AND {condition}"
        )
        return statement, [self.model, *params]

    def _select_nearest(self, visible: VisibleMemories) -> tuple[str, list[Any]]:
        """Return a statement for the vectors of the nearest visible memories, from the HNSW index."""
        statement, params = self._select(f"memory_id IN ({visible.query})", visible.params)
        limit = max(2 * visible.limit, MIN_NEAREST)
        statement += f" ORDER BY {self._indexed} <=> {_DIRECTION}{self._type} LIMIT %s"
        return statement, [*params, limit]

    @property
    def _type(self) -> str:
        return f"::halfvec({self.dimensions:d})"

    @property
    def _indexed(self) -> str:
        return f"(vector{self._type})"

    def of(self, pks: Sequence[int] | Keys) -> dict[int, Vectors]:
        """Return the vectors of these memories, if they have one."""
        keys, vectors = self._read(pks)
        return dict(zip(keys.tolist(), vectors, strict=True))

    def in_order(self, pks: Sequence[int] | Keys) -> tuple[Vectors, NDArray[np.bool_]]:
        """Return the vectors of distinct memories in this order (zeros if missing), and which have one."""
        keys, vectors = self._read(pks)
        wanted = np.asarray(pks, np.int64)
        order = np.argsort(wanted)
        places = order[np.searchsorted(wanted, keys, sorter=order)]
        matrix, present = np.zeros((len(wanted), self.dimensions), np.float32), np.zeros(len(wanted), bool)
        matrix[places], present[places] = vectors, True
        return matrix, present

    def mean(self, pks: Sequence[int] | Keys) -> Vectors:
        """Return the mean of these memories' vectors, shrunk towards zero if they are few.

        The vectors that it reads need not be read again.
        """
        keys, vectors = self._read(pks)
        self._samples.append((np.asarray(pks, np.int64), keys, vectors))
        mean: Vectors = vectors.sum(axis=0, dtype=np.float64) / (len(vectors) + PRIOR_VECTORS)
        return mean.astype(np.float32)

    def _known(self, pks: Sequence[int] | Keys) -> tuple[Keys, Vectors] | None:
        """Return what :meth:`_read` would if :meth:`mean` has read all these memories."""
        for asked, keys, vectors in self._samples:
            if len(pks) <= len(asked) and np.isin(pks, asked).all():
                wanted = np.isin(keys, pks)
                return keys[wanted], vectors[wanted]
        return None

    def _read(self, pks: Sequence[int] | Keys) -> tuple[Keys, Vectors]:
        """Return the keys of those of these memories that have a vector, and the vectors, normalised."""
        if known := self._known(pks):
            return known
        rows = fetch_all(
            f"SELECT memory_id, vector FROM {VECTOR_TABLE} WHERE model = %s AND length(vector) = %s"
            f" AND memory_id {IN_KEYS} ORDER BY id",
            [self.model, self.dimensions * STORED_TYPE.itemsize, json.dumps(np.asarray(pks).tolist())],
        )
        keys = np.array([pk for pk, _ in rows], np.int64)
        vectors, valid = unit_vectors([stored for _, stored in rows], self.dimensions)
        return keys[valid], vectors

    def prepare(self) -> None:
        """Make the HNSW index if there is none. Writers do not wait for it."""
        if find_obstacle() or self.dimensions > MAX_INDEXED_DIMENSIONS:
            return
        name = f"{TABLE}_{hashlib.sha256(f'{self.model} {self.dimensions}'.encode()).hexdigest()[:12]}"
        concurrently = "" if connection.in_atomic_block else "CONCURRENTLY"
        try:
            with connection.cursor() as cursor:
                cursor.execute(_STATE_OF_INDEX, [name])
                state = cursor.fetchone()
                if state == (True, False) or state == (False, True):  # finished, or another process makes it
                    return
                if state:  # of a process that ended
                    cursor.execute(f"DROP INDEX {concurrently} IF EXISTS {name}")
                cursor.execute(
                    f"CREATE INDEX {concurrently} IF NOT EXISTS {name} ON {TABLE}"
                    f" USING hnsw ({self._indexed} halfvec_cosine_ops)"
                    f" WHERE model = %s AND dimensions = {self.dimensions:d}",
                    [self.model],
                )
        except DatabaseError as error:
            logger.warning("the index of the vectors is made later: %s", error)


_STATE_OF_INDEX = """SELECT indisvalid,
    EXISTS (SELECT 1 FROM pg_stat_progress_create_index AS p WHERE p.index_relid = i.indexrelid)
    FROM pg_index AS i WHERE indexrelid = to_regclass(%s)"""


def _as_text(vector: Vectors) -> str:
    """Return a vector for pgvector. More decimals would only make the statement longer."""
    return json.dumps(np.round(vector.astype(np.float64), 10).tolist())


def _compare(keys: Keys, vectors: Vectors, query: Vectors, mean: Vectors) -> Cosines:
    """Return the cosines of vectors with another one, both without the mean."""
    direction, others = query - mean, vectors - mean
    lengths = np.linalg.norm(others, axis=1) * np.linalg.norm(direction)
    return Cosines(keys, others @ direction / np.maximum(lengths, np.finfo(np.float32).tiny))
