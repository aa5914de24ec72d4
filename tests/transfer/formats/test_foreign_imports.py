"""Files of other programs, imported by the loader and the command."""

from __future__ import annotations

import tracemalloc
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memoryhub.access.policy import LEVELS, Actor, Clearance
from memoryhub.facts import queries, services
from memoryhub.memories.errors import NotFound
from memoryhub.memories.imported_history import ImportedHistory
from memoryhub.memories.schemas import FactDraft
from memoryhub.models import Event, Fact, JournalEntry, Memory, Session
from memoryhub.transfer.formats import FORMATS, detect_format
from memoryhub.transfer.import_files import IdMap, open_import
from memoryhub.transfer.loader import BATCH_SIZE, LoadOptions, load_items
from memoryhub.transfer.records import Problem, ReadOptions
from memoryhub.transfer.reports import Tally
from tests.transfer.formats.foreign import (
    CLAUDE_MEM,
    LETSGO,
    MEMORY_MCP,
    lines_file,
    openmemory_zip,
    sqlite_file,
)

OPERATOR = Actor("command:operator", Clearance(frozenset(LEVELS), every_owner=True))
MADE, EPOCH = "2026-03-01T10:00:00+00:00", 1_772_359_200_000
WHEN = {"created_at": MADE, "updated_at": MADE}
KEY = "AKIA" + "QWERTYUIOPASDFGH"

pytestmark = pytest.mark.django_db


class ImportOutcome:
    def __init__(self, path: Path, by: Actor = OPERATOR, **how: Any) -> None:
        self.tally, self.errors = Tally(), list[str]()
        order = LoadOptions(by, self._add_error, **{"restores": by is OPERATOR, **how})
        with (
            open_import(
                detect_format(path),
                str(path),
                ReadOptions(project=order.project, has_owner=bool(by.owner)),
            ) as reading,
            closing(IdMap()) as ids,
        ):
            list(load_items(reading, order, self.tally, ids))

    def _add_error(self, place: str, problem: Problem) -> None:
        self.errors.append(f"{place}: {problem}")


def letsgo(tmp_path: Path) -> Path:
    def row(number: int, content: str, **values: Any) -> dict[str, Any]:
        return {"id": f"a{number}", "content": content, **WHEN, **values}

    return sqlite_file(
        tmp_path / "letsgo.db",
        LETSGO,
        {
            "memories": [
                row(1, "Cache keys carry the tenant", accessed_count=5, type="decision", project="shop"),
                row(2, "Salaries are paid on the 25th", sensitivity="private"),
                row(3, "For no one", sensitivity="internal"),
                row(4, f"The key is {KEY}"),
                row(5, "Ended", expires_at="2026-05-01T10:00:00+00:00"),
            ],
            "facts": [
                {"id": "f1", "subject": "shop", "predicate": "runs on", "object": "Kubernetes", **WHEN}
                | {"source_entry_id": "a1", "confidence": 0.6},
                {"id": "f2", "subject": "no one", "predicate": "sees", "object": "this", **WHEN}
                | {"source_entry_id": "a3"},
            ],
            "memory_journal": [
                {"memory_id": "a1", "operation": "insert", "timestamp": MADE},
                {"memory_id": "a2", "operation": "insert", "timestamp": MADE},
            ],
        },
    )


def test_letsgo_file_is_imported_with_history(tmp_path: Path) -> None:
    brought = ImportOutcome(letsgo(tmp_path))
    cache = Memory.objects.get(content="Cache keys carry the tenant")
    assert (cache.accessed_count, cache.type, cache.project, cache.ttl_days) == (5, "decision", "shop", None)
    assert cache.created_at == cache.updated_at == datetime.fromisoformat(MADE)
    assert Memory.objects.get(content__startswith="Salaries").sensitivity == "private"
    fact = Fact.objects.get()
    assert (fact.subject, fact.confidence, fact.memory) == ("shop", 0.6, cache)
    rows = JournalEntry.objects.filter(actor="letsgo").order_by("seq")
    assert [(row.operation, row.sensitivity) for row in rows] == [("insert", "public"), ("insert", "private")]
    assert rows[0].object_id == cache.uid
    assert len(brought.errors) == 3
    assert KEY not in str(brought.errors)
    assert not Memory.objects.filter(content__contains=KEY).exists()


def test_expired_rows_stay_expired(tmp_path: Path) -> None:
    ImportOutcome(letsgo(tmp_path))
    ended = Memory.objects.get(content="Ended")
    assert ended.expires_at == datetime(2026, 5, 1, 10, tzinfo=UTC)
    assert not Memory.objects.live().filter(pk=ended.pk).exists()


def test_fact_of_a_refused_memory_is_refused(tmp_path: Path) -> None:
    brought = ImportOutcome(letsgo(tmp_path))
    assert not Fact.objects.filter(subject="no one").exists()
    assert "facts row 2: memory_id: its memory was not imported" in brought.errors


def test_repeated_import_changes_nothing(tmp_path: Path) -> None:
    path = letsgo(tmp_path)
    ImportOutcome(path)
    kinds = (Memory, Fact, Session, Event)
    before = [list(kind.objects.order_by("pk").values()) for kind in kinds]
    adopted = JournalEntry.objects.filter(actor="letsgo").count()
    again = ImportOutcome(path)
    assert again.tally.outcomes["created"] == 0
    assert [list(kind.objects.order_by("pk").values()) for kind in kinds] == before
    assert JournalEntry.objects.filter(actor="letsgo").count() == adopted


def test_dry_run_reports_the_same_and_stores_nothing(tmp_path: Path) -> None:
    path = letsgo(tmp_path)
    foreseen = ImportOutcome(path, dry_run=True)
    assert not Memory.objects.exists()
    assert not Fact.objects.exists()
    done = ImportOutcome(path)
    assert foreseen.tally.outcomes == done.tally.outcomes
    assert foreseen.tally.others == done.tally.others
    assert foreseen.errors == done.errors


def test_import_without_restore_permission_skips_history(tmp_path: Path) -> None:
    by = Actor("token:bob", Clearance.up_to("public", owner="bob", projects=["shop"]))
    brought = ImportOutcome(letsgo(tmp_path), by, project="shop")
    assert Memory.objects.filter(project="shop").exists()
    assert not JournalEntry.objects.filter(actor="letsgo").exists()
    assert any(what.startswith("journal rows: imported only") for what in brought.tally.unmapped)


def test_import_without_access_to_a_level_stores_memories_and_facts_once(tmp_path: Path) -> None:
    secret = {"id": "a", "content": "The vault moves on Friday", "sensitivity": "secret", "project": "shop"}
    fact = {"id": "f", "subject": "vault", "predicate": "moves on", "object": "Friday"}
    tables = {"memories": [{**secret, **WHEN}], "facts": [{**fact, "source_entry_id": "a", **WHEN}]}
    path = sqlite_file(tmp_path / "letsgo.db", LETSGO, tables)
    by = Actor("token:bob", Clearance.up_to("public", owner="bob", projects=["shop"]))
    assert [ImportOutcome(path, by).errors for _ in range(2)] == [[], []]
    fact_here = Fact.objects.get()
    assert (fact_here.sensitivity, fact_here.memory) == ("secret", Memory.objects.get())
    assert not Fact.objects.visible_to(by.clearance).exists()


def test_fact_is_not_linked_to_a_hidden_memory_of_another_owner(tmp_path: Path) -> None:
    by = Actor("token:bob", Clearance.up_to("public", owner="bob"))
    hidden = Memory.objects.create(uid="hidden", content="c", content_hash="h", sensitivity="secret")
    draft = FactDraft(subject="s", predicate="p", object="o", memory_id=hidden.uid)
    with pytest.raises(NotFound, match="its memory is not in this store"):
        services.import_fact(draft, ImportedHistory(), by)


def test_memory_mcp_file_is_imported_with_entities_trash_and_versions(tmp_path: Path) -> None:
    def row(number: int, content: str, **values: Any) -> dict[str, Any]:
        fixed = {"type": "fact", "importance": 8, "created_at": EPOCH, "last_accessed": EPOCH}
        return {"id": f"mem_{number}", "content": content, "summary": "Short", **fixed, **values}

    changes = '{"content": {"from": "Grace moved billing", "to": "x"}}'
    update = {"id": "p", "memory_id": "mem_1", "operation": "update", "timestamp": EPOCH, "source": "user"}
    path = sqlite_file(
        tmp_path / "memory.db",
        MEMORY_MCP,
        {
            "memories": [row(1, "Grace moved billing to Kubernetes"), row(2, "Forgotten", is_deleted=1)],
            "entities": [{"id": "e", "name": "Grace", "type": "person", "created_at": EPOCH}],
            "memory_entities": [{"memory_id": "mem_1", "entity_id": "e", "created_at": EPOCH}],
            "provenance": [{**update, "changes": changes}],
        },
    )
    assert ImportOutcome(path).errors == []
    kept = Memory.objects.get(content="Grace moved billing to Kubernetes")
    assert [(one.entity, one.entity_type) for one in kept.entities.all()] == [("Grace", "person")]
    assert (kept.abstract, kept.importance) == ("Short", 0.8)
    assert [revision.before for revision in kept.revisions.all()] == [{"content": "Grace moved billing"}]
    assert JournalEntry.objects.filter(actor="memory-mcp:user", object_id=kept.uid).exists()
    forgotten = Memory.objects.get(content="Forgotten")
    assert forgotten.deleted_at == datetime(2026, 3, 1, 10, tzinfo=UTC)


def test_claude_mem_file_is_imported_with_sessions(tmp_path: Path) -> None:
    when = {"created_at": MADE, "created_at_epoch": EPOCH}
    session = {"content_session_id": "c-1", "memory_session_id": "ms", "project": "shop"}
    observed = {"memory_session_id": "ms", "project": "shop", "type": "bugfix", "narrative": "Carts live."}
    prompt = {"content_session_id": "c-1", "prompt_number": 1, "prompt_text": "Why?", **when}
    path = sqlite_file(
        tmp_path / "claude-mem.db",
        CLAUDE_MEM,
        {
            "sdk_sessions": [{**session, "started_at": MADE, "started_at_epoch": EPOCH}],
            "observations": [{**observed, **when}],
            "user_prompts": [prompt],
        },
    )
    assert ImportOutcome(path).errors == []
    row = Session.objects.get()
    assert (row.session_id, row.project, row.agent) == ("c-1", "shop", "claude")
    assert [(event.event, event.preview) for event in Event.objects.filter(session=row)] == [
        ("prompt:submit", "Why?")
    ]
    assert Memory.objects.get().session_id == "c-1"


def test_openmemory_archive_is_imported_with_trash(tmp_path: Path) -> None:
    def row(number: int, state: str) -> dict[str, Any]:
        return {"id": str(number), "content": f"Fact {number}", "state": state, **WHEN}

    tables = {"memories": [row(1, "active"), row(2, "archived"), row(3, "deleted")]}
    assert ImportOutcome(openmemory_zip(tmp_path / "o.zip", tables, None), project="home").errors == []
    live = Memory.objects.live().order_by("content")
    assert [(one.content, one.project) for one in live] == [("Fact 1", "home"), ("Fact 2", "home")]
    assert list(live[1].labels.values_list("value", flat=True)) == ["archived"]
    assert Memory.objects.trashed().get().content == "Fact 3"


def test_knowledge_graph_is_searchable_by_entity_name(tmp_path: Path) -> None:
    line = {"type": "entity", "name": "Grace_Okoro", "entityType": "person", "observations": ["Likes tea"]}
    ImportOutcome(lines_file(tmp_path / "memory.jsonl", [line]))
    assert Memory.objects.about_entity("Grace_Okoro").get().content == "Grace_Okoro: Likes tea"
    assert queries.query_facts(OPERATOR.clearance, subject="Grace_Okoro").get().object == "person"


HALF = "\\ud83d"  # JSON of a truncated emoji
HALVES = {
    "letsgo.db": lambda path: sqlite_file(
        path, LETSGO, {"memories": [{"id": "a", "content": "c", "concepts": f'["{HALF}"]', **WHEN}]}
    ),
    "mcp.db": lambda path: sqlite_file(
        path,
        MEMORY_MCP,
        {
            "memories": [
                {
                    "id": "a",
                    "content": "c",
                    "type": "fact",
                    "importance": 5,
                    "created_at": EPOCH,
                    "last_accessed": EPOCH,
                    "metadata": f'{{"tags": ["{HALF}"]}}',
                }
            ]
        },
    ),
    "graph.jsonl": lambda path: lines_file(
        path, [f'{{"type":"entity","name":"n","entityType":"{HALF}","observations":["o"]}}']
    ),
    "pigo.jsonl": lambda path: lines_file(
        path,
        [f'{{"id":"{HALF}","abstract":"a","overview":"","content":"c","category":"cases","active_count":0}}'],
    ),
    "openmemory.zip": lambda path: openmemory_zip(
        path, {"memories": [{"id": "\ud83d", "content": "c", "state": "active"}]}, None
    ),
}


@pytest.mark.parametrize("name", HALVES)
def test_unpaired_surrogate_only_affects_its_item(tmp_path: Path, name: str) -> None:
    brought = ImportOutcome(HALVES[name](tmp_path / name))
    assert brought.tally.failed == 1
    assert all("unpaired surrogate" in error for error in brought.errors)
    assert not Memory.objects.exists()


@pytest.mark.slow
def test_interrupted_import_resumes(tmp_path: Path) -> None:
    rows = [{"id": str(i), "content": f"Thing number {i}", **WHEN} for i in range(2500)]
    path = sqlite_file(tmp_path / "letsgo.db", LETSGO, {"memories": rows})
    order, ids = LoadOptions(OPERATOR, lambda place, problem: None), IdMap()
    with open_import(FORMATS["letsgo"], str(path), ReadOptions()) as reading:
        mark = next(load_items(reading, order, Tally(), ids))
    assert Memory.objects.count() == BATCH_SIZE
    tally = Tally()
    with open_import(FORMATS["letsgo"], str(path), ReadOptions()) as reading:
        assert reading.resume(mark)
        list(load_items(reading, order, tally, ids))
    assert tally.outcomes == {"created": 2500 - BATCH_SIZE}
    assert Memory.objects.count() == 2500


# -- large files


def wide(number: int) -> dict[str, Any]:
    return {"id": f"{number:06}", "content": f"Thing {number} " + "x" * 20_000, **WHEN}


def peak_while_reading(name: str, path: Path) -> tuple[int, int]:
    """Return the number of items and Python's peak memory."""
    tracemalloc.start()
    try:
        items = sum(1 for _ in FORMATS[name].read(path, ReadOptions()))
        return items, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_large_sqlite_file_is_read_with_bounded_memory(tmp_path: Path) -> None:
    path = sqlite_file(tmp_path / "memory.db", LETSGO, {"memories": map(wide, range(1500))})
    assert path.stat().st_size > 30_000_000
    items, peak = peak_while_reading("letsgo", path)
    assert items == 1500
    assert peak < 4_000_000


@pytest.mark.slow
def test_large_archive_is_read_with_bounded_memory(tmp_path: Path) -> None:
    rows = [{**wide(number), "state": "active"} for number in range(1500)]
    path = openmemory_zip(tmp_path / "o.zip", {"memories": rows}, rows)
    items, peak = peak_while_reading("openmemory", path)
    assert items == 1500
    assert peak < 8_000_000


def test_large_json_lines_are_read_with_bounded_memory(tmp_path: Path) -> None:
    lines = [
        {"abstract": "a", "overview": "", "category": "cases", "active_count": 0, **wide(number)}
        for number in range(1500)
    ]
    items, peak = peak_while_reading("pigo", lines_file(tmp_path / "memories.jsonl", lines))
    assert items == 1500
    assert peak < 4_000_000
