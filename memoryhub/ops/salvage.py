"""Copy all readable rows of a damaged store into a new one, and list what is lost.

The result has every table and index, but neither triggers nor text indexes: the next ``migrate`` or
``restore_backup`` makes these from the rows.
"""

from __future__ import annotations

import functools
import sqlite3
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from django.apps import apps
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from memoryhub.audit import journal
from memoryhub.backends import INDEXES, JOURNAL_TABLE, MEMORY_TABLE, schema
from memoryhub.backends.sqlite.page_reader import SCHEMA_ROOT, Damaged, PageReader, Row, Value
from memoryhub.core.disks import draft_folder
from memoryhub.ops import backup
from memoryhub.ops.backup import BackupError

_BLANK = "blank"
MAX_REPEATS = 20  # removing a row can leave other rows that refer to it


@dataclass(frozen=True)
class Table:
    """A table of the damaged file. ``root``: its first page."""

    name: str
    sql: str
    root: int


@dataclass
class Salvaged:
    """The copied rows and the losses, by table."""

    rows: Counter[str] = field(default_factory=Counter)
    damage: dict[str, list[str]] = field(default_factory=dict)
    """Parts that could not be read."""
    refused: Counter[str] = field(default_factory=Counter)
    """Rows that were read, but contradict other rows or refer to lost ones."""
    altered: Counter[str] = field(default_factory=Counter)
    """Rows with a text in which characters were replaced."""
    unassigned: int = 0
    """Rows that may belong to more than one damaged table."""
    lost_memories: list[str] = field(default_factory=list)
    """Ids in the journal that no row has."""
    chain: journal.Verification = field(default_factory=lambda: journal.Verification(True, 0))

    @property
    def is_whole(self) -> bool:
        """Return whether every row was copied unchanged."""
        return self.chain.ok and not (
            self.damage or self.refused or self.altered or self.unassigned or self.lost_memories
        )

    def losses(self) -> Iterator[str]:
        """Yield a sentence for each kind of loss."""
        for table, parts in self.damage.items():
            yield f"{table}: unreadable: {', '.join(parts[:5])}" + (
                f" and {len(parts) - 5:,} more" if len(parts) > 5 else ""
            )
        for table, count in self.refused.items():
            yield f"{table}: left out {count:,} rows that contradict others or belong to lost rows"
        for table, count in self.altered.items():
            yield f"{table}: {count:,} rows contain texts with replaced characters"
        if self.unassigned:
            yield f"{self.unassigned:,} rows that may belong to more than one table"
        if not self.chain.ok:
            yield f"the journal is not whole: row {self.chain.first_bad_seq} is missing or different"
        for uid in self.lost_memories:
            yield f"memory {uid}"


def salvage(source: Path, target: Path) -> Salvaged:
    """Copy the store ``source``, which no process may use, into the new file ``target``."""
    if target.exists():
        raise BackupError(f"{target} exists; choose another file")
    if not source.is_file() or not source.stat().st_size:
        raise BackupError(f"there is no store at {source}")
    with draft_folder(target.parent) as folder:
        copy, made = folder / "copy", folder / "new"
        with backup.claimed(source):
            backup.copy_with_log(source, copy)
        has_log = _apply_log(copy)
        made.touch(mode=0o600)
        try:
            columns = _known_columns(copy)
            with PageReader(copy) as reader, closing(sqlite3.connect(made, isolation_level=None)) as new:
                result = _copy_tables(reader, new, columns)
        except (Damaged, ValueError, struct.error) as error:
            raise BackupError(f"{source} cannot be read: {error}. Restore a backup.") from None
        if result.damage and not (result.rows[JOURNAL_TABLE] or result.rows[MEMORY_TABLE]):
            raise BackupError(f"{source} contains no readable rows of a store. Restore a backup.")
        if not has_log:
            result.damage["write-ahead log"] = ["the newest changes"]
        made.replace(target)
    return result


def _apply_log(copy: Path) -> bool:
    """Move the write-ahead log into the file. Return False if there is one that cannot be applied."""
    log = Path(f"{copy}-wal")
    has_changes = log.is_file() and log.stat().st_size > 0
    try:
        backup.into_one_file(copy, copy)
    except BackupError:
        return not has_changes
    return True


def rebuild_file() -> Path | None:
    """Replace the live store with a copy of its rows, if all are readable. Return the name of the old one."""
    live = backup.live_path()
    with draft_folder(live.parent) as folder:
        copy = folder / live.name
        result = salvage(live, copy)
        if not result.is_whole:
            raise BackupError(
                "rows are lost too. Restore a backup, or copy what is left: manage.py salvage FILE"
            )
        backup.copy_mirror(backup.backup_mirror_path(copy))
        return backup.put_in_place(copy, copy)


def _copy_tables(reader: PageReader, new: sqlite3.Connection, columns: dict[str, set[str]]) -> Salvaged:
    result = Salvaged()
    new.execute("PRAGMA foreign_keys = OFF")
    new.execute("BEGIN")
    tables, ignored = _make_schema(reader, new, columns, result)
    for table in tables:
        damage: list[str] = []
        _insert(new, table.name, reader.read_table(table.root, damage), result)
        if damage:
            result.damage[table.name] = damage
    for root in ignored:  # so that their pages are not taken for lost ones
        for _ in reader.read_table(root, []):
            pass
    _insert_orphans(reader, new, result)
    _remove_dangling(new, result)
    result.lost_memories = _lost_memories(new)
    result.chain = journal.check_chain(new.execute(journal.STORED_BYTES_SQL))
    new.execute(f"PRAGMA user_version = {reader.user_version}")
    new.execute("COMMIT")
    return result


def _make_schema(
    reader: PageReader, new: sqlite3.Connection, columns: dict[str, set[str]], result: Salvaged
) -> tuple[list[Table], list[int]]:
    """Create the tables and indexes. Return the tables, and the first pages of those that are not copied.

    ``columns``: those that are known, by table.
    """
    damage: list[str] = []
    rows = [[str(value or "") for value in row.values] for row in reader.read_table(SCHEMA_ROOT, damage)]
    if damage:
        names = {row[1] for row in rows}
        rows += [row for row in _blank_schema() if row[1] not in names]
    tables, ignored, indexes = [], [], []
    for kind, name, table, root, sql in rows:
        if kind == "index" and sql and _is_copied(table, ""):
            indexes.append((name, sql))
        elif kind == "table" and _is_copied(name, sql):
            tables.append(Table(name, sql, int(root or 0)))
        elif kind == "table" and root and "WITHOUT ROWID" not in sql:
            ignored.append(int(root))
    # sqlite_sequence comes with the first table that needs it.
    created = [(one.name, one.sql) for one in tables if one.name != "sqlite_sequence"]
    for name, sql in created + indexes:
        _create(new, name, sql, columns.get(name), damage)
    if damage:
        result.damage["schema"] = damage
    if missing := {MEMORY_TABLE, JOURNAL_TABLE} - {one.name for one in tables}:
        raise Damaged(f"its schema lacks {', '.join(sorted(missing))}")
    return tables, ignored


def _known_columns(path: Path) -> dict[str, set[str]]:
    """Return the columns of each model's table, if the store has exactly the migrations of this release."""
    known = set(MigrationLoader(None, ignore_no_migrations=True).disk_migrations or {})
    table = MigrationRecorder.Migration._meta.db_table
    with PageReader(path) as reader:  # a reader reads each page once
        found = [row.values for row in reader.read_table(SCHEMA_ROOT, [])]
        roots = [int(values[3] or 0) for values in found if values[:3] == ["table", table, table]]
        applied = {tuple(row.values[1:3]) for root in roots for row in reader.read_table(root, [])}
    if {row for row in applied if row[0] in {app for app, _ in known}} != known:
        return {}
    models = apps.get_models(include_auto_created=True)
    return {one._meta.db_table: {str(field.column) for field in one._meta.concrete_fields} for one in models}


def _create(
    new: sqlite3.Connection, name: str, sql: str, columns: set[str] | None, damage: list[str]
) -> None:
    """Create a table or index. If its statement is damaged, use that of the migrations."""
    try:
        if name in sql.partition("(")[0] and "\ufffd" not in sql:  # a byte that is no UTF-8
            new.execute(sql)
            found = new.execute("SELECT name FROM pragma_table_info(?)", [name])
            if columns is None or {column for (column,) in found} == columns:
                return
            new.execute(f'DROP TABLE "{name}"')
    except sqlite3.Error:
        pass
    damage.append(f"the statement of {name}")
    for row in _blank_schema():
        if row[1] == name:
            new.execute(row[4])


@functools.cache  # it takes seconds, and each damaged statement needs it
def _blank_schema() -> tuple[list[str], ...]:
    """Return the schema that the migrations create, without page numbers, which are lost."""
    blank = connection.copy(_BLANK)
    blank.settings_dict["NAME"] = ":memory:"
    connections[_BLANK] = blank
    try:
        executor = MigrationExecutor(blank)
        executor.migrate(executor.loader.graph.leaf_nodes())
        with blank.cursor() as cursor:
            cursor.execute("SELECT type, name, tbl_name, '', coalesce(sql, '') FROM sqlite_master")
            return tuple(list(row) for row in cursor.fetchall())
    finally:
        del connections[_BLANK]
        BaseDatabaseWrapper.close(blank)  # Django's own method for SQLite keeps a database in memory open


def _is_copied(name: str, sql: str) -> bool:
    """Return whether a table has content of its own. Text indexes consist of several tables."""
    derived = schema.derived_tables()
    parts = tuple(f"{table}_" for table in INDEXES)
    return not (
        name in derived
        or name.startswith(parts)
        or name.startswith("sqlite_stat")
        or "WITHOUT ROWID" in sql
        or sql.upper().startswith("CREATE VIRTUAL")
    )


def _insert(new: sqlite3.Connection, table: str, rows: Iterator[Row], result: Salvaged) -> None:
    """Insert rows. A missing value at the end of an old row gets the default of its column."""
    columns = new.execute("SELECT name, type, pk FROM pragma_table_info(?)", [table]).fetchall()
    names = [f'"{name}"' for name, _, _ in columns]
    key = next((n for n, (_, kind, pk) in enumerate(columns) if pk and kind.upper() == "INTEGER"), None)
    if table == "sqlite_sequence":
        new.execute("DELETE FROM sqlite_sequence")
    for row in rows:
        values = row.values[: len(names)]
        if key is not None and key < len(values) and values[key] is None:
            values[key] = row.rowid
        places = ", ".join("?" * len(values))
        sql = f"INSERT OR IGNORE INTO {table} ({', '.join(names[: len(values)])}) VALUES ({places})"  # noqa: S608
        inserted = new.execute(sql, values).rowcount
        result.rows[table] += inserted
        if not inserted:
            result.refused[table] += 1
        elif not row.is_exact:
            result.altered[table] += 1


def _insert_orphans(reader: PageReader, new: sqlite3.Connection, result: Salvaged) -> None:
    """Insert the rows of pages that no readable page leads to, if only one damaged table fits them."""
    columns = {
        table: new.execute('SELECT type, "notnull", pk FROM pragma_table_info(?)', [table]).fetchall()
        for table in result.damage
        if table != "schema"
    }
    for rows in reader.orphans():
        fitting = [
            table for table, expected in columns.items() if all(_fits(row.values, expected) for row in rows)
        ]
        if len(fitting) == 1:
            _insert(new, fitting[0], iter(rows), result)
        elif fitting:
            result.unassigned += len(rows)


def _fits(values: list[Value], columns: list[tuple[str, int, int]]) -> bool:
    """Return whether a record can be a row of a table with columns of these types."""
    if len(values) != len(columns):
        return False
    for value, (kind, notnull, pk) in zip(values, columns, strict=True):
        if value is None:
            if notnull and not pk:
                return False
        elif isinstance(value, str) != kind.lower().startswith(("varchar", "text", "char", "date")):
            return False
    return True


def _remove_dangling(new: sqlite3.Connection, result: Salvaged) -> None:
    """Clear references to lost rows. Remove a row whose reference is required."""
    for _ in range(MAX_REPEATS):
        broken = new.execute("PRAGMA foreign_key_check").fetchall()
        if not broken:
            return
        for table, rowid, _, number in broken:
            key = next(row for row in new.execute(f"PRAGMA foreign_key_list({table})") if row[0] == number)
            nullable = not new.execute(
                'SELECT "notnull" FROM pragma_table_info(?) WHERE name = ?', [table, key[3]]
            ).fetchone()[0]
            if nullable:
                new.execute(f'UPDATE {table} SET "{key[3]}" = NULL WHERE rowid = ?', [rowid])  # noqa: S608
            else:
                result.rows[table] -= new.execute(f"DELETE FROM {table} WHERE rowid = ?", [rowid]).rowcount  # noqa: S608
                result.refused[table] += 1


def _lost_memories(new: sqlite3.Connection) -> list[str]:
    """Return the ids of memories whose newest journal row is not their removal, and that have no row."""
    sql = f"""
        SELECT object_id FROM {JOURNAL_TABLE} WHERE object_type = 'memory' AND object_id != ''
            AND object_id NOT IN (SELECT uid FROM {MEMORY_TABLE})
        GROUP BY object_id HAVING sum(operation IN ('erase', 'purge')) = 0 ORDER BY max(seq)
    """  # noqa: S608 own names
    return [uid for (uid,) in new.execute(sql)]
