"""Undo of an import."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memoryhub import memories
from memoryhub.access.policy import Actor, Clearance
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Fact, Memory
from tests.web.markup import main
from tests.web.transfer_pages import home, import_after, importer, sent, undo

__all__ = ["home", "importer"]
pytestmark = pytest.mark.django_db


def test_an_import_is_undone(importer: Client) -> None:
    sent(importer, {"content": "one"})
    address = sent(
        importer,
        {"content": "one"},
        {"content": "two"},
        {"content": "pinned", "pinned": True},
        {"content": ""},
    )
    assert "Everything else is stored." in main(importer.get(address)).words
    assert "2 memories expire in 90 days" in main(importer.get(address)).words
    assert "2 new memories move to the trash" in main(importer.get(f"{address}undo/")).words
    undo(importer, address)
    assert list(Memory.objects.live().values_list("content", flat=True)) == ["one"]
    assert set(Memory.objects.trashed().values_list("trash_reason", flat=True)) == {"undone"}
    shown = main(importer.get(address)).words
    assert "Undone" in shown
    assert "Undo this import" not in shown
    assert "Everything else is stored." not in shown
    assert "expire in 90 days" not in shown


def test_an_undo_keeps_what_others_changed_or_pinned(importer: Client) -> None:
    address = sent(importer, {"content": "changed"}, {"content": "pinned"}, {"content": "untouched"})
    ben = Actor("user:ben", Clearance())
    uids = dict(Memory.objects.values_list("content", "uid"))
    memories.update_memory(uids["changed"], MemoryPatch(title="By ben"), ben)
    later = timezone.now() + timedelta(hours=1)
    Memory.objects.filter(content="pinned").update(pinned_at=later, expires_at=None)
    undo(importer, address)
    assert set(Memory.objects.live().values_list("content", flat=True)) == {"changed", "pinned"}


def test_memories_that_an_import_revived_return_to_the_trash(importer: Client) -> None:
    first = sent(importer, {"content": "one"})
    undo(importer, first)
    second = sent(importer, {"content": "one"})
    assert Memory.objects.live().exists()
    undo(importer, second)
    assert not Memory.objects.live().exists()


def test_the_check_after_an_undo_offers_to_restore_and_never_expire(importer: Client) -> None:
    undo(importer, sent(importer, {"content": "one"}, {"content": "two"}))
    sent(importer, {"content": "three"})
    address = sent(importer, *({"content": one} for one in ("one", "two", "three", "four")), do="dry_run")
    shown = main(importer.get(address)).words
    assert "1 of 4 rows repeats a stored memory or another row" in shown
    assert "2 memories in the trash or past their expiry would be restored" in shown
    assert "3 memories expire" in shown
    assert "memories restored2" in shown
    assert "memory refreshed1" in shown
    done = import_after(importer, address, lifetime="never")
    restored = Memory.objects.live().exclude(content="three").values_list("content", "expires_at")
    assert set(restored) == {("one", None), ("two", None), ("four", None)}
    assert "View the 3 imported memories" in main(importer.get(done)).words
    assert "3 new or restored memories move to the trash" in main(importer.get(f"{done}undo/")).words


def test_facts_of_an_undone_import_are_deleted(importer: Client) -> None:
    fact = {"kind": "fact", "subject": "shop", "predicate": "uses", "object": "postgres"}
    address = sent(importer, {"content": "one"}, fact)
    assert Fact.objects.exists()
    undo(importer, address)
    assert not Fact.objects.exists()


def test_only_the_person_who_imported_may_undo(importer: Client, sign_in: Any) -> None:
    address = sent(importer, {"content": "one"})
    other = sign_in("add_memory", name="ben")
    assert other.post(f"{address}undo/").status_code == 404
    assert Memory.objects.live().exists()
