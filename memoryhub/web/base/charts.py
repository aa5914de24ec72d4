"""Bar charts, as positions for SVG templates: stacked over time, and ranked bars of a column's values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from math import ceil
from typing import Any

from django.utils.http import urlencode

from memoryhub.core.dates import next_month
from memoryhub.web.base.requests import page_url

WIDTH, HEIGHT = 100.0, 190  # of the plot, in percent and in pixels
LABEL_WIDTH, LABEL_WIDTH_SMALL = 8.5, 24.0  # percent of the width, of a label under the axis
DAY_LABEL_WIDTH, DAY_LABEL_WIDTH_SMALL = 2.7, 8.0  # the same, of the number of a day
GAP = 0.18  # share of a step between two bars
ONLY_SERIES = ""  # the kind of a series that needs no name
ACTIVITY_DAYS = 30  # on the home page; each day is a bar
MAX_BAR_WIDTH = 6.8  # percent: the only bar of a new store must not fill the page
# The types that share a colour (static/css/base.css) and a series of the chart of all memories.
TYPE_FAMILIES = {
    "changes": ("feature", "refactor", "change"),
    "fixes": ("bugfix",),
    "knowledge": ("discovery", "fact", "entity", "relationship"),
    "decisions": ("decision", "preference", "self"),
    "context": ("context", "general", "checkpoint", "session_summary", "compressed_summary"),
}
_FAMILY_OF = {kind: family for family, kinds in TYPE_FAMILIES.items() for kind in kinds}
_DAY, _WEEK, _MONTH, _YEAR = "day", "week", "month", "year"
_ISO_CHARS = {_DAY: 10, _MONTH: 7, _YEAR: 4}  # of the date of a step


@dataclass(frozen=True)
class BarSegment:
    """The segment of one type in a bar."""

    type: str
    count: int
    y: float
    height: float


@dataclass(frozen=True)
class Bar:
    """One day, week, month or year, from the day ``first`` to ``last``."""

    first: date
    last: date
    label: str
    total: int
    x: float
    width: float
    parts: list[BarSegment]
    counts: list[int]  # in the order of the chart's types


@dataclass(frozen=True)
class AxisLabel:
    """A label of an axis. ``at`` is where it starts, ends (``end``), or is centred (numbers of days)."""

    at: float
    text: str
    minor: bool = False  # hidden on small screens
    end: bool = False


@dataclass(frozen=True)
class Chart:
    step: str
    total: int
    bars: list[Bar]
    types: list[tuple[str, int]]
    across: list[AxisLabel]
    numbers: list[AxisLabel]  # days of the month, if each bar is a day
    up: list[AxisLabel]

    @property
    def highest(self) -> Bar:
        return max(self.bars, key=lambda bar: bar.total)

    @property
    def shapes(self) -> list[tuple[str, str]]:
        """One SVG path per type with all its segments: a tenth of the size of single rectangles."""
        drawn: dict[str, list[str]] = {kind: [] for kind, _ in self.types}
        for bar in self.bars:
            for part in bar.parts:
                right = f"h{bar.width:g}v{part.height:g}h-{bar.width:g}z"
                drawn[part.type].append(f"M{bar.x:g} {part.y:g}{right}")
        return [(kind, "".join(pieces)) for kind, pieces in drawn.items()]


@dataclass(frozen=True)
class DayChart:
    """A chart of days with its texts and links.

    ``href``: the list that a column links to; ``by``: its filter for a series; ``day``: its filter for a day,
    if not ``since`` and ``until``.
    """

    name: str
    title: str
    what: str
    chart: Chart | None
    words: Mapping[str, str]
    href: str = ""
    by: str = ""
    day: str = ""

    @property
    def legend(self) -> list[tuple[str, str, int]]:
        """The class, label and count of each series."""
        if self.chart is None:
            return []
        return [
            (kind, self.words.get(kind, kind), count)
            for kind, count in self.chart.types
            if kind != ONLY_SERIES
        ]

    @property
    def rows(self) -> list[tuple[Bar, str, list[tuple[int, str]]]]:
        """Each step that is not empty, with its link, and the count and link of each series."""
        found = []
        for bar in self.chart.bars if self.chart else []:
            days = (
                {self.day: str(bar.first)} if self.day else {"since": str(bar.first), "until": str(bar.last)}
            )
            href = f"{self.href}{urlencode(days)}" if self.href else ""
            cells = [
                (count, f"{href}&{urlencode({self.by: kind})}" if self.by and href else "")
                for count, (kind, _) in zip(bar.counts, self.chart.types if self.chart else [], strict=True)
                if kind != ONLY_SERIES
            ]
            found += [(bar, href, cells)] if bar.total else []
        return found

    def total(self) -> int:
        return self.chart.total if self.chart else 0


def activity(days: Iterable[tuple[date, str, int]], today: date, project: str = "") -> DayChart:
    """Return the memories stored on each of the last :data:`ACTIVITY_DAYS` days, in one colour."""
    first = today - timedelta(days=ACTIVITY_DAYS - 1)
    counts: Counter[date] = Counter()
    for day, _, count in days:
        if first <= day <= today:
            counts[day] += count
    rows = [(day, ONLY_SERIES, count) for day, count in sorted(counts.items())]
    chart = over_time(rows, (first, today))
    title = f"Activity in the last {ACTIVITY_DAYS} days"
    return DayChart("activity", title, "Memories stored", chart, {}, listing_url(project))


def listing_url(project: str) -> str:
    """Return the URL of the memories, newest first, to which parameters can be appended."""
    return extendable_url(page_url("memories", order="-created_at", project=project))


def extendable_url(href: str) -> str:
    """Return a URL to which parameters can be appended."""
    return f"{href}&" if "?" in href else f"{href}?"


def by_family(rows: Iterable[tuple[date, str, int]]) -> list[tuple[date, str, int]]:
    """Replace the types in rows of (day, type, count) by their families."""
    return [(day, _FAMILY_OF.get(kind, "context"), count) for day, kind, count in rows]


def over_time(rows: Sequence[tuple[date, str, int]], days: tuple[date, date] | None = None) -> Chart | None:
    """Draw rows of (day, type, count), oldest first; None without rows.

    ``days``: the first and last day of the chart, if it shows more than the days with rows.
    """
    if not rows:
        return None
    span = days or (rows[0][0], rows[-1][0])
    first, last = min(span[0], rows[0][0]), max(span[1], rows[-1][0])
    step = _step_for_span((last - first).days)
    counted: dict[date, Counter[str]] = {}
    for day, kind, count in rows:
        counted.setdefault(_step_start(day, step), Counter())[kind] += count
    starts = [_step_start(first, step)]  # of every step, including empty ones
    while starts[-1] < _step_start(last, step):
        starts.append(_next_step_start(starts[-1], step))
    totals = sum(counted.values(), Counter())
    # Most frequent first: the order in which they are stacked.
    types = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    ceiling = _scale_top(max(counts.total() for counts in counted.values()))
    slot = WIDTH / len(starts)
    bars = [
        _make_bar(start, counted.get(start, Counter()), step, index * slot, slot, types, ceiling)
        for index, start in enumerate(starts)
    ]
    if days:
        bars[0] = replace(bars[0], first=first)  # earlier days of its week or month were not counted
    numbers = _day_numbers(starts, slot) if step == _DAY else []
    across = _time_labels(starts, step, slot)
    return Chart(step, totals.total(), bars, types, across, numbers, _count_labels(ceiling))


def _step_for_span(days: int) -> str:
    """Choose days up to two months, weeks up to a year and a half, months up to ten years, then years."""
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
        return next_month(day)
    return day + timedelta(days=7 if step == _WEEK else 1)


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
        label=f"week of {start}" if step == _WEEK else str(start)[: _ISO_CHARS[step]],
        total=counts.total(),
        x=round(x + (slot - width) / 2, 3),
        width=round(width, 3),
        parts=parts,
        counts=[counts[kind] for kind, _ in types],
    )


def _bar_width(slot: float) -> float:
    return min(slot * (1 - GAP), MAX_BAR_WIDTH)


def _scale_top(highest: int) -> int:
    """Return a round number that is at least ``highest``."""
    power = 1
    while power * 10 < highest:
        power *= 10
    return next(power * n for n in (1, 2, 3, 4, 6, 8, 10) if power * n >= highest)


def _count_labels(ceiling: int) -> list[AxisLabel]:
    """Return the horizontal lines with their counts, whole numbers only."""
    values = [ceiling, ceiling // 2] if ceiling % 2 == 0 else [ceiling]
    return [AxisLabel(round(HEIGHT * (1 - value / ceiling), 2), str(value)) for value in values]


def _time_labels(starts: list[date], step: str, slot: float) -> list[AxisLabel]:
    """Label the starts of years or months under the axis, without overlaps."""
    coarse = step in (_MONTH, _YEAR)
    marks, before = [], starts[0]
    for index, start in enumerate(starts):
        begins = start.year != before.year if coarse else start.month != before.month
        if index == 0 or begins:
            at = index * slot + (slot - _bar_width(slot)) / 2
            marks.append(_time_label(at, str(start)[: _ISO_CHARS[_YEAR if coarse else _MONTH]], slot))
        before = start
    # A partial first year or month has no label if that would overlap the label of the next one.
    apart = marks[1].at - marks[0].at if len(marks) > 1 else WIDTH
    if apart < LABEL_WIDTH_SMALL:
        piece = [replace(marks[0], minor=True)] if apart >= LABEL_WIDTH else []
        return [*piece, *_without_overlaps(marks[1:])]
    return _without_overlaps(marks)


def _time_label(at: float, text: str, slot: float) -> AxisLabel:
    """Right-align a label near the right edge with its bar, so that it stays within the plot."""
    end = at > WIDTH - 2 * LABEL_WIDTH
    return AxisLabel(round(at + _bar_width(slot) if end else at, 2), text, end=end)


def _day_numbers(starts: list[date], slot: float) -> list[AxisLabel]:
    """Number the days under the bars: each or every nth, and always the last."""
    every = ceil(DAY_LABEL_WIDTH / slot)
    every_small = every * ceil(DAY_LABEL_WIDTH_SMALL / (slot * every))
    last = len(starts) - 1
    return [
        AxisLabel(round((index + 0.5) * slot, 2), str(start.day), minor=(last - index) % every_small > 0)
        for index, start in enumerate(starts)
        if (last - index) % every == 0
    ]


def _without_overlaps(marks: list[AxisLabel]) -> list[AxisLabel]:
    """Drop labels that overlap; those that overlap on small screens only become minor."""
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


def _label_extent(label: AxisLabel, width: float) -> tuple[float, float]:
    return (label.at - width, label.at) if label.end else (label.at, label.at + width)


MAX_ROWS = 5


@dataclass(frozen=True)
class BarPart:
    """A segment of a bar: ``x`` and ``width`` in percent of the longest bar."""

    kind: str
    words: str
    count: int
    x: float
    width: float
    href: str = ""


@dataclass(frozen=True)
class BarRow:
    """A row of a bar chart: a name, a number for each series, and the bar."""

    label: str
    total: int
    parts: list[BarPart]
    href: str = ""


@dataclass(frozen=True)
class BarChart:
    """A bar chart; ``series``: (kind, label) in order; ``hidden``: number of omitted rows."""

    series: list[tuple[str, str]]
    rows: list[BarRow]
    hidden: int = 0


def bar_chart(
    series: list[tuple[str, str]],
    counts: Mapping[str, Mapping[str, int]],
    labels: Mapping[str, str],
    url: Callable[[str, str], str] = lambda name, kind: "",
    most: int = MAX_ROWS,
) -> BarChart:
    """Build a chart with the longest bar first; ``url`` takes a name and a kind, or "" for all kinds.

    Rows beyond ``most`` are counted as hidden.
    """
    totals = {name: sum(by_kind.values()) for name, by_kind in counts.items()}
    order = sorted(totals, key=lambda name: (-totals[name], name))
    longest = max(totals.values(), default=0)
    rows = [
        BarRow(
            labels.get(name, name),
            totals[name],
            _bar_parts(series, counts[name], longest, partial(url, name)),
            url(name, ""),
        )
        for name in order[:most]
    ]
    return BarChart(series, rows, max(len(order) - most, 0))


def _bar_parts(
    series: Sequence[tuple[str, str]], counts: Mapping[str, int], longest: int, url: Callable[[str], str]
) -> list[BarPart]:
    parts, x = [], 0.0
    for kind, label in series:
        count = counts.get(kind, 0)
        width = 100 * count / longest if longest else 0
        parts.append(BarPart(kind, label, count, round(x, 2), round(width, 2), url(kind)))
        x += width
    return parts


MAX_BREAKDOWN_ROWS = 6


def breakdown(
    counts: Mapping[str, int], name: str, title: str, most: int = MAX_BREAKDOWN_ROWS
) -> dict[str, Any]:
    """Return the ``most`` frequent values of a column, each with its percentage of the most frequent."""
    highest = max(counts.values())
    rows = [{"value": v, "count": n, "percent": round(100 * n / highest, 1)} for v, n in counts.items()]
    return {
        "name": name,
        "title": title,
        "rows": rows[:most],
        "hidden": max(len(rows) - most, 0),
    }
