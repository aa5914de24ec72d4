"""Replaced memories are not found, and their words find the replacement; aliases are names."""

from __future__ import annotations

import itertools
from functools import partial

import pytest

from memoryhub.access.policy import Clearance
from memoryhub.memories import erase_memories, restore_memories, trash_memories, update_memory
from memoryhub.memories.bulk_actions import apply_bulk_action, undo_bulk_action
from memoryhub.memories.schemas import MemoryPatch
from memoryhub.models import Memory, Revision
from memoryhub.search.hybrid import search_memories
from tests.cases import each

CLEARANCE = Clearance.up_to("secret", "ada")


def found(query, clearance=CLEARANCE, **options):
    memories = Memory.objects.visible_to(clearance).live()
    return [hit.memory.content for hit in search_memories(memories, query, **options).hits]


@pytest.fixture
def replaced(remember, actor):
    """Store a memory and the one that replaces it."""
    old = remember("Readings are stored in InfluxDB")
    new = remember("Timescale holds every measurement")
    update_memory(old.uid, MemoryPatch(superseded_by=new.uid), actor)
    return old, new


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_words_of_a_replaced_memory_find_its_replacement(replaced, mode):
    assert found("InfluxDB readings", mode=mode) == ["Timescale holds every measurement"]


def test_replaced_memory_is_found_on_request(replaced):
    assert "Readings are stored in InfluxDB" in found("InfluxDB readings", include_superseded=True)


def test_chain_of_replacements_returns_the_last(replaced, remember, actor):
    last = remember("Everything moved to ClickHouse")
    update_memory(replaced[1].uid, MemoryPatch(superseded_by=last.uid), actor)
    assert found("InfluxDB readings") == [last.content]


@each("length", [22, 33, 70])
def test_oldest_of_a_long_chain_returns_the_last(remember, actor, length):
    chain = [remember(f"Broker number {n} was chosen: brand{n}x") for n in range(length)]
    for old, new in itertools.pairwise(chain):
        update_memory(old.uid, MemoryPatch(superseded_by=new.uid), actor)
    for number in (0, 1, length // 2, length - 2):
        assert found(f"brand{number}x", mode="lexical") == [chain[-1].content], number


def test_replaced_memory_stays_visible_if_its_replacement_is_hidden(replaced):
    Memory.objects.filter(pk=replaced[1].pk).update(sensitivity="secret")
    assert found("InfluxDB readings", Clearance()) == ["Readings are stored in InfluxDB"]


def test_replaced_memory_is_found_again_after_its_replacement_was_trashed(replaced):
    Memory.objects.filter(pk=replaced[1].pk).update(deleted_at="2026-01-01T00:00:00Z")
    assert found("InfluxDB readings") == ["Readings are stored in InfluxDB"]


def test_alias_finds_a_memory_like_its_title(remember):
    remember("The cluster runs on three machines", title="Kubernetes cluster", aliases=["k8s", "kube"])
    remember("A note that mentions kube once in passing, among many other words about the weather")
    assert found("kube")[0] == found("k8s")[0] == "The cluster runs on three machines"


def test_changed_alias_no_longer_finds_the_memory(remember, actor):
    made = remember("The cluster runs on three machines", aliases=["k8s"])
    update_memory(made.uid, MemoryPatch(aliases=["kube"]), actor)
    assert found("k8s", mode="lexical") == []
    assert found("kube", mode="lexical") == [made.content]


@pytest.fixture
def chain(replaced, remember, actor):
    """Store a memory, the one that replaced it, and the one that replaced that."""
    last = remember("Everything moved to ClickHouse")
    update_memory(replaced[1].uid, MemoryPatch(superseded_by=last.uid), actor)
    return *replaced, last


@pytest.mark.parametrize("remove", [trash_memories, erase_memories, partial(apply_bulk_action, "trash")])
def test_removed_link_of_a_chain_does_not_bring_back_the_first(chain, actor, remove):
    first, between, last = chain
    remove([between.uid], actor)
    assert found("InfluxDB readings") == [last.content]
    live = Memory.objects.visible_to(CLEARANCE).live()
    assert list(live.without_replaced()) == [last]
    revision = Revision.objects.get(memory__uid=first.uid, reason="removal")
    assert revision.before == {"superseded_by": between.uid}


def test_restored_link_of_a_chain_replaces_the_first_again(chain, actor):
    first, between, last = chain
    trash_memories([between.uid], actor)
    restore_memories([between.uid], actor)
    assert Memory.objects.get(uid=first.uid).superseded_by_id == between.pk
    trash_memories([last.uid], actor)
    assert found("InfluxDB readings") == [between.content]


def test_undo_of_a_bulk_action_restores_the_links_of_a_chain(chain, actor):
    done = apply_bulk_action("trash", [chain[1].uid], actor)
    undo_bulk_action(done.id, actor, done.first, done.last)
    links = Memory.objects.filter(superseded_by__isnull=False).values_list("uid", "superseded_by__uid")
    assert dict(links) == {chain[0].uid: chain[1].uid, chain[1].uid: chain[2].uid}


def test_removed_chain_brings_back_the_first(chain, actor):
    trash_memories([one.uid for one in chain[1:]], actor)
    assert found("InfluxDB readings") == [chain[0].content]
    restore_memories([chain[1].uid], actor)
    assert found("InfluxDB readings") == [chain[1].content]
