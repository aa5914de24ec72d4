"""OpenMemory's export."""

from __future__ import annotations

import gzip
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memoryhub.transfer import files as transfer_files
from memoryhub.transfer.formats import FORMATS, detect_format
from memoryhub.transfer.records import ReadOptions, UnreadableFile
from tests.transfer.formats.foreign import Read, lines_file, openmemory_zip

MADE = "2026-03-01T10:00:00+00:00"
TABLES: dict[str, Any] = {
    "user": {"id": "u", "user_id": "ada", "name": "Ada", "email": None, "metadata": {}},
    "apps": [{"id": "app-1", "owner_id": "u", "name": "cursor", "is_active": True}],
    "categories": [{"id": "c1", "name": "work"}, {"id": "c2", "name": "databases"}],
    "memories": [],
    "memory_categories": [],
    "status_history": [],
    "access_controls": [],
    "export_meta": {"version": "1"},
}


def row(**values: Any) -> dict[str, Any]:
    return {
        "id": "m-1",
        "user_id": "u",
        "app_id": "app-1",
        "content": "Prefers PostgreSQL for reporting",
        "metadata": {},
        "state": "active",
        "created_at": MADE,
        "updated_at": MADE,
        "archived_at": None,
        "deleted_at": None,
        "category_ids": ["c1", "c2"],
    } | values


def line(**values: Any) -> dict[str, Any]:
    return {
        "id": "m-1",
        "content": "Prefers PostgreSQL for reporting",
        "metadata": {},
        "created_at": MADE,
        "updated_at": MADE,
        "state": "active",
        "app": "cursor",
        "categories": ["work", "databases"],
    } | values


def openmemory(tmp_path: Path, *rows: dict[str, Any], lines: list[dict[str, Any]] | None = None) -> Read:
    path = openmemory_zip(tmp_path / "memories_export_ada.zip", TABLES | {"memories": list(rows)}, lines)
    assert detect_format(path) is FORMATS["openmemory"]
    return Read("openmemory", path)


def test_memory_has_its_category_and_app(tmp_path: Path) -> None:
    [draft] = openmemory(tmp_path, row(), lines=[line()]).drafts
    assert (draft.content, draft.category) == ("Prefers PostgreSQL for reporting", "work")
    assert draft.tags == ["databases", "cursor"]
    assert (draft.type, draft.ttl_days) == ("fact", 0)
    assert draft.created_at == datetime(2026, 3, 1, 10, tzinfo=UTC)


def test_memory_in_both_files_is_read_once(tmp_path: Path) -> None:
    read = openmemory(tmp_path, row(), lines=[line(), line(id="m-2", content="Only in the other file")])
    assert [draft.content for draft in read.drafts] == [
        "Prefers PostgreSQL for reporting",
        "Only in the other file",
    ]
    assert read.records[1].place == "memories.jsonl.gz line 2"


def test_archive_with_one_file_is_enough(tmp_path: Path) -> None:
    for name, tables, lines in (("tables", TABLES | {"memories": [row()]}, None), ("lines", None, [line()])):
        path = openmemory_zip(tmp_path / f"{name}.zip", tables, lines, folder="backup/")
        assert detect_format(path) is FORMATS["openmemory"]
        [draft] = Read("openmemory", path).drafts
        assert (draft.category, draft.tags) == ("work", ["databases", "cursor"])


@pytest.mark.parametrize("packed", [True, False])
def test_lines_file_alone_is_read(tmp_path: Path, packed: bool) -> None:
    path = lines_file(tmp_path / "memories.jsonl", [line(), line(id="m-2", content="Second")])
    if packed:
        path = tmp_path / "memories.jsonl.gz"
        path.write_bytes(gzip.compress((tmp_path / "memories.jsonl").read_bytes()))
    assert detect_format(path) is FORMATS["openmemory"]
    assert len(Read("openmemory", path).drafts) == 2


def test_deleted_memories_go_to_the_trash(tmp_path: Path) -> None:
    gone = "2026-04-01T10:00:00+00:00"
    records = openmemory(
        tmp_path,
        row(state="deleted", deleted_at=gone),
        row(id="m-2", content="Without a date", state="deleted"),
        row(id="m-3", content="Alive", deleted_at=gone),
    ).records
    moments = [record.past.deleted_at for record in records]
    assert moments == [datetime.fromisoformat(gone), datetime.fromisoformat(MADE), None]


def test_archived_and_paused_memories_are_tagged_and_noted(tmp_path: Path) -> None:
    read = openmemory(tmp_path, row(state="archived"), row(id="2", content="P", state="paused"))
    assert [draft.tags[-1] for draft in read.drafts] == ["archived", "paused"]
    assert read.unmapped["state archived (stored with the tag archived)"] == 1
    assert read.unmapped["state paused (stored with the tag paused)"] == 1


def test_unsupported_values_are_counted(tmp_path: Path) -> None:
    tables = TABLES | {
        "memories": [row(metadata={"mcp_client": "cursor", "source_app": "openmemory"})],
        "status_history": [{"id": 1}, {"id": 2}],
        "access_controls": [{"id": 3}],
        "documents": [{"id": 4}],
        "apps": [{"id": "app-1", "name": "cursor", "description": "An editor"}],
    }
    read = Read("openmemory", openmemory_zip(tmp_path / "o.zip", tables, None))
    unmapped = {name: n for name, n in read.unmapped.items() if not name.startswith("user")}
    assert unmapped == {
        "status_history (of memories.json)": 2,
        "access_controls (of memories.json)": 1,
        "documents (of memories.json)": 1,
        "descriptions of apps": 1,
        "metadata mcp_client": 1,
        "metadata source_app": 1,
    }


def test_unknown_fields_are_noted(tmp_path: Path) -> None:
    assert openmemory(tmp_path, row(mood="calm")).unmapped == {"field mood": 1, "user (of memories.json)": 1}


def test_invalid_memory_does_not_affect_the_others(tmp_path: Path) -> None:
    tables = TABLES | {"memories": [row(content=None), 5, row(id="m-2", content="Well")]}
    read = Read("openmemory", openmemory_zip(tmp_path / "o.zip", tables, None))
    assert [draft.content for draft in read.drafts] == ["Well"]
    assert set(read.bad) == {"memories.json memory 1", "memories.json memory 2"}
    assert read.bad["memories.json memory 2"] == ["is not a JSON object"]


def test_referenced_rows_may_follow_the_memories(tmp_path: Path) -> None:
    tables = {"memories": [row()], "categories": TABLES["categories"], "apps": TABLES["apps"]}
    [draft] = Read("openmemory", openmemory_zip(tmp_path / "o.zip", tables, None)).drafts
    assert (draft.category, draft.tags) == ("work", ["databases", "cursor"])


def write_zip(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(
                {"tables": "memories.json", "lines": "memories.jsonl.gz"}.get(name, name), content
            )
    return path


@pytest.mark.parametrize(
    "files",
    [
        {"tables": b"{"},
        {"tables": b"[]"},
        {"tables": b'{"memories": [{"id": 1}'},
        {"tables": b'{"memories": [1 2]}'},
        {"tables": b'{"memories": nonsense}'},
        {"tables": b'{"memories": ' + b"[" * 100_000},
        {"tables": b'{"memories": ["\xff\xfe"]}'},
        {"lines": b"this is not gzip"},
        {"lines": gzip.compress(b'{"id": 1}\n' * 99)[:-20]},
        {"other": b"x"},
    ],
)
def test_invalid_archive_is_reported(tmp_path: Path, files: dict[str, bytes]) -> None:
    path = write_zip(tmp_path / "export.zip", **files)
    with pytest.raises(UnreadableFile, match="export"):
        list(FORMATS["openmemory"].read(path, ReadOptions()))


def test_damaged_archive_is_reported(tmp_path: Path) -> None:
    tables = TABLES | {"memories": [row(id=str(i), content=f"Thing {i * 7919}") for i in range(500)]}
    path = openmemory_zip(tmp_path / "export.zip", tables, None)
    raw = bytearray(path.read_bytes())
    raw[2000:2100] = b"\x00" * 100
    path.write_bytes(raw)
    with pytest.raises(UnreadableFile, match=r"export"):
        list(FORMATS["openmemory"].read(path, ReadOptions()))


def test_decompression_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_files, "_MIN_UNPACKED_BYTES", 64 * 1024)
    blank = b'{"memories": [' + b" " * 5_000_000
    path = write_zip(tmp_path / "bomb.zip", tables=blank, lines=gzip.compress(b" " * 5_000_000))
    with pytest.raises(UnreadableFile, match=r"unpacks to more than 300 times its size"):
        list(FORMATS["openmemory"].read(path, ReadOptions()))


def test_nested_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_files, "_MIN_UNPACKED_BYTES", 64 * 1024)
    path = write_zip(tmp_path / "bomb.zip", lines=gzip.compress(b"\n" * 5_000_000))
    with pytest.raises(UnreadableFile, match="unpacks to more than"):
        list(FORMATS["openmemory"].read(path, ReadOptions()))


def test_items_larger_than_a_chunk_are_read(tmp_path: Path) -> None:
    rows = [row(id=str(i), content=f"{i} " + "ü" * 90_000) for i in range(12)]
    tables = {"number": 12345, "nested": {"a": [1, 2]}, "nothing": [], **TABLES, "memories": rows}
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("memories.json", json.dumps(tables, ensure_ascii=False))
    assert [draft.content for draft in Read("openmemory", path).drafts] == [one["content"] for one in rows]
