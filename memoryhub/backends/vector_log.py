"""The vector log: a process reads from it which vectors were inserted and deleted.

New vectors have higher keys than all earlier ones. A trigger lists deleted vectors in a small table of
limited length; a process that missed some of it reads all vectors again. So does every process after the
triggers were dropped (by a migration) or the database file was replaced: then the *era* is different.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from django.db import connection
from django.db.backends.utils import CursorWrapper

VECTOR_TABLE = "memoryhub_embedding"
DELETED_TABLE = "memoryhub_vector_gone"
ERA_TABLE = "memoryhub_vector_era"
DELETE_TRIGGER = "memoryhub_vector_delete"  # the trigger that lists deleted vectors
MAX_LISTED_DELETIONS = 20_000  # deletions that are listed
TABLES = {
    DELETED_TABLE: (
        f"CREATE TABLE {DELETED_TABLE} (id INTEGER PRIMARY KEY AUTOINCREMENT, embedding INTEGER NOT NULL)"
    ),
    ERA_TABLE: f"CREATE TABLE {ERA_TABLE} (era TEXT NOT NULL)",
}


def trigger_bodies(memory: str, columns: Sequence[str]) -> dict[str, str]:
    """Return the bodies of the triggers on vectors and on the texts that they were made of."""
    changed = " OR ".join(f"old.{column} IS NOT new.{column}" for column in columns)
    list_it = f"INSERT INTO {DELETED_TABLE}(embedding) VALUES (old.id);"
    cut_off = f"DELETE FROM {DELETED_TABLE} WHERE id <= last_insert_rowid() - {MAX_LISTED_DELETIONS};"
    refusal = "SELECT RAISE(ABORT, 'a vector is deleted and inserted, never changed');"
    return {
        DELETE_TRIGGER: f"AFTER DELETE ON {VECTOR_TABLE} BEGIN {list_it} {cut_off} END",
        "memoryhub_vector_no_update": f"BEFORE UPDATE ON {VECTOR_TABLE} BEGIN {refusal} END",
        "memoryhub_vector_stale": (
            f"AFTER UPDATE OF {', '.join(columns)} ON {memory} WHEN {changed}"
            f" BEGIN DELETE FROM {VECTOR_TABLE} WHERE memory_id = old.id; END"
        ),
    }


def start_tracking(cursor: CursorWrapper, *, restart: bool) -> None:
    """Start a new era after the triggers were created, unless the current one continues."""
    if restart:
        stop_tracking(cursor)
    cursor.execute(
        f"INSERT INTO {ERA_TABLE} SELECT hex(randomblob(16)) WHERE NOT EXISTS (SELECT 1 FROM {ERA_TABLE})"
    )


def stop_tracking(cursor: CursorWrapper) -> None:
    """End the era before the triggers are dropped: deletions are no longer listed."""
    cursor.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = %s", [ERA_TABLE])
    if cursor.fetchone():
        cursor.execute(f"DELETE FROM {ERA_TABLE}")


class LogPosition(NamedTuple):
    """A position in the log: the last vector and the last deletion. Comparable only within an era."""

    era: tuple[str, int, int]
    last: int
    gone: int
    listed_from: int

    def follows(self, other: LogPosition) -> bool:
        """Whether all changes since the other position can be read."""
        return (
            bool(self.era[0])
            and self.era == other.era
            and self.last >= other.last
            and self.gone >= other.gone
            and (self.gone == other.gone or self.listed_from <= other.gone + 1)
        )


_POSITION_SQL = (
    f"SELECT (SELECT era FROM {ERA_TABLE}),"
    f" (SELECT seq FROM sqlite_sequence WHERE name = '{VECTOR_TABLE}'),"
    f" (SELECT seq FROM sqlite_sequence WHERE name = '{DELETED_TABLE}'),"
    f" (SELECT min(id) FROM {DELETED_TABLE})"
)
NO_POSITION = LogPosition(("", 0, 0), 0, 0, 0)


def current_position() -> LogPosition:
    """Return the position as this connection sees it, including its own transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_POSITION_SQL)
        era, last, gone, listed_from = cursor.fetchone()
    return LogPosition((era or "", *_file_id()), last or 0, gone or 0, listed_from or 0)


def _file_id() -> tuple[int, int]:
    """Identify the database file, which may have been replaced."""
    try:
        file = os.stat(connection.settings_dict["NAME"])
    except FileNotFoundError:
        return (0, 0)
    return (file.st_dev, file.st_ino)


def deleted_between(start: LogPosition, end: LogPosition) -> list[int]:
    """Return the keys of the deleted vectors."""
    if start.gone == end.gone:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT embedding FROM {DELETED_TABLE} WHERE id > %s AND id <= %s", [start.gone, end.gone]
        )
        return [row[0] for row in cursor.fetchall()]


def vectors_between(start: int, end: int, model: str, size: int, most: int) -> list[tuple[int, int, bytes]]:
    """Return key, memory and vector of a model's next vectors of ``size`` bytes, in the order of the keys."""
    with connection.cursor() as cursor:
        # The plus stops SQLite from scanning all vectors of the model for a few new ones.
        cursor.execute(
            f"SELECT id, memory_id, vector FROM {VECTOR_TABLE}"
            f" WHERE id > %s AND id <= %s AND +model = %s AND length(vector) = %s ORDER BY id LIMIT {most:d}",
            [start, end, model, size],
        )
        rows: list[tuple[int, int, bytes]] = cursor.fetchall()
    return rows


def count_vectors(model: str) -> int:
    """Return the number of vectors of a model."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {VECTOR_TABLE} WHERE model = %s", [model])
        return int(cursor.fetchone()[0])


def has_other_models(model: str) -> bool:
    """Whether vectors of another model exist."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT EXISTS (SELECT 1 FROM {VECTOR_TABLE} WHERE model < %s)"
            f" OR EXISTS (SELECT 1 FROM {VECTOR_TABLE} WHERE model > %s)",
            [model, model],
        )
        return bool(cursor.fetchone()[0])


def count_memories() -> int:
    """Return the number of all memories, counted in the smallest index."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM memoryhub_memory")
        return int(cursor.fetchone()[0])


def sizes_by_model() -> dict[str, tuple[int, int]]:
    """Return the number of vectors and their bytes by model."""
    size = f"(SELECT length(vector) FROM {VECTOR_TABLE} AS one WHERE one.model = some.model LIMIT 1)"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT model, count(*), {size} FROM {VECTOR_TABLE} AS some GROUP BY model")
        return {model: (number, number * length) for model, number, length in cursor.fetchall()}
