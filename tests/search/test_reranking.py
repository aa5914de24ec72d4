"""Results behind the first are ordered by likeness to the first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from memoryhub.search.semantic import FIXED_RESULTS, prefer_similar


def reorder(match: list[float], likeness: list[float]) -> list[float]:
    """Return the match of rows after the order by likeness, given in the order of their match."""
    meaning: Any = SimpleNamespace(likeness=lambda rows, best, leaders: np.array(likeness))
    rows: Any = None
    return prefer_similar(rows, np.array(match), meaning).tolist()


def test_similar_result_moves_up_behind_the_first():
    match = [0.9, 0.8, 0.75, 0.7, 0.65, 0.5, 0.45, 0.4]
    assert reorder(match, [1, 1, 1, 1, 1, 0, 0.1, 0.9]) == [0.9, 0.8, 0.75, 0.7, 0.65, 0.45, 0.4, 0.5]


def test_first_results_stay_however_unlike_they_are():
    match = [0.9, 0.8, 0.75, 0.7, 0.65, 0.5, 0.45]
    assert reorder(match, [1, 0, 0, 0, 0, 1, 1])[:FIXED_RESULTS] == match[:FIXED_RESULTS]


def test_equal_rows_stay_equal():
    match = [0.9, 0.8, 0.75, 0.7, 0.65, 0.5, 0.5, 0.45, 0.4]
    changed = reorder(match, [1, 1, 1, 1, 1, 0.2, 0.2, 0.2, 0.9])
    assert changed[5] == changed[6]


def test_row_as_good_as_the_last_fixed_result_stays():
    match = [0.9, 0.8, 0.75, 0.7, 0.65, 0.65, 0.5, 0.45, 0.4]
    assert reorder(match, [1, 1, 1, 1, 0, 0, 1, 1, 1]) == match


def test_row_as_good_as_the_first_that_is_not_reordered_stays():
    equal = [0.3] * 30
    match = [0.9, 0.8, 0.75, 0.7, 0.65, 0.5, 0.45, *equal]
    likeness = [1, 1, 1, 1, 1, 0, 0.9, *[1.0] * 23]
    assert reorder(match, likeness) == [0.9, 0.8, 0.75, 0.7, 0.65, 0.45, 0.5, *equal]


def test_no_row_gets_a_better_match_than_one_of_them_had():
    match = [0.9, 0.8, 0.75, 0.7, 0.65, 0.5, 0.3, 0.0]
    changed = reorder(match, [1, 1, 1, 1, 1, 0.1, 0.9])
    assert sorted(changed) == sorted(match)
    assert changed[-1] == 0.0


def test_few_results_are_left_as_they_are():
    assert reorder([0.9, 0.0, 0.4], []) == [0.9, 0.0, 0.4]
