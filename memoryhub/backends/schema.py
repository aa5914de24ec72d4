"""Search indexes and triggers: installed after every migration, dropped before one, verified by checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoryhub.backends.dialect import IS_POSTGRES
from memoryhub.backends.tables import (
    EMBEDDED_COLUMNS,
    INDEXES,
    JOURNAL_TABLE,
    MEMORY_TABLE,
    TEXT_COLUMNS,
    managed_tables,
)

if TYPE_CHECKING or not IS_POSTGRES:
    from memoryhub.backends.sqlite.schema import (
        database_bytes,
        derived_tables,
        drop_triggers,
        drop_views,
        find_problems,
        install,
        is_index_sound,
        merge_step,
        rebuild_indexes,
        scrub_erased,
        storage_sizes,
        tables_missing,
        truncate_log,
        uninstall,
    )
else:
    from memoryhub.backends.postgres.schema import (
        database_bytes,
        derived_tables,
        drop_triggers,
        drop_views,
        find_problems,
        install,
        is_index_sound,
        merge_step,
        rebuild_indexes,
        scrub_erased,
        storage_sizes,
        tables_missing,
        truncate_log,
        uninstall,
    )

__all__ = [
    "EMBEDDED_COLUMNS",
    "INDEXES",
    "JOURNAL_TABLE",
    "MEMORY_TABLE",
    "TEXT_COLUMNS",
    "database_bytes",
    "derived_tables",
    "drop_triggers",
    "drop_views",
    "find_problems",
    "install",
    "is_index_sound",
    "managed_tables",
    "merge_step",
    "rebuild_indexes",
    "scrub_erased",
    "storage_sizes",
    "tables_missing",
    "truncate_log",
    "uninstall",
]
