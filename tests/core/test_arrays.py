"""Operations on arrays."""

from __future__ import annotations

import numpy as np
import pytest

from memoryhub.backends.vector_view import positions_of_highest


def by_hand(values, count):
    least = sorted(values, reverse=True)[min(count, len(values)) - 1]
    return [position for position, value in enumerate(values) if value >= least]


@pytest.mark.parametrize("count", [1, 7, 60, 499, 500, 9000])
@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(1).normal(0, 1, 5000),
        np.random.default_rng(2).integers(0, 9, 5000) / 8,
        np.where(np.arange(5000) % 16 == 0, 2.0, np.random.default_rng(3).random(5000)),  # a high sample
        np.where(np.arange(5000) % 16 == 0, -np.inf, np.random.default_rng(3).random(5000)),
        np.arange(5000.0),
        np.array([3.0, 1.0, 3.0, 2.0]),
    ],
    ids=["normal", "equals", "high sample", "low sample", "ascending", "few"],
)
def test_highest_values_and_their_equals_are_found(values, count):
    assert positions_of_highest(values, count).tolist() == by_hand(values.tolist(), count)


@pytest.mark.parametrize("count", [1, 60, 5000])
def test_values_below_the_least_do_not_count(count):
    values = np.where(np.random.default_rng(4).random(5000) < 0.01, np.arange(5000.0), 0.0)
    highest = set(positions_of_highest(values, count).tolist())
    assert set(positions_of_highest(values, count, 0.5).tolist()) == highest & set(np.flatnonzero(values))


def test_no_values_have_no_positions():
    assert positions_of_highest(np.empty(0), 5).tolist() == []
