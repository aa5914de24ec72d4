"""The measures of a ranking, by hand-computed values."""

from math import log2

import pytest

from tools.evaluation.measures import (
    Answered,
    Asked,
    by_category,
    figures,
    ndcg_at,
    percentile,
    recall_at,
    reciprocal_rank,
)


@pytest.mark.parametrize(
    ("k", "ranked", "relevant", "share"),
    [
        (1, "abc", "a", 1.0),
        (1, "abc", "ab", 0.5),
        (1, "abc", "b", 0.0),
        (2, "abc", "b", 1.0),
        (5, "abc", "axyz", 0.25),
        (5, "", "a", 0.0),
        (5, "abc", "", 0.0),
        (2, "aab", "ab", 0.5),
    ],
)
def test_recall_is_the_share_of_the_relevant_among_the_first(k, ranked, relevant, share):
    assert recall_at(k, ranked, relevant) == share


@pytest.mark.parametrize(
    ("ranked", "relevant", "value"),
    [("abc", "a", 1.0), ("abc", "bc", 0.5), ("abcd", "d", 0.25), ("abc", "x", 0.0), ("", "x", 0.0)],
)
def test_the_reciprocal_rank_is_that_of_the_first_relevant_one(ranked, relevant, value):
    assert reciprocal_rank(ranked, relevant) == value


def test_a_relevant_one_beyond_the_hundredth_place_counts_for_nothing():
    ranked = list(range(101))
    assert reciprocal_rank(ranked, {99}) == 0.01
    assert reciprocal_rank(ranked, {100}) == 0.0


@pytest.mark.parametrize(
    ("ranked", "relevant", "value"),
    [
        ("ab", "a", 1.0),
        ("ba", "a", 1 / log2(3)),
        ("abc", "ac", (1 + 1 / 2) / (1 + 1 / log2(3))),
        ("xy", "a", 0.0),
        ("xy", "", 0.0),
    ],
)
def test_ndcg_is_the_gain_beside_that_of_the_best_order(ranked, relevant, value):
    assert ndcg_at(10, ranked, relevant) == pytest.approx(value)


def test_ndcg_of_more_relevant_ones_than_places_can_be_perfect():
    assert ndcg_at(2, "ab", "abcde") == 1.0


@pytest.mark.parametrize(
    ("values", "share", "value"),
    [([1, 2, 3, 4], 0.5, 2), ([1, 2, 3], 0.5, 2), ([5], 0.95, 5), (range(1, 101), 0.95, 95), ([], 0.5, None)],
)
def test_a_percentile_is_one_of_the_values(values, share, value):
    assert percentile(values, share) == value


FOUND = (Asked("near", frozenset("a")), Answered("abc", "a", 0.001))
SECOND = (Asked("near", frozenset("b")), Answered("abc", "a", 0.002))
SILENT = (Asked("none"), Answered("abc", "", 0.003))
LOUD = (Asked("none"), Answered("abc", "ab", 0.004))
MISLED = (Asked("adversarial", frozenset("a")), Answered("a", "", 0.009))


def test_figures_are_means_over_the_questions_that_can_tell():
    found = figures([FOUND, SECOND, SILENT, LOUD])
    assert (found.questions, found.answerable, found.unanswerable) == (4, 2, 2)
    assert (found.recall_1, found.recall_5, found.mrr) == (0.5, 1.0, 0.75)
    assert found.ndcg_10 == pytest.approx((1 + 1 / log2(3)) / 2, abs=1e-4)
    assert (found.kept, found.empty) == (0.5, 0.5)
    assert (found.p50_ms, found.p95_ms) == (2.0, 4.0)


def test_what_no_question_tells_is_not_given_as_a_number():
    assert figures([FOUND]).empty is None
    assert figures([SILENT]).recall_10 is None
    assert figures([]).p50_ms is None


def test_only_ten_results_at_the_floor_count_as_kept():
    eleventh = (Asked("far", frozenset("k")), Answered("abcdefghijk", "abcdefghijk", 0.0))
    assert figures([eleventh]).kept == 0.0


def test_an_adversarial_question_is_in_no_total_and_counts_as_unanswerable_in_its_own():
    table = by_category([MISLED, FOUND, SILENT])
    assert list(table) == ["all", "near", "none", "adversarial"]
    assert (table["all"].questions, table["all"].recall_1, table["all"].empty) == (2, 1.0, 1.0)
    assert (table["adversarial"].recall_1, table["adversarial"].empty) == (1.0, 1.0)
