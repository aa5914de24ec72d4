"""Memory MCP's SQLite file."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memoryhub.transfer.formats import FORMATS, detect_format
from tests.transfer.formats.foreign import MEMORY_MCP, MEMORY_MCP_AS_DOCUMENTED, Read, sqlite_file

MADE = 1_772_359_200_000  # 2026-03-01 10:00 UTC
DAY = 86_400_000


def memory(**values: Any) -> dict[str, Any]:
    return {
        "id": "mem_1",
        "content": "Grace moved the billing job to Kubernetes",
        "summary": "Billing runs on Kubernetes",
        "type": "fact",
        "importance": 8,
        "created_at": MADE,
        "last_accessed": MADE,
    } | values


def memory_mcp(tmp_path: Path, **tables: list[dict[str, Any]]) -> Read:
    return Read("memory-mcp", sqlite_file(tmp_path / "memory.db", MEMORY_MCP, tables))


def test_importance_is_scaled_to_one(tmp_path: Path) -> None:
    [draft] = memory_mcp(tmp_path, memories=[memory()]).drafts
    assert draft.importance == pytest.approx(0.8)
    assert (draft.content, draft.abstract) == (memory()["content"], "Billing runs on Kubernetes")
    assert draft.created_at == datetime(2026, 3, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize("kind", ["fact", "entity", "relationship", "self"])
def test_types_are_kept(tmp_path: Path, kind: str) -> None:
    [draft] = memory_mcp(tmp_path, memories=[memory(type=kind)]).drafts
    assert draft.type == kind


def test_entities_are_read_through_the_link_table(tmp_path: Path) -> None:
    read = memory_mcp(
        tmp_path,
        memories=[memory(), memory(id="mem_2", content="Another")],
        entities=[
            {"id": "e1", "name": "Grace", "type": "person", "created_at": MADE},
            {"id": "e2", "name": "Kubernetes", "type": "technology", "created_at": MADE},
        ],
        memory_entities=[
            {"memory_id": "mem_1", "entity_id": "e1", "created_at": MADE},
            {"memory_id": "mem_1", "entity_id": "e2", "created_at": MADE},
            {"memory_id": "mem_2", "entity_id": "gone", "created_at": MADE},
        ],
    )
    named = [(one.entity, one.entity_type) for one in read.drafts[0].entities]
    assert named == [("Grace", "person"), ("Kubernetes", "technology")]
    assert read.drafts[1].entities == []


@pytest.mark.conformance("mcp-7")
def test_documented_schema_is_read(tmp_path: Path) -> None:
    row = {
        "id": 7,
        "content": "Grace leads billing",
        "summary": "Grace leads",
        "type": "entity",
        "importance": 5,
        "created_at": "2026-03-01T10:00:00Z",
        "access_count": 2,
        "last_accessed": "2026-03-02T10:00:00Z",
        "is_deleted": 0,
    }
    path = sqlite_file(
        tmp_path / "m.db",
        MEMORY_MCP_AS_DOCUMENTED,
        {"memories": [row], "entities": [{"memory_id": 7, "entity": "Grace", "entity_type": "person"}]},
    )
    assert detect_format(path) is FORMATS["memory-mcp"]
    [record] = Read("memory-mcp", path).records
    assert [one.entity for one in record.draft.entities] == ["Grace"]  # type: ignore[union-attr]
    assert record.past.accessed_count == 2
    assert record.past.last_accessed_at == datetime(2026, 3, 2, 10, tzinfo=UTC)


def test_accesses_and_expiry_are_imported(tmp_path: Path) -> None:
    [record] = memory_mcp(
        tmp_path, memories=[memory(access_count=4, last_accessed=MADE + DAY, expires_at=MADE + 240 * DAY)]
    ).records
    assert record.past.accessed_count == 4
    assert record.past.last_accessed_at == datetime(2026, 3, 2, 10, tzinfo=UTC)
    assert record.draft.ttl_days == 240  # type: ignore[union-attr]


def test_creation_is_not_counted_as_access(tmp_path: Path) -> None:
    [record] = memory_mcp(tmp_path, memories=[memory()]).records
    assert record.past.last_accessed_at is None


def test_deleted_memories_go_to_the_trash(tmp_path: Path) -> None:
    [record] = memory_mcp(tmp_path, memories=[memory(is_deleted=1, last_accessed=MADE + DAY)]).records
    assert record.past.deleted_at == datetime(2026, 3, 2, 10, tzinfo=UTC)


def test_tags_are_read_from_metadata_and_the_rest_is_noted(tmp_path: Path) -> None:
    read = memory_mcp(tmp_path, memories=[memory(metadata='{"tags": ["ops"], "mood": "calm", "empty": ""}')])
    assert read.drafts[0].tags == ["ops"]
    assert read.unmapped == {"metadata mood": 1}


def test_broken_metadata_is_noted_and_loses_no_memory(tmp_path: Path) -> None:
    read = memory_mcp(tmp_path, memories=[memory(metadata="{oops"), memory(id="2", metadata="[1]")])
    assert len(read.drafts) == 2
    assert read.unmapped == {"metadata that is not JSON": 1, "metadata that is not a JSON object": 1}


def provenance(**values: Any) -> dict[str, Any]:
    return {
        "id": "p1",
        "memory_id": "mem_1",
        "operation": "create",
        "timestamp": MADE,
        "source": "user",
    } | values


def test_provenance_becomes_journal_rows(tmp_path: Path) -> None:
    rows = [provenance(), provenance(id="p2", memory_id="gone", operation="delete", source="claude")]
    read = memory_mcp(tmp_path, memories=[memory()], provenance=rows)
    rows = [(one.operation, one.object_id, one.actor, one.sensitivity) for one in read.history("journal")]
    assert rows == [
        ("create", "mem_1", "memory-mcp:user", "public"),
        ("delete", "gone", "memory-mcp:claude", "secret"),
    ]
    assert read.history("journal")[0].at == datetime(2026, 3, 1, 10, tzinfo=UTC)


def test_replaced_values_become_an_earlier_version(tmp_path: Path) -> None:
    changes = {
        "content": {"from": "Grace moved billing", "to": "Grace moved the billing job to Kubernetes"},
        "summary": {"from": "Billing moved", "to": "Billing runs on Kubernetes"},
        "importance": {"from": 5, "to": 8},
        "tags": {"to": ["x"]},
    }
    update = provenance(operation="update", changes=json.dumps(changes))
    read = memory_mcp(tmp_path, memories=[memory()], provenance=[update, {**update, "id": "p2"}])
    first, second = read.history("revision")
    assert (first.memory_id, first.number, second.number) == ("mem_1", 1, 2)
    assert first.before == {"content": "Grace moved billing", "abstract": "Billing moved", "importance": 0.5}
    assert read.unmapped == {"changes of provenance without the value before": 2}


def test_text_about_a_change_is_not_imported(tmp_path: Path) -> None:
    row = provenance(context="because Ada said so", user_id="ada")
    read = memory_mcp(tmp_path, memories=[memory()], provenance=[row])
    assert read.unmapped == {"context (of provenance)": 1, "user_id (of provenance)": 1}
    assert "Ada" not in str(read.history("journal"))


def test_long_id_is_mapped_consistently(tmp_path: Path) -> None:
    long = "mem/" + "9" * 60
    update = provenance(memory_id=long, operation="update", changes='{"content": {"from": "Before"}}')
    read = memory_mcp(tmp_path, memories=[memory(id=long)], provenance=[update])
    ids = {read.records[0].source_id, read.history("journal")[0].object_id}
    assert ids == {read.history("revision")[0].memory_id}


def test_unsupported_values_are_counted(tmp_path: Path) -> None:
    read = memory_mcp(
        tmp_path,
        memories=[memory(embedding=b"\x00\x01")],
        entities=[
            {"id": "e1", "name": "Grace", "type": "person", "metadata": '{"a": 1}', "created_at": MADE}
        ],
        cloud_sync_queue=[{"memory_id": "mem_1"}],
    )
    assert read.unmapped == {
        "metadata of entities": 1,
        "column memories.embedding": 1,
        "rows of cloud_sync_queue": 1,
    }


def test_memories_keep_their_entities(tmp_path: Path) -> None:
    n = 1203
    read = memory_mcp(
        tmp_path,
        memories=[memory(id=f"m{i}", content=f"Thing {i}") for i in range(n)],
        entities=[{"id": f"e{i}", "name": f"Name {i}", "type": "concept", "created_at": 1} for i in range(n)],
        memory_entities=[{"memory_id": f"m{i}", "entity_id": f"e{i}", "created_at": 1} for i in range(n)],
    )
    assert [[one.entity for one in draft.entities] for draft in read.drafts] == [
        [f"Name {i}"] for i in range(n)
    ]
