"""mcp-memory-service's SQLite file and its JSON export."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memoryhub.models import Memory
from memoryhub.transfer.formats import detect_format
from tests.transfer.formats.foreign import MCP_MEMORY_SERVICE, Read, sqlite_file
from tests.transfer.formats.test_foreign_imports import ImportOutcome

T = 1_772_359_200.5
WHEN = datetime.fromtimestamp(T, UTC)


def row(name: str, **values: Any) -> dict[str, Any]:
    return {
        "content": f"Content {name}",
        "content_hash": name * 64,
        "tags": "deploy,proj:shop",
        "memory_type": "decision",
        "metadata": json.dumps({"importance_score": 0.8, "hostname": "desk"}),
        "created_at": T,
        "updated_at": T,
    } | values


def database(tmp_path: Path, *rows: dict[str, Any], **tables: Any) -> Path:
    return sqlite_file(tmp_path / "sqlite_vec.db", MCP_MEMORY_SERVICE, {"memories": rows, **tables})


def exported(values: dict[str, Any]) -> dict[str, Any]:
    lists = {"tags": values["tags"].split(","), "metadata": json.loads(values["metadata"])}
    return values | lists | {"store": "default"}


def export(tmp_path: Path, *rows: Any) -> Path:
    """Write the export: lists instead of texts, the replacement in the metadata."""
    found = [one if isinstance(one, int) else exported(one) for one in rows]
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"export_metadata": {"exporter_version": "5.0.1"}, "memories": found}))
    return path


@pytest.mark.parametrize("write", [database, export])
def test_file_is_recognised(tmp_path: Path, write: Any) -> None:
    assert detect_format(write(tmp_path, row("a"))).name == "mcp-memory-service"


@pytest.mark.parametrize("write", [database, export])
def test_fields_are_kept_and_memories_do_not_expire(tmp_path: Path, write: Any) -> None:
    found = Read("mcp-memory-service", write(tmp_path, row("a")))
    [draft] = found.drafts
    assert (draft.content, draft.type, draft.project) == ("Content a", "decision", "shop")
    assert (draft.tags, draft.importance, draft.ttl_days) == (["deploy", "proj:shop"], 0.8, 0)
    assert draft.created_at == found.records[0].past.updated_at == WHEN
    assert found.unmapped == {"metadata hostname": 1}


def test_unknown_type_and_other_store_become_tags(tmp_path: Path) -> None:
    found = Read("mcp-memory-service", database(tmp_path, row("a", memory_type="sprint", store="work")))
    assert found.drafts[0].type == "general"
    assert found.drafts[0].tags == ["deploy", "proj:shop", "sprint", "store:work"]


def test_placeholder_tag_is_left_out(tmp_path: Path) -> None:
    assert Read("mcp-memory-service", database(tmp_path, row("a", tags="untagged"))).drafts[0].tags == []


def test_other_tables_are_reported(tmp_path: Path) -> None:
    belief = {"belief_hash": "x", "content": "y", "created_at": "", "updated_at": ""}
    assert (
        Read("mcp-memory-service", database(tmp_path, row("a"), beliefs=[belief])).unmapped["rows of beliefs"]
        == 1
    )


def test_row_that_is_no_object_is_reported(tmp_path: Path) -> None:
    assert Read("mcp-memory-service", export(tmp_path, row("a"), 7)).bad == {
        "memory 2": ["is not a JSON object"]
    }


@pytest.mark.django_db
class TestImport:
    def rows(self) -> list[dict[str, Any]]:
        old = row("a", superseded_by="b" * 64)
        return [old, row("b"), row("c", deleted_at=T + 9)]

    def test_replaced_and_deleted_memories_stay_so(self, tmp_path: Path) -> None:
        ImportOutcome(database(tmp_path, *self.rows()))
        old = Memory.objects.get(content="Content a")
        assert old.superseded_by == Memory.objects.get(content="Content b")
        assert Memory.objects.get(content="Content c").deleted_at == datetime.fromtimestamp(T + 9, UTC)

    def test_same_file_again_changes_nothing(self, tmp_path: Path) -> None:
        path = database(tmp_path, *self.rows())
        ImportOutcome(path)
        before = list(Memory.objects.order_by("pk").values())
        assert ImportOutcome(path).tally.outcomes == {"unchanged": 3}
        assert list(Memory.objects.order_by("pk").values()) == before

    def test_export_of_the_same_store_is_recognised(self, tmp_path: Path) -> None:
        ImportOutcome(database(tmp_path, row("a"), row("b")))
        assert ImportOutcome(export(tmp_path, row("a"), row("b"))).tally.outcomes == {"unchanged": 2}

    def test_memory_that_was_edited_here_is_kept(self, tmp_path: Path) -> None:
        path = database(tmp_path, row("a"))
        ImportOutcome(path)
        Memory.objects.update(content="Edited", content_hash="edited")
        assert ImportOutcome(path).tally.outcomes == {"kept": 1}
        assert Memory.objects.get().content == "Edited"
