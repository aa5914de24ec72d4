"""Positions and labels of a session's picture: time runs from left to right, with a lane for each activity.

Horizontal positions are percent of the picture's width, which is at least ``width`` pixels.
Vertical positions are pixels.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from itertools import groupby, pairwise

from memoryhub.core.text import most_common_keywords
from memoryhub.web.sessions.time_axis import Axis, Fold, Tick, build_axis, find_folds, make_ticks

# Lanes from top to bottom, with their labels.
LANES = {
    "prompt": "Prompts",
    "injection": "Injected",
    "read": "Read",
    "search": "Searched",
    "write": "Wrote",
    "run": "Ran",
    "ask": "Asked",
    "other": "Other",
    "memory": "Memories",
}
START, END = "start", "end"  # drawn across all lanes

# Pixels
SMALL_MARK_WIDTH, LARGE_MARK_WIDTH = 2.6, 15.0
HEADER_HEIGHT, LANE_HEIGHT, GAP, CURVE_HEIGHT, FOOTER_HEIGHT = 30, 24, 8, 64, 26
LETTER_WIDTH = 6.6

MAX_KEYWORDS = 6


@dataclass(frozen=True)
class PictureItem:
    """An event, injection or memory to draw. ``lane`` is a key of :data:`LANES`, or START or END.

    ``type`` is the type of the memory that the item is or became; such an item has a large mark, and ``href``
    links to the memory. An item whose ``segment`` is None belongs to the current segment.
    """

    at: datetime
    lane: str
    title: str
    type: str = ""
    href: str = ""
    memorability: float | None = None
    segment: int | None = None
    keywords: tuple[str, ...] = ()

    @property
    def stands_out(self) -> bool:
        return bool(self.type)


@dataclass(frozen=True)
class Mark:
    x: float
    y: float
    what: PictureItem


@dataclass(frozen=True)
class Point:
    """A memorability on the curve. ``passes``: it reaches the memorability threshold."""

    x: float
    y: float
    passes: bool


@dataclass(frozen=True)
class SegmentBand:
    """A segment with its keywords and contents."""

    number: int
    x: float
    width: float
    words: str  # the keywords that fit above it
    keywords: tuple[str, ...]
    first: datetime
    last: datetime
    counts: list[tuple[str, int]]  # label and count of each lane with items, in the order of LANES
    kept: list[PictureItem]
    peak: float | None  # the highest memorability


@dataclass(frozen=True)
class Lane:
    name: str
    label: str
    y: float
    count: int


@dataclass(frozen=True)
class SessionPicture:
    width: int
    lanes: list[Lane]
    bands: list[SegmentBand]
    folds: list[Fold]
    marks: list[Mark]
    edges: list[Mark]
    ticks: list[Tick]
    curve: str  # path in a box of 100 × 100; empty without any memorability
    points: list[Point]
    gate: float
    types: list[str] = field(default_factory=list)  # of its memories

    @property
    def lanes_bottom(self) -> int:
        return HEADER_HEIGHT + LANE_HEIGHT * len(self.lanes)

    @property
    def curve_top(self) -> int:
        return self.lanes_bottom + GAP

    @property
    def curve_bottom(self) -> int:
        return self.curve_top + (CURVE_HEIGHT if self.curve else 0)

    @property
    def middle(self) -> int:
        """The vertical center of the lanes."""
        return (HEADER_HEIGHT + self.lanes_bottom) // 2

    @property
    def names_pauses(self) -> bool:
        """Whether the lanes are high enough for the words of a pause, which run upwards."""
        return len(self.lanes) > 2

    @property
    def curve_height(self) -> int:
        return CURVE_HEIGHT

    @property
    def gate_y(self) -> float:
        return round(self.curve_top + CURVE_HEIGHT * (1 - self.gate), 1)

    @property
    def words_y(self) -> int:
        """The baseline of the time labels."""
        return self.curve_bottom + 18

    @property
    def height(self) -> int:
        return self.curve_bottom + FOOTER_HEIGHT

    @property
    def quiet(self) -> list[Mark]:
        return [mark for mark in self.marks if not mark.what.stands_out]

    @property
    def loud(self) -> list[Mark]:
        return [mark for mark in self.marks if mark.what.stands_out]


def lay_out_picture(
    items: Sequence[PictureItem], threshold: float, zone: tzinfo = UTC
) -> SessionPicture | None:
    """Lay out the items, with times of the zone on the axis. Return None without items."""
    if not items:
        return None
    items = sorted(items, key=lambda item: item.at)
    axis = build_axis(_mark_widths(items))
    laned = [item for item in items if item.lane in LANES]
    lanes = _lay_out_lanes(laned)
    heights = {lane.name: lane.y for lane in lanes}
    across = dict(zip(axis.moments, map(axis.percent, axis.places), strict=True))
    memorable = _memorability_values(items, across)
    top = HEADER_HEIGHT + LANE_HEIGHT * len(lanes) + GAP
    return SessionPicture(
        width=round(axis.width),
        lanes=lanes,
        bands=_segment_bands(items, axis),
        folds=find_folds(axis),
        marks=[Mark(across[item.at], heights[item.lane], item) for item in laned],
        edges=[Mark(across[item.at], HEADER_HEIGHT, item) for item in items if item.lane in (START, END)],
        ticks=make_ticks(axis, zone),
        curve=_curve_path(memorable, axis),
        points=[
            Point(x, round(top + CURVE_HEIGHT * (1 - value), 1), value >= threshold)
            for _, x, value in memorable
        ],
        gate=threshold,
        types=sorted({item.type for item in laned if item.type}),
    )


def _mark_widths(items: Sequence[PictureItem]) -> dict[datetime, float]:
    widths: dict[datetime, float] = {}
    for item in items:
        width = LARGE_MARK_WIDTH if item.stands_out else SMALL_MARK_WIDTH
        widths[item.at] = max(widths.get(item.at, SMALL_MARK_WIDTH), width)
    return widths


def _lay_out_lanes(items: Sequence[PictureItem]) -> list[Lane]:
    counts = Counter(item.lane for item in items)
    return [
        Lane(name, LANES[name], HEADER_HEIGHT + LANE_HEIGHT * (index + 0.5), counts[name])
        for index, name in enumerate(name for name in LANES if counts[name])
    ]


def _segment_bands(items: Sequence[PictureItem], axis: Axis) -> list[SegmentBand]:
    """Return bands that cover the picture from left to right without gaps."""
    groups = [list(some) for _, some in groupby(_with_segments(items), key=lambda pair: pair[0])]
    starts = [0.0, *(axis.place(group[0][1].at) - SMALL_MARK_WIDTH for group in groups[1:]), axis.width]
    return [
        _segment_band(group[0][0], [item for _, item in group], left, right, axis)
        for group, (left, right) in zip(groups, pairwise(starts), strict=True)
    ]


def _with_segments(items: Sequence[PictureItem]) -> Iterator[tuple[int, PictureItem]]:
    """Pair each item with its own segment, else with the segment before it, else with the first one."""
    segment = next((item.segment for item in items if item.segment is not None), 0)
    for item in items:
        segment = item.segment if item.segment is not None else segment
        yield segment, item


def _segment_band(
    number: int, members: list[PictureItem], left: float, right: float, axis: Axis
) -> SegmentBand:
    keywords = tuple(most_common_keywords((item.keywords for item in members), MAX_KEYWORDS))
    lanes = Counter(item.lane for item in members)
    memorable = [item.memorability for item in members if item.memorability is not None]
    x = axis.percent(left)
    return SegmentBand(
        number=number,
        x=x,
        width=round(axis.percent(right) - x, 3),
        words=_words_that_fit(keywords, right - left),
        keywords=keywords,
        first=members[0].at,
        last=members[-1].at,
        counts=[(label, lanes[name]) for name, label in LANES.items() if lanes[name]],
        kept=[item for item in members if item.stands_out],
        peak=max(memorable, default=None),
    )


def _words_that_fit(keywords: Sequence[str], pixels: float) -> str:
    """Return as many of the words as fit into one line."""
    letters, fitting = int((pixels - 12) / LETTER_WIDTH), ""
    for word in keywords:
        longer = f"{fitting}, {word}" if fitting else word
        if len(longer) > letters:
            break
        fitting = longer
    return fitting


def _memorability_values(
    items: Sequence[PictureItem], across: Mapping[datetime, float]
) -> list[tuple[datetime, float, float]]:
    """Return time, place in percent and memorability (limited to 0..1) of each item that has one."""
    return [
        (item.at, across[item.at], min(max(item.memorability, 0.0), 1.0))
        for item in items
        if item.memorability is not None
    ]


def _curve_path(memorable: Sequence[tuple[datetime, float, float]], axis: Axis) -> str:
    """Return the memorability curve as a path that is interrupted at each fold."""
    drawn: list[str] = []
    breaks = [axis.moments[n] for n in sorted(axis.folded)]
    before = None
    for at, x, value in memorable:
        part = bisect_right(breaks, at)
        drawn.append(f"{'L' if part == before else 'M'}{x:g} {100 * (1 - value):.4g}")
        before = part
    return "".join(drawn)
