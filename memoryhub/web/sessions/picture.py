"""The picture of a session: its events, injections and memories, within a budget of bytes.

Time runs from left to right, with a lane for each activity. The axis is drawn to scale, keeps neighbours
apart and folds long pauses. Its places are pixels; :meth:`Axis.percent` converts them to percent of the
picture's width, which is at least ``width`` pixels. Vertical positions are pixels.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import groupby, pairwise
from statistics import median
from typing import Any

from django.conf import settings
from django.template.defaultfilters import floatformat
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from memoryhub.access import policy
from memoryhub.access.policy import Clearance
from memoryhub.capture.observation import tool_kind
from memoryhub.core.text import most_common_keywords, shorten
from memoryhub.injection.queries import InjectionReport
from memoryhub.models import Event, Memory
from memoryhub.models.querysets import live_memories
from memoryhub.web.base.labels import event_name, session_url, skip_reason

# Pixels
MIN_WIDTH = 720.0
MARGIN = 30.0  # left of the first item, whose label is centred on it, and right of the last
FOLD_WIDTH = 46.0
TICK_SPACING, DATE_SPACING = 62.0, 108.0
DATE_LETTER_WIDTH = 8.5

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
        free = place + (max(DATE_SPACING, len(words) * DATE_LETTER_WIDTH) if dated else TICK_SPACING)
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


MAX_ITEMS = 1500  # of each kind; more marks would overlap
MAX_PICTURE_BYTES = 36_000  # with its table
MAX_TITLE_CHARS = 90
_EVENT_LANES = {
    "prompt:submit": "prompt",
    "session:start": START,
    "session:end": END,
    "session:checkpoint": "memory",
}


def fit_to_bytes(
    render: Callable[[int], str], count: int, max_bytes: int, min_count: int = 1
) -> tuple[str, int]:
    """Render the first ``count`` items, or fewer to stay within ``max_bytes``. Return markup and count.

    ``render`` makes the markup of that many items. At least ``min_count`` are rendered, whatever their size.
    """
    markup = render(count)
    while (size := len(markup.encode())) > max_bytes and count > min_count:
        count = max(min_count, min(count - 1, count * max_bytes // size))
        markup = render(count)
    return markup, count


def render_picture(session: Any, clearance: Clearance, reports: Iterable[InjectionReport]) -> str:
    """Return the markup of the picture of a visible session and its injections; empty without items.

    To stay within the byte budget, first the titles of small marks are left out, then the last items.
    """
    drawn, more = _collect_items(session, clearance, reports)
    if not drawn:
        return ""
    markup = _render_items(drawn, more=more, titled=True)
    if len(markup.encode()) <= MAX_PICTURE_BYTES:
        return markup
    return fit_to_bytes(
        lambda count: _render_items(drawn[:count], more=more or count < len(drawn), titled=False),
        len(drawn),
        MAX_PICTURE_BYTES,
    )[0]


def _render_items(drawn: Sequence[PictureItem], *, more: bool, titled: bool) -> str:
    threshold = settings.MEMORYHUB.memorability_threshold
    picture = lay_out_picture(drawn, threshold, timezone.get_current_timezone())
    return render_to_string(
        "sessions/page.html#picture", {"picture": picture, "more": more, "titled": titled}
    )


def _collect_items(
    session: Any, clearance: Clearance, reports: Iterable[InjectionReport]
) -> tuple[list[PictureItem], bool]:
    """Return the items to draw in their order, and whether more of them exist."""
    events = _event_rows(session, clearance)
    more = len(events) > MAX_ITEMS
    drawn = [_event_item(item) for item in events[:MAX_ITEMS]]
    drawn += [_injection_item(report, session) for report in reports]
    drawn += [
        _memory_item(item) for item in _other_memories(session, clearance, {e.memory_id for e in events})
    ]
    if more:
        last = events[MAX_ITEMS - 1].at
        drawn = [item for item in drawn if item.at <= last]
    drawn += _edge_items(session, {item.lane for item in drawn}, ends=not more)
    return sorted(drawn, key=lambda item: item.at), more


def _event_rows(session: Any, clearance: Clearance) -> list[Any]:
    """Return the events, one more than :data:`MAX_ITEMS` when more exist."""
    events = Event.objects.visible_to(clearance).filter(session=session)
    names = ("at", "event", "tool_name", "segment", "memorability", "skip_reason", "files", "keywords")
    became = ("memory_id", "memory__uid", "memory__title", "memory__type", "memory__sensitivity")
    # Rows take half the time of model instances.
    return list(events.order_by("at", "pk").values_list(*names, *became, named=True)[: MAX_ITEMS + 1])


def _other_memories(session: Any, clearance: Clearance, drawn: set[int | None]) -> list[Memory]:
    """Return memories that come from no event: checkpoints, summaries, those that an agent stored."""
    memories = live_memories(clearance)
    mine = memories.in_session(session.session_id, project=session.project)
    rows = mine.only("uid", "title", "type", "created_at", "sensitivity").order_by("created_at", "pk")[
        :MAX_ITEMS
    ]
    return [memory for memory in rows if memory.pk not in drawn]


def _event_item(event: Any) -> PictureItem:
    return PictureItem(
        at=event.at,
        lane=_EVENT_LANES.get(event.event) or tool_kind(event.tool_name),
        title=_event_title(event),
        type=event.memory__type or "",
        href=reverse("memory", args=[event.memory__uid]) if event.memory_id else "",
        memorability=event.memorability,
        segment=event.segment,
        keywords=tuple(map(str, event.keywords)) if isinstance(event.keywords, list) else (),
    )


def _event_title(event: Any) -> str:
    """``14:02:31 Edit src/a.py, memorability 0.41, became “…”``."""
    name = " ".join([event_name(event), *map(str, event.files[:1])])
    parts = [f"{_clock(event.at)} {shorten(name, MAX_TITLE_CHARS)}"]
    if event.memorability is not None:
        parts.append(f"memorability {floatformat(event.memorability, 2)}")
    if event.memory_id:
        became = policy.format_display_name(event.memory__title, event.memory__uid, event.memory__sensitivity)
        parts.append(f"became “{shorten(became, MAX_TITLE_CHARS)}”")
    elif event.skip_reason:
        parts.append(f"not kept: {skip_reason(event.skip_reason)}")
    return ", ".join(parts)


def _injection_item(log: InjectionReport, session: Any) -> PictureItem:
    """Link the item to its entry in the injection log of this session."""
    titles = (
        "; ".join(shorten(policy.display_name(item.memory), MAX_TITLE_CHARS) for item in log.shown)
        or "nothing to list"
    )
    at, uid = log.injection.at, log.injection.uid
    here = f"{session_url(session.session_id, session.project)}&kind=injection#injection-{uid}"
    return PictureItem(at, "injection", f"{_clock(at)} injected: {titles}", href=here)


def _memory_item(memory: Memory) -> PictureItem:
    name = shorten(policy.display_name(memory), MAX_TITLE_CHARS)
    title = f"{_clock(memory.created_at)} {memory.type.replace('_', ' ')}: {name}"
    return PictureItem(memory.created_at, "memory", title, memory.type, reverse("memory", args=[memory.uid]))


def _edge_items(session: Any, lanes: set[str], *, ends: bool) -> list[PictureItem]:
    """Return the start and end of the session, unless events mark them."""
    edges = []
    if START not in lanes:
        edges.append(PictureItem(session.first_seen, START, f"{_clock(session.first_seen)} session began"))
    if ends and session.ended_seen and END not in lanes:
        edges.append(PictureItem(session.ended_seen, END, f"{_clock(session.ended_seen)} session ended"))
    return edges


def _clock(at: datetime) -> str:
    return timezone.localtime(at).time().isoformat("seconds")
