"""Multiply the memories of a store on PostgreSQL: ``python -m tools.bench.multiply URL --copies 9``.

Copies rows inside the server, several hundred times faster than an import: memories with their words,
trigrams, vectors, files, labels, sessions and journal rows. Needs a superuser, and no hub that serves the
store. The triggers are off meanwhile; indexes without a constraint are dropped and built again at the end.

The result is for measurements only: texts repeat, and copies of a vector differ by a little noise. Content
hashes belong to no text, and the hashes of the copied journal rows do not continue the chain.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import psycopg
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
VECTORS, VECTOR_INDEX = "memoryhub_embedding", "memoryhub_vector_index"
NOISE = 0.2  # length of what is added to a vector of length 1
PAGE_SIZE = 10_000  # vectors in memory at once
_UID = "translate(substr(md5({} || '~' || n), 1, 16), '0189', 'wxyz')".format
_NAME = "CASE WHEN {0} = '' THEN '' ELSE {0} || '~' || n END".format
_MEMORY = "{} + n * memories".format
# The columns of copy number ``n`` that differ from those of the original, by table. ``memories`` is the
# highest key of the original memories, ``last`` that of the original rows.
CHANGED = {
    "memoryhub_text": {"rowid": _MEMORY("rowid")},
    "memoryhub_trigram": {"rowid": _MEMORY("rowid")},
    "memoryhub_label": {"memory_id": _MEMORY("memory_id")},
    "memoryhub_filelink": {"memory_id": _MEMORY("memory_id")},
    "memoryhub_entity": {"memory_id": _MEMORY("memory_id")},
    "memoryhub_session": {"session_id": _NAME("session_id"), "summary_id": _MEMORY("summary_id")},
    "memoryhub_journalentry": {
        "seq": "seq + n * last",
        "object_id": f"CASE WHEN object_type = 'memory' THEN {_UID('object_id')} ELSE object_id END",
    },
    "memoryhub_memory": {
        "id": _MEMORY("id"),
        "uid": _UID("uid"),
        "content_hash": "encode(sha256(convert_to(content_hash || '~' || n, 'UTF8')), 'hex')",
        "session_id": _NAME("session_id"),
        "key": _NAME("key"),
        "merged_into_id": _MEMORY("merged_into_id"),
        "superseded_by_id": _MEMORY("superseded_by_id"),
    },
}
_INDEXES = """SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
    WHERE indrelid = ANY(%s::regclass[])
    AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid) ORDER BY 1"""
# Processes that know the store read everything again. Blocks without a mark would not be counted.
_NEW_ERA = """UPDATE memoryhub_change_era SET era = gen_random_uuid()::text || gen_random_uuid()::text;
    INSERT INTO memoryhub_mark SELECT DISTINCT 'memory', id >> 11, gen_random_uuid()::text
        FROM memoryhub_memory ON CONFLICT DO NOTHING;
    INSERT INTO memoryhub_mark SELECT DISTINCT 'session', id >> 11, gen_random_uuid()::text
        FROM memoryhub_session ON CONFLICT DO NOTHING"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", help="of the database; it is changed")
    parser.add_argument("--copies", type=int, default=9, help="of each memory, next to the original")
    parser.add_argument("--memory", default="2GB", help="maintenance_work_mem while indexes are built")
    options = parser.parse_args()
    with psycopg.connect(options.url, autocommit=True) as connection:
        connection.execute("SELECT set_config('maintenance_work_mem', %s, false)", [options.memory])
        multiply(connection, options.copies)
        with step("VACUUM ANALYZE"):
            connection.execute("VACUUM ANALYZE")


def multiply(connection: psycopg.Connection, copies: int) -> None:
    """Insert copies of all memories and of the rows that belong to them."""
    connection.execute("SET session_replication_role = replica")  # no triggers, no foreign keys
    memories = highest(connection, "memoryhub_memory", "id")
    with without_indexes(connection, [*CHANGED, VECTORS, VECTOR_INDEX]):
        with step("vectors"):
            copy_vectors(connection, copies, memories)
        for table, changed in CHANGED.items():
            with step(table):
                copy_rows(connection, table, changed, copies, memories)
    connection.execute(_NEW_ERA)
    connection.execute("RESET session_replication_role")


@contextmanager
def step(name: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)


@contextmanager
def without_indexes(connection: psycopg.Connection, tables: list[str]) -> Iterator[None]:
    """Drop the indexes of tables that belong to no constraint, and build them again at the end."""
    indexes = connection.execute(_INDEXES, [tables]).fetchall()
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    try:
        yield
    finally:
        for name, definition in indexes:
            with step(name):
                connection.execute(definition)


def highest(connection: psycopg.Connection, table: str, key: str) -> int:
    """Return the highest key of a table, 0 without rows."""
    row = connection.execute(f"SELECT coalesce(max({key}), 0) FROM {table}").fetchone()
    return int(row[0]) if row else 0


def copy_rows(
    connection: psycopg.Connection, table: str, changed: dict[str, str], copies: int, memories: int
) -> None:
    """Insert copies of all rows of a table."""
    columns = [row[0] for row in connection.execute(_COLUMNS, [table])]
    key = columns[0]
    last, values = highest(connection, table, key), {key: f"{key} + n * last", **changed}
    for number in range(1, copies + 1):
        connection.execute(
            f"INSERT INTO {table} ({', '.join(columns)})"
            f" SELECT {', '.join(values.get(column, column) for column in columns)} FROM {table},"
            f" (VALUES ({number}::bigint, {memories}::bigint, {last}::bigint)) AS copy (n, memories, last)"
            f" WHERE {key} <= last ORDER BY {key}"
        )
    advance_sequence(connection, table, key)


_COLUMNS = """SELECT column_name::text FROM information_schema.columns WHERE table_name = %s
    AND table_schema = current_schema() ORDER BY ordinal_position"""


def advance_sequence(connection: psycopg.Connection, table: str, key: str) -> None:
    """Let the sequence of the keys, if there is one, continue after the highest one."""
    connection.execute(
        f"SELECT setval(name, max({key})) FROM {table},"
        f" pg_get_serial_sequence('{table}', '{key}') AS name WHERE name IS NOT NULL GROUP BY name"
    )


def copy_vectors(connection: psycopg.Connection, copies: int, memories: int) -> None:
    """Insert copies of all vectors with some noise, as the hub stores them and as pgvector does."""
    last = highest(connection, VECTORS, "id")
    models = [row[0] for row in connection.execute(f"SELECT DISTINCT model FROM {VECTORS}")]
    if len(models) != 1:
        raise SystemExit("the store needs vectors of exactly one model")
    random = np.random.default_rng(1)
    for number in range(1, copies + 1):
        for start in range(0, last, PAGE_SIZE):
            rows = connection.execute(
                f"SELECT id, memory_id, vector FROM {VECTORS} WHERE id > %s AND id <= %s ORDER BY id",
                [start, min(start + PAGE_SIZE, last)],
            ).fetchall()
            if rows:
                keys = np.array([row[:2] for row in rows], np.int64) + number * np.array([last, memories])
                vectors = np.array([np.frombuffer(row[2], "<f2") for row in rows])
                write_vectors(connection, keys, add_noise(vectors, random), models[0])
    advance_sequence(connection, VECTORS, "id")


def add_noise(vectors: Array, random: np.random.Generator) -> Array:
    """Return other vectors of length 1 near these."""
    noise = random.standard_normal(vectors.shape, np.float32)
    changed = vectors.astype(np.float32) + noise * np.float32(NOISE / np.sqrt(vectors.shape[1]))
    lengths = np.linalg.norm(changed, axis=1, keepdims=True)
    return np.asarray(changed / lengths, np.float16)


def write_vectors(connection: psycopg.Connection, keys: Array, vectors: Array, model: str) -> None:
    """Write rows of both tables in the binary format of COPY, whose rows have one size."""
    count, dimensions = vectors.shape
    name, size = np.array(model.encode()), np.array(dimensions, np.int32)
    stored = vectors.astype("<f2").view(np.uint8).reshape(count, -1)
    halfvec = np.empty((count, 2 + dimensions), ">u2")  # the dimensions, a zero, the numbers
    halfvec[:, 0], halfvec[:, 1], halfvec[:, 2:] = dimensions, 0, vectors.view(np.uint16)
    ids, memories = keys[:, 0], keys[:, 1]
    _copy(connection, f"{VECTORS} (id, memory_id, model, vector)", [ids, memories, name, stored])
    fields = [ids, memories, name, size, halfvec]
    _copy(connection, f"{VECTOR_INDEX} (id, memory_id, model, dimensions, vector)", fields)


def _copy(connection: psycopg.Connection, target: str, values: list[Array]) -> None:
    """Copy rows to a table: each value is an array with a line for each row, or one for all."""
    types: list[Any] = [("fields", ">i2")]
    for number, value in enumerate(values):
        types += [
            (f"size{number}", ">i4"),
            (f"value{number}", value.dtype.newbyteorder(">"), value.shape[1:]),
        ]
    rows = np.zeros(len(values[0]), np.dtype(types))
    rows["fields"] = len(values)
    for number, value in enumerate(values):
        rows[f"value{number}"] = value
        rows[f"size{number}"] = rows.dtype[f"value{number}"].itemsize
    with connection.cursor().copy(f"COPY {target} FROM STDIN (FORMAT binary)".encode()) as copy:
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8) + rows.tobytes() + b"\xff\xff")


if __name__ == "__main__":
    main()
