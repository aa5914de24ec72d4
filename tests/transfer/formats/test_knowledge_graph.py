"""Knowledge graph of the MCP reference server, import and export."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.facts import services
from memoryhub.memories.filters import MemoryFilter
from memoryhub.memories.schemas import FactDraft, MemoryDraft
from memoryhub.models import Memory
from memoryhub.transfer.export import ExportSelection
from memoryhub.transfer.formats import FORMATS, WRITERS, detect_format
from memoryhub.transfer.records import Record
from tests.transfer.formats.foreign import Read, lines_file

GRACE = {
    "type": "entity",
    "name": "Grace_Okoro",
    "entityType": "person",
    "observations": ["Leads the billing team", "Prefers mornings"],
}
BILLING = {"type": "entity", "name": "Billing", "entityType": "team", "observations": []}
LEADS = {"type": "relation", "from": "Grace_Okoro", "to": "Billing", "relationType": "leads"}


def graph(tmp_path: Path, *lines: dict[str, Any] | str) -> Read:
    return Read("knowledge-graph", lines_file(tmp_path / "memory.jsonl", lines))


def observations_of(read: Read) -> list[tuple[str, ...]]:
    return [
        (draft.subject, draft.predicate, draft.object) if isinstance(draft, FactDraft) else (draft.content,)
        for draft in read.drafts
    ]


def test_observations_become_memories_and_relations_become_facts(tmp_path: Path) -> None:
    path = lines_file(tmp_path / "memory.jsonl", [GRACE, BILLING, LEADS])
    assert detect_format(path) is FORMATS["knowledge-graph"]
    read = Read("knowledge-graph", path)
    assert observations_of(read) == [
        ("Grace_Okoro", "is a", "person"),
        ("Grace_Okoro: Leads the billing team",),
        ("Grace_Okoro: Prefers mornings",),
        ("Billing", "is a", "team"),
        ("Grace_Okoro", "leads", "Billing"),
    ]
    memory = read.drafts[1]
    assert [(one.entity, one.entity_type) for one in memory.entities] == [("Grace_Okoro", "person")]
    assert (memory.type, memory.category, memory.ttl_days) == ("entity", "entities", 0)
    assert read.records[2].place == "line 1, observation 2"
    assert read.unmapped == {}


def test_other_lines_are_reported_one_by_one(tmp_path: Path) -> None:
    read = graph(
        tmp_path,
        GRACE,
        "{oops",
        {"type": "note", "text": "?"},
        {"type": "entity", "name": "", "entityType": "x", "observations": []},
        {"type": "entity", "name": "N", "entityType": "x", "observations": "one"},
        {"type": "entity", "name": "M", "entityType": "x", "observations": ["fine", 7, " "]},
        {"type": "relation", "from": "A", "relationType": "knows"},
    )
    assert set(read.bad) == {
        "line 2",
        "line 3",
        "line 4",
        "line 5",
        "line 6, observation 2",
        "line 6, observation 3",
        "line 7",
    }
    assert read.bad["line 3"] == ["type: is neither entity nor relation"]
    assert read.bad["line 5"] == ["observations: is not a list"]
    assert ("M: fine",) in observations_of(read)


def test_unknown_fields_are_reported(tmp_path: Path) -> None:
    read = graph(tmp_path, {**GRACE, "createdAt": "2026-03-01"}, {**LEADS, "strength": 3})
    assert read.unmapped == {"field createdAt": 1, "field strength": 1}


def test_long_entity_type_loses_no_observation(tmp_path: Path) -> None:
    read = graph(tmp_path, {**GRACE, "entityType": "k" * 90})
    assert len(read.drafts) == 3
    assert read.drafts[0].object == "k" * 90
    assert read.drafts[1].entities[0].entity_type == "k" * 50


# -- export


def exported(actor: Actor, **filters: Any) -> list[dict[str, Any]]:
    raw = b"".join(WRITERS["knowledge-graph"].write(ExportSelection(actor, MemoryFilter(**filters))))
    return [json.loads(line) for line in raw.splitlines()]


def entities(lines: list[dict[str, Any]]) -> dict[str, tuple[str, list[str]]]:
    found = [line for line in lines if line["type"] == "entity"]
    named = {line["name"]: (line["entityType"], line["observations"]) for line in found}
    assert len(named) == len(found), "the server knows things by their names"
    return named


def keep(records: list[Record], actor: Actor) -> None:
    for record in records:
        if isinstance(record.draft, MemoryDraft):
            memories.create_memory(record.draft, actor)
        else:
            services.create_fact(record.draft, actor)


@pytest.mark.django_db
def test_graph_round_trip(tmp_path: Path, actor: Actor) -> None:
    other = {"type": "entity", "name": "Alpha", "entityType": "project", "observations": ["Ships: in May"]}
    keep(graph(tmp_path, GRACE, BILLING, other, LEADS).records, actor)
    assert sorted(exported(actor), key=json.dumps) == sorted([GRACE, BILLING, other, LEADS], key=json.dumps)


@pytest.mark.django_db
def test_memory_is_exported_with_all_its_entities(actor: Actor, remember: Callable[..., Memory]) -> None:
    named = [{"entity": "Redis", "entity_type": "tool"}, {"entity": "Ana", "entity_type": "person"}]
    remember("Ana moved the carts to Redis", entities=named)
    assert entities(exported(actor)) == {
        "Ana": ("person", ["Ana moved the carts to Redis"]),
        "Redis": ("tool", ["Ana moved the carts to Redis"]),
    }


@pytest.mark.django_db
def test_memory_without_entities_is_exported_with_its_project(
    actor: Actor, remember: Callable[..., Memory]
) -> None:
    remember("Builds take nine minutes", project="shop")
    remember("Tea is at four", project="")
    assert entities(exported(actor)) == {
        "shop": ("project", ["Builds take nine minutes"]),
        "memories": ("project", ["Tea is at four"]),
    }


@pytest.mark.django_db
def test_both_ends_of_a_relation_are_entities_and_long_objects_are_observations(actor: Actor) -> None:
    services.create_fact(FactDraft(subject="api", predicate="calls", object="billing"), actor)
    services.create_fact(FactDraft(subject="api", predicate="notes", object="long " * 60), actor)
    lines = exported(actor)
    assert entities(lines) == {
        "api": ("unknown", ["notes: " + ("long " * 60).strip()]),
        "billing": ("unknown", []),
    }
    assert lines[-1] == {"type": "relation", "from": "api", "to": "billing", "relationType": "calls"}


@pytest.mark.django_db
def test_hidden_rows_are_not_exported(actor: Actor, remember: Callable[..., Memory]) -> None:
    hidden = [{"entity": "Project Heron", "entity_type": "project"}]
    remember("Heron is sold in June", sensitivity="secret", entities=hidden, project="heron")
    services.create_fact(
        FactDraft(subject="Heron", predicate="costs", object="much", sensitivity="private"), actor
    )
    remember("Lunch is at noon", project="kitchen")
    everyone = Actor("token:someone", Clearance.up_to("public"))
    assert exported(everyone) == [
        {"type": "entity", "name": "kitchen", "entityType": "project", "observations": ["Lunch is at noon"]}
    ]
    assert {"Project Heron", "Heron", "much"} <= set(entities(exported(actor)))


@pytest.mark.django_db
def test_project_export_only_contains_its_rows(actor: Actor, remember: Callable[..., Memory]) -> None:
    remember("One", project="shop")
    remember("Two", project="bank")
    services.create_fact(FactDraft(subject="a", predicate="b", object="c", project="bank"), actor)
    assert entities(exported(actor, project="shop")) == {"shop": ("project", ["One"])}
    assert set(entities(exported(actor, project="bank"))) == {"bank", "a", "c"}


@pytest.mark.django_db
def test_memory_filter_only_exports_their_facts(actor: Actor, remember: Callable[..., Memory]) -> None:
    kept = remember("Tagged", tags=["x"], project="shop")
    services.create_fact(FactDraft(subject="a", predicate="b", object="c", memory_id=kept.uid), actor)
    services.create_fact(FactDraft(subject="d", predicate="e", object="f"), actor)
    assert set(entities(exported(actor, tag="x"))) == {"shop", "a", "c"}


@pytest.mark.django_db
def test_number_of_queries_grows_with_chunks_not_entities(
    actor: Actor, django_assert_max_num_queries: Any
) -> None:
    drafts = [
        MemoryDraft(content=f"Thing {i}: said", entities=[{"entity": f"Thing {i}"}])  # type: ignore[list-item]
        for i in range(450)
    ]
    memories.create_memories(drafts, actor)
    with django_assert_max_num_queries(25):
        assert len(exported(actor)) == 450
