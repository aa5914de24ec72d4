"""The layout of a session's picture: places in range, order, folded pauses, segments without gaps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.web.sessions.picture import (
    END,
    HEADER_HEIGHT,
    LANES,
    LETTER_WIDTH,
    MIN_FOLDED_PAUSE,
    START,
    PictureItem,
    SessionPicture,
    format_pause,
    lay_out_picture,
)

NOON = datetime(2024, 3, 10, 12, tzinfo=UTC)
GATE = 0.3


def event(seconds: float, lane: str = "read", **fields: object) -> PictureItem:
    return PictureItem(NOON + timedelta(seconds=seconds), lane, "title", **fields)  # type: ignore[arg-type]


def drawn(happenings: Iterable[PictureItem]) -> SessionPicture:
    picture = lay_out_picture(list(happenings), GATE)
    assert picture is not None
    return picture


_happening = st.builds(
    PictureItem,
    at=st.integers(0, 10**6).map(lambda s: NOON + timedelta(seconds=s / 10)),
    lane=st.sampled_from([*LANES, START, END]),
    title=st.just("t"),
    type=st.sampled_from(["", "", "decision"]),
    memorability=st.none() | st.floats(-0.5, 1.5),
    segment=st.none() | st.integers(0, 4),
    keywords=st.lists(st.text(max_size=12), max_size=5).map(tuple),
)
_happenings = st.lists(_happening, min_size=1, max_size=60)
_one_by_one = st.lists(_happening, min_size=1, max_size=60, unique_by=lambda one: one.at)


class TestAlways:
    @given(_happenings)
    def test_everything_has_its_place_within_the_picture(self, happenings: list[PictureItem]) -> None:
        picture = drawn(happenings)
        marks = [*picture.marks, *picture.edges]
        assert sorted(id(mark.what) for mark in marks) == sorted(map(id, happenings))
        for mark in marks:
            assert 0 < mark.x < 100
            assert HEADER_HEIGHT <= mark.y <= picture.lanes_bottom
        assert all(0 <= tick.x <= 100 for tick in picture.ticks)
        assert all(fold.x > 0 and fold.x + fold.width < 100.001 for fold in picture.folds)

    @given(_happenings)
    def test_later_items_are_further_right(self, happenings: list[PictureItem]) -> None:
        picture = drawn(happenings)
        places = {mark.what.at: mark.x for mark in [*picture.marks, *picture.edges]}
        for earlier, later in pairwise(sorted(places)):
            assert places[earlier] < places[later]

    @given(_happenings)
    def test_neighbours_in_time_are_never_closer_than_a_mark_is_wide(
        self, happenings: list[PictureItem]
    ) -> None:
        picture = drawn(happenings)
        places = sorted({mark.x for mark in [*picture.marks, *picture.edges]})
        assert all(later - earlier > 100 * 2.5 / picture.width for earlier, later in pairwise(places))

    @given(_happenings)
    def test_segments_cover_the_picture_side_by_side(self, happenings: list[PictureItem]) -> None:
        bands = drawn(happenings).bands
        assert bands[0].x == 0
        assert bands[-1].x + bands[-1].width == pytest.approx(100, abs=0.01)
        for left, right in pairwise(bands):
            assert left.x + left.width == pytest.approx(right.x, abs=0.01)
            assert left.number != right.number

    @given(_one_by_one)
    def test_each_item_is_within_its_segment(self, happenings: list[PictureItem]) -> None:
        picture = drawn(happenings)
        for mark in picture.marks:
            [band] = [b for b in picture.bands if b.first <= mark.what.at <= b.last]
            assert mark.what.segment in (None, band.number)
            assert band.x - 0.01 <= mark.x <= band.x + band.width + 0.01

    @given(_happenings)
    def test_the_curve_stays_in_its_box(self, happenings: list[PictureItem]) -> None:
        picture = drawn(happenings)
        numbers = [float(n) for n in re.findall(r"-?[\d.]+", picture.curve)]
        assert all(0 <= n <= 100 for n in numbers)
        assert len(numbers) == 2 * len(picture.points)
        assert all(picture.curve_top <= point.y <= picture.curve_bottom for point in picture.points)

    @given(_happenings)
    def test_words_of_the_axis_do_not_overlap(self, happenings: list[PictureItem]) -> None:
        picture = drawn(happenings)
        places = [tick.x * picture.width / 100 for tick in picture.ticks]
        assert all(later - earlier > 60 for earlier, later in pairwise(places))


class TestTime:
    def test_a_session_without_events_has_no_picture(self) -> None:
        assert lay_out_picture([], GATE) is None

    def test_one_thing_makes_one(self) -> None:
        picture = drawn([event(0)])
        assert (len(picture.marks), len(picture.bands), picture.folds) == (1, 1, [])
        assert picture.width == 720

    def test_a_night_is_folded_and_says_how_long_it_was(self) -> None:
        night = 14 * 3600
        picture = drawn([*(event(n * 20) for n in range(30)), *(event(night + n * 20) for n in range(30))])
        [fold] = picture.folds
        assert fold.words == "14 h"
        assert fold.width < 10

    def test_a_pause_of_minutes_is_drawn_to_scale(self) -> None:
        assert drawn([*(event(n * 20) for n in range(30)), event(580 + MIN_FOLDED_PAUSE.seconds)]).folds == []

    def test_events_hours_apart_are_no_pauses_in_a_slow_session(self) -> None:
        assert drawn([event(n * 3600) for n in range(6)]).folds == []

    def test_without_a_fold_time_runs_evenly(self) -> None:
        picture = drawn([event(0), event(60), event(180)])
        first, second, third = (mark.x for mark in picture.marks)
        assert (third - second) / (second - first) == pytest.approx(2, abs=0.05)

    def test_three_hundred_events_fit_a_wide_screen(self) -> None:
        picture = drawn([event(n * 17, type="change" if n % 30 == 0 else "") for n in range(300)])
        assert picture.width < 1150

    def test_times_are_those_of_the_zone(self) -> None:
        picture = lay_out_picture([event(0), event(3600)], GATE, ZoneInfo("Asia/Kathmandu"))
        assert picture is not None
        assert picture.ticks[0].text == "17:45"
        assert "18:00" in [tick.text for tick in picture.ticks]

    def test_when_the_clock_goes_back_order_is_kept(self) -> None:
        zone = ZoneInfo("Europe/Berlin")
        night = datetime(2024, 10, 27, 0, 30, tzinfo=UTC)
        happenings = [PictureItem(night + timedelta(minutes=20 * n), "run", "t") for n in range(6)]
        picture = lay_out_picture(happenings, GATE, zone)
        assert picture is not None
        places = [mark.x for mark in picture.marks]
        assert places == sorted(places)
        assert picture.folds == []

    def test_another_day_is_named(self) -> None:
        picture = drawn([*(event(n * 20) for n in range(9)), *(event(86400 + n * 20) for n in range(9))])
        assert any(tick.text.startswith("2024-03-11 ") for tick in picture.ticks)

    def test_a_session_of_seconds_has_ticks_in_seconds(self) -> None:
        picture = drawn([event(n / 10) for n in range(200)])
        [first, *_] = picture.ticks
        assert first.text == "12:00:00"
        assert first.x * picture.width / 100 >= len(first.text) * LETTER_WIDTH / 2  # fits left of its mark

    def test_pauses_are_named_only_where_the_words_fit(self) -> None:
        lanes, night = ("read", "search", "write"), 14 * 3600
        one = drawn([*(event(n * 20) for n in range(9)), event(night)])
        three = drawn([*(event(n * 20, lanes[n % 3]) for n in range(9)), event(night)])
        assert [len(picture.folds) for picture in (one, three)] == [1, 1]
        assert [picture.names_pauses for picture in (one, three)] == [False, True]

    @pytest.mark.parametrize(
        ("minutes", "words"),
        [
            (0.2, "1 min"),
            (45, "45 min"),
            (60, "1 h"),
            (200, "3 h 20 min"),
            (660, "11 h"),
            (60 * 47, "47 h"),
            (60 * 50, "2 days"),
        ],
    )
    def test_pauses_in_words(self, minutes: float, words: str) -> None:
        assert format_pause(timedelta(minutes=minutes)) == words


class TestSegments:
    def test_a_segment_is_labelled_with_its_most_common_keywords(self) -> None:
        picture = drawn([event(n, keywords=("zeta", "alpha") if n else ("beta", "zeta")) for n in range(3)])
        assert picture.bands[0].keywords == ("zeta", "alpha", "beta")
        assert picture.bands[0].words == "zeta, alpha, beta"

    def test_a_narrow_mark_shows_only_the_words_that_fit(self) -> None:
        long = ("a" * 30, "b" * 80)
        events = [event(n * 10, segment=0, keywords=long) for n in range(100)]
        picture = drawn([*events, event(1000, segment=1, keywords=long)])
        assert picture.bands[0].words == "a" * 30
        assert picture.bands[1].words == ""
        assert picture.bands[1].keywords == long

    def test_memories_and_injections_belong_to_the_segment_of_their_time(self) -> None:
        picture = drawn(
            [
                event(0, "injection"),
                event(1, segment=2),
                event(2, "memory", type="checkpoint"),
                event(3, segment=3),
            ]
        )
        assert [(band.number, band.counts) for band in picture.bands] == [
            (2, [("Injected", 1), ("Read", 1), ("Memories", 1)]),
            (3, [("Read", 1)]),
        ]
        assert [one.type for one in picture.bands[0].kept] == ["checkpoint"]

    def test_a_repeated_segment_has_its_own_band(self) -> None:
        assert [b.number for b in drawn(event(n, segment=n % 2) for n in range(4)).bands] == [0, 1, 0, 1]

    def test_its_peak_is_its_highest_memorability(self) -> None:
        picture = drawn([event(0, memorability=0.2), event(1, memorability=0.6), event(2)])
        assert picture.bands[0].peak == 0.6


class TestLanes:
    def test_only_lanes_with_items_are_drawn_in_a_fixed_order(self) -> None:
        picture = drawn([event(0, "run"), event(1, "prompt"), event(2, "run")])
        assert [(lane.name, lane.count) for lane in picture.lanes] == [("prompt", 1), ("run", 2)]
        assert picture.lanes[0].y < picture.lanes[1].y

    def test_kept_items_have_a_large_mark(self) -> None:
        picture = drawn([event(0), event(1, type="decision", href="/m/")])
        assert [mark.what.href for mark in picture.loud] == ["/m/"]
        assert len(picture.quiet) == 1
        assert picture.types == ["decision"]


class TestCurve:
    def test_without_memorability_there_is_none(self) -> None:
        picture = drawn([event(0)])
        assert picture.curve == ""
        assert picture.curve_bottom == picture.curve_top

    def test_the_curve_is_interrupted_at_a_pause(self) -> None:
        events = [event(n * 10, memorability=0.5) for n in range(5)]
        assert drawn(events).curve.count("M") == 1
        assert drawn([*events, event(90_000, memorability=0.5)]).curve.count("M") == 2

    def test_the_threshold_line_is_at_its_height(self) -> None:
        picture = drawn([event(0, memorability=GATE)])
        [point] = picture.points
        assert point.passes
        assert point.y == pytest.approx(picture.gate_y, abs=0.1)
        y = float(picture.curve.split()[-1])
        assert picture.curve_top + picture.curve_height * y / 100 == pytest.approx(picture.gate_y, abs=0.1)
