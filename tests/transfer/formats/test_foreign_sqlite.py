"""Untrusted SQLite files: read safely, or refused with a message."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from memoryhub.transfer import foreign_sqlite
from memoryhub.transfer.formats import FORMATS, detect_format
from memoryhub.transfer.records import ReadOptions, UnreadableFile
from tests.transfer.formats.foreign import LETSGO, Read, sqlite_file

WHEN = {"created_at": "2026-03-01T10:00:00Z", "updated_at": "2026-03-01T10:00:00Z"}
ROWS = [{"id": str(i), "content": f"Thing number {i} " + "x" * 500, **WHEN} for i in range(400)]
SQLITE_FORMATS = ["letsgo", "memory-mcp", "claude-mem", "mira"]


def drain(name: str, path: Path) -> None:
    for _ in FORMATS[name].read(path, ReadOptions()):
        pass


@pytest.mark.parametrize("wal", [False, True])
def test_reading_creates_no_files_and_changes_nothing(tmp_path: Path, wal: bool) -> None:
    path = sqlite_file(tmp_path / "memory.db", LETSGO, {"memories": ROWS}, wal=wal)
    before, listed = path.read_bytes(), sorted(os.listdir(tmp_path))
    assert len(Read("letsgo", path).drafts) == 400
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == listed


def test_rows_in_the_log_of_a_running_program_are_read(tmp_path: Path) -> None:
    path = sqlite_file(tmp_path / "memory.db", LETSGO, {"memories": ROWS[:1]}, wal=True)
    running = sqlite3.connect(path)
    running.execute(
        "INSERT INTO memories (id, content, created_at, updated_at) VALUES ('n', 'Fresh', ?, ?)",
        (WHEN["created_at"], WHEN["updated_at"]),
    )
    running.commit()
    assert Read("letsgo", path).drafts[-1].content == "Fresh"
    running.close()


def test_log_of_a_closed_program_is_read_without_creating_files(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    path = sqlite_file(there / "memory.db", LETSGO, {"memories": ROWS[:1]}, wal=True)
    running = sqlite3.connect(path)
    running.execute("UPDATE memories SET content = 'Only in the log'")
    running.commit()
    for name in ("memory.db", "memory.db-wal"):
        shutil.copy(there / name, here)
    running.close()
    before = {one.name: one.read_bytes() for one in here.iterdir()}
    assert Read("letsgo", here / "memory.db").drafts[0].content == "Only in the log"
    assert {one.name: one.read_bytes() for one in here.iterdir()} == before


def test_view_in_place_of_a_table_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "trap.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE other (id TEXT, content TEXT, sensitivity TEXT, category TEXT);"
        "CREATE VIEW memories AS SELECT id, content, sensitivity, category FROM other;"
        "CREATE TABLE memory_journal (seq INTEGER)"
    )
    connection.close()
    assert not FORMATS["letsgo"].recognises(path)
    with pytest.raises(UnreadableFile, match="contains no tables of LetsGo"):
        drain("letsgo", path)


@pytest.mark.parametrize("name", SQLITE_FORMATS)
def test_file_of_another_program_is_reported(tmp_path: Path, name: str) -> None:
    path = sqlite_file(tmp_path / "notes.db", "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)", {})
    with pytest.raises(UnreadableFile, match=r"notes\.db: contains no tables of .* \(SQLite\)"):
        drain(name, path)
    with pytest.raises(UnreadableFile, match="SQLite file of an unsupported program"):
        drain(detect_format(path).name, path)


def test_only_ordinary_tables_can_be_queried(tmp_path: Path) -> None:
    path = sqlite_file(tmp_path / "memory.db", LETSGO, {"memories": ROWS[:1]})
    with foreign_sqlite.open_database(path) as database:
        assert "memories_fts" not in database.tables
        assert "memories_fts_data" not in database.tables
        for sql in (
            "SELECT * FROM memories_fts",
            "SELECT * FROM sqlite_schema",
            "SELECT writefile('/tmp/x', content) FROM memories",
            "SELECT hex(content) FROM memories",
            "DELETE FROM memories",
            "ATTACH 'x.db' AS x",
            "PRAGMA writable_schema=ON",
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM n",
        ):
            with pytest.raises(sqlite3.DatabaseError):
                database.connection.execute(sql)


def test_unknown_tables_and_columns_are_reported(tmp_path: Path) -> None:
    schema = (
        LETSGO
        + "ALTER TABLE memories ADD COLUMN mood TEXT DEFAULT '';"
        + "CREATE TABLE feelings (id INTEGER PRIMARY KEY, text TEXT); CREATE TABLE empty (id INTEGER);"
    )
    rows = [{**ROWS[0], "mood": "calm"}, ROWS[1]]
    tables = {"memories": rows, "feelings": [{"text": "a"}, {"text": "b"}]}
    read = Read("letsgo", sqlite_file(tmp_path / "memory.db", schema, tables))
    assert read.unmapped == {"column memories.mood": 1, "rows of feelings": 2}


def test_generated_column_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "computed.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (a TEXT, b TEXT AS (a || a))")
    connection.execute("INSERT INTO t VALUES ('x')")
    connection.commit()
    connection.close()
    with foreign_sqlite.open_database(path) as database:
        assert database.tables == {"t": ("a",)}


@pytest.mark.parametrize(
    "content",
    [b"", b"SQLite", b"SQLite format 3\x00", b"SQLite format 3\x00" + b"\xff" * 5000, b"hello" * 999],
)
def test_file_that_is_not_sqlite_is_reported(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(content)
    assert not FORMATS["letsgo"].recognises(path)
    with pytest.raises(UnreadableFile, match=r"memory\.db: cannot be read as an SQLite file"):
        drain("letsgo", path)


def test_file_of_another_kind_gets_no_repair_advice(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    path.write_text('{"content": "no tables here"}\n', "utf-8")
    with pytest.raises(UnreadableFile, match="choose the right format") as refused:
        drain("letsgo", path)
    assert ".recover" not in str(refused.value)


def test_damaged_page_stops_reading_with_repair_advice(tmp_path: Path) -> None:
    path = sqlite_file(tmp_path / "memory.db", LETSGO, {"memories": ROWS})
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2 : len(raw) // 2 + 40_000] = b"\xa5" * 40_000
    path.write_bytes(raw)
    with pytest.raises(UnreadableFile, match=r"malformed.*\.recover"):
        drain("letsgo", path)


def test_truncated_file_is_reported(tmp_path: Path) -> None:
    path = sqlite_file(tmp_path / "memory.db", LETSGO, {"memories": ROWS})
    path.write_bytes(path.read_bytes()[:30_000])
    with pytest.raises(UnreadableFile, match="cannot be read as an SQLite file"):
        drain("letsgo", path)


def test_locked_file_is_reported(tmp_path: Path) -> None:
    path = sqlite_file(tmp_path / "memory.db", LETSGO, {"memories": ROWS[:1]})
    error = foreign_sqlite.to_unreadable_file(path.name, sqlite3.OperationalError("database is locked"))
    assert str(error).endswith("stop the program that writes it and try again")


def test_too_large_value_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_sqlite, "MAX_VALUE_BYTES", 1024 * 1024)
    path = sqlite_file(
        tmp_path / "memory.db", LETSGO, {"memories": [{"id": "1", "content": "x" * 2_000_000, **WHEN}]}
    )
    with pytest.raises(UnreadableFile, match="remove that"):
        drain("letsgo", path)


PAGE = 4096


def endless(path: Path) -> Path:
    """Make a file whose few pages represent hundreds of millions of rows: all pages point to the same one."""
    rows = [{"id": str(i), "content": "Thing " + "x" * 1000, **WHEN} for i in range(1500)]
    sqlite_file(path, LETSGO, {"memories": rows})
    connection = sqlite3.connect(path)
    (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'memories'").fetchone()
    connection.close()
    raw = bytearray(path.read_bytes())
    children = _children(raw, root)
    assert len(children) > 200
    middle, leaf = children[0], children[1]
    raw[(middle - 1) * PAGE : middle * PAGE] = raw[(root - 1) * PAGE : root * PAGE]
    _point_all(raw, root, middle)
    _point_all(raw, middle, leaf)
    path.write_bytes(raw)
    return path


def _cells(raw: bytearray, page: int) -> list[int]:
    """Return the offsets of a page's child pointers: those in its cells and the rightmost one."""
    start = (page - 1) * PAGE
    assert raw[start] == 5, "an inner page of a table"
    n = int.from_bytes(raw[start + 3 : start + 5], "big")
    offsets = [int.from_bytes(raw[start + 12 + 2 * i : start + 14 + 2 * i], "big") for i in range(n)]
    return [start + 8, *(start + offset for offset in offsets)]


def _children(raw: bytearray, page: int) -> list[int]:
    return [int.from_bytes(raw[at : at + 4], "big") for at in _cells(raw, page)]


def _point_all(raw: bytearray, page: int, target: int) -> None:
    for at in _cells(raw, page):
        raw[at : at + 4] = target.to_bytes(4, "big")


def test_file_with_endless_rows_is_refused_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = endless(tmp_path / "memory.db")
    monkeypatch.setattr(foreign_sqlite, "_ROW_BYTES", 4000)
    with foreign_sqlite.open_database(path) as database:
        assert database.count("memories") == database.step_limit.max_rows < 1000
        with pytest.raises(UnreadableFile, match="more rows than a file of this size can contain"):
            list(database.rows("memories", ("content",)))


def test_endless_query_is_aborted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_sqlite, "_FREE_STEPS", 0)
    monkeypatch.setattr(foreign_sqlite, "_STEPS_PER_BYTE", 1)
    with (
        foreign_sqlite.open_database(endless(tmp_path / "memory.db")) as database,
        pytest.raises(UnreadableFile, match="form a cycle"),
    ):
        database.matching_rows("memories", "content", ["not there"], ("id",))


def test_large_rows_are_chunked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_sqlite, "_CHUNK_BYTES", 1000)
    rows = [{"text": "x" * 400, "number": 7}] * 7
    assert [len(chunk) for chunk in foreign_sqlite.chunked(rows)] == [3, 3, 1]
    assert [len(chunk) for chunk in foreign_sqlite.chunked([{"number": 7}] * 1201)] == [500, 500, 201]


def test_folder_or_missing_file_is_not_recognised(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.db"):
        assert not FORMATS["letsgo"].recognises(path)
        with pytest.raises(UnreadableFile):
            drain("letsgo", path)


def test_formats_are_distinguished(tmp_path: Path) -> None:
    from tests.transfer.formats import foreign

    schemas = {
        "letsgo": foreign.LETSGO,
        "memory-mcp": foreign.MEMORY_MCP,
        "claude-mem": foreign.CLAUDE_MEM,
        "mira": foreign.MIRA,
    }
    for name, schema in schemas.items():
        path = sqlite_file(tmp_path / f"{name}.db", schema, {})
        assert [one for one in SQLITE_FORMATS if FORMATS[one].recognises(path)] == [name]
        assert detect_format(path).name == name
