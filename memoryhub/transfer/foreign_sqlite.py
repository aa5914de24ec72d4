"""Read SQLite files of other programs as untrusted data.

Nothing is written, not even next to the file. Views, triggers, virtual tables and functions of the file do
not run.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from pydantic import BeforeValidator

from memoryhub.core.database_errors import FileConnection
from memoryhub.core.rule_files import RuleSchema, load_rule_file
from memoryhub.transfer.records import Format, Item, ReadOptions, UnreadableFile
from memoryhub.transfer.values import ROW_NUMBER, FieldReader, ReadNotes

_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100
_WAL_MODE = 2  # bytes 18 and 19 of the header of a file in write-ahead mode
MAX_VALUE_BYTES = 16 * 1024 * 1024
# Pages that point to one another can represent a practically endless number of rows. A row takes at least
# four bytes; a full scan takes about five VM steps per byte of the file.
_ROW_BYTES = 4
_STEPS_PER_CHECK, _STEPS_PER_BYTE, _FREE_STEPS = 100_000, 5, 50_000_000
_CHUNK_ROWS = 500  # parameters of a statement, rows in memory
_CHUNK_BYTES = 32 * 1024 * 1024  # characters in memory

RowValues = dict[str, Any]
EntitiesByMemory = defaultdict[Any, list[dict[str, str]]]  # by the id in the file
TableSigns = tuple[tuple[str, ...], ...]  # groups of "table" or "table.column" that identify a program


class UndecodableText(bytes):
    """A text that is not UTF-8."""


@dataclass(frozen=True)
class ForeignDatabase:
    """An open file. ``tables`` maps its ordinary tables to their stored columns."""

    name: str
    connection: sqlite3.Connection
    tables: dict[str, tuple[str, ...]]
    step_limit: _StepLimit

    def has(self, table: str, *columns: str) -> bool:
        return table in self.tables and set(columns) <= set(self.tables[table])

    def matches(self, signs: TableSigns) -> bool:
        """Return whether all tables and columns of one group exist."""
        return any(all(self.has(*sign.split(".")) for sign in group) for group in signs)

    def expect(self, signs: TableSigns, label: str) -> None:
        """Raise :class:`UnreadableFile` if the file belongs to another program."""
        if not self.matches(signs):
            raise UnreadableFile(f"{self.name}: contains no tables of {label}; choose the right format")

    def count(self, *tables: str) -> int:
        """Count the rows of those tables that exist."""
        found = 0
        for table in tables:
            if table in self.tables:
                limited = f"SELECT 1 FROM {_quote_name(table)} LIMIT {self.step_limit.max_rows}"  # noqa: S608
                found += next(self._stream(f"SELECT count(*) FROM ({limited})", (), "n"))["n"]  # noqa: S608
        return found

    def unread(self, read: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, str, int]]:
        """Yield tables and columns other than the given ones, with the number of rows that have a value.

        The column is empty if the whole table is unread.
        """
        for table, columns in self.tables.items():
            if table not in read:
                yield table, "", self.count(table)
                continue
            for column in columns:
                if column not in read[table]:
                    yield table, column, self._count_filled(table, column)

    def _count_filled(self, table: str, column: str) -> int:
        sql = (
            f"SELECT count(*) FROM {_quote_name(table)} WHERE {_quote_name(column)} IS NOT NULL"  # noqa: S608
            f" AND {_quote_name(column)} NOT IN ('', 0, '[]', '{{}}')"
        )
        found: int = next(self._stream(sql, (), "n"))["n"]
        return found

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[RowValues]:
        """Yield the rows in storage order, with those columns that exist.

        Yield nothing if there is no such table.
        """
        if table not in self.tables:
            return
        existing = [column for column in columns if column in self.tables[table]]
        selected = ", ".join(["rowid", *map(_quote_name, existing)])
        sql = f"SELECT {selected} FROM {_quote_name(table)} ORDER BY rowid"  # noqa: S608
        yield from self._stream(sql, (), [ROW_NUMBER, *existing])

    def matching_rows(
        self, table: str, column: str, values: Iterable[Any], columns: Sequence[str]
    ) -> list[RowValues]:
        """Return the rows whose ``column`` has one of the values."""
        keys = list(values)
        if not keys or not self.has(table, column, *columns):
            return []
        found: list[RowValues] = []
        for at in range(0, len(keys), _CHUNK_ROWS):
            chunk = keys[at : at + _CHUNK_ROWS]
            sql = (
                f"SELECT {', '.join(map(_quote_name, columns))} FROM {_quote_name(table)}"  # noqa: S608
                f" WHERE {_quote_name(column)} IN ({', '.join('?' * len(chunk))}) ORDER BY rowid"
            )
            found += self._stream(sql, chunk, columns)
        return found

    def join(
        self, rows: Iterator[RowValues], key_column: str, table: str, key: str, columns: Sequence[str]
    ) -> Iterator[tuple[RowValues, RowValues | None]]:
        """Yield each row with the row of another table whose ``key`` equals the row's ``key_column``."""
        existing = [key, *(column for column in columns if self.has(table, column))]
        for chunk in chunked(rows):
            ids = dict.fromkeys(row[key_column] for row in chunk if row.get(key_column) is not None)
            others = {other[key]: other for other in self.matching_rows(table, key, ids, existing)}
            for row in chunk:
                yield row, others.get(row.get(key_column))

    def linked_rows(
        self, rows: Sequence[RowValues], links: str, ends: tuple[str, str], table: str, columns: Sequence[str]
    ) -> Iterator[tuple[Any, RowValues]]:
        """Yield the rows of ``table`` to which ``links`` connects the rows, each with the id of its row.

        ``ends`` are the columns of ``links`` with the ids of both.
        """
        ids = [row["id"] for row in rows if row.get("id") is not None]
        if self.has(table, *columns):
            found = iter(self.matching_rows(links, ends[0], ids, ends))
            for link, row in self.join(found, ends[1], table, "id", columns):
                if row is not None:
                    yield link[ends[0]], row

    def _stream(self, sql: str, values: Sequence[Any], names: Sequence[str]) -> Iterator[RowValues]:
        self.step_limit.begin()
        with closing(self._execute(sql, values)) as cursor:
            for number in count():
                try:
                    row = cursor.fetchone()
                except sqlite3.Error as error:
                    raise to_unreadable_file(self.name, error) from None
                if row is None:
                    return
                if number >= self.step_limit.max_rows:
                    why = sqlite3.DatabaseError("it has more rows than a file of this size can contain")
                    raise to_unreadable_file(self.name, why)
                self.step_limit.begin()
                yield dict(zip(names, row, strict=True))

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        try:
            return self.connection.execute(sql, values)
        except sqlite3.Error as error:
            raise to_unreadable_file(self.name, error) from None


Columns = Annotated[tuple[str, ...], BeforeValidator(str.split)]


class TableColumns(RuleSchema):
    """The columns of a table that are read, and those that are ignored."""

    read: Columns = ()
    ignored: Columns = ()


class ProgramTables(RuleSchema):
    """The tables of a program, and the groups of tables and columns by which it is recognised."""

    signs: TableSigns
    tables: dict[str, TableColumns]


class SqliteFormat(Format):
    """Base of the formats that are SQLite files. ``counted``: the tables whose rows are items."""

    counted: tuple[str, ...]
    extensions: tuple[str, ...] = (".db", ".sqlite", ".sqlite3")

    @cached_property
    def schema(self) -> ProgramTables:
        path = Path(__file__).with_name("formats") / f"{self.name.replace('-', '_')}.toml"
        return load_rule_file(path, ProgramTables)

    def recognises(self, path: Path) -> bool:
        if not is_sqlite(path):
            return False
        try:
            with open_database(path) as database:
                return database.matches(self.schema.signs)
        except UnreadableFile:
            return False

    def count(self, path: Path) -> int | None:
        with open_database(path) as database:
            return database.count(*self.counted)

    def read(self, path: Path, options: ReadOptions) -> Iterator[Item]:
        notes, tables = ReadNotes(), self.schema.tables
        with open_database(path) as database:
            database.expect(self.schema.signs, self.label)
            yield from self.items(database, notes, options)
            known = {name: (*columns.read, *columns.ignored) for name, columns in tables.items()}
            notes.add_unread(database.unread(known))
        yield from notes.items()

    def items(self, database: ForeignDatabase, notes: ReadNotes, options: ReadOptions) -> Iterator[Item]:
        raise NotImplementedError

    def rows(self, database: ForeignDatabase, table: str) -> Iterator[RowValues]:
        """Yield the rows of a table with the columns that are read."""
        return database.rows(table, self.schema.tables[table].read)

    def fields(self, database: ForeignDatabase, table: str, notes: ReadNotes) -> Iterator[FieldReader]:
        return (row_fields(table, row, notes) for row in self.rows(database, table))

    def prompts(
        self, database: ForeignDatabase, notes: ReadNotes, sessions: str, column: str
    ) -> Iterator[Item]:
        """Yield the prompts with the project of their session, which ``column`` names in both tables."""
        rows = self.rows(database, "user_prompts")
        for row, session in database.join(rows, column, sessions, column, ("project",)):
            fields, about = row_fields("user_prompts", row, notes), FieldReader(session or {}, notes)
            text, number = fields.text("prompt_text"), fields.text("prompt_number")
            yield fields.prompt(text, fields.text(column), about.text("project"), number)


def row_fields(table: str, row: RowValues, notes: ReadNotes) -> FieldReader:
    return FieldReader(row, notes, f"{table} row {row[ROW_NUMBER]}")


def make_entity(name: Any, kind: Any) -> dict[str, str]:
    """Return the entity of a memory from its values in the file."""
    return {"entity": str(name), "entity_type": str(kind or "concept")[:50]}


def chunked(rows: Iterable[RowValues]) -> Iterator[list[RowValues]]:
    """Yield chunks of a few hundred rows, or fewer large ones."""
    chunk: list[RowValues] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += sum(len(value) for value in row.values() if isinstance(value, str | bytes))
        if len(chunk) >= _CHUNK_ROWS or size > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def is_sqlite(path: Path) -> bool:
    """Return whether the file begins like an SQLite file."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


@contextmanager
def open_database(path: Path) -> Iterator[ForeignDatabase]:
    """Open an SQLite file for reading. Raise :class:`UnreadableFile`."""
    with ExitStack() as stack:
        try:
            address = _database_uri(path, stack)
            connection = sqlite3.connect(
                address, uri=True, isolation_level=None, timeout=5, factory=FileConnection
            )
            stack.enter_context(closing(connection))
            _restrict(connection)
            tables = _stored_tables(connection)
        except (sqlite3.Error, OSError) as error:
            raise to_unreadable_file(path.name, error) from None
        step_limit = _StepLimit(path.stat().st_size)
        connection.set_progress_handler(step_limit, _STEPS_PER_CHECK)
        connection.set_authorizer(_StatementGuard(frozenset(tables)))
        yield ForeignDatabase(path.name, connection, tables, step_limit)


def to_unreadable_file(name: str, error: Exception) -> UnreadableFile:
    """Convert an SQLite error to an error whose message contains a fix."""
    what = "its pages form a cycle" if str(error) == "interrupted" else str(error)
    if "locked" in what or "busy" in what:
        fix = "stop the program that writes it and try again"
    elif "readonly" in what or "unable to open" in what:
        fix = "open it once with its own program, close that, and import the file again"
    elif "not a database" in what:
        fix = "choose the right format, or decrypt the file with its own program"
    elif "too big" in what:
        fix = f"it contains a value of more than {MAX_VALUE_BYTES // 1024**2} MiB; remove that value"
    else:
        fix = "try a copy made with: sqlite3 FILE .recover | sqlite3 COPY"
    return UnreadableFile(f"{name}: cannot be read as an SQLite file: {what}; {fix}")


def _database_uri(path: Path, stack: ExitStack) -> str:
    """Return the URI that opens the file without creating others next to it.

    In write-ahead mode, SQLite creates files even for reading. Without a log the file is complete and opened
    as immutable; with an unused log a copy is read; with a log in use all files exist already.
    """
    with open(path, "rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header.startswith(_MAGIC) or len(header) < _HEADER_BYTES:
        raise sqlite3.DatabaseError("file is not a database")
    log, shared = (path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))
    how = "mode=ro"
    if _WAL_MODE in header[18:20] and not log.exists():
        how = "immutable=1"
    elif log.exists() and not shared.exists():
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="memoryhub-")))
        shutil.copyfile(log, folder / log.name)
        path = Path(shutil.copyfile(path, folder / path.name))
    return f"{path.absolute().as_uri()}?{how}"


def _restrict(connection: sqlite3.Connection) -> None:
    connection.text_factory = _decode_text
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for setting in ("query_only=ON", "trusted_schema=OFF", "cell_size_check=ON", "temp_store=MEMORY"):
        connection.execute(f"PRAGMA {setting}")


def _decode_text(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return UndecodableText(raw)


def _stored_tables(connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    """Return ordinary tables only: no views, virtual tables or their shadow tables."""
    tables = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall()
    named = [(name, str(sql or "")) for name, sql in tables if isinstance(name, str)]
    virtual = [name for name, sql in named if sql.upper().startswith("CREATE VIRTUAL")]
    found: dict[str, tuple[str, ...]] = {}
    for name, _ in named:
        if name in virtual or name.startswith("sqlite_") or any(name.startswith(f"{v}_") for v in virtual):
            continue
        columns = connection.execute("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", (name,))
        found[name] = tuple(column for (column,) in columns if isinstance(column, str))
    return found


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class _StepLimit:
    """Aborts a statement that takes more steps to its next row than a valid file of this size needs."""

    def __init__(self, size: int) -> None:
        self.max_rows = size // _ROW_BYTES + 1
        self._max_checks = (_FREE_STEPS + size * _STEPS_PER_BYTE) // _STEPS_PER_CHECK
        self._used = 0

    def begin(self) -> None:
        self._used = 0

    def __call__(self) -> bool:
        self._used += 1
        return self._used > self._max_checks


@dataclass(frozen=True)
class _StatementGuard:
    """Authorizer that only allows reading ordinary tables directly (not through views) and counting rows."""

    tables: frozenset[str]

    def __call__(
        self, action: int, what: str | None, detail: str | None, _database: str | None, inside: str | None
    ) -> int:
        if inside is None and (
            action == sqlite3.SQLITE_SELECT
            or (action == sqlite3.SQLITE_READ and what in self.tables)
            or (action == sqlite3.SQLITE_FUNCTION and detail == "count")
        ):
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY
