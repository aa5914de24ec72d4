"""The chart of memories over time: bars, scale, labels."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.web.base import charts

ROWS = st.lists(
    st.tuples(
        st.dates(min_value=date(1900, 1, 1), max_value=date(2030, 1, 1)),
        st.sampled_from(["bugfix", "feature", "odd"]),
        st.integers(min_value=1, max_value=5000),
    ),
    min_size=1,
    max_size=40,
).map(sorted)


def test_no_memories_give_no_chart() -> None:
    assert charts.over_time([]) is None


@pytest.mark.parametrize(
    ("days", "step", "bars"),
    [(0, "day", 1), (62, "day", 63), (63, "week", 10), (541, "month", 18), (4000, "year", 11)],
)
def test_steps_fit_the_span_and_empty_steps_are_bars(days: int, step: str, bars: int) -> None:
    first = date(2020, 1, 6)
    chart = charts.over_time([(first, "bugfix", 1), (first + timedelta(days=days), "bugfix", 2)])
    assert chart
    assert (chart.step, len(chart.bars)) == (step, bars)
    assert chart.total == 3


def test_types_are_stacked_most_frequent_first() -> None:
    chart = charts.over_time([(date(2020, 1, 1), "bugfix", 1), (date(2020, 1, 1), "feature", 3)])
    assert chart
    assert chart.types == [("feature", 3), ("bugfix", 1)]
    feature, bugfix = chart.bars[0].parts
    assert (feature.type, feature.y + feature.height) == ("feature", charts.HEIGHT)
    assert (bugfix.type, bugfix.y, bugfix.y + bugfix.height) == ("bugfix", 0, feature.y)


def test_each_type_is_drawn_as_one_path() -> None:
    first, second = date(2020, 1, 1), date(2020, 1, 2)
    rows = [(first, "bugfix", 1), (first, "feature", 1), (second, "bugfix", 2)]
    chart = charts.over_time(rows)
    assert chart
    (bugfix, pieces), (feature, piece) = chart.shapes
    assert (bugfix, pieces.count("z"), feature, piece) == ("bugfix", 2, "feature", "M21.6 0h6.8v95h-6.8z")


def test_single_bar_does_not_fill_the_plot() -> None:
    chart = charts.over_time([(date(2020, 1, 1), "bugfix", 1)])
    assert chart
    assert chart.bars[0].width < 8


def _days(count: int, until: date) -> charts.Chart:
    first = until - timedelta(days=count - 1)
    chart = charts.over_time([(until, "bugfix", 1)], (first, until))
    assert chart
    return chart


def test_week_fills_the_plot_up_to_its_last_day() -> None:
    bars = _days(7, date(2026, 11, 21)).bars
    assert [bar.first.day for bar in bars] == [15, 16, 17, 18, 19, 20, 21]
    assert bars[-1].total == 1
    assert bars[-1].x + bars[-1].width / 2 == pytest.approx(charts.WIDTH * 13 / 14, abs=0.01)


@pytest.mark.parametrize("count", [1, 7, 12, 30, 31, 37])
def test_each_day_of_a_month_is_numbered_below_the_middle_of_its_bar(count: int) -> None:
    chart = _days(count, date(2026, 11, 21))
    assert [mark.text for mark in chart.numbers] == [str(bar.first.day) for bar in chart.bars]
    for mark, bar in zip(chart.numbers, chart.bars, strict=True):
        assert mark.at == pytest.approx(bar.x + bar.width / 2, abs=0.01)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 12, 13, 31, 37, 38, 62, 63])
def test_day_numbers_do_not_overlap_and_the_last_is_always_shown(count: int) -> None:
    marks = _days(count, date(2026, 11, 21)).numbers
    assert (marks[-1].text, marks[-1].minor) == ("21", False)
    for room, shown in (
        (charts.DAY_LABEL_WIDTH, marks),
        (charts.DAY_LABEL_WIDTH_SMALL, [mark for mark in marks if not mark.minor]),
    ):
        assert all(right.at - left.at >= room - 0.02 for left, right in pairwise(shown))


def test_weeks_and_longer_steps_have_no_day_numbers() -> None:
    assert _days(90, date(2026, 11, 21)).numbers == []


@pytest.mark.parametrize("day", [1, 2, 8, 15])
def test_month_that_starts_within_the_days_is_labelled(day: int) -> None:
    marks = _days(30, date(2026, 12, day)).across
    named = [mark for mark in marks if mark.text == "2026-12"]
    assert named
    assert not named[0].minor
    assert all(
        0 <= mark.at - (charts.LABEL_WIDTH if mark.end else 0) < charts.WIDTH - charts.LABEL_WIDTH
        for mark in marks
    )


def test_week_that_starts_before_the_days_counts_from_the_first_day() -> None:
    bars = _days(90, date(2026, 11, 21)).bars  # from Monday 24 August
    assert bars[0].first == date(2026, 8, 24)
    assert _days(89, date(2026, 11, 21)).bars[0].first == date(2026, 8, 25)


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
def test_labels_of_the_axis_do_not_overlap(rows: list[tuple[date, str, int]]) -> None:
    chart = charts.over_time(rows)
    assert chart
    places = [mark.at for mark in chart.across]
    assert all(right - left >= charts.LABEL_WIDTH for left, right in pairwise(places))
    large = [mark.at for mark in chart.across if not mark.minor]
    assert all(right - left >= charts.LABEL_WIDTH_SMALL for left, right in pairwise(large))
