"""Rebuild a text index in steps, while searches use the old one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoryhub.backends.dialect import IS_POSTGRES

if TYPE_CHECKING or not IS_POSTGRES:
    from memoryhub.backends.sqlite import reindexing as _reindexing
else:
    from memoryhub.backends.postgres import reindexing as _reindexing

begin_rebuild = _reindexing.begin_rebuild
copy_position = _reindexing.copy_position
copy_rows = _reindexing.copy_rows
drop_in_steps = _reindexing.drop_in_steps
find_unsound_indexes = _reindexing.find_unsound_indexes
leftover_tables = _reindexing.leftover_tables
swap_index = _reindexing.swap_index
