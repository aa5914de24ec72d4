"""pigo's memories.jsonl, import and export."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest

from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.filters import MemoryFilter
from memoryhub.models import Memory
from memoryhub.toolsets import pigo as pigo_toolset
from memoryhub.transfer.export import ExportSelection
from memoryhub.transfer.formats import FORMATS, WRITERS, detect_format
from memoryhub.transfer.formats import pigo as pigo_format
from tests.cases import each
from tests.transfer.formats.foreign import Read, lines_file


def memory(**values: Any) -> dict[str, Any]:
    return {
        "id": "mem_0123456789abcdef",
        "category": "preferences",
        "abstract": "Likes short answers",
        "overview": "Prefers answers of a few lines over essays.",
        "content": "Asked three times for shorter answers; a few lines and a link are best.",
        "vector": [0.1, -0.2],
        "active_count": 4,
        "created_at": "2026-03-01T10:00:00.123456789+01:00",
        "updated_at": "2026-03-02T10:00:00Z",
    } | values


def pigo(tmp_path: Path, *lines: dict[str, Any] | str) -> Read:
    return Read("pigo", lines_file(tmp_path / "memories.jsonl", lines))


@pytest.mark.conformance("pigo-2")
def test_layers_category_and_use_are_imported(tmp_path: Path) -> None:
    path = lines_file(tmp_path / "memories.jsonl", [memory()])
    assert detect_format(path) is FORMATS["pigo"]
    assert FORMATS["pigo"].count(path) == 1
    read = Read("pigo", path)
    [record] = read.records
    draft = record.draft.model_dump()
    for name in ("abstract", "overview", "content", "category"):
        assert draft[name] == memory()[name]
    assert (draft["type"], draft["ttl_days"]) == ("preference", 0)
    assert draft["created_at"] == datetime(2026, 3, 1, 9, 0, 0, 123456, tzinfo=UTC)
    assert record.past.accessed_count == 4
    assert record.past.updated_at == datetime(2026, 3, 2, 10, tzinfo=UTC)
    assert read.unmapped == {"vector (recomputed)": 1}


def test_every_category_of_the_toolset_has_a_type() -> None:
    assert pigo_format.TYPE_BY_CATEGORY.keys() == set(get_args(pigo_toolset.Category))


def test_unset_go_time_is_empty(tmp_path: Path) -> None:
    [record] = pigo(
        tmp_path, memory(created_at="0001-01-01T00:00:00Z", updated_at="0001-01-01T00:00:00Z")
    ).records
    assert record.draft.created_at is None  # type: ignore[union-attr]
    assert record.past.updated_at is None


def test_missing_content_is_replaced_by_the_next_layer(tmp_path: Path) -> None:
    contents = [
        draft.content for draft in pigo(tmp_path, memory(content=""), memory(content="", overview="")).drafts
    ]
    assert contents == ["Prefers answers of a few lines over essays.", "Likes short answers"]


def test_invalid_lines_are_reported_one_by_one(tmp_path: Path) -> None:
    read = pigo(tmp_path, memory(), "{broken", "", "[1]", memory(content=7), memory(active_count="many"))
    assert len(read.drafts) == 2
    assert read.bad == {
        "line 2": ["is not JSON at column 2: a field name is missing or is not in double quotes"],
        "line 4": ["is not a JSON object"],
        "line 6": ["active_count: is not a number"],
    }


def test_unknown_fields_are_noted(tmp_path: Path) -> None:
    assert pigo(tmp_path, memory(mood="calm", vector=None)).unmapped == {"field mood": 1}


# -- export


def exported(actor: Actor, **filters: Any) -> list[dict[str, Any]]:
    selection = ExportSelection(actor, MemoryFilter(**filters))
    raw = b"".join(WRITERS["pigo"].write(selection))
    return [json.loads(line) for line in raw.splitlines()]


@pytest.mark.django_db
def test_exported_line_has_pigos_field_order(actor: Actor, remember: Callable[..., Memory]) -> None:
    kept = remember(
        "Deploys happen on Tuesdays", category="patterns", abstract="Tuesdays", overview="Deploys."
    )
    [line] = exported(actor)
    assert list(line) == (
        "id category abstract overview content vector active_count created_at updated_at".split()
    )
    assert line["id"] == f"mem_{kept.uid}"
    assert (line["category"], line["abstract"], line["vector"]) == ("patterns", "Tuesdays", None)
    assert datetime.fromisoformat(line["created_at"]) == kept.created_at
    assert line["created_at"].endswith("Z")


@pytest.mark.django_db
@each(
    "kind, category",
    [
        ("self", "profile"),
        ("preference", "preferences"),
        ("entity", "entities"),
        ("fact", "entities"),
        ("bugfix", "cases"),
        ("discovery", "cases"),
        ("context", "events"),
        ("decision", "events"),
        ("session_summary", "events"),
    ],
)
def test_every_memory_is_exported_with_a_pigo_category(
    actor: Actor, remember: Callable[..., Memory], kind: str, category: str
) -> None:
    remember(f"Something of the type {kind}", type=kind)
    assert [line["category"] for line in exported(actor)] == [category]


@pytest.mark.django_db
def test_hidden_memories_are_not_exported(four_levels: Any, actor: Actor) -> None:
    everyone = Actor("token:someone", Clearance.up_to("public"))
    assert len(exported(everyone)) == 1
    assert len(exported(actor)) == 3


@pytest.mark.django_db
def test_exported_line_fits_pigos_limit(actor: Actor, remember: Callable[..., Memory]) -> None:
    remember("\x01" * 99_999 + "x", overview="\x02" * 20_000, abstract="\x03" * 2000)
    raw = b"".join(WRITERS["pigo"].write(ExportSelection(actor, MemoryFilter())))
    assert 700_000 < len(raw) < 1024 * 1024


@pytest.mark.conformance("pigo-3")
@pytest.mark.django_db
def test_round_trip(tmp_path: Path, actor: Actor, remember: Callable[..., Memory]) -> None:
    kept = remember('Zürich 🏔 "quoted" \\ text\nwith lines', category="events", overview="Über alles")
    path = tmp_path / "memories.jsonl"
    path.write_bytes(b"".join(WRITERS["pigo"].write(ExportSelection(actor, MemoryFilter()))))
    assert detect_format(path) is FORMATS["pigo"]
    [draft] = Read("pigo", path).drafts
    assert (draft.content, draft.overview, draft.abstract) == (kept.content, kept.overview, kept.abstract)
    assert draft.created_at == kept.created_at
