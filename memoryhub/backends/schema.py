"""Search indexes and triggers: installed after every migration, dropped before one, verified by checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connection

from memoryhub.backends import INDEXES, JOURNAL_TABLE, MEMORY_TABLE, managed_tables
from memoryhub.backends.dialect import IS_POSTGRES

if TYPE_CHECKING or not IS_POSTGRES:
    from memoryhub.backends.sqlite import schema as _schema
else:
    from memoryhub.backends.postgres import schema as _schema

database_bytes = _schema.database_bytes
derived_tables = _schema.derived_tables
drop_triggers = _schema.drop_triggers
drop_views = _schema.drop_views
install = _schema.install
is_index_sound = _schema.is_index_sound
merge_step = _schema.merge_step
finish_rebuilds = _schema.finish_rebuilds
rebuild_indexes = _schema.rebuild_indexes
storage_sizes = _schema.storage_sizes
uninstall = _schema.uninstall
# Bytes of erased rows are removed after their transaction.
begin_erase = _schema.begin_erase
finish_erase = _schema.finish_erase
is_erase_pending = _schema.is_erase_pending
scrub_erased = _schema.scrub_erased
truncate_log = _schema.truncate_log
# A text index is rebuilt in steps, while searches use the old one.
begin_rebuild = _schema.begin_rebuild
copy_position = _schema.copy_position
copy_rows = _schema.copy_rows
drop_in_steps = _schema.drop_in_steps
find_unsound_indexes = _schema.find_unsound_indexes
leftover_tables = _schema.leftover_tables
swap_index = _schema.swap_index


def tables_missing() -> list[str]:
    """Return the main tables that do not exist (yet)."""
    tables = set(connection.introspection.table_names())
    return [table for table in (MEMORY_TABLE, JOURNAL_TABLE) if table not in tables]


def find_problems(deep: bool = False) -> list[str]:
    """Describe what is wrong with the schema. ``deep``: compare every index row with its memory."""
    tables = set(connection.introspection.table_names())
    found = [f"table {table} is missing" for table in (*managed_tables(), *INDEXES) if table not in tables]
    if found:
        return found
    found = _schema.find_object_problems()
    for table in INDEXES:
        if deep and not is_index_sound(table):
            found.append(f"index {table} does not match its table")
        elif not _schema.is_index_complete(table):
            found.append(f"index {table} does not hold as many rows as its table")
    return found
