"""Stacked bar charts over time and ranked bars, as positions for SVG templates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from math import ceil
from typing import Any

from memoryhub.core import dates

WIDTH, HEIGHT = 100.0, 190  # of the plot: percent of what there is, and pixels
LABEL_WIDTH, LABEL_WIDTH_SMALL = 8.5, 24.0  # percent of the width that a word under the axis takes
DAY_LABEL_WIDTH, DAY_LABEL_WIDTH_SMALL = 2.7, 8.0  # the same of the number of a day
GAP = 0.18  # share of a step that stays empty
MAX_BAR_WIDTH = 6.8  # percent, so that a young store does not show one bar as wide as the page
_DAY, _WEEK, _MONTH, _YEAR = "day", "week", "month", "year"


@dataclass(frozen=True)
class BarSegment:
    """One type's piece of a bar."""

    type: str
    count: int
    y: float
    height: float


@dataclass(frozen=True)
class Bar:
    """One day, week, month or year; ``first`` and ``last`` are its days."""

    first: date
    last: date
    label: str
    total: int
    x: float
    width: float
    parts: list[BarSegment]
    counts: list[int]  # of each type of the chart, in its order


@dataclass(frozen=True)
class AxisLabel:
    """A line or word beside an axis; ``at``: where it begins, ends (``end``), or a number is centred."""

    at: float
    text: str
    minor: bool = False  # left out where there is little room
    end: bool = False


@dataclass(frozen=True)
class Chart:
    step: str
    total: int
    bars: list[Bar]
    types: list[tuple[str, int]]
    across: list[AxisLabel]
    numbers: list[AxisLabel]  # of the days, where a bar is one
    up: list[AxisLabel]

    @property
    def highest(self) -> Bar:
        return max(self.bars, key=lambda bar: bar.total)

    @property
    def shapes(self) -> list[tuple[str, str]]:
        """For each type the path of all its pieces: a tenth of what single rectangles would take."""
        drawn: dict[str, list[str]] = {kind: [] for kind, _ in self.types}
        for bar in self.bars:
            for part in bar.parts:
                right = f"h{bar.width:g}v{part.height:g}h-{bar.width:g}z"
                drawn[part.type].append(f"M{bar.x:g} {part.y:g}{right}")
        return [(kind, "".join(pieces)) for kind, pieces in drawn.items()]


def over_time(rows: Sequence[tuple[date, str, int]], days: tuple[date, date] | None = None) -> Chart | None:
    """A chart of the rows of ``overview.per_day`` (day, type, count; oldest first); None without any.

    ``days``: the first and the last that were looked at, if the chart is to show more than those with rows.
    """
    if not rows:
        return None
    asked = days or (rows[0][0], rows[-1][0])
    first, last = min(asked[0], rows[0][0]), max(asked[1], rows[-1][0])
    step = _step_for_span((last - first).days)
    counted: dict[date, Counter[str]] = {}
    for day, kind, count in rows:
        counted.setdefault(_step_start(day, step), Counter())[kind] += count
    starts = _all_step_starts(_step_start(first, step), _step_start(last, step), step)
    types = _types_by_count(counted.values())
    ceiling = _scale_top(max(counts.total() for counts in counted.values()))
    slot = WIDTH / len(starts)
    bars = [
        _make_bar(start, counted.get(start, Counter()), step, index * slot, slot, types, ceiling)
        for index, start in enumerate(starts)
    ]
    if days:
        bars[0] = replace(bars[0], first=first)  # what lies before it in its week or month was not counted
    total = sum(count for _, count in types)
    numbers = _day_numbers(starts, slot) if step == _DAY else []
    return Chart(step, total, bars, types, _time_labels(starts, step, slot), numbers, _count_labels(ceiling))


def _step_for_span(days: int) -> str:
    """Days up to two months, weeks up to a year and a half, months up to ten years, then years."""
    return _DAY if days <= 62 else _WEEK if days <= 540 else _MONTH if days <= 3660 else _YEAR


def _step_start(day: date, step: str) -> date:
    if step == _YEAR:
        return day.replace(month=1, day=1)
    if step == _MONTH:
        return day.replace(day=1)
    return day - timedelta(days=day.weekday()) if step == _WEEK else day


def _next_step_start(day: date, step: str) -> date:
    if step == _YEAR:
        return day.replace(year=day.year + 1)
    if step == _MONTH:
        return (day + timedelta(days=31)).replace(day=1)
    return day + timedelta(days=7 if step == _WEEK else 1)


def _all_step_starts(first: date, last: date, step: str) -> list[date]:
    """Every step between, the empty ones too."""
    starts = [first]
    while starts[-1] < last:
        starts.append(_next_step_start(starts[-1], step))
    return starts


def _types_by_count(counted: Iterable[Counter[str]]) -> list[tuple[str, int]]:
    """The types that occur, most first; they are stacked in this order."""
    whole: Counter[str] = Counter()
    for counts in counted:
        whole.update(counts)
    return sorted(whole.items(), key=lambda item: (-item[1], item[0]))


def _make_bar(
    start: date,
    counts: Counter[str],
    step: str,
    x: float,
    slot: float,
    types: list[tuple[str, int]],
    ceiling: int,
) -> Bar:
    parts, y = [], float(HEIGHT)
    for kind, _ in types:
        if count := counts[kind]:
            height = HEIGHT * count / ceiling
            y -= height
            parts.append(BarSegment(kind, count, round(y, 2), round(height, 2)))
    last = _next_step_start(start, step) - timedelta(days=1)
    width = _bar_width(slot)
    return Bar(
        start,
        last,
        label=_bar_label(start, step),
        total=counts.total(),
        x=round(x + (slot - width) / 2, 3),
        width=round(width, 3),
        parts=parts,
        counts=[counts[kind] for kind, _ in types],
    )


def _bar_width(slot: float) -> float:
    """Of a bar, in the middle of its slot."""
    return min(slot * (1 - GAP), MAX_BAR_WIDTH)


def _bar_label(start: date, step: str) -> str:
    if step == _YEAR:
        return str(start.year)
    if step == _MONTH:
        return dates.format_date(start, "month")
    day = dates.format_day(start)
    return f"week of {day}" if step == _WEEK else day


def _scale_top(most: int) -> int:
    """The top of the scale: a round number, at least ``most``."""
    power = 1
    while power * 10 < most:
        power *= 10
    return next(power * n for n in (1, 2, 3, 4, 6, 8, 10) if power * n >= most)


def _count_labels(ceiling: int) -> list[AxisLabel]:
    """The lines across, with their counts; whole numbers only."""
    values = [ceiling, ceiling // 2] if ceiling % 2 == 0 else [ceiling]
    return [AxisLabel(round(HEIGHT * (1 - value / ceiling), 2), str(value)) for value in values]


def _time_labels(starts: list[date], step: str, slot: float) -> list[AxisLabel]:
    """Words under the axis: where a year begins, or a month; few enough to stand side by side."""
    coarse = step in (_MONTH, _YEAR)
    marks, before = [], starts[0]
    for index, start in enumerate(starts):
        begins = start.year != before.year if coarse else start.month != before.month
        if index == 0 or begins:
            at = index * slot + (slot - _bar_width(slot)) / 2
            marks.append(_time_label(at, str(start.year) if coarse else _month_label(start), slot))
        before = start
    # A piece of a year or month at the beginning says less than the whole one after it.
    apart = marks[1].at - marks[0].at if len(marks) > 1 else WIDTH
    if apart < LABEL_WIDTH_SMALL:
        piece = [replace(marks[0], minor=True)] if apart >= LABEL_WIDTH else []
        return [*piece, *_without_overlaps(marks[1:])]
    return _without_overlaps(marks)


def _time_label(at: float, text: str, slot: float) -> AxisLabel:
    """Near the right edge a word ends where its bar does, so that it stays within the plot."""
    end = at > WIDTH - 2 * LABEL_WIDTH
    return AxisLabel(round(at + _bar_width(slot) if end else at, 2), text, end=end)


def _day_numbers(starts: list[date], slot: float) -> list[AxisLabel]:
    """Under each bar the number of its day; with little room every second, third …, the last always."""
    every = ceil(DAY_LABEL_WIDTH / slot)
    seldom = every * ceil(DAY_LABEL_WIDTH_SMALL / (slot * every))
    last = len(starts) - 1
    return [
        AxisLabel(round((index + 0.5) * slot, 2), str(start.day), minor=(last - index) % seldom > 0)
        for index, start in enumerate(starts)
        if (last - index) % every == 0
    ]


def _month_label(start: date) -> str:
    """The month in few letters: what stands under an axis is narrow."""
    return dates.format_date(start, "month") if dates.active_language() else f"{start:%b} {start.year}"


def _without_overlaps(marks: list[AxisLabel]) -> list[AxisLabel]:
    """Those that can stand side by side; the ones that cannot on a small screen are minor."""
    kept: list[AxisLabel] = []
    free, free_small = -WIDTH, -WIDTH
    for mark in marks:
        left, right = _label_extent(mark, LABEL_WIDTH)
        if left < free:
            continue
        free = right
        left, right = _label_extent(mark, LABEL_WIDTH_SMALL)
        minor = left < free_small
        free_small = free_small if minor else right
        kept.append(replace(mark, minor=minor))
    return kept


def _label_extent(mark: AxisLabel, room: float) -> tuple[float, float]:
    """From where to where a word of this width stands."""
    return (mark.at - room, mark.at) if mark.end else (mark.at, mark.at + room)


MAX_BREAKDOWN_ROWS = 8
# Where "at a glance" shows all of a column: the chart's name in ?all=, and its heading
_FULL_CHARTS = {"type": ("use", "use-title")}


def breakdown(
    counts: Mapping[str, int], name: str, title: str, most: int = MAX_BREAKDOWN_ROWS
) -> dict[str, Any]:
    """The commonest values of a column, ``most`` of them, each with its share of the commonest for a bar."""
    highest = max(counts.values())
    rows = [{"value": v, "count": n, "percent": round(100 * n / highest, 1)} for v, n in counts.items()]
    chart, heading = _FULL_CHARTS.get(name, (name, f"by-{name}"))
    return {
        "name": name,
        "title": title,
        "rows": rows[:most],
        "hidden": max(len(rows) - most, 0),
        "chart": chart,
        "heading": heading,
    }
