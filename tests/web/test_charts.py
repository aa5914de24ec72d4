"""The plot of memories over time: bars, scale, words under the axis."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.web import charts

ROWS = st.lists(
    st.tuples(
        st.dates(min_value=date(1900, 1, 1), max_value=date(2030, 1, 1)),
        st.sampled_from(["bugfix", "feature", "odd"]),
        st.integers(min_value=1, max_value=5000),
    ),
    min_size=1,
    max_size=40,
).map(sorted)


def test_without_memories_there_is_no_chart() -> None:
    assert charts.over_time([]) is None


@pytest.mark.parametrize(
    ("days", "step", "bars"),
    [(0, "day", 1), (62, "day", 63), (63, "week", 10), (541, "month", 18), (4000, "year", 11)],
)
def test_steps_fit_the_span_and_empty_ones_are_bars_too(days: int, step: str, bars: int) -> None:
    first = date(2020, 1, 6)
    chart = charts.over_time([(first, "bugfix", 1), (first + timedelta(days=days), "bugfix", 2)])
    assert chart
    assert (chart.step, len(chart.bars)) == (step, bars)
    assert chart.total == 3


def test_types_are_stacked_from_the_floor_most_first() -> None:
    chart = charts.over_time([(date(2020, 1, 1), "bugfix", 1), (date(2020, 1, 1), "feature", 3)])
    assert chart
    assert chart.types == [("feature", 3), ("bugfix", 1)]
    feature, bugfix = chart.bars[0].parts
    assert (feature.type, feature.y + feature.height) == ("feature", charts.HEIGHT)
    assert (bugfix.type, bugfix.y, bugfix.y + bugfix.height) == ("bugfix", 0, feature.y)


def test_each_type_is_drawn_as_one_path_of_all_its_pieces() -> None:
    first, second = date(2020, 1, 1), date(2020, 1, 2)
    rows = [(first, "bugfix", 1), (first, "feature", 1), (second, "bugfix", 2)]
    chart = charts.over_time(rows)
    assert chart
    (bugfix, pieces), (feature, piece) = chart.shapes
    assert (bugfix, pieces.count("z"), feature, piece) == ("bugfix", 2, "feature", "M0.75 0h6.833v95h-6.833z")


def test_a_young_store_has_no_bar_as_wide_as_the_page() -> None:
    chart = charts.over_time([(date(2020, 1, 1), "bugfix", 1)])
    assert chart
    assert chart.bars[0].width < 8


@given(ROWS)
def test_everything_is_counted_once_and_stays_within_the_plot(rows: list[tuple[date, str, int]]) -> None:
    chart = charts.over_time(rows)
    assert chart
    assert sum(bar.total for bar in chart.bars) == sum(n for _, _, n in rows) == chart.total
    assert len(chart.bars) <= 132
    for bar in chart.bars:
        assert bar.total == sum(bar.counts) == sum(part.count for part in bar.parts)
        assert 0 <= bar.x <= bar.x + bar.width <= charts.WIDTH + 0.01
        assert all(-0.01 <= part.y <= part.y + part.height <= charts.HEIGHT + 0.05 for part in bar.parts)
        assert bar.first <= bar.last
    for one, following in pairwise(chart.bars):
        assert following.first == one.last + timedelta(days=1)


@given(ROWS)
def test_words_under_the_axis_do_not_touch(rows: list[tuple[date, str, int]]) -> None:
    chart = charts.over_time(rows)
    assert chart
    places = [mark.at for mark in chart.across]
    assert all(right - left >= charts.APART for left, right in pairwise(places))
    large = [mark.at for mark in chart.across if not mark.minor]
    assert all(right - left >= charts.APART_SMALL for left, right in pairwise(large))
