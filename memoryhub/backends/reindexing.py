"""Rebuild a text index in steps, while searches use the old one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoryhub.backends.dialect import IS_POSTGRES

if TYPE_CHECKING or not IS_POSTGRES:
    from memoryhub.backends.sqlite.reindexing import (
        begin_rebuild,
        copy_position,
        copy_rows,
        drop_in_steps,
        find_unsound_indexes,
        leftover_tables,
        swap_index,
    )
else:
    from memoryhub.backends.postgres.reindexing import (
        begin_rebuild,
        copy_position,
        copy_rows,
        drop_in_steps,
        find_unsound_indexes,
        leftover_tables,
        swap_index,
    )

__all__ = [
    "begin_rebuild",
    "copy_position",
    "copy_rows",
    "drop_in_steps",
    "find_unsound_indexes",
    "leftover_tables",
    "swap_index",
]
