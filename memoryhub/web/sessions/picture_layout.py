"""A session as a picture: time from left to right, a lane for each kind of thing. Positions and words. Pure.

Across, positions are percent of the picture's width, which is at least ``width`` pixels; downwards they are
pixels.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from itertools import groupby, pairwise

from memoryhub.capture.boundaries import most_common_keywords
from memoryhub.web.sessions.time_axis import Axis, Fold, Tick, build_axis, find_folds, make_ticks

# Lanes from above, with what stands beside them.
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
SMALL_MARK_WIDTH, LARGE_MARK_WIDTH = 2.6, 15.0  # what a mark takes across, and one that stands out
HEADER_HEIGHT, LANE_HEIGHT, GAP, CURVE_HEIGHT, FOOTER_HEIGHT = 30, 24, 8, 64, 26
LETTER_WIDTH = 6.6

MAX_KEYWORDS = 6


@dataclass(frozen=True)
class PictureItem:
    """Something to draw. ``lane`` is one of :data:`LANES`, or START or END.

    ``type`` is that of the memory it is or became, which makes it stand out; ``href`` leads there.
    ``segment`` None: of whatever segment is going on.
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
    """A memorability on the curve, in the picture's own measures."""

    x: float
    y: float
    passes: bool


@dataclass(frozen=True)
class SegmentBand:
    """A segment: what it is about, what it holds."""

    number: int
    x: float
    width: float
    words: str  # that fit above it
    keywords: tuple[str, ...]
    first: datetime
    last: datetime
    counts: list[tuple[str, int]]  # of each lane that occurs, in the lanes' order
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
    curve: str  # in a box of 100 × 100, empty without any memorability
    points: list[Point]
    gate: float
    types: list[str] = field(default_factory=list)  # of the memories in it

    @property
    def floor(self) -> int:
        """Where the lanes end."""
        return HEADER_HEIGHT + LANE_HEIGHT * len(self.lanes)

    @property
    def curve_top(self) -> int:
        return self.floor + GAP

    @property
    def curve_bottom(self) -> int:
        return self.curve_top + (CURVE_HEIGHT if self.curve else 0)

    @property
    def middle(self) -> int:
        """Half way down the lanes."""
        return (HEADER_HEIGHT + self.floor) // 2

    @property
    def curve_height(self) -> int:
        return CURVE_HEIGHT

    @property
    def gate_y(self) -> float:
        return round(self.curve_top + CURVE_HEIGHT * (1 - self.gate), 1)

    @property
    def words_y(self) -> int:
        """Where the times stand."""
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
    happenings: Sequence[PictureItem], gate: float, zone: tzinfo = UTC
) -> SessionPicture | None:
    """The picture of these happenings, with the times of a zone below it; None of none."""
    if not happenings:
        return None
    happenings = sorted(happenings, key=lambda one: one.at)
    sizes: dict[datetime, float] = {}
    for one in happenings:
        sizes[one.at] = max(
            sizes.get(one.at, SMALL_MARK_WIDTH), LARGE_MARK_WIDTH if one.stands_out else SMALL_MARK_WIDTH
        )
    axis = build_axis(sizes)
    laned = [one for one in happenings if one.lane in LANES]
    counts = Counter(one.lane for one in laned)
    lanes = [
        Lane(name, LANES[name], HEADER_HEIGHT + LANE_HEIGHT * (index + 0.5), counts[name])
        for index, name in enumerate(name for name in LANES if counts[name])
    ]
    heights = {lane.name: lane.y for lane in lanes}
    across = dict(zip(axis.moments, map(axis.percent, axis.places), strict=True))
    memorable = _memorability_values(happenings, across)
    return SessionPicture(
        width=round(axis.width),
        lanes=lanes,
        bands=_segment_bands(happenings, axis),
        folds=find_folds(axis),
        marks=[Mark(across[one.at], heights[one.lane], one) for one in laned],
        edges=[Mark(across[one.at], HEADER_HEIGHT, one) for one in happenings if one.lane in (START, END)],
        ticks=make_ticks(axis, zone),
        curve=_curve_path(memorable, axis),
        points=_curve_points(memorable, HEADER_HEIGHT + LANE_HEIGHT * len(lanes) + GAP, gate),
        gate=gate,
        types=sorted({one.type for one in laned if one.type}),
    )


def _segment_bands(happenings: Sequence[PictureItem], axis: Axis) -> list[SegmentBand]:
    """One after the other without a gap, from the left edge to the right."""
    groups = [list(some) for _, some in groupby(_with_segments(happenings), key=lambda pair: pair[0])]
    starts = [0.0, *(axis.place(group[0][1].at) - SMALL_MARK_WIDTH for group in groups[1:]), axis.width]
    return [
        _segment_band(group[0][0], [one for _, one in group], left, right, axis)
        for group, (left, right) in zip(groups, pairwise(starts), strict=True)
    ]


def _with_segments(happenings: Sequence[PictureItem]) -> Iterator[tuple[int, PictureItem]]:
    """Each with its segment; what has none belongs to the one that goes on, at the beginning to the first."""
    segment = next((one.segment for one in happenings if one.segment is not None), 0)
    for one in happenings:
        segment = one.segment if one.segment is not None else segment
        yield segment, one


def _segment_band(
    number: int, members: list[PictureItem], left: float, right: float, axis: Axis
) -> SegmentBand:
    keywords = tuple(most_common_keywords((one.keywords for one in members), MAX_KEYWORDS))
    lanes = Counter(one.lane for one in members)
    memorable = [one.memorability for one in members if one.memorability is not None]
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
        kept=[one for one in members if one.stands_out],
        peak=max(memorable, default=None),
    )


def _words_that_fit(keywords: Sequence[str], pixels: float) -> str:
    """As many of the words as have room in one line."""
    letters, fitting = int((pixels - 12) / LETTER_WIDTH), ""
    for word in keywords:
        longer = f"{fitting}, {word}" if fitting else word
        if len(longer) > letters:
            break
        fitting = longer
    return fitting


def _memorability_values(
    happenings: Sequence[PictureItem], across: Mapping[datetime, float]
) -> list[tuple[datetime, float, float]]:
    """When, where in percent, and the memorability within 0..1."""
    return [
        (one.at, across[one.at], min(max(one.memorability, 0.0), 1.0))
        for one in happenings
        if one.memorability is not None
    ]


def _curve_path(memorable: Sequence[tuple[datetime, float, float]], axis: Axis) -> str:
    """Memorability along the way; it breaks off at a fold."""
    drawn: list[str] = []
    breaks = [axis.moments[n] for n in sorted(axis.folded)]
    before = None
    for at, x, value in memorable:
        part = bisect_right(breaks, at)
        drawn.append(f"{'L' if part == before else 'M'}{x:g} {100 * (1 - value):.4g}")
        before = part
    return "".join(drawn)


def _curve_points(memorable: Sequence[tuple[datetime, float, float]], top: float, gate: float) -> list[Point]:
    return [Point(x, round(top + CURVE_HEIGHT * (1 - value), 1), value >= gate) for _, x, value in memorable]
