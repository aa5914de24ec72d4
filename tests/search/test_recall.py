"""Recall: packing an index and details into a token budget, and the two rankings."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.config import Config
from memoryhub.search.recall import (
    INDEX_SHARE,
    Packing,
    Ranking,
    pack_answer,
    ranking_weights,
    select_most_valuable,
)
from memoryhub.search.scoring import Components, access_frequency, composite_score

costs = st.lists(st.integers(1, 60), max_size=9)


def test_everything_is_packed_if_it_fits():
    assert pack_answer([10, 10], [100, 200], [0.9, 0.5], 320) == Packing(2, [0, 1])


def test_detail_that_does_not_fit_is_skipped():
    assert pack_answer([10] * 4, [900, 50, 40], [0.9, 0.5, 0.4], 130).details == [1, 2]


def test_details_with_highest_total_score_are_selected():
    # Two of 0.5 are worth more than one of 0.8, which would leave no room for them.
    assert select_most_valuable([50, 100, 50, 50], [0.9, 0.8, 0.5, 0.5], 150) == [0, 2, 3]


def test_best_detail_is_selected_before_others_with_a_higher_total():
    assert select_most_valuable([100, 50, 50], [0.9, 0.8, 0.8], 100) == [0]


def test_index_gets_its_share_if_details_fill_the_rest():
    packed = pack_answer([10] * 100, [50] * 100, [0.5] * 100, 1000)
    assert packed.entries == 1000 * INDEX_SHARE / 10
    assert len(packed.details) == 12


def test_room_left_by_details_goes_to_the_index():
    packed = pack_answer([10] * 100, [100], [0.5], 1000)
    assert packed == Packing(90, [0])


def test_room_left_by_the_index_goes_to_details():
    packed = pack_answer([10], [100] * 20, [0.5] * 20, 1010)
    assert packed == Packing(1, list(range(10)))


def test_index_shrinks_for_one_detail():
    packed = pack_answer([50] * 10, [380, 700], [0.9, 0.8], 450)
    assert packed == Packing(1, [0])


def test_index_shrinks_for_the_best_detail_even_if_worse_ones_fit():
    assert pack_answer([50] * 10, [380, 100], [0.9, 0.8], 450) == Packing(1, [0])


def test_index_gets_all_room_if_no_detail_fits():
    assert pack_answer([50] * 10, [900], [0.9], 420) == Packing(8, [])


@pytest.mark.parametrize("room", [-5, 0, 3])
def test_no_detail_is_packed_without_room(room):
    assert pack_answer([10, 10], [100], [0.5], room) == Packing(0, [])


@given(costs, costs, st.integers(-10, 400), st.data())
def test_packing_always_fits(index, details, room, data):
    scores = sorted((data.draw(st.floats(0, 1)) for _ in details), reverse=True)
    packed = pack_answer(index, details, scores, room)
    spent = sum(index[: packed.entries]) + sum(details[number] for number in packed.details)
    assert spent <= max(room, 0)
    assert packed.details == sorted(set(packed.details))


@given(costs, st.integers(0, 300), st.data())
def test_selection_has_the_highest_possible_score(details, room, data):
    scores = sorted((data.draw(st.integers(0, 100)) for _ in details), reverse=True)
    chosen = select_most_valuable(details, scores, room)
    fitting = [number for number, cost in enumerate(details) if cost <= room]
    sets = [
        one
        for size in range(len(fitting) + 1)
        for one in combinations(fitting, size)
        if sum(details[number] for number in one) <= room and (not fitting or fitting[0] in one)
    ]
    best = max((sum(scores[number] for number in one) for one in sets), default=0)
    assert sum(scores[number] for number in chosen) == best


@pytest.mark.conformance("mcp-35")
def test_large_budget_is_filled():
    chosen = select_most_valuable([997] * 150, [0.5] * 150, 100_000)
    assert len(chosen) == 100


PARTS = Components(match=0.5, recency=0.25, importance=0.8, trust=1.0)


@pytest.mark.conformance("mcp-40")
@pytest.mark.parametrize(("accesses", "value"), [(0, 0.0), (5, 0.5), (20, 0.8), (95, 0.95), (-1, 0.0)])
def test_frequency_grows_with_accesses_and_never_reaches_one(accesses, value):
    assert access_frequency(accesses) == value
    assert access_frequency(10**9) < 1.0


@pytest.mark.conformance("mcp-37", "mcp-38", "mcp-39", "mcp-40")
def test_memory_mcp_ranking_weights(settings):
    settings.MEMORYHUB = Config()
    weights = ranking_weights(Ranking.MEMORY_MCP)
    assert composite_score(PARTS, weights, 5) == pytest.approx(0.4 * 0.5 + 0.3 * 0.8 + 0.2 * 0.25 + 0.1 * 0.5)


def test_letsgo_ranking_weights(settings):
    settings.MEMORYHUB = Config()
    weights = ranking_weights(Ranking.LETSGO)
    score = composite_score(PARTS, weights, 5)
    assert score == pytest.approx(0.55 * 0.5 + 0.2 * 0.25 + 0.15 * 0.8 + 0.1 * 1.0)
    assert score == composite_score(PARTS, weights, 500)


def test_weights_of_memory_mcp_can_be_configured(settings):
    only_frequency = {"mcp_match_weight": 0, "mcp_importance_weight": 0, "mcp_recency_weight": 0}
    settings.MEMORYHUB = Config(**only_frequency, mcp_frequency_weight=1)
    assert composite_score(PARTS, ranking_weights(Ranking.MEMORY_MCP), 20) == 0.8
