"""A time axis that is drawn to scale, keeps neighbours apart and folds long pauses.

Places are pixels from the left. :meth:`Axis.percent` converts them to percent of the width, so that the
picture can be stretched.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from statistics import median

# Pixels
MIN_WIDTH = 720.0
MARGIN = 30.0  # left of the first item, whose label is centred on it, and right of the last
FOLD_WIDTH = 46.0
TICK_SPACING, DATE_SPACING = 62.0, 108.0
LETTER_WIDTH = 8.5

MIN_TIME_WIDTH = 150.0  # shared among the gaps in proportion to their duration
MIN_FOLDED_PAUSE = timedelta(minutes=5)
PAUSE_FACTOR = 20  # times the median gap

_INTERVALS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)


@dataclass(frozen=True)
class Fold:
    """A pause that is not drawn to scale."""

    x: float
    width: float
    pause: timedelta

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 3)

    @property
    def words(self) -> str:
        return format_pause(self.pause)


@dataclass(frozen=True)
class Tick:
    x: float
    text: str


@dataclass(frozen=True)
class Axis:
    """Moments in order and their places in pixels.

    ``folded`` contains the indices of the moments that follow a folded pause.
    """

    moments: list[datetime]
    places: list[float]
    folded: frozenset[int]
    width: float

    def percent(self, pixels: float) -> float:
        return round(100 * pixels / self.width, 3)

    def place(self, at: datetime) -> float:
        """Return the place of any moment: interpolated in time, or the middle of a fold."""
        after = bisect_right(self.moments, at)
        if after == 0 or after == len(self.moments):
            return self.places[max(after - 1, 0)]
        left, right = self.places[after - 1], self.places[after]
        if after in self.folded:
            return left if at == self.moments[after - 1] else (left + right) / 2
        share = (at - self.moments[after - 1]) / (self.moments[after] - self.moments[after - 1])
        return left + share * (right - left)


def format_pause(pause: timedelta) -> str:
    """Return a rounded duration: ``45 min``, ``3 h 20 min``, ``14 h`` or ``2 days``."""
    minutes = max(round(pause.total_seconds() / 60), 1)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 10:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    hours = round(minutes / 60)
    return f"{hours} h" if hours < 48 else f"{round(hours / 24)} days"


def build_axis(sizes: Mapping[datetime, float]) -> Axis:
    """Return the axis of one or more ascending moments, each with the width of its mark in pixels."""
    moments = list(sizes)
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    longest = _longest_unfolded_pause(gaps)
    folded = frozenset(n for n, gap in enumerate(gaps, start=1) if gap > longest)
    least = [
        FOLD_WIDTH if n in folded else (sizes[moments[n - 1]] + sizes[moments[n]]) / 2
        for n in range(1, len(moments))
    ]
    even = sum((gap for n, gap in enumerate(gaps, start=1) if n not in folded), timedelta())
    spare = max(MIN_WIDTH - sum(least), MIN_TIME_WIDTH)
    places = [MARGIN]
    for n, gap in enumerate(gaps, start=1):
        stretch = spare * (gap / even) if n not in folded else 0.0
        places.append(places[-1] + least[n - 1] + stretch)
    drawn = places[-1] - MARGIN
    factor = max(1.0, (MIN_WIDTH - 2 * MARGIN) / drawn) if drawn else 1.0
    places = [MARGIN + factor * (place - MARGIN) for place in places]
    return Axis(moments, places, folded, max(places[-1] + MARGIN, MIN_WIDTH))


def _longest_unfolded_pause(gaps: Sequence[timedelta]) -> timedelta:
    """Return the longest pause that is drawn to scale."""
    if not gaps:
        return MIN_FOLDED_PAUSE
    return max(
        MIN_FOLDED_PAUSE, PAUSE_FACTOR * timedelta(seconds=median(gap.total_seconds() for gap in gaps))
    )


def find_folds(axis: Axis) -> list[Fold]:
    return [
        Fold(
            axis.percent(axis.places[n - 1]),
            round(axis.percent(axis.places[n]) - axis.percent(axis.places[n - 1]), 3),
            axis.moments[n] - axis.moments[n - 1],
        )
        for n in sorted(axis.folded)
    ]


def make_ticks(axis: Axis, zone: tzinfo) -> list[Tick]:
    """Return the labels below the picture: the start of each stretch and round times, without overlaps."""
    found: list[Tick] = []
    free, day = 0.0, None
    interval = _tick_interval(axis)
    for at in sorted(_tick_times(axis, interval, zone)):
        place, local = axis.place(at), at.astimezone(zone)
        dated = day is not None and local.date() != day
        if place < free or place > axis.width - TICK_SPACING / 2:
            continue
        clock = f"{local:%H:%M:%S}" if interval < 60 else f"{local:%H:%M}"
        words = f"{local.date()} {clock}" if dated else clock
        found.append(Tick(axis.percent(place), words))
        free = place + (max(DATE_SPACING, len(words) * LETTER_WIDTH) if dated else TICK_SPACING)
        day = local.date()
    return found


def _stretches(axis: Axis) -> list[tuple[datetime, datetime]]:
    """Return the first and last moment of each stretch between folds."""
    starts = [0, *sorted(axis.folded)]
    ends = [*(n - 1 for n in sorted(axis.folded)), len(axis.moments) - 1]
    return [(axis.moments[first], axis.moments[last]) for first, last in zip(starts, ends, strict=True)]


def _tick_interval(axis: Axis) -> int:
    """Return the seconds between two round times that leaves room for their labels."""
    drawn = sum((last - first for first, last in _stretches(axis)), timedelta()).total_seconds()
    wanted = drawn / max(axis.width / (1.5 * TICK_SPACING), 1)
    return next((seconds for seconds in _INTERVALS if seconds >= wanted), int(wanted) + 1)


def _tick_times(axis: Axis, interval: int, zone: tzinfo) -> set[datetime]:
    """Return the start of each stretch and the times in it that are round in the zone."""
    found = set()
    for first, last in _stretches(axis):
        found.add(first)
        ahead = (first.astimezone(zone).utcoffset() or timedelta()).total_seconds()
        n = int((first.timestamp() + ahead) // interval) + 1
        while (at := datetime.fromtimestamp(n * interval - ahead, UTC)) <= last:
            found.add(at)
            n += 1
    return found
