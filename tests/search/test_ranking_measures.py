"""Ranking measures compared with values computed by hand."""

from math import log2

import pytest

from tools.evaluation.measures import (
    Answer,
    Question,
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
def test_recall_at_k(k, ranked, relevant, share):
    assert recall_at(k, ranked, relevant) == share


@pytest.mark.parametrize(
    ("ranked", "relevant", "value"),
    [("abc", "a", 1.0), ("abc", "bc", 0.5), ("abcd", "d", 0.25), ("abc", "x", 0.0), ("", "x", 0.0)],
)
def test_reciprocal_rank_of_the_first_relevant_result(ranked, relevant, value):
    assert reciprocal_rank(ranked, relevant) == value


def test_relevant_result_after_rank_100_does_not_count():
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
def test_ndcg_is_relative_to_the_best_order(ranked, relevant, value):
    assert ndcg_at(10, ranked, relevant) == pytest.approx(value)


def test_ndcg_can_be_1_with_more_relevant_results_than_ranks():
    assert ndcg_at(2, "ab", "abcde") == 1.0


@pytest.mark.parametrize(
    ("values", "share", "value"),
    [([1, 2, 3, 4], 0.5, 2), ([1, 2, 3], 0.5, 2), ([5], 0.95, 5), (range(1, 101), 0.95, 95), ([], 0.5, None)],
)
def test_percentile_is_one_of_the_values(values, share, value):
    assert percentile(values, share) == value


FOUND = (Question("near", frozenset("a")), Answer("abc", "a", 0.001))
SECOND = (Question("near", frozenset("b")), Answer("abc", "a", 0.002))
SILENT = (Question("none"), Answer("abc", "", 0.003))
LOUD = (Question("none"), Answer("abc", "ab", 0.004))
MISLED = (Question("adversarial", frozenset("a")), Answer("a", "", 0.009))


def test_figures_are_means_over_applicable_questions():
    found = figures([FOUND, SECOND, SILENT, LOUD])
    assert (found.questions, found.answerable, found.unanswerable) == (4, 2, 2)
    assert (found.recall_1, found.recall_5, found.mrr) == (0.5, 1.0, 0.75)
    assert found.ndcg_10 == pytest.approx((1 + 1 / log2(3)) / 2, abs=1e-4)
    assert (found.kept, found.empty) == (0.5, 0.5)
    assert (found.p50_ms, found.p95_ms) == (2.0, 4.0)


def test_figure_without_questions_is_none():
    assert figures([FOUND]).empty is None
    assert figures([SILENT]).recall_10 is None
    assert figures([]).p50_ms is None


def test_only_ten_results_above_the_minimum_count_as_kept():
    eleventh = (Question("far", frozenset("k")), Answer("abcdefghijk", "abcdefghijk", 0.0))
    assert figures([eleventh]).kept == 0.0


def test_adversarial_questions_have_their_own_category():
    table = by_category([MISLED, FOUND, SILENT])
    assert list(table) == ["all", "near", "none", "adversarial"]
    assert (table["all"].questions, table["all"].recall_1, table["all"].empty) == (2, 1.0, 1.0)
    assert (table["adversarial"].recall_1, table["adversarial"].empty) == (1.0, 1.0)
