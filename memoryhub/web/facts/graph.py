"""The picture of the fact graph: subjects and objects are nodes, predicates are edges.

Nodes come from visible facts only. In a large graph the nodes with the most neighbours are drawn with their
names and the others as points around them. An opened node is drawn with its neighbours. The layout of the
picture of ``WIDTH`` × ``HEIGHT`` pixels is deterministic.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoryhub.core.text import readable, shorten
from memoryhub.facts.predicates import normalise_predicate
from memoryhub.facts.queries import GraphIndex, Triple, most_common_spelling, node_key

MAX_NAMED_NODES = 80  # when no node is open; a graph of up to half as many more is drawn whole
MAX_NEIGHBOURS = 36  # of an open node
MAX_OPEN_NODES = 8
MAX_COLOURS = 6  # predicates with their own colour
MAX_LABELLED_EDGES = 28
_MAX_LABEL_CHARS = 26


@dataclass(frozen=True)
class Node:
    key: str
    text: str
    label: str
    x: int
    y: int
    r: int
    name: NamePlacement
    facts: int
    neighbours: int
    more: int  # neighbours that are not drawn
    is_open: bool
    is_subject: bool  # of a fact
    links: str  # the numbers of its drawn neighbours


@dataclass(frozen=True)
class Edge:
    """All facts between two nodes; ``path`` runs from subject to object."""

    path: str
    x: int
    y: int
    title: str
    label: str
    colour: str
    contradicts: bool
    is_indirect: bool  # neither of its nodes is open


@dataclass(frozen=True)
class PredicateColour:
    predicate: str
    count: int
    name: str


@dataclass(frozen=True)
class GraphPicture:
    nodes: list[Node]
    edges: list[Edge]  # with labels; empty when no node is open
    # When no node is open: CSS classes and path of all edges that look alike.
    bundles: list[tuple[str, str]]
    links: int  # how many edges there are
    colours: list[PredicateColour]
    dust: str  # the other nodes as a path of points
    total: int  # nodes in the graph
    facts: int
    contradicting: int  # facts
    is_cut: bool

    @property
    def width(self) -> int:
        return WIDTH

    @property
    def height(self) -> int:
        return HEIGHT


def draw_graph(index: GraphIndex, opened: Sequence[str], contradicting: Collection[int]) -> GraphPicture:
    """Draw the open nodes with their neighbours, or the most connected nodes if none is open.

    ``contradicting``: primary keys of facts that contradict others.
    """
    names = _select_nodes(index, opened)
    triples_by_pair = _find_edges(index, names)
    radii, places = _arrange(index, names, opened, list(triples_by_pair))
    counted = list(chain.from_iterable(triples_by_pair.values())) if opened else index.triples
    colours = _assign_colours(triple.predicate for triple in counted)
    drawing = _Drawing(
        index=index,
        names=names,
        opened=set(opened),
        places=places,
        radii=radii,
        colours={normalise_predicate(colour.predicate): colour.name for colour in colours},
        contradicting=set(contradicting),
        placer=LabelPlacer(places, radii, list(triples_by_pair)),
    )
    nodes = drawing.nodes(triples_by_pair)  # before the edges, whose labels take the space that names leave
    edges = drawing.edges(triples_by_pair)
    return GraphPicture(
        nodes=nodes,
        edges=edges if opened else [],
        bundles=[] if opened else _bundle_edges(edges),
        links=len(edges),
        colours=colours,
        dust="" if opened else _dust_path(index, dict(zip(names, places, strict=True))),
        total=len(index.of),
        facts=len(index.triples),
        contradicting=sum(triple.pk in drawing.contradicting for triple in counted),
        is_cut=index.is_cut,
    )


def _select_nodes(index: GraphIndex, opened: Sequence[str]) -> list[str]:
    """Return the nodes that are drawn with their names, the most important first."""
    if not opened:
        count = len(index.of)
        return index.most_connected(count if count <= MAX_NAMED_NODES * 3 // 2 else MAX_NAMED_NODES)
    names = list(opened)
    for name in opened:
        confidence = index.neighbours[name]
        nearest = sorted(confidence, key=lambda other: (-confidence[other], -index.degree(other), other))
        names += nearest[:MAX_NEIGHBOURS]
    return list(dict.fromkeys(names))


def _arrange(
    index: GraphIndex, names: Sequence[str], opened: Sequence[str], links: Sequence[tuple[int, int]]
) -> tuple[list[float], list[tuple[float, float]]]:
    """Return the radius and the position of each node."""
    most = max(map(index.degree, names), default=1)
    shares = ((math.sqrt(index.degree(name) / most), name in opened) for name in names)
    radii = [13 + 6 * share if is_open else 4.5 + 12 * share for share, is_open in shares]
    points = arrange_nodes(len(names), links, radii)
    return radii, [(float(x), float(y)) for x, y in points]


def _find_edges(index: GraphIndex, names: Sequence[str]) -> dict[tuple[int, int], list[Triple]]:
    """Return the facts between drawn nodes by the nodes' indexes; both directions share an edge.

    A fact whose subject is its object is an edge from an index to itself.
    """
    number = {name: place for place, name in enumerate(names)}
    found: dict[tuple[int, int], list[Triple]] = defaultdict(list)
    for name in names:
        for triple in index.of[name]:
            subject, object = index.ends[triple.pk]
            if subject != name or object not in number:
                continue
            start, end = number[subject], number[object]
            found[(end, start) if (end, start) in found else (start, end)].append(triple)
    return found


def _assign_colours(predicates: Iterable[str]) -> list[PredicateColour]:
    """Give the most common predicates a colour each; the spellings of a predicate share it."""
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    for predicate, count in Counter(predicates).items():
        spellings[normalise_predicate(predicate)][predicate] += count
    top = sorted(spellings.values(), key=lambda counts: -counts.total())[:MAX_COLOURS]
    return [
        PredicateColour(most_common_spelling(counts), counts.total(), f"p{number}")
        for number, counts in enumerate(top)
    ]


@dataclass(frozen=True)
class _Drawing:
    """The state that nodes and edges are drawn with. A node is identified by its index in ``names``."""

    index: GraphIndex
    names: Sequence[str]
    opened: set[str]
    places: Sequence[tuple[float, float]]
    radii: Sequence[float]
    colours: Mapping[str, str]
    contradicting: set[int]
    placer: LabelPlacer

    def nodes(self, pairs: Iterable[tuple[int, int]]) -> list[Node]:
        labels = [shorten(self.index.text(name), _MAX_LABEL_CHARS) for name in self.names]
        written = self.placer.place_names(labels)
        links: dict[int, set[int]] = defaultdict(set)
        for start, end in pairs:
            links[start].add(end)
            links[end].add(start)
        return [
            self._node(place, label, name, links[place] - {place})
            for place, (label, name) in enumerate(zip(labels, written, strict=True))
        ]

    def _node(self, place: int, label: str, name: NamePlacement, links: set[int]) -> Node:
        thing, (x, y) = self.names[place], self.places[place]
        drawn = {thing, *(self.names[other] for other in links)}
        text = self.index.text(thing)
        return Node(
            key=node_key(text),
            text=text,
            label=label,
            x=round(x),
            y=round(y),
            r=round(self.radii[place]),
            name=name,
            facts=len(self.index.of[thing]),
            neighbours=self.index.degree(thing),
            more=len(self.index.neighbours[thing].keys() - drawn),
            is_open=thing in self.opened,
            is_subject=any(self.index.ends[triple.pk][0] == thing for triple in self.index.of[thing]),
            links=" ".join(map(str, sorted(links))),
        )

    def edges(self, triples_by_pair: Mapping[tuple[int, int], list[Triple]]) -> list[Edge]:
        of_open_nodes = sum(not self._touches_no_open_node(pair) for pair in triples_by_pair)
        labelled = bool(self.opened) and of_open_nodes <= MAX_LABELLED_EDGES
        return [self._edge(pair, triples, labelled) for pair, triples in triples_by_pair.items()]

    def _touches_no_open_node(self, pair: tuple[int, int]) -> bool:
        return bool(self.opened) and not any(self.names[place] in self.opened for place in pair)

    def _edge(self, pair: tuple[int, int], triples: Sequence[Triple], labelled: bool) -> Edge:
        path, ends = self._loop(pair[0]) if pair[0] == pair[1] else self._line(pair)
        predicates = list(dict.fromkeys(triple.predicate for triple in triples))
        sentences = "; ".join(f"{t.subject} {readable(t.predicate)} {t.object}" for t in triples[:4])
        is_indirect = self._touches_no_open_node(pair)
        names = readable(", ".join(predicates))
        label = shorten(names, 30) if labelled and not is_indirect else ""
        at = self.placer.place_on_line(*ends, label) if label else None
        return Edge(
            path=path,
            x=round(at[0]) if at else 0,
            y=round(at[1]) if at else 0,
            title=shorten(sentences, 200),
            label=label if at else "",
            colour=self.colours.get(normalise_predicate(predicates[0]), ""),
            contradicts=any(triple.pk in self.contradicting for triple in triples),
            is_indirect=is_indirect,
        )

    def _line(self, pair: tuple[int, int]) -> tuple[str, tuple[Point, Point]]:
        """Return the path from a node to the arrowhead at the other, and the line for the label."""
        (x, y), (to_x, to_y) = (self.places[place] for place in pair)
        length = max(math.hypot(to_x - x, to_y - y), 1.0)
        stop = max(length - self.radii[pair[1]] - 3, 0) / length
        end_x, end_y = x + (to_x - x) * stop, y + (to_y - y) * stop
        return f"M{x:.0f} {y:.0f}L{end_x:.0f} {end_y:.0f}", ((x, y), (end_x, end_y))

    def _loop(self, place: int) -> tuple[str, tuple[Point, Point]]:
        """Return a loop above the node, or below it if its name is above, and the line for the label."""
        (x, y), r = self.places[place], self.radii[place]
        way = 1 if self.placer.is_above(place) else -1
        side, root, top = r + 16, y + way * r, y + way * (r + 34)
        path = f"M{x - r / 2:.0f} {root:.0f}C{x - side:.0f} {top:.0f} {x + side:.0f} {top:.0f}"
        words = y + way * (r + 38)
        return f"{path} {x + r / 2:.0f} {root + way * 3:.0f}", ((x - 30, words), (x + 30, words))


def _bundle_edges(edges: Iterable[Edge]) -> list[tuple[str, str]]:
    """Combine hundreds of unlabelled edges into a few paths, contradictions last so that they are on top."""
    paths: dict[tuple[bool, str], list[str]] = defaultdict(list)
    for edge in edges:
        paths[(edge.contradicts, edge.colour)].append(edge.path)
    return [
        (f"edge {colour} is-wrong" if wrong else f"edge {colour}", "".join(found))
        for (wrong, colour), found in sorted(paths.items())
    ]


def _dust_path(index: GraphIndex, places: Mapping[str, tuple[float, float]]) -> str:
    """Return the unnamed nodes as a path of points around their best connected named neighbour."""
    hung: dict[str, list[str]] = defaultdict(list)
    for name, neighbours in index.neighbours.items():
        if name in places:
            continue
        anchors = [other for other in neighbours if other in places]
        if anchors:
            hung[max(anchors, key=lambda other: (index.degree(other), other))].append(name)
    return "".join(f"M{x} {y}h0" for x, y in place_around(places, hung).values())


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
