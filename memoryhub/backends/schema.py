"""Search indexes and triggers: installed after every migration, dropped before one, verified by checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoryhub.backends.dialect import IS_POSTGRES

if TYPE_CHECKING or not IS_POSTGRES:
    from memoryhub.backends.sqlite import schema as _schema
else:
    from memoryhub.backends.postgres import schema as _schema

derived_tables = _schema.derived_tables
drop_triggers = _schema.drop_triggers
drop_views = _schema.drop_views
file_sizes = _schema.file_sizes
find_problems = _schema.find_problems
index_bytes = _schema.index_bytes
install = _schema.install
is_index_sound = _schema.is_index_sound
merge_step = _schema.merge_step
rebuild_indexes = _schema.rebuild_indexes
scrub_erased = _schema.scrub_erased
tables_missing = _schema.tables_missing
truncate_log = _schema.truncate_log
uninstall = _schema.uninstall
