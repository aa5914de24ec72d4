"""Serialized rows have exactly the shapes of the wire contract."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from memoryhub import memories
from memoryhub.api.search import serialize_hits
from memoryhub.facts import services
from memoryhub.memories import serializers
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.schemas import FactDraft, MemoryPatch
from memoryhub.models import Memory, Revision, Session
from memoryhub.search.hybrid import search_memories
from memoryhub.stats.timeline import load_timeline, serialize_entries

MEMORY = set(
    "id content title subtitle abstract overview category type concepts tags importance trust confidence"
    " sensitivity scope project session_id key files_read files_modified discovery_tokens accessed_count"
    " created_at updated_at last_accessed_at expires_at deleted_at content_hash entities"
    " aliases superseded_by pinned may_be_outdated".split()
)


@pytest.fixture
def full(remember):
    return remember(
        "all of it " * 100,
        tags=["b", "a"],
        concepts=["gotcha"],
        files_read=["r.py"],
        files_modified=["m.py"],
        entities=[{"entity": "Ada", "entity_type": "person"}],
        session_id="s",
        created_at="2024-05-01T12:00:00+02:00",
    )


def test_memory_has_every_field_of_the_contract(full):
    shown = serializers.memory(full, {})
    assert set(shown) == MEMORY
    assert shown["id"] == full.uid
    assert shown["tags"] == ["a", "b"]
    assert shown["entities"] == [{"entity": "Ada", "entity_type": "person"}]
    assert (shown["files_read"], shown["files_modified"]) == (["r.py"], ["m.py"])
    assert shown["created_at"] == "2024-05-01T10:00:00Z"
    assert (shown["deleted_at"], shown["last_accessed_at"]) == (None, None)


def test_many_memories_have_the_shape_of_one(full, remember, actor):
    remember("another", tags=["c", "C", "é"], entities=[{"entity": name} for name in ("z", "a", "Z")])
    rows = list(Memory.objects.order_by("pk"))
    assert serializers.memories(rows, actor.clearance) == [serializers.memory(row, {}) for row in rows]


def test_preview_replaces_the_content_in_lists(full):
    shown = serializers.preview(full, {})
    assert set(shown) == (MEMORY - {"content"}) | {"preview"}
    assert 150 < len(shown["preview"]) <= 200


def test_hit_contains_the_score_components(full, actor):
    hits = search_memories(MemoryFilter().select(actor.clearance), "all of it", min_score=0).hits
    [shown] = serialize_hits(hits, actor.clearance)
    assert set(shown) == {"memory", "score", "components", "snippet"}
    assert set(shown["components"]) == {"match", "recency", "importance", "trust"}


def test_fact_contains_the_memory_id(full, actor):
    fact, _ = services.create_fact(
        FactDraft(subject="s", predicate="p", object="o", memory_id=full.uid), actor
    )
    shown = serializers.fact(fact)
    assert (shown["memory_id"], shown["confidence"], shown["subject"]) == (full.uid, 1.0, "s")


def test_timeline_entry_has_time_and_kind(full, actor):
    entries, _ = load_timeline(actor.clearance, MemoryFilter())
    shown = serialize_entries(entries, actor.clearance)
    assert {line["kind"] for line in shown} == {"memory", "session_start"}
    assert all(line["at"] == "2024-05-01T10:00:00Z" for line in shown)


def test_session_and_revision_shapes(full, actor):
    memories.update_memory(full.uid, MemoryPatch(title="other"), actor)
    assert serializers.revision(Revision.objects.get())["before"].keys() == {"title"}
    row = Session.objects.visible_to(actor.clearance).get()
    assert serializers.session(row, memories=1)["memories"] == 1


def test_moments_are_in_utc():
    east = timezone(timedelta(hours=14))
    assert serializers.moment(datetime(2024, 1, 1, 1, tzinfo=east)) == "2023-12-31T11:00:00Z"
    assert serializers.moment(datetime(2024, 1, 1, 1, 2, 3, 45, tzinfo=UTC)) == "2024-01-01T01:02:03.000045Z"
    assert serializers.moment(None) is None
