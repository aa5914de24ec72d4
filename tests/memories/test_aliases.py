"""Aliases: their limits, and the column that the full-text index reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from memoryhub import memories
from memoryhub.access.policy import Actor
from memoryhub.memories.rows import list_values, unite_values
from memoryhub.memories.schemas import MAX_ALIASES, MemoryDraft, MemoryPatch
from memoryhub.models import Label, Memory

Remember = Callable[..., Memory]


def alias_text(memory: Memory) -> str:
    return Memory.objects.get(pk=memory.pk).alias_text


def test_aliases_are_trimmed_and_repeats_are_removed_ignoring_case() -> None:
    draft = MemoryDraft(content="c", aliases=[" K8s", "k8s", "kube \n ctl", "KUBE CTL", "Straße", "STRASSE"])
    assert draft.aliases == ["K8s", "kube ctl", "Straße"]


@pytest.mark.parametrize(
    "aliases", [["x" * 101], [" "], ["a\x00"], [str(n) for n in range(MAX_ALIASES + 1)], "k8s", [1]]
)
def test_invalid_aliases_are_refused(aliases: object) -> None:
    with pytest.raises(ValidationError):
        MemoryPatch.model_validate({"aliases": aliases})


def test_longest_and_most_aliases_are_accepted() -> None:
    assert len(MemoryDraft(content="c", aliases=["x" * 100, *map(str, range(MAX_ALIASES - 1))]).aliases) == 20


def test_null_means_none() -> None:
    assert MemoryDraft.model_validate({"content": "c", "aliases": None}).aliases == []


def test_a_new_memory_has_its_aliases_as_text(remember: Remember) -> None:
    memory = remember("Kubernetes runs it", aliases=["kube", "K8s"])
    assert alias_text(memory) == "K8s\nkube"
    assert {(row.kind, row.value) for row in Label.objects.all()} == {("alias", "kube"), ("alias", "K8s")}


def test_the_text_follows_every_change(remember: Remember, actor: Actor) -> None:
    memory = remember("Kubernetes runs it", aliases=["kube"], tags=["t"])
    memories.update_memory(memory.uid, MemoryPatch(aliases=["k8s", "kube"]), actor)
    assert alias_text(memory) == "k8s\nkube"
    memories.update_memory(memory.uid, MemoryPatch(tags=[]), actor)
    assert alias_text(memory) == "k8s\nkube"
    memories.undo_last_change(memory.uid, 2, actor)
    memories.restore_version(memory.uid, 1, actor)
    assert alias_text(memory) == "kube"
    memories.update_memory(memory.uid, MemoryPatch(aliases=[]), actor)
    assert alias_text(memory) == ""


def test_storing_under_the_same_key_replaces_them(remember: Remember) -> None:
    memory = remember("Kubernetes runs it", key="k", aliases=["kube"])
    remember("Kubernetes runs it all", key="k", aliases=["k8s"])
    assert alias_text(memory) == "k8s"
    assert list_values(Memory.objects.get(), "aliases") == ["k8s"]


def test_a_merge_unites_them_and_its_undo_restores_them(three: list[Memory], actor: Actor) -> None:
    merge = memories.merge_memories(three[0].uid, [three[1].uid], actor)
    assert alias_text(three[0]) == "CI\nrunner"
    memories.undo_merge(merge.uid, actor)
    assert (alias_text(three[0]), alias_text(three[1])) == ("CI\nrunner", "ci")


def test_a_merge_takes_no_more_aliases_than_a_memory_may_have(remember: Remember, actor: Actor) -> None:
    one, two = (remember(f"memory {n}", aliases=[f"{n}-{i}" for i in range(15)]) for n in range(2))
    memories.merge_memories(one.uid, [two.uid], actor)
    aliases = list_values(Memory.objects.get(pk=one.pk), "aliases")
    assert len(aliases) == MAX_ALIASES
    assert {f"0-{i}" for i in range(15)} <= set(aliases)


def test_united_aliases_ignore_case_and_other_lists_do_not() -> None:
    assert unite_values("aliases", ["K8s"], ["k8s", "kube"]) == ["K8s", "kube"]
    assert unite_values("tags", ["K8s"], ["k8s", "kube"]) == ["K8s", "k8s", "kube"]


def test_a_tag_of_the_same_name_is_another_label(remember: Remember) -> None:
    memory = remember("c", tags=["k8s"], concepts=["k8s"], aliases=["k8s"])
    assert [list_values(memory, name) for name in ("tags", "concepts", "aliases")] == [["k8s"]] * 3
    assert Memory.objects.labelled("tag", "k8s").count() == 1
    other = remember("d", aliases=["only-an-alias"])
    assert not Memory.objects.labelled("tag", "only-an-alias").filter(pk=other.pk).exists()
