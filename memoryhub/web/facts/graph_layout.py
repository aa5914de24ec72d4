"""Positions of the nodes and labels of a graph in a picture of ``WIDTH`` × ``HEIGHT`` pixels.

The layout is deterministic.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 1200, 780
MARGIN = 56  # above and below the outermost nodes; names need more at the sides
SIDE_MARGIN = 90
STEPS, SEPARATION_STEPS = 160, 24
MAX_PUSH_DISTANCE = 4.0  # times the ideal distance: nodes farther apart do not repel each other
LETTER_WIDTH, LINE_HEIGHT = 6.6, 17.0
GAP = 5.0  # between a node and its name
_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))

Points = NDArray[np.float64]
Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom


def arrange_nodes(count: int, links: Sequence[tuple[int, int]], radii: Sequence[float]) -> Points:
    """Return the positions of ``count`` nodes, where links attract and all nodes repel each other.

    Nodes start on a spiral with the first one in the middle. Takes about 0.1 s of CPU for 150 nodes.
    """
    if count == 0:
        return np.zeros((0, 2))
    numbers = np.arange(count)
    turn, out = numbers * _GOLDEN_ANGLE, np.sqrt((numbers + 0.5) / count)
    points: Points = np.stack([np.cos(turn) * out * WIDTH / 2, np.sin(turn) * out * HEIGHT / 2], axis=1)
    pairs = np.array(sorted({(a, b) for a, b in links if a != b}), dtype=np.intp).reshape(-1, 2)
    ideal = 0.82 * math.sqrt(WIDTH * HEIGHT / count)
    # The links of a hub pull less. Otherwise they would draw its neighbours into one heap.
    degrees = np.bincount(pairs.ravel(), minlength=count).astype(float)
    pull = 1 / np.maximum(np.minimum(degrees[pairs[:, 0]], degrees[pairs[:, 1]]), 1.0) ** 0.85
    # Nothing but the middle attracts unlinked nodes.
    home = np.where(degrees[:, None] > 0, 0.9, 2.6) * np.array([1.0, WIDTH / HEIGHT])
    heat = WIDTH / 8
    for step in range(STEPS):
        points = _move_nodes(points, pairs, pull, home, ideal, heat * (1 - step / STEPS) + 1.0)
    return _separate_nodes(_scale_to_picture(points), np.asarray(radii, dtype=float))


def _move_nodes(
    points: Points, pairs: NDArray[np.intp], pull: Points, home: Points, ideal: float, heat: float
) -> Points:
    """Apply the forces of Fruchterman and Reingold once; no node moves farther than ``heat``."""
    away = points[:, None, :] - points[None, :, :]
    square = np.maximum((away**2).sum(axis=2), 1.0)
    # Without a maximum distance, unlinked nodes would leave the picture.
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
    """Scale the points to the picture; a single one is centered."""
    low, high = points.min(axis=0), points.max(axis=0)
    span = np.maximum(high - low, 1.0)
    room = np.array([WIDTH - 2 * SIDE_MARGIN, HEIGHT - 2 * MARGIN])
    scale = np.minimum(room / span, 2.5)
    middle = np.array([WIDTH / 2, HEIGHT / 2])
    fitted: Points = (points - (low + high) / 2) * scale + middle
    return fitted


def _separate_nodes(points: Points, radii: Points) -> Points:
    """Move overlapping nodes apart, within the picture."""
    low, high = (
        np.array([SIDE_MARGIN / 2, MARGIN / 2]),
        np.array([WIDTH - SIDE_MARGIN / 2, HEIGHT - MARGIN / 2]),
    )
    least = radii[:, None] + radii[None, :] + 12
    np.fill_diagonal(least, 0)
    for _ in range(SEPARATION_STEPS):
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
    """Return positions for names around the placed node that each belongs to, in a spiral."""
    found = {}
    for anchor, names in hung.items():
        x, y = places[anchor]
        for number, name in enumerate(names):
            turn, out = number * _GOLDEN_ANGLE, 20 + 4.6 * math.sqrt(number)
            across, down = x + out * math.cos(turn), y + out * math.sin(turn)
            found[name] = (round(min(max(across, 3), WIDTH - 3)), round(min(max(down, 3), HEIGHT - 3)))
    return found


class NamePlacement(NamedTuple):
    """The anchor point of a name, which end of the text it is, and whether there is space for the name."""

    x: int
    y: int
    anchor: str
    has_room: bool


class LabelPlacer:
    """Places names and edge labels where they cover nothing that is already placed."""

    def __init__(
        self, points: Sequence[Point], radii: Sequence[float], links: Sequence[tuple[int, int]] = ()
    ) -> None:
        self._points, self._radii = points, radii
        self._reserved: list[Box] = [
            (x - r, y - r, x + r, y + r) for (x, y), r in zip(points, radii, strict=True)
        ]
        self._above: set[int] = set()
        self._neighbours: dict[int, list[int]] = defaultdict(list)
        for a, b in links:
            if a != b:
                self._neighbours[a].append(b)
                self._neighbours[b].append(a)

    def place_names(self, texts: Sequence[str]) -> list[NamePlacement]:
        """Place each name next to its node, in order. A name that would cover something has no room."""
        return [self._name(number, text) for number, text in enumerate(texts)]

    def is_above(self, number: int) -> bool:
        """Return whether the name of a node is above it."""
        return number in self._above

    def _name(self, number: int, text: str) -> NamePlacement:
        candidates = self._candidates(number, text)
        for across, down, anchor, box in sorted(
            candidates, key=lambda candidate: self._covers_own_edge(number, candidate[3])
        ):
            if self._reserve(box, number):
                if down < self._points[number][1] - self._radii[number]:
                    self._above.add(number)
                return NamePlacement(round(across), round(down), anchor, True)
        x = self._points[number][0]
        rightwards = next(candidate for candidate in candidates if candidate[2] == "start")
        leftwards = next(candidate for candidate in candidates if candidate[2] == "end")
        across, down, anchor, _ = rightwards if x < WIDTH / 2 else leftwards
        return NamePlacement(round(across), round(down), anchor, False)

    def _candidates(self, number: int, text: str) -> list[tuple[float, float, str, Box]]:
        """Return the candidate positions of a name, best first: left and right, below, above, corners."""
        (x, y), r, width = self._points[number], self._radii[number], len(text) * LETTER_WIDTH
        aside, corner = r + GAP, r * 0.75 + 2
        right, left = ("start", 1, 0.0), ("end", -1, width)
        sides = (
            (left, right) if x < WIDTH / 2 else (right, left)
        )  # outwards first: most edges come from the middle
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

    def _covers_own_edge(self, number: int, box: Box) -> bool:
        """Return whether a name would cover an edge of its node."""
        start = self._points[number]
        return any(_crosses_box(start, self._points[other], box) for other in self._neighbours[number])

    def place_on_line(self, start: Point, end: Point, text: str) -> Point | None:
        """Return the center of a label on a line, near the middle of the line; None without space."""
        width = len(text) * LETTER_WIDTH * 0.9
        for share in (0.5, 0.64, 0.36, 0.76, 0.24):
            x, y = (a + (b - a) * share for a, b in zip(start, end, strict=True))
            if self._reserve((x - width / 2, y - LINE_HEIGHT / 2, x + width / 2, y + LINE_HEIGHT / 2)):
                return x, y
        return None

    def _reserve(self, box: Box, own: int = -1) -> bool:
        """Reserve the box if it is free. It may cover its own node."""
        inside = box[0] >= 2 and box[2] <= WIDTH - 2 and box[1] >= 2 and box[3] <= HEIGHT - 2
        if not inside or any(_overlap(box, other) for at, other in enumerate(self._reserved) if at != own):
            return False
        self._reserved.append(box)
        return True


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _crosses_box(start: Point, end: Point, box: Box) -> bool:
    """Return whether a line crosses a box (Liang-Barsky)."""
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
