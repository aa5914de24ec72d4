"""Replacements in the hub's own format: lines of their own, restored by every import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.schemas import MemoryDraft, MemoryPatch
from memoryhub.models import JournalEntry, Memory
from tests.transfer.conftest import ADA, of_kind, out, wipe

pytestmark = pytest.mark.django_db
PUBLIC = Actor("token:public", Clearance(owner="ada"))


@pytest.fixture
def pair() -> tuple[Memory, Memory]:
    """A memory and, younger, the one that replaces it."""
    drafts = (MemoryDraft(content=text, project="p") for text in ("by hand", "by script"))
    old, new = (memories.create_memory(draft, ADA).memory for draft in drafts)
    memories.update_memory(old.uid, MemoryPatch(superseded_by=new.uid), ADA)
    return old, new


def test_an_export_of_memories_has_a_line_for_each_replacement(pair: tuple[Memory, Memory]) -> None:
    old, new = pair
    lines = out(whole=False)
    assert lines[-1] == {"kind": "replacement", "memory_id": old.uid, "by": new.uid}
    assert not any("superseded_by" in line for line in lines)


def test_a_replacement_that_is_not_exported_has_no_line(pair: tuple[Memory, Memory]) -> None:
    memories.update_memory(pair[1].uid, MemoryPatch(sensitivity="secret"), ADA)
    for whole in (True, False):
        assert of_kind(out(PUBLIC, whole=whole), "memory")
        assert not of_kind(out(PUBLIC, whole=whole), "replacement")


@pytest.mark.parametrize("batch", [1, 1000])
def test_every_import_restores_replacements(
    pair: tuple[Memory, Memory], bring_in: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """Also one that may not restore a store, so that the memories get other ids."""
    monkeypatch.setattr("memoryhub.transfer.loader.BATCH_SIZE", batch)
    lines = out(whole=False)
    wipe()
    loaded = bring_in(lines, by=ADA)
    assert loaded.errors == []
    assert dict(loaded.tally.others["replacements"]) == {"created": 1}
    old = Memory.objects.get(content="by hand")
    assert old.superseded_by == Memory.objects.get(content="by script")
    assert old.uid != pair[0].uid
    row = JournalEntry.objects.get(operation="update", object_id=old.uid)
    assert (row.detail["fields"], row.detail["reason"]) == (["superseded_by"], "import")
    assert dict(bring_in(lines, by=ADA).tally.others["replacements"]) == {"unchanged": 1}


def test_a_dry_run_reports_it_without_errors(
    pair: tuple[Memory, Memory], bring_in: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryhub.transfer.loader.BATCH_SIZE", 1)
    lines = out(whole=False)
    wipe()
    loaded = bring_in(lines, by=ADA, dry_run=True)
    assert loaded.errors == []
    assert dict(loaded.tally.others["replacements"]) == {"created": 1}
    assert not Memory.objects.exists()


def test_a_file_changes_only_memories_that_it_contains(
    pair: tuple[Memory, Memory], bring_in: Callable[..., Any]
) -> None:
    old, new = pair
    loaded = bring_in([{"kind": "replacement", "memory_id": new.uid, "by": old.uid}], by=ADA)
    assert loaded.errors == ["line 1: memory_id: a memory of this replacement is not in this store"]
    assert Memory.objects.get(pk=new.pk).superseded_by is None


def test_an_import_keeps_another_replacement_and_makes_no_cycle(
    pair: tuple[Memory, Memory], bring_in: Callable[..., Any]
) -> None:
    old, new = pair
    other = memories.create_memory(MemoryDraft(content="by magic", project="p"), ADA).memory
    lines = [line for line in out(whole=False) if line["kind"] == "memory"]
    for memory, by, message in ((old, other, "another one here"), (new, old, "replaces that one already")):
        line = {"kind": "replacement", "memory_id": memory.uid, "by": by.uid}
        [error] = bring_in([*lines, line], by=ADA).errors
        assert message in error
    assert Memory.objects.get(pk=old.pk).superseded_by == new
    assert Memory.objects.get(pk=new.pk).superseded_by is None


def test_a_line_of_the_api_may_name_a_memory_that_is_here(
    pair: tuple[Memory, Memory], bring_in: Callable[..., Any]
) -> None:
    loaded = bring_in([{"content": "by post", "superseded_by": pair[1].uid}], by=ADA)
    assert loaded.errors == []
    assert Memory.objects.get(content="by post").superseded_by == pair[1]
    loaded = bring_in([{"content": "by pigeon", "superseded_by": "nowhere"}], by=ADA)
    assert loaded.errors == [
        "line 1: superseded_by: there is no memory with this id; use the id of a memory that you can see"
    ]
