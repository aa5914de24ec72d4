"""Where the nodes of a graph stand, and which of their names have room. Pure.

The same graph is laid out the same way each time, in a picture of ``WIDTH`` × ``HEIGHT`` pixels.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 1200, 780
MARGIN = 56  # that the outermost nodes keep from the edge; names need more at the sides
SIDE_MARGIN = 90
STEPS = 160
MAX_PUSH_DISTANCE = 4.0  # of the ideal distance: nodes farther from each other do not push
LETTER_WIDTH, LINE_HEIGHT = 6.6, 17.0  # what a letter of a name takes across, and a line downwards
GAP = 5.0  # between a node and its name
_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))

Points = NDArray[np.float64]
Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom


def arrange_nodes(count: int, links: Sequence[tuple[int, int]], radii: Sequence[float]) -> Points:
    """Positions of ``count`` nodes: springs along the links, and everything keeps away from everything else.

    Nodes stand the nearer to the middle at first the lower their number is. About 0.1 s of CPU for 150.
    """
    if count == 0:
        return np.zeros((0, 2))
    numbers = np.arange(count)
    turn, out = numbers * _GOLDEN_ANGLE, np.sqrt((numbers + 0.5) / count)
    points: Points = np.stack([np.cos(turn) * out * WIDTH / 2, np.sin(turn) * out * HEIGHT / 2], axis=1)
    pairs = np.array(sorted({(a, b) for a, b in links if a != b}), dtype=np.intp).reshape(-1, 2)
    ideal = 0.82 * math.sqrt(WIDTH * HEIGHT / count)
    # A link of a hub pulls less: it would draw all that hangs on it into one heap.
    degrees = np.bincount(pairs.ravel(), minlength=count).astype(float)
    pull = 1 / np.maximum(np.minimum(degrees[pairs[:, 0]], degrees[pairs[:, 1]]), 1.0) ** 0.85
    # What hangs on nothing is held by nothing else.
    home = np.where(degrees[:, None] > 0, 0.9, 2.6) * np.array([1.0, WIDTH / HEIGHT])
    heat = WIDTH / 8
    for step in range(STEPS):
        points = _move_nodes(points, pairs, pull, home, ideal, heat * (1 - step / STEPS) + 1.0)
    return _separate_nodes(_scale_to_picture(points), np.asarray(radii, dtype=float))


def _move_nodes(
    points: Points, pairs: NDArray[np.intp], pull: Points, home: Points, ideal: float, heat: float
) -> Points:
    """One turn of the forces of Fruchterman and Reingold; nothing moves farther than ``heat``."""
    away = points[:, None, :] - points[None, :, :]
    square = np.maximum((away**2).sum(axis=2), 1.0)
    # Beyond some distance nobody pushes: what hangs on nothing would leave the picture.
    push = np.where(square < (MAX_PUSH_DISTANCE * ideal) ** 2, ideal**2 / square, 0.0)
    force = (away * push[:, :, None]).sum(axis=1)
    along = points[pairs[:, 0]] - points[pairs[:, 1]]
    length = np.sqrt((along**2).sum(axis=1))
    drawn = along * (length * pull / ideal)[:, None]
    np.add.at(force, pairs[:, 0], -drawn)
    np.add.at(force, pairs[:, 1], drawn)
    force -= points * home  # towards the middle
    size = np.maximum(np.sqrt((force**2).sum(axis=1)), 1e-9)
    moved: Points = points + force * (np.minimum(size, heat) / size)[:, None]
    return moved


def _scale_to_picture(points: Points) -> Points:
    """The points spread over the picture; a single one stands in the middle."""
    low, high = points.min(axis=0), points.max(axis=0)
    span = np.maximum(high - low, 1.0)
    room = np.array([WIDTH - 2 * SIDE_MARGIN, HEIGHT - 2 * MARGIN])
    scale = np.minimum(room / span, 2.5)
    middle = np.array([WIDTH / 2, HEIGHT / 2])
    fitted: Points = (points - (low + high) / 2) * scale + middle
    return fitted


def _separate_nodes(points: Points, radii: Points, turns: int = 24) -> Points:
    """Nodes that touch each other are moved apart, within the picture."""
    low, high = (
        np.array([SIDE_MARGIN / 2, MARGIN / 2]),
        np.array([WIDTH - SIDE_MARGIN / 2, HEIGHT - MARGIN / 2]),
    )
    least = radii[:, None] + radii[None, :] + 12
    np.fill_diagonal(least, 0)
    for _ in range(turns):
        away = points[:, None, :] - points[None, :, :]
        length = np.maximum(np.sqrt((away**2).sum(axis=2)), 0.01)
        short = np.maximum(least - length, 0)
        if not short.any():
            break
        points = points + (away * (short / length / 2)[:, :, None]).sum(axis=1)
        points = np.clip(points, low, high)
    return points


def place_around(
    places: Mapping[str, tuple[float, float]], hung: Mapping[str, Sequence[str]]
) -> dict[str, tuple[int, int]]:
    """Where things stand that hang on placed ones: in a spiral around each, like the seeds of a flower."""
    found = {}
    for anchor, names in hung.items():
        x, y = places[anchor]
        for number, name in enumerate(names):
            turn, out = number * _GOLDEN_ANGLE, 20 + 4.6 * math.sqrt(number)
            across, down = x + out * math.cos(turn), y + out * math.sin(turn)
            found[name] = (round(min(max(across, 3), WIDTH - 3)), round(min(max(down, 3), HEIGHT - 3)))
    return found


class NamePlacement(NamedTuple):
    """Where a name stands: its anchor point, which end of it is there, and whether it has room."""

    x: int
    y: int
    anchor: str
    has_room: bool


class LabelPlacer:
    """What the names of a picture have taken of it so far."""

    def __init__(
        self, points: Sequence[Point], radii: Sequence[float], links: Sequence[tuple[int, int]] = ()
    ) -> None:
        self._points, self._radii = points, radii
        self._taken: list[Box] = [
            (x - r, y - r, x + r, y + r) for (x, y), r in zip(points, radii, strict=True)
        ]
        self._above: set[int] = set()
        self._beside: dict[int, list[int]] = defaultdict(list)
        for one, other in links:
            if one != other:
                self._beside[one].append(other)
                self._beside[other].append(one)

    def names(self, texts: Sequence[str]) -> list[NamePlacement]:
        """Each name beside its node, the first nodes first; one that would cover something has no room."""
        return [self._name(number, text) for number, text in enumerate(texts)]

    def is_above(self, number: int) -> bool:
        """Whether the name of a node stands above it."""
        return number in self._above

    def _name(self, number: int, text: str) -> NamePlacement:
        ways = self._ways(number, text)
        for across, down, anchor, box in sorted(ways, key=lambda way: self._on_a_line(number, way[3])):
            if self._take(box, number):
                if down < self._points[number][1] - self._radii[number]:
                    self._above.add(number)
                return NamePlacement(round(across), round(down), anchor, True)
        x = self._points[number][0]
        rightwards = next(way for way in ways if way[2] == "start")
        leftwards = next(way for way in ways if way[2] == "end")
        across, down, anchor, _ = rightwards if x < WIDTH / 2 else leftwards
        return NamePlacement(round(across), round(down), anchor, False)

    def _ways(self, number: int, text: str) -> list[tuple[float, float, str, Box]]:
        """Where a name may stand, the best first: beside its node, under or over it, at its corners."""
        (x, y), r, width = self._points[number], self._radii[number], len(text) * LETTER_WIDTH
        aside, corner = r + GAP, r * 0.75 + 2
        right, left = ("start", 1, 0.0), ("end", -1, width)
        sides = (left, right) if x < WIDTH / 2 else (right, left)  # outwards first: lines come from within
        ways = [(x + way * aside, y + 4, anchor, back) for anchor, way, back in sides]
        ways += [(x, y + r + 13, "middle", width / 2), (x, y - r - GAP, "middle", width / 2)]
        for down in (y + r + 9, y - r - 1):
            ways += [(x + way * corner, down, anchor, back) for anchor, way, back in sides]
        return [
            (
                at,
                down,
                anchor,
                (at - back, down - LINE_HEIGHT * 0.75, at - back + width, down + LINE_HEIGHT * 0.25),
            )
            for at, down, anchor, back in ways
        ]

    def _on_a_line(self, number: int, box: Box) -> bool:
        """Whether a name would lie on a line of its own node."""
        start = self._points[number]
        return any(_crosses_box(start, self._points[other], box) for other in self._beside[number])

    def between(self, start: Point, end: Point, text: str) -> Point | None:
        """The middle of a text on a line, near the line's; None where there is no room."""
        width = len(text) * LETTER_WIDTH * 0.9
        for share in (0.5, 0.64, 0.36, 0.76, 0.24):
            x, y = (a + (b - a) * share for a, b in zip(start, end, strict=True))
            if self._take((x - width / 2, y - LINE_HEIGHT / 2, x + width / 2, y + LINE_HEIGHT / 2)):
                return x, y
        return None

    def _take(self, box: Box, own: int = -1) -> bool:
        """Whether a box had room. It may cover its own node."""
        inside = box[0] >= 2 and box[2] <= WIDTH - 2 and box[1] >= 2 and box[3] <= HEIGHT - 2
        if not inside or any(_overlap(box, other) for at, other in enumerate(self._taken) if at != own):
            return False
        self._taken.append(box)
        return True


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _crosses_box(start: Point, end: Point, box: Box) -> bool:
    """Whether a line goes through a box (after Liang and Barsky)."""
    enters, leaves = 0.0, 1.0
    for axis in (0, 1):
        way, low, high = end[axis] - start[axis], box[axis] - start[axis], box[axis + 2] - start[axis]
        if not way:
            if not low < 0 < high:
                return False
            continue
        near, far = sorted((low / way, high / way))
        enters, leaves = max(enters, near), min(leaves, far)
    return enters < leaves
