"""The picture of the fact graph: subjects and objects are nodes, predicates are edges.

Nodes come from visible facts only. In a large graph the nodes with the most neighbours are drawn with their
names and the others as points around them. An opened node is drawn with its neighbours.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from memoryhub.core.text import readable, shorten
from memoryhub.facts.predicates import normalise_predicate
from memoryhub.facts.queries import GraphIndex, Triple, most_common_spelling, node_key
from memoryhub.web.facts import graph_layout

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
    name: graph_layout.NamePlacement
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
        return graph_layout.WIDTH

    @property
    def height(self) -> int:
        return graph_layout.HEIGHT


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
        placer=graph_layout.LabelPlacer(places, radii, list(triples_by_pair)),
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
    points = graph_layout.arrange_nodes(len(names), links, radii)
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
    placer: graph_layout.LabelPlacer

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

    def _line(self, pair: tuple[int, int]) -> tuple[str, tuple[graph_layout.Point, graph_layout.Point]]:
        """Return the path from a node to the arrowhead at the other, and the line for the label."""
        (x, y), (to_x, to_y) = (self.places[place] for place in pair)
        length = max(math.hypot(to_x - x, to_y - y), 1.0)
        stop = max(length - self.radii[pair[1]] - 3, 0) / length
        end_x, end_y = x + (to_x - x) * stop, y + (to_y - y) * stop
        return f"M{x:.0f} {y:.0f}L{end_x:.0f} {end_y:.0f}", ((x, y), (end_x, end_y))

    def _loop(self, place: int) -> tuple[str, tuple[graph_layout.Point, graph_layout.Point]]:
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
    return "".join(f"M{x} {y}h0" for x, y in graph_layout.place_around(places, hung).values())
