"""What changed since a process last looked: a log of memories and vectors, and marks of blocks of rows.

The log: new vectors have higher keys than all earlier ones. Triggers list changed memories and deleted
vectors in a small table of limited length; a process that missed some of it reads everything again. So does
every process after the triggers were dropped (by a migration) or the database file was replaced: then the
*era* is different.

The marks: the tables of memories and sessions are split in blocks of :data:`BLOCK_SIZE` keys. Triggers give
the block of a row a new random mark when a row is inserted or deleted, or a counted column changes: a block
with the same mark has the same counts. Marks are random so that a rollback or a restored file cannot repeat
one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from django.apps import apps
from django.db import connection
from django.db.backends.utils import CursorWrapper

from memoryhub.backends import Trigger
from memoryhub.backends.dialect import IS_POSTGRES, sql
from memoryhub.core.database import adapt_moment, fetch_all, fetch_one

VECTOR_TABLE = "memoryhub_embedding"
STORED_TYPE = np.dtype("<f2")  # of the numbers of a stored vector
CHANGE_TABLE = "memoryhub_change"
ERA_TABLE = "memoryhub_change_era"
RETIRED_TABLES = ("memoryhub_vector_gone", "memoryhub_vector_era")
DELETE_TRIGGER = "memoryhub_vector_delete"  # the trigger that lists deleted vectors
MAX_LISTED_CHANGES = 20_000
TABLES = {
    CHANGE_TABLE: f"CREATE TABLE {CHANGE_TABLE} ({sql.CHANGE_TABLE_COLUMNS})",
    ERA_TABLE: f"CREATE TABLE {ERA_TABLE} (era TEXT NOT NULL)",
}
# Reading or inspecting a memory changes these columns, and no filter of a search depends on them.
_UNTRACKED_COLUMNS = frozenset(
    {"accessed_count", "last_accessed_at", "shown_count", "helped_count", "inspected"}
)


def triggers(memory: str, columns: Sequence[str]) -> dict[str, Trigger]:
    """Return the triggers on memories and on the vectors that were made of their texts."""
    fields = apps.get_model("memoryhub", "Memory")._meta.concrete_fields
    tracked = [str(field.column) for field in fields if field.column not in _UNTRACKED_COLUMNS]
    return {
        DELETE_TRIGGER: Trigger("AFTER DELETE", VECTOR_TABLE, _list_change("vector", "old")),
        "memoryhub_vector_no_update": Trigger(
            "BEFORE UPDATE", VECTOR_TABLE, sql.refuse("a vector is deleted and inserted, never changed")
        ),
        "memoryhub_vector_stale": Trigger(
            f"AFTER UPDATE OF {', '.join(columns)}",
            memory,
            f"DELETE FROM {VECTOR_TABLE} WHERE memory_id = old.id;",
            _any_changed(columns),
        ),
        "memoryhub_change_insert": Trigger("AFTER INSERT", memory, _list_change("memory", "new")),
        "memoryhub_change_delete": Trigger("AFTER DELETE", memory, _list_change("memory", "old")),
        "memoryhub_change_update": Trigger(
            f"AFTER UPDATE OF {', '.join(tracked)}",
            memory,
            _list_change("memory", "new"),
            _any_changed(tracked),
        ),
    }


def _any_changed(columns: Sequence[str]) -> str:
    return " OR ".join(f"old.{column} {sql.IS_DIFFERENT} new.{column}" for column in columns)


def _list_change(column: str, row: str) -> str:
    """Return statements that list a row and remove the oldest listed change."""
    return (
        f"INSERT INTO {CHANGE_TABLE}({column}) VALUES ({row}.id);"
        f" DELETE FROM {CHANGE_TABLE} WHERE id <= {sql.LAST_KEY} - {MAX_LISTED_CHANGES};"
    )


def start_tracking(cursor: CursorWrapper, *, restart: bool) -> None:
    """Start a new era after the triggers were created, unless the current one continues."""
    if restart:
        stop_tracking(cursor)
    cursor.execute(
        f"INSERT INTO {ERA_TABLE} SELECT {sql.RANDOM_TEXT} || {sql.RANDOM_TEXT}"
        f" WHERE NOT EXISTS (SELECT 1 FROM {ERA_TABLE})"
    )


def stop_tracking(cursor: CursorWrapper) -> None:
    """End the era before the triggers are dropped: changes are no longer listed."""
    cursor.execute(sql.TABLE_EXISTS, [ERA_TABLE])
    if cursor.fetchone():
        cursor.execute(f"DELETE FROM {ERA_TABLE}")


class LogPosition(NamedTuple):
    """A position in the log: the last vector and the last change. Comparable only within an era.

    ``models``: the first and the last model by name that vectors exist of.
    """

    era: tuple[str, int, int]
    last_vector: int
    last_change: int
    listed_from: int
    models: tuple[str, str] = ("", "")

    def follows(self, other: LogPosition) -> bool:
        """Whether all changes since the other position can be read."""
        return (
            bool(self.era[0])
            and self.era == other.era
            and self.last_vector >= other.last_vector
            and self.last_change >= other.last_change
            and (self.last_change == other.last_change or self.listed_from <= other.last_change + 1)
        )


_POSITION_COLUMNS = (
    f"(SELECT era FROM {ERA_TABLE}),"
    f" {sql.LAST_VECTOR}, {sql.LAST_CHANGE},"
    f" (SELECT min(id) FROM {CHANGE_TABLE}),"
    f" (SELECT min(model) FROM {VECTOR_TABLE}), (SELECT max(model) FROM {VECTOR_TABLE})"
)
POSITION_AS_JSON = f"CAST({sql.JSON_ARRAY}({_POSITION_COLUMNS}) AS text)"  # for parse_position
NO_POSITION = LogPosition(("", 0, 0), 0, 0, 0)


def current_position() -> LogPosition:
    """Return the position as this connection sees it, including its own transaction."""
    return _to_position(fetch_one(f"SELECT {_POSITION_COLUMNS}"))


def position_and_vector(memory: int, model: str, size: int) -> tuple[LogPosition, bytes | None]:
    """Return the position, and the vector of a memory if it has one of this model of ``size`` bytes."""
    *row, vector = fetch_one(
        f"SELECT {_POSITION_COLUMNS}, (SELECT vector FROM {VECTOR_TABLE}"
        " WHERE memory_id = %s AND model = %s AND length(vector) = %s)",
        [memory, model, size],
    )
    return _to_position(row), vector


def parse_position(stored: str) -> LogPosition:
    return _to_position(json.loads(stored))


def _to_position(row: Sequence[Any]) -> LogPosition:
    era, last_vector, last_change, listed_from, *models = row
    first, last = (model or "" for model in models)
    era = (era or "", *_file_id())
    return LogPosition(era, last_vector or 0, last_change or 0, listed_from or 0, (first, last))


def _file_id() -> tuple[int, int]:
    """Identify the database file, which may have been replaced. (0, 0) without a file."""
    if IS_POSTGRES:
        return (0, 0)
    try:
        file = os.stat(connection.settings_dict["NAME"])
    except FileNotFoundError:
        return (0, 0)
    return (file.st_dev, file.st_ino)


def deleted_vectors_between(start: LogPosition, end: LogPosition) -> list[int]:
    """Return the keys of the deleted vectors."""
    return _changes_between("vector", start, end)


def memories_between(start: LogPosition, end: LogPosition) -> list[int]:
    """Return the keys of the memories that were stored, changed or deleted."""
    return _changes_between("memory", start, end)


def _changes_between(column: str, start: LogPosition, end: LogPosition) -> list[int]:
    if start.last_change == end.last_change:
        return []
    rows = fetch_all(
        f"SELECT DISTINCT {column} FROM {CHANGE_TABLE} WHERE id > %s AND id <= %s AND {column} IS NOT NULL",
        [start.last_change, end.last_change],
    )
    return [row[0] for row in rows]


def vectors_between(start: int, end: int, model: str, size: int, most: int) -> list[tuple[int, int, bytes]]:
    """Return key, memory and vector of a model's next vectors of ``size`` bytes, in the order of the keys."""
    return fetch_all(
        f"SELECT id, memory_id, vector FROM {VECTOR_TABLE}"
        f" WHERE id > %s AND id <= %s AND {sql.UNINDEXED_MODEL} = %s AND length(vector) = %s"
        f" ORDER BY id LIMIT {most:d}",
        [start, end, model, size],
    )


def vector_ids(model: str) -> list[int]:
    """Return the keys of the vectors of a model."""
    return [row[0] for row in fetch_all(f"SELECT id FROM {VECTOR_TABLE} WHERE model = %s", [model])]


def count_vectors(model: str) -> int:
    """Return the number of vectors of a model."""
    return int(fetch_one(f"SELECT count(*) FROM {VECTOR_TABLE} WHERE model = %s", [model])[0])


def count_memories() -> int:
    """Return the number of all memories, counted in the smallest index."""
    return int(fetch_one("SELECT count(*) FROM memoryhub_memory")[0])


def sizes_by_model() -> dict[str, tuple[int, int]]:
    """Return the number of vectors and their bytes by model."""
    size = f"(SELECT length(vector) FROM {VECTOR_TABLE} AS one WHERE one.model = every.model LIMIT 1)"
    rows = fetch_all(f"SELECT model, count(*), {size} FROM {VECTOR_TABLE} AS every GROUP BY model")
    return {model: (number, number * length) for model, number, length in rows}


MARK_TABLE = "memoryhub_mark"
MEMORY, SESSION = "memory", "session"  # kinds of blocks
BLOCK_SHIFT = 11
BLOCK_SIZE = 1 << BLOCK_SHIFT  # rows; counting them takes about two milliseconds
MARK_TABLES = {
    MARK_TABLE: (
        f"CREATE TABLE {MARK_TABLE} (kind TEXT NOT NULL, block INTEGER NOT NULL, mark TEXT NOT NULL,"
        f" PRIMARY KEY (kind, block)){sql.TABLE_OPTIONS}"
    )
}
Block = tuple[str, int]

_MARKED_TABLES = {kind: f"memoryhub_{kind}" for kind in (MEMORY, SESSION)}
_EVENT_TABLE = "memoryhub_event"
_EXPIRED = "expired"  # no kind of block: marks an expired memory among the rows that read_marks reads
# The columns that the counts depend on: access, live or ended, facets, day and session.
_COUNTED_COLUMNS = (
    "id",
    "sensitivity",
    "scope",
    "owner",
    "project",
    "type",
    "category",
    "deleted_at",
    "expires_at",
    "created_at",
    "session_id",
)


def mark_triggers() -> dict[str, Trigger]:
    """Return the triggers that renew the marks."""
    made = {}
    for kind, columns, touch in (
        ("memory", _COUNTED_COLUMNS, _touch_memory),
        ("session", ("id", "session_id", "project"), _touch_session),
        ("event", ("id", "session_id", "sensitivity", "memory_id"), _touch_event),
    ):
        table = f"memoryhub_{kind}"
        changed = " OR ".join(f"old.{one} {sql.IS_DIFFERENT} new.{one}" for one in columns)
        made[f"memoryhub_mark_{kind}_insert"] = Trigger("AFTER INSERT", table, touch("new"))
        made[f"memoryhub_mark_{kind}_delete"] = Trigger("AFTER DELETE", table, touch("old"))
        made[f"memoryhub_mark_{kind}_update"] = Trigger(
            f"AFTER UPDATE OF {', '.join(columns)}", table, f"{touch('old')} {touch('new')}", changed
        )
    return made


def _touch_memory(row: str) -> str:
    """Renew the block of a memory and of the sessions that it can make visible: its own and its events'."""
    own = f"session_id = {row}.session_id AND project = {row}.project AND {row}.session_id <> ''"
    return (
        _mark_statement(MEMORY, f"{row}.id")
        + f" {_mark_statement(SESSION, 'id', f'FROM {_MARKED_TABLES[SESSION]} WHERE {own}')}"
        + f" {_mark_statement(SESSION, 'session_id', f'FROM {_EVENT_TABLE} WHERE memory_id = {row}.id')}"
    )


def _touch_session(row: str) -> str:
    return _mark_statement(SESSION, f"{row}.id")


def _touch_event(row: str) -> str:
    return _mark_statement(SESSION, f"{row}.session_id")


def _mark_statement(kind: str, number: str, rows: str = "WHERE true") -> str:
    """Return a statement that renews marks. SQLite needs WHERE between SELECT and ON CONFLICT."""
    return (
        f"INSERT INTO {MARK_TABLE}(kind, block, mark)"
        f" SELECT '{kind}', {number} >> {BLOCK_SHIFT}, {sql.RANDOM_TEXT} {rows}"
        " ON CONFLICT (kind, block) DO UPDATE SET mark = excluded.mark;"
    )


def start_marking(cursor: CursorWrapper, *, restart: bool) -> None:
    """Insert the missing marks after the triggers were created. ``restart``: replace all marks."""
    if restart:
        stop_marking(cursor)
    for kind, table in _MARKED_TABLES.items():
        cursor.execute(
            f"WITH RECURSIVE blocks(block) AS (SELECT 0 UNION ALL SELECT block + 1 FROM blocks"
            f" WHERE block < (SELECT coalesce(max(id), 0) >> {BLOCK_SHIFT} FROM {table}))"
            f" INSERT INTO {MARK_TABLE}(kind, block, mark)"
            f" SELECT '{kind}', block, {sql.RANDOM_TEXT} FROM blocks WHERE true ON CONFLICT DO NOTHING"
        )


def stop_marking(cursor: CursorWrapper) -> None:
    """Delete all marks before the triggers are dropped: changes are no longer tracked."""
    cursor.execute(sql.TABLE_EXISTS, [MARK_TABLE])
    if cursor.fetchone():
        cursor.execute(f"DELETE FROM {MARK_TABLE}")


def read_marks(since: datetime, until: datetime) -> tuple[dict[Block, str], list[int]]:
    """Return the marks of all blocks, and the memories that expired between two times, which renewed none.

    The marks are empty while changes are not tracked.
    """
    marks = f"SELECT kind, block, mark FROM {MARK_TABLE}"
    expired = f"SELECT '{_EXPIRED}', id, '' FROM {_MARKED_TABLES[MEMORY]}"
    between = "WHERE expires_at > %s AND expires_at <= %s"
    with connection.cursor() as cursor:
        cursor.execute(f"{marks} UNION ALL {expired} {between}", [adapt_moment(since), adapt_moment(until)])
        known = {(kind, block): mark for kind, block, mark in cursor.fetchall()}
        ended = [key for kind, key in known if kind == _EXPIRED]
        known = {block: mark for block, mark in known.items() if block[0] != _EXPIRED}
        if all((kind, 0) in known for kind in _MARKED_TABLES):
            return known, ended
        ends = " UNION ALL ".join(
            f"SELECT '{kind}', max(id) FROM {table}" for kind, table in _MARKED_TABLES.items()
        )
        cursor.execute(ends)
        lasts = [(kind, last or 0) for kind, last in cursor.fetchall()]
    return {(kind, block): "" for kind, last in lasts for block in range((last >> BLOCK_SHIFT) + 1)}, ended
