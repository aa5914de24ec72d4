"""Change marks, from which a process sees which memories and sessions it must count again.

Both tables are split in blocks of :data:`BLOCK_SIZE` keys. Triggers give the block of a row a new random mark
when a row is inserted or deleted, or a counted column changes: a block with the same mark has the same
counts. Marks are random so that a rollback or a restored file cannot repeat one.
"""

from __future__ import annotations

from datetime import datetime

from django.db import connection
from django.db.backends.utils import CursorWrapper

from memoryhub.backends.dialect import sql
from memoryhub.backends.tables import Trigger
from memoryhub.core.database import adapt_moment

MARK_TABLE = "memoryhub_mark"
MEMORY, SESSION = "memory", "session"  # kinds of blocks
SHIFT = 11
BLOCK_SIZE = 1 << SHIFT  # rows; counting them takes about two milliseconds
TABLES = {
    MARK_TABLE: (
        f"CREATE TABLE {MARK_TABLE} (kind TEXT NOT NULL, block INTEGER NOT NULL, mark TEXT NOT NULL,"
        f" PRIMARY KEY (kind, block)){sql.TABLE_OPTIONS}"
    )
}
Block = tuple[str, int]

_TABLE_NAMES = {kind: f"memoryhub_{kind}" for kind in (MEMORY, SESSION)}
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


def triggers() -> dict[str, Trigger]:
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
        + f" {_mark_statement(SESSION, 'id', f'FROM {_TABLE_NAMES[SESSION]} WHERE {own}')}"
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
        f" SELECT '{kind}', {number} >> {SHIFT}, {sql.RANDOM_TEXT} {rows}"
        " ON CONFLICT (kind, block) DO UPDATE SET mark = excluded.mark;"
    )


def start_tracking(cursor: CursorWrapper, *, restart: bool) -> None:
    """Insert the missing marks after the triggers were created. ``restart``: replace all marks."""
    if restart:
        stop_tracking(cursor)
    for kind, table in _TABLE_NAMES.items():
        cursor.execute(
            f"WITH RECURSIVE blocks(block) AS (SELECT 0 UNION ALL SELECT block + 1 FROM blocks"
            f" WHERE block < (SELECT coalesce(max(id), 0) >> {SHIFT} FROM {table}))"
            f" INSERT INTO {MARK_TABLE}(kind, block, mark)"
            f" SELECT '{kind}', block, {sql.RANDOM_TEXT} FROM blocks WHERE true ON CONFLICT DO NOTHING"
        )


def stop_tracking(cursor: CursorWrapper) -> None:
    """Delete all marks before the triggers are dropped: changes are no longer tracked."""
    cursor.execute(sql.TABLE_EXISTS, [MARK_TABLE])
    if cursor.fetchone():
        cursor.execute(f"DELETE FROM {MARK_TABLE}")


def read_marks(since: datetime, until: datetime) -> tuple[dict[Block, str], list[int]]:
    """Return the marks of all blocks, and the memories that expired between two times, which renewed none.

    The marks are empty while changes are not tracked.
    """
    marks = f"SELECT kind, block, mark FROM {MARK_TABLE}"
    expired = f"SELECT '{_EXPIRED}', id, '' FROM {_TABLE_NAMES[MEMORY]}"
    between = "WHERE expires_at > %s AND expires_at <= %s"
    with connection.cursor() as cursor:
        cursor.execute(f"{marks} UNION ALL {expired} {between}", [adapt_moment(since), adapt_moment(until)])
        known = {(kind, block): mark for kind, block, mark in cursor.fetchall()}
        ended = [key for kind, key in known if kind == _EXPIRED]
        known = {block: mark for block, mark in known.items() if block[0] != _EXPIRED}
        if all((kind, 0) in known for kind in _TABLE_NAMES):
            return known, ended
        ends = " UNION ALL ".join(
            f"SELECT '{kind}', max(id) FROM {table}" for kind, table in _TABLE_NAMES.items()
        )
        cursor.execute(ends)
        lasts = [(kind, last or 0) for kind, last in cursor.fetchall()]
    return {(kind, block): "" for kind, last in lasts for block in range((last >> SHIFT) + 1)}, ended
