"""LetsGo's SQLite file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memoryhub.memories.schemas import FactDraft
from memoryhub.transfer.formats import FORMATS, detect_format
from tests.transfer.formats.foreign import LETSGO, LETSGO_OLD, LETSGO_OLDEST, Read, sqlite_file

MADE = "2026-03-01T10:00:00+00:00"


def memory(**values: Any) -> dict[str, Any]:
    return {
        "id": "a1",
        "content": "Cache keys carry the tenant",
        "created_at": MADE,
        "updated_at": MADE,
    } | values


def letsgo(tmp_path: Path, **tables: list[dict[str, Any]]) -> Read:
    return Read("letsgo", sqlite_file(tmp_path / "memory.db", LETSGO, tables))


def test_every_field_of_a_memory_is_imported(tmp_path: Path) -> None:
    row = memory(
        category="caching",
        importance=0.8,
        trust=0.7,
        sensitivity="private",
        tags="cache,tenant",
        title="Cache keys",
        subtitle="Why they are long",
        type="decision",
        concepts='["gotcha", "pattern"]',
        files_read='["src/cache.py"]',
        files_modified='["src/keys.py"]',
        session_id="s-1",
        project="shop",
        discovery_tokens=120,
    )
    [draft] = letsgo(tmp_path, memories=[row]).drafts
    lists = {
        "concepts": ["gotcha", "pattern"],
        "files_read": ["src/cache.py"],
        "files_modified": ["src/keys.py"],
    }
    plain = {
        name: row[name] for name in row if name not in ("id", "tags", "created_at", "updated_at", *lists)
    }
    assert len(plain) == 11
    assert {name: getattr(draft, name) for name in [*plain, *lists]} == {**plain, **lists}
    assert draft.tags == ["cache", "tenant"]
    assert draft.created_at == datetime(2026, 3, 1, 10, tzinfo=UTC)


def test_history_of_a_memory_is_imported(tmp_path: Path) -> None:
    changed, end = "2026-04-02T08:30:00+00:00", "2026-05-30T10:00:00+00:00"
    [record] = letsgo(
        tmp_path, memories=[memory(updated_at=changed, expires_at=end, accessed_count=17)]
    ).records
    assert record.source_id == "a1"
    assert record.past.accessed_count == 17
    assert record.past.updated_at == datetime.fromisoformat(changed)
    assert record.past.expires_at == datetime.fromisoformat(end)
    assert record.draft.ttl_days == 90


def test_memory_without_expiry_never_expires(tmp_path: Path) -> None:
    [draft] = letsgo(tmp_path, memories=[memory()]).drafts
    assert draft.ttl_days == 0
    assert "ttl_days" in draft.given


def test_expiry_before_creation_is_not_unlimited(tmp_path: Path) -> None:
    [draft] = letsgo(tmp_path, memories=[memory(expires_at="2026-02-01T10:00:00+00:00")]).drafts
    assert 0 < draft.ttl_days < 0.001


def test_facts_keep_confidence_dates_and_memory(tmp_path: Path) -> None:
    fact = {
        "id": "f1",
        "subject": "billing",
        "predicate": "runs on",
        "object": "Kubernetes",
        "confidence": 0.6,
        "source_entry_id": "a1",
        "created_at": MADE,
        "updated_at": "2026-03-05T10:00:00+00:00",
    }
    read = letsgo(tmp_path, memories=[memory()], facts=[fact])
    record = read.records[-1]
    assert isinstance(record.draft, FactDraft)
    assert record.draft.memory_id == read.records[0].source_id == "a1"
    assert (record.draft.subject, record.draft.object, record.draft.confidence) == (
        "billing",
        "Kubernetes",
        0.6,
    )
    assert record.past.valid_from == datetime.fromisoformat(MADE)


@pytest.mark.parametrize(
    ("written", "level"), [("", "public"), ("Private", "private"), ("secret", "secret"), ("odd", "secret")]
)
def test_fact_has_the_access_level_of_its_memory(tmp_path: Path, written: str, level: str) -> None:
    fact = {"id": "f", "subject": "a", "predicate": "b", "object": "c", "source_entry_id": "a1"}
    dates = {"created_at": MADE, "updated_at": MADE}
    read = letsgo(tmp_path, memories=[memory(project="shop", sensitivity=written)], facts=[{**fact, **dates}])
    assert (read.drafts[-1].project, read.drafts[-1].sensitivity) == ("shop", level)


def test_same_fact_in_two_projects_stays_two_facts(tmp_path: Path) -> None:
    said = {
        "subject": "it",
        "predicate": "runs on",
        "object": "Linux",
        "created_at": MADE,
        "updated_at": MADE,
    }
    read = letsgo(
        tmp_path,
        memories=[memory(project="shop"), memory(id="a2", project="blog", content="Another")],
        facts=[{"id": "f1", "source_entry_id": "a1", **said}, {"id": "f2", "source_entry_id": "a2", **said}],
    )
    assert [draft.project for draft in read.drafts[2:]] == ["shop", "blog"]


def test_fact_of_a_deleted_memory_is_imported_without_it_and_counted(tmp_path: Path) -> None:
    fact = {"id": "f", "subject": "a", "predicate": "b", "object": "c", "source_entry_id": "gone"}
    read = letsgo(tmp_path, facts=[{**fact, "created_at": MADE, "updated_at": MADE}])
    assert read.drafts[0].memory_id is None
    assert read.unmapped == {"links of facts to memories that are gone": 1}


def test_journal_is_imported_row_by_row(tmp_path: Path) -> None:
    detail = "category=caching type=decision sensitivity=public and words of a stranger"
    rows = [
        {"memory_id": "a1", "operation": "insert", "timestamp": MADE, "detail": detail},
        {"memory_id": "a1", "operation": "dedup_refresh", "timestamp": "2026-03-02T10:00:00+00:00"},
    ]
    read = letsgo(tmp_path, memories=[memory(project="shop")], memory_journal=rows)
    first, second = read.history("journal")
    assert (first.seq, first.operation, first.object_id, first.actor) == (1, "insert", "a1", "letsgo")
    assert first.detail == {"category": "caching", "type": "decision", "sensitivity": "public"}
    assert (first.project, first.sensitivity) == ("shop", "public")
    assert (second.seq, second.operation, second.detail) == (2, "dedup_refresh", {})
    assert first.hash != second.hash


@pytest.mark.parametrize(
    ("level", "shown"), [("private", "private"), ("", "public"), ("internal", "secret"), ("SECRET", "secret")]
)
def test_journal_row_has_the_access_level_of_its_memory(tmp_path: Path, level: str, shown: str) -> None:
    row = {"memory_id": "a1", "operation": "insert", "timestamp": MADE}
    read = letsgo(tmp_path, memories=[memory(sensitivity=level)], memory_journal=[row])
    assert [one.sensitivity for one in read.history("journal")] == [shown]


def test_journal_row_of_a_deleted_memory_is_secret(tmp_path: Path) -> None:
    row = {"memory_id": "gone", "operation": "delete", "timestamp": MADE}
    [line] = letsgo(tmp_path, memory_journal=[row]).history("journal")
    assert line.sensitivity == "secret"


@pytest.mark.parametrize(("written", "level"), [("PRIVATE", "private"), ("", "public"), (None, "public")])
def test_levels_are_read_as_in_letsgo(tmp_path: Path, written: str | None, level: str) -> None:
    [draft] = letsgo(tmp_path, memories=[memory(sensitivity=written)]).drafts
    assert draft.sensitivity == level


def test_unknown_level_is_refused(tmp_path: Path) -> None:
    read = letsgo(tmp_path, memories=[memory(sensitivity="internal"), memory(id="a2", content="Fine")])
    assert read.bad == {
        "memories row 1": ["sensitivity: is not a known level; make it public, private or secret"]
    }
    assert [draft.content for draft in read.drafts] == ["Fine"]


def test_numbers_out_of_range_are_clamped_and_noted(tmp_path: Path) -> None:
    read = letsgo(tmp_path, memories=[memory(importance=8, trust=-1)])
    assert (read.drafts[0].importance, read.drafts[0].trust) == (1.0, 0.0)
    assert read.unmapped == {
        "importance outside 0 to 1 (changed to the nearest limit)": 1,
        "trust outside 0 to 1 (changed to the nearest limit)": 1,
    }


def test_unknown_type_is_noted_and_becomes_change(tmp_path: Path) -> None:
    read = letsgo(tmp_path, memories=[memory(type="musing")])
    assert read.drafts[0].type == "change"
    assert read.unmapped == {"type musing (stored as change)": 1}


def test_future_timestamp_becomes_now(tmp_path: Path) -> None:
    ahead = (datetime.now(UTC) + timedelta(days=40)).isoformat()
    read = letsgo(tmp_path, memories=[memory(created_at=ahead)])
    assert read.drafts[0].created_at <= datetime.now(UTC)
    assert read.unmapped == {"created_at in the future (changed to the time of the import)": 1}


def test_invalid_row_does_not_affect_the_others(tmp_path: Path) -> None:
    rows = [
        memory(id="1", content="   "),
        memory(id="2", importance="very"),
        memory(id="3", created_at="yesterday"),
        memory(id="4", files_read="[not json"),
        memory(id="5", content=b"\xff\xfe broken"),
        memory(id="6", content="The one that is well"),
    ]
    read = letsgo(tmp_path, memories=rows)
    assert [draft.content for draft in read.drafts] == ["The one that is well"]
    assert read.bad["memories row 2"] == ["importance: is not a number"]
    assert read.bad["memories row 3"] == ["created_at: is not a time between the years 1900 and 9999"]
    assert read.bad["memories row 4"] == ["files_read: starts like a JSON list but is not one"]
    assert read.bad["memories row 5"] == ["content: is not UTF-8 text"]
    assert len(read.bad) == 5


@pytest.mark.conformance("guide-55")
def test_older_schema_with_one_indexed_column_is_read(tmp_path: Path) -> None:
    path = sqlite_file(tmp_path / "old.db", LETSGO_OLD, {"memories": [memory(tags="a, b")]})
    assert detect_format(path) is FORMATS["letsgo"]
    [draft] = Read("letsgo", path).drafts
    assert (draft.content, draft.tags, draft.type) == ("Cache keys carry the tenant", ["a", "b"], "change")


def test_schema_before_levels_trust_and_journal_is_read(tmp_path: Path) -> None:
    schema = """
        CREATE TABLE memories (
            id TEXT PRIMARY KEY, content TEXT NOT NULL, category TEXT DEFAULT 'general',
            importance REAL DEFAULT 0.5, tags TEXT DEFAULT '', created_at TEXT NOT NULL);
        CREATE VIRTUAL TABLE memories_fts USING fts5(content, content='memories', content_rowid='rowid');"""
    row = {"id": "a", "content": "Ports begin at 8000", "tags": "ports", "created_at": MADE}
    path = sqlite_file(tmp_path / "older.db", schema, {"memories": [row]})
    assert detect_format(path) is FORMATS["letsgo"]
    [draft] = Read("letsgo", path).drafts
    assert (draft.content, draft.tags, draft.sensitivity) == ("Ports begin at 8000", ["ports"], "public")


def test_oldest_schema_with_lists_statements_and_summaries_is_read(tmp_path: Path) -> None:
    row = {
        "id": "x",
        "content": "The worker restarts itself",
        "facts_json": '["It waits 5 seconds", "It gives up after 3 times"]',
        "concepts_json": '["how-it-works"]',
        "tags_json": '["worker"]',
        "metadata_json": '{"branch": "main"}',
        "created_at": "2026-03-01T10:00:00",
        "created_at_epoch": 1772359200000,
    }
    summary = {
        "id": "y",
        "session_id": "s-9",
        "request": "Fix the worker",
        "learned": "Signals are lost while it sleeps",
        "next_steps": "Handle SIGTERM",
        "files_edited_json": '["worker.py"]',
        "created_at": MADE,
        "created_at_epoch": 1772359200000,
    }
    epoch = {"created_at": MADE, "created_at_epoch": 1772359200000}
    prompt = {"id": "p", "session_id": "s-9", "prompt_number": 1, "prompt_text": "Fix the worker", **epoch}
    session = {
        "id": "s",
        "session_id": "s-9",
        "project": "shop",
        "started_at": MADE,
        "started_at_epoch": 1772359200000,
    }
    tables = {
        "memories": [row],
        "session_summaries": [summary],
        "sessions": [session],
        "user_prompts": [prompt],
    }
    path = sqlite_file(tmp_path / "memories.db", LETSGO_OLDEST, tables)
    assert detect_format(path) is FORMATS["letsgo"]
    read = Read("letsgo", path)
    first, second = read.drafts
    assert first.content == (
        "The worker restarts itself\n\n- It waits 5 seconds\n- It gives up after 3 times"
    )
    assert (first.concepts, first.tags) == (["how-it-works"], ["worker"])
    assert read.unmapped == {"metadata branch": 1}
    assert second.type == "session_summary"
    assert second.content == (
        "Request: Fix the worker\n\nLearned: Signals are lost while it sleeps\n\nNext steps: Handle SIGTERM"
    )
    assert (second.session_id, second.files_modified) == ("s-9", ["worker.py"])
    assert [one.session_id for one in read.history("session")] == ["s-9"]
    assert [(one.preview, one.project) for one in read.history("event")] == [("Fix the worker", "shop")]


def test_empty_store_is_recognised(tmp_path: Path) -> None:
    path = sqlite_file(tmp_path / "memory.db", LETSGO, {})
    assert detect_format(path) is FORMATS["letsgo"]
    assert FORMATS["letsgo"].count(path) == 0
    assert Read("letsgo", path).items == []
