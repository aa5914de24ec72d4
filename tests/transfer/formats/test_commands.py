"""Import and export of other formats by command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoryhub.models import Fact, Memory
from memoryhub.transfer.formats import FORMATS, WRITERS
from tests.transfer.formats.foreign import (
    CLAUDE_MEM,
    LETSGO,
    MEMORY_MCP,
    lines_file,
    openmemory_zip,
    sqlite_file,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("home")]

MADE, EPOCH = "2026-03-01T10:00:00+00:00", 1_772_359_200_000
WHEN = {"created_at": MADE, "updated_at": MADE}
SAID = "Deploys happen on Tuesdays"
GRAPH = {"type": "entity", "name": "Deploys", "entityType": "process", "observations": ["On Tuesdays"]}


def file_of(name: str, folder: Path) -> Path:
    """Write a file of this program with one memory."""
    path = folder / "file"
    if name == "letsgo":
        return sqlite_file(path, LETSGO, {"memories": [{"id": "a", "content": SAID, **WHEN}]})
    if name == "memory-mcp":
        row = {"id": "m", "content": SAID, "type": "fact", "importance": 5, "created_at": EPOCH}
        return sqlite_file(path, MEMORY_MCP, {"memories": [{**row, "last_accessed": EPOCH}]})
    if name == "claude-mem":
        row = {"memory_session_id": "s", "project": "shop", "type": "change", "narrative": SAID}
        when = {"created_at": MADE, "created_at_epoch": EPOCH}
        return sqlite_file(path, CLAUDE_MEM, {"observations": [{**row, **when}]})
    if name == "openmemory":
        return openmemory_zip(path, {"memories": [{"id": "1", "content": SAID, **WHEN}]}, None)
    if name == "pigo":
        row = {"abstract": "Tuesdays", "category": "patterns", "active_count": 1}
        return lines_file(path, [{"id": "mem_1", "content": SAID, **row, **WHEN}])
    return lines_file(path, [GRAPH])


@pytest.mark.parametrize(
    "name", ["letsgo", "memory-mcp", "claude-mem", "openmemory", "pigo", "knowledge-graph"]
)
def test_file_is_recognised_and_imported(name: str, tmp_path: Path, run: Callable[..., Any]) -> None:
    path = file_of(name, tmp_path)
    foreseen = run("import_memories", path, "--dry-run", "--project", "shop")
    assert (foreseen.code, foreseen.err) == (0, "")
    assert not Memory.objects.exists()
    done = run("import_memories", path, "--project", "shop")
    assert (done.code, done.err) == (0, "")
    assert f"This is {FORMATS[name].label}." in done.out
    memory = Memory.objects.get()
    assert memory.project == "shop"
    assert "uesdays" in memory.content
    again = run("import_memories", path, "--project", "shop")
    assert again.code == 0
    assert "0 created" in again.out
    assert Memory.objects.count() == 1


@pytest.mark.parametrize("name", ["pigo", "knowledge-graph"])
def test_exported_file_can_be_imported(name: str, tmp_path: Path, run: Callable[..., Any]) -> None:
    run("import_memories", file_of(name, tmp_path), "--project", "shop")
    written = tmp_path / "out.jsonl"
    done = run("export_memories", "--format", name, written)
    assert done.code == 0
    assert WRITERS[name].lossy in done.out + done.err
    before = [Memory.objects.count(), Fact.objects.count()]
    again = run("import_memories", written, "--project", "shop")
    assert (again.code, again.err) == (0, "")
    assert [Memory.objects.count(), Fact.objects.count()] == before


def test_wrong_format_is_reported(tmp_path: Path, run: Callable[..., Any]) -> None:
    ran = run("import_memories", file_of("letsgo", tmp_path), "--format", "claude-mem")
    assert ran.code == 1
    assert "contains no tables of claude-mem (SQLite)" in ran.err
    assert not Memory.objects.exists()
