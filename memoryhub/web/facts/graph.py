"""Facts as a graph: subjects and objects are nodes, predicates edges. What of it is drawn, and where.

A node exists only through facts that may be seen. Of a large graph the nodes with most neighbours are drawn
with their names, and the rest as dust around them; opening a node draws its neighbours.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from memoryhub.core.text import shorten
from memoryhub.facts.graph_index import GraphIndex, Triple, node_key
from memoryhub.facts.predicates import normalise_predicate
from memoryhub.facts.queries import most_common_spelling
from memoryhub.web.facts import graph_layout

MAX_NAMED_NODES = 80  # nodes with names when none is opened; half as many again rather than leave out a few
MAX_NEIGHBOURS = 36  # drawn of a node that is opened
MAX_OPEN_NODES = 8
MAX_COLOURS = 6  # predicates with a colour of their own
MAX_LABELLED_EDGES = 28  # edges of a picture that bear their predicates
_MAX_LABEL_CHARS = 26


@dataclass(frozen=True)
class Node:
    key: str
    text: str
    label: str
    x: int
    y: int
    r: int
    name: graph_layout.NamePlacement
    facts: int
    beside: int
    more: int  # neighbours that are not drawn
    is_open: bool
    is_subject: bool  # something is said of it
    links: str  # the numbers of its drawn neighbours


@dataclass(frozen=True)
class Edge:
    """All that is said between two things; ``path`` runs from subject to object."""

    path: str
    x: int
    y: int
    title: str
    label: str
    colour: str
    contradicts: bool
    is_beside: bool  # between two nodes neither of which is opened


@dataclass(frozen=True)
class PredicateColour:
    predicate: str
    count: int
    name: str


@dataclass(frozen=True)
class GraphPicture:
    nodes: list[Node]
    edges: list[Edge]  # of opened nodes, each with its words
    bundles: list[
        tuple[str, str]
    ]  # of the whole graph: the classes and the path of all edges that look alike
    links: int  # how many edges there are
    colours: list[PredicateColour]
    dust: str  # the other nodes as a path of points
    total: int  # things in all
    facts: int
    contradicting: int  # of the facts that are counted by their predicates
    is_cut: bool

    @property
    def width(self) -> int:
        return graph_layout.WIDTH

    @property
    def height(self) -> int:
        return graph_layout.HEIGHT


def draw_graph(index: GraphIndex, opened: Sequence[str], contradicting: Collection[int] = ()) -> GraphPicture:
    """The picture of the opened things and their neighbours, or of the foremost when none is.

    ``contradicting``: primary keys of facts that contradict others.
    """
    names = _select_nodes(index, opened)
    between = _find_edges(index, names)
    radii, places = _arrange(index, names, opened, list(between))
    counted = list(chain.from_iterable(between.values())) if opened else index.triples
    colours = _assign_colours(triple.predicate for triple in counted)
    drawing = _Drawing(
        index=index,
        names=names,
        opened=set(opened),
        places=places,
        radii=radii,
        colours={normalise_predicate(colour.predicate): colour.name for colour in colours},
        contradicting=set(contradicting),
        room=graph_layout.LabelPlacer(places, radii, list(between)),
    )
    nodes = drawing.nodes(between)  # before the edges: words on these go where names leave room
    edges = drawing.edges(between)
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
    """What is drawn with its name, the foremost first."""
    if not opened:
        return index.foremost(len(index.of) if len(index.of) <= MAX_NAMED_NODES * 3 // 2 else MAX_NAMED_NODES)
    names = list(opened)
    for name in opened:
        sure = index.beside[name]
        nearest = sorted(sure, key=lambda other: (-sure[other], -index.degree(other), other))
        names += nearest[:MAX_NEIGHBOURS]
    return list(dict.fromkeys(names))


def _arrange(
    index: GraphIndex, names: Sequence[str], opened: Sequence[str], links: Sequence[tuple[int, int]]
) -> tuple[list[float], list[tuple[float, float]]]:
    """The radius and the place of each node."""
    most = max(map(index.degree, names), default=1)
    radii = [_node_radius(index.degree(name) / most, name in opened) for name in names]
    points = graph_layout.arrange_nodes(len(names), links, radii)
    return radii, [(float(x), float(y)) for x, y in points]


def _find_edges(index: GraphIndex, names: Sequence[str]) -> dict[tuple[int, int], list[Triple]]:
    """The facts between any two that are drawn, by their places; both directions are one edge.

    What a thing says of itself is an edge from its place to its place.
    """
    number = {name: place for place, name in enumerate(names)}
    found: dict[tuple[int, int], list[Triple]] = defaultdict(list)
    for name in names:
        for triple in index.of[name]:
            subject, object = index.ends[triple.pk]
            if subject != name or object not in number:
                continue
            one, other = number[subject], number[object]
            found[(other, one) if (other, one) in found else (one, other)].append(triple)
    return found


def _assign_colours(predicates: Iterable[str]) -> list[PredicateColour]:
    """Those of most edges have one each, however they are written."""
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    for predicate, count in Counter(predicates).items():
        spellings[normalise_predicate(predicate)][predicate] += count
    foremost = sorted(spellings.values(), key=lambda found: -found.total())[:MAX_COLOURS]
    return [
        PredicateColour(most_common_spelling(found), found.total(), f"p{place}")
        for place, found in enumerate(foremost)
    ]


def _node_radius(share: float, is_open: bool) -> float:
    """``share``: how many neighbours a node has, of those that the foremost has."""
    return 4.5 + 12 * math.sqrt(share) if not is_open else 13 + 6 * math.sqrt(share)


@dataclass(frozen=True)
class _Drawing:
    """What nodes and edges are drawn with; each node is known by its place among the ``names``."""

    index: GraphIndex
    names: Sequence[str]
    opened: set[str]
    places: Sequence[tuple[float, float]]
    radii: Sequence[float]
    colours: Mapping[str, str]
    contradicting: set[int]
    room: graph_layout.LabelPlacer

    def nodes(self, between: Iterable[tuple[int, int]]) -> list[Node]:
        labels = [shorten(self.index.text(name), _MAX_LABEL_CHARS) for name in self.names]
        written = self.room.names(labels)
        links: dict[int, set[int]] = defaultdict(set)
        for one, other in between:
            links[one].add(other)
            links[other].add(one)
        return [
            self._node(place, label, name, links[place] - {place})
            for place, (label, name) in enumerate(zip(labels, written, strict=True))
        ]

    def _node(self, place: int, label: str, name: graph_layout.NamePlacement, links: set[int]) -> Node:
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
            beside=self.index.degree(thing),
            more=len(self.index.beside[thing].keys() - drawn),
            is_open=thing in self.opened,
            is_subject=any(self.index.ends[triple.pk][0] == thing for triple in self.index.of[thing]),
            links=" ".join(map(str, sorted(links))),
        )

    def edges(self, between: Mapping[tuple[int, int], list[Triple]]) -> list[Edge]:
        near = sum(not self._is_beside(pair) for pair in between)
        return [self._edge(pair, triples, near <= MAX_LABELLED_EDGES) for pair, triples in between.items()]

    def _is_beside(self, pair: tuple[int, int]) -> bool:
        return bool(self.opened) and not any(self.names[place] in self.opened for place in pair)

    def _edge(self, pair: tuple[int, int], triples: Sequence[Triple], labelled: bool) -> Edge:
        path, ends = self._loop(pair[0]) if pair[0] == pair[1] else self._line(pair)
        predicates = list(dict.fromkeys(triple.predicate for triple in triples))
        said = "; ".join(f"{t.subject} {t.predicate} {t.object}" for t in triples[:4])
        is_beside = self._is_beside(pair)
        label = shorten(", ".join(predicates), 30) if labelled and self.opened and not is_beside else ""
        at = self.room.between(*ends, label) if label else None
        return Edge(
            path=path,
            x=round(at[0]) if at else 0,
            y=round(at[1]) if at else 0,
            title=shorten(said, 200),
            label=label if at else "",
            colour=self.colours.get(normalise_predicate(predicates[0]), ""),
            contradicts=any(triple.pk in self.contradicting for triple in triples),
            is_beside=is_beside,
        )

    def _line(self, pair: tuple[int, int]) -> tuple[str, tuple[graph_layout.Point, graph_layout.Point]]:
        """From one node to where the head of the arrow begins, and where words on it may stand."""
        (x, y), (to_x, to_y) = (self.places[place] for place in pair)
        length = max(math.hypot(to_x - x, to_y - y), 1.0)
        stop = max(length - self.radii[pair[1]] - 3, 0) / length
        end_x, end_y = x + (to_x - x) * stop, y + (to_y - y) * stop
        return f"M{x:.0f} {y:.0f}L{end_x:.0f} {end_y:.0f}", ((x, y), (end_x, end_y))

    def _loop(self, place: int) -> tuple[str, tuple[graph_layout.Point, graph_layout.Point]]:
        """From a node back to itself, above it, or below where its name stands above."""
        (x, y), r = self.places[place], self.radii[place]
        way = 1 if self.room.is_above(place) else -1
        side, root, top = r + 16, y + way * r, y + way * (r + 34)
        path = f"M{x - r / 2:.0f} {root:.0f}C{x - side:.0f} {top:.0f} {x + side:.0f} {top:.0f}"
        words = y + way * (r + 38)
        return f"{path} {x + r / 2:.0f} {root + way * 3:.0f}", ((x - 30, words), (x + 30, words))


def _bundle_edges(edges: Iterable[Edge]) -> list[tuple[str, str]]:
    """Hundreds of edges without words of their own are a few paths; contradictions lie above the others."""
    paths: dict[tuple[bool, str], list[str]] = defaultdict(list)
    for edge in edges:
        paths[(edge.contradicts, edge.colour)].append(edge.path)
    return [
        (f"edge {colour} is-wrong" if wrong else f"edge {colour}", "".join(found))
        for (wrong, colour), found in sorted(paths.items())
    ]


def _dust_path(index: GraphIndex, places: Mapping[str, tuple[float, float]]) -> str:
    """What is not drawn by name, as points around what it hangs on."""
    hung: dict[str, list[str]] = defaultdict(list)
    for name, beside in index.beside.items():
        if name in places:
            continue
        anchors = [other for other in beside if other in places]
        if anchors:
            hung[max(anchors, key=lambda other: (index.degree(other), other))].append(name)
    return "".join(f"M{x} {y}h0" for x, y in graph_layout.place_around(places, hung).values())
