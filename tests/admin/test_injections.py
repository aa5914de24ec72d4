"""Injections in the admin name and count visible memories only."""

from __future__ import annotations

import pytest

from memoryhub import memories as store
from memoryhub.models import Injection
from tests.admin.conftest import page
from tests.clients import turn_on_levels
from tests.web.markup import list_title

SEES = {(): {"public"}, ("private", "secret"): {"public", "private", "secret"}}


@pytest.fixture
def injection(four_levels):
    memories = four_levels.values()
    return Injection.objects.create(
        project="zoo",
        tokens_used=7654321,
        injected=[{"id": memory.uid, "score": 0.5, "scale": "task"} for memory in memories],
        withheld=[{"id": memory.uid, "reason": "over the count"} for memory in memories],
    )


@pytest.mark.parametrize("switches", SEES)
def test_its_page_names_visible_memories_only(boss, injection, four_levels, switches):
    text = turn_on_levels(boss, *switches).get(page(Injection, "change", injection.pk)).content.decode()
    for level, memory in four_levels.items():
        assert (list_title(memory) in text) == (level in SEES[switches])
        assert memory.uid not in text
    assert "over the count" in text


@pytest.mark.parametrize("switches", SEES)
def test_the_list_counts_visible_memories_only(boss, injection, switches):
    [row] = turn_on_levels(boss, *switches).get(page(Injection)).context["cl"].result_list
    assert (len(row.log.shown), len(row.log.not_shown)) == (len(SEES[switches]), len(SEES[switches]))


def test_the_tokens_used_are_shown_only_if_every_memory_is_visible(boss, injection, four_levels):
    assert "7654321" not in boss.get(page(Injection)).content.decode()
    injection.injected = [{"id": four_levels["public"].uid}]
    injection.withheld = []
    injection.save()
    assert "7654321" in boss.get(page(Injection)).content.decode()
    assert "7654321" in boss.get(page(Injection, "change", injection.pk)).content.decode()


def test_a_trashed_memory_is_not_named(boss, injection, four_levels, actor):
    store.trash_memories([four_levels["public"].uid], actor)
    text = boss.get(page(Injection, "change", injection.pk)).content.decode()
    assert four_levels["public"].title not in text
