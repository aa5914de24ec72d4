"""Values of other programs are converted or reported."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memoryhub.transfer import foreign_json
from memoryhub.transfer.formats import FORMATS
from memoryhub.transfer.records import (
    HistoryItem,
    InvalidItem,
    ReadOptions,
    Record,
    UnmappedField,
    UnreadableFile,
)
from memoryhub.transfer.values import FieldReader, ReadNotes, days_between, printable_name
from tests.transfer.formats.foreign import CLAUDE_MEM, LETSGO, MEMORY_MCP, Read, lines_file, sqlite_file

MOMENT = datetime(2026, 3, 1, 10, tzinfo=UTC)


def fields(**values: Any) -> FieldReader:
    return FieldReader(values, ReadNotes())


@pytest.mark.parametrize(
    "written",
    [
        "2026-03-01T10:00:00+00:00",
        "2026-03-01T10:00:00Z",
        "2026-03-01T11:00:00.000000000+01:00",
        "2026-03-01 10:00:00",
        "20260301T100000",
        1_772_359_200,
        1_772_359_200.0,
        "1772359200",
        1_772_359_200_000,
        1_772_359_200_000_000,
    ],
)
def test_timestamp_is_parsed_in_any_form(written: Any) -> None:
    assert fields(at=written).moment("at") == MOMENT


@pytest.mark.parametrize(
    "written", ["soon", 10**30, float("inf"), True, [1], "0001-01-01T00:00:00Z", b"x", -1e13]
)
def test_invalid_timestamp_is_refused(written: Any) -> None:
    reader = fields(at=written)
    assert reader.moment("at") is None
    assert [str(problem) for problem in reader.problems] == [
        "at: is not a time between the years 1900 and 9999"
    ]


def test_first_nonempty_timestamp_is_used() -> None:
    assert fields(a=None, b="", c=1_772_359_200).moment("a", "b", "c") == MOMENT


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ('["a", "b"]', ["a", "b"]),
        (["a", 1], ["a", "1"]),
        ("a, b,,", ["a", "b"]),
        ("single", ["single"]),
        ("", []),
        (None, []),
        ("[]", []),
    ],
)
def test_lists_are_parsed_from_json_and_commas(written: Any, found: list[str]) -> None:
    assert fields(tags=written).words("tags") == found


@pytest.mark.parametrize("written", ["[1", '[{"a": 1}]', {"a": 1}, 5, [[1]], "[" * 100_000])
def test_invalid_list_is_refused(written: Any) -> None:
    reader = fields(tags=written)
    assert reader.words("tags") == []
    assert len(reader.problems) == 1


def test_lifetime_in_days() -> None:
    later = datetime(2026, 3, 11, 10, tzinfo=UTC)
    assert days_between(MOMENT, later, MOMENT) == 10
    assert days_between(None, later, MOMENT) == 10
    assert days_between(MOMENT, None, later) == 0
    assert 0 < days_between(later, MOMENT, later) < 0.001
    assert days_between(MOMENT, datetime(9999, 1, 1, tzinfo=UTC), MOMENT) == 36_500


@pytest.mark.parametrize(
    "word", ["", "x" * 31, "with\nlines", "\x1b[31m", "<b>", "AKIA" + "QWERTYUIOPASDFGH", "ghp_" + "a1B2" * 9]
)
def test_report_contains_no_texts_or_tokens(word: str) -> None:
    assert printable_name(word) == "of another name"
    assert printable_name("source_app") == "source_app"


def test_number_of_notes_is_bounded() -> None:
    notes = ReadNotes()
    for number in range(1000):
        notes.add(f"field f{number}")
    reader = {item.what: item.count for item in notes.items() if isinstance(item, UnmappedField)}
    assert len(reader) == 101
    assert reader["other things"] == 900


def test_format_detection_does_not_read_the_whole_file(tmp_path: Path) -> None:
    line = {"id": "mem_1", "abstract": "", "content": "x", "category": "cases", "active_count": 0}
    path = lines_file(tmp_path / "memories.jsonl", [line])
    with open(path, "ab") as file:
        file.truncate(40 * 1024**3)  # a sparse file: takes no disk space, but would take very long to read
    assert [one for one in ("pigo", "knowledge-graph", "openmemory") if FORMATS[one].recognises(path)] == [
        "pigo"
    ]


# -- arbitrary values

SCALARS = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=30),
    st.binary(max_size=20),
    st.sampled_from(
        ["[]", '["a"]', '{"tags": ["x"]}', '{"tags": 5}', "[1", "public", "secret", "1e400", "{}", "\x00"]
    ),
)
TABLES = {
    "letsgo": (LETSGO, "memories", ("memories", "facts", "memory_journal")),
    "memory-mcp": (MEMORY_MCP, "memories", ("memories", "entities", "memory_entities", "provenance")),
    "claude-mem": (
        CLAUDE_MEM,
        "observations",
        ("observations", "session_summaries", "sdk_sessions", "directives"),
    ),
}


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=25)
@given(data=st.data())
def test_any_row_can_be_read(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _, _, tables = TABLES[name]
    rows: dict[str, list[dict[str, Any]]] = {}
    loose = ""
    for table in tables:
        columns = _columns(TABLES[name][0], table)
        loose += f"CREATE TABLE {table} ({', '.join(columns)});"
        rows[table] = data.draw(st.lists(st.fixed_dictionaries(dict.fromkeys(columns, SCALARS)), max_size=2))
    path = sqlite_file(tmp_path_factory.mktemp("strange") / "x.db", loose, rows)
    read = Read(name, path)
    reader = sum(isinstance(item, Record | InvalidItem | HistoryItem) for item in read.items)
    assert reader >= sum(len(rows[table]) for table in tables if table not in ("entities", "memory_entities"))


def _columns(schema: str, table: str) -> list[str]:
    import sqlite3

    connection = sqlite3.connect(":memory:")
    connection.executescript(schema)
    found = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    connection.close()
    return found


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pigo", "knowledge-graph", "openmemory"])
@settings(max_examples=50)
@given(data=st.data())
def test_any_line_can_be_read(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    keys = {
        "pigo": "id category abstract overview content vector active_count created_at updated_at",
        "knowledge-graph": "type name entityType observations from to relationType",
        "openmemory": "id content metadata created_at updated_at state app categories",
    }[name].split()
    values = JSON | st.sampled_from(["entity", "relation", "deleted"])
    lines = data.draw(st.lists(st.dictionaries(st.sampled_from(keys), values), max_size=3))
    path = lines_file(tmp_path_factory.mktemp("strange") / "x.jsonl", lines)
    items = list(FORMATS[name].read(path, ReadOptions()))
    assert sum(isinstance(item, Record | InvalidItem) for item in items) >= len(lines)


@given(
    value=st.dictionaries(st.text(max_size=8), JSON, max_size=6),
    chunk=st.integers(1, 40),
    spaced=st.booleans(),
)
def test_object_read_in_chunks_equals_the_whole(value: dict[str, Any], chunk: int, spaced: bool) -> None:
    raw = json.dumps(value, ensure_ascii=False, indent=2 if spaced else None).encode()
    before, foreign_json._CHUNK = foreign_json._CHUNK, chunk
    try:
        found: dict[str, Any] = {key: [] if isinstance(one, list) else one for key, one in value.items()}
        for key, item in foreign_json.read_members(io.BytesIO(raw), "x"):
            if isinstance(value[key], list):
                found[key].append(item)
            else:
                found[key] = item
    finally:
        foreign_json._CHUNK = before
    assert found == value


@given(raw=st.binary(max_size=60))
@example(b"{}0")
@example(b'{"a": 1} {}')
@example(b'{"a": 1')
@example(b"\xef\xbb\xbf{}\n")
def test_invalid_object_is_reported(raw: bytes) -> None:
    try:
        assert isinstance(json.loads(raw.decode("utf-8-sig")), dict)
    except (ValueError, AssertionError):
        with pytest.raises(UnreadableFile, match=r"^x: .*export it again$"):
            list(foreign_json.read_members(io.BytesIO(raw), "x"))


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b'{"a": [1,\n 2\n "x"]}', "line 3, column 2: a comma or a closing bracket is missing"),
        (b'{"a": [1,\n {"b" 2}]}', "line 2, column 7: a colon is missing"),
        (b'{"a": 1,\n"b": "cut off', "line 2, column 6: the file ends too early"),
        (b'{"a": 1,\n"caf\xe9": 2}', "line 2, column 5: save the file as UTF-8"),
    ],
)
def test_error_in_a_file_names_line_and_fix(
    raw: bytes, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_json, "_CHUNK", 4)
    with pytest.raises(UnreadableFile) as refused:
        list(foreign_json.read_members(io.BytesIO(raw), "x"))
    assert problem in str(refused.value)


def test_item_without_end_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(foreign_json, "MAX_ITEM_CHARS", 300_000)
    raw = b'{"memories": ["' + b"x" * 2_000_000 + b'"]}'
    with pytest.raises(UnreadableFile, match="contains an item of more than"):
        list(foreign_json.read_members(io.BytesIO(raw), "x"))
