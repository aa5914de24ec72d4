"""Facts as a graph: subjects and objects are nodes, predicates edges. What of it is drawn, and where.

A node exists only through facts that may be seen. Of a large graph the nodes with most neighbours are drawn
with their names, and the rest as dust around them; opening a node draws its neighbours.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from memoryhub.querysets import FactQuerySet
from memoryhub.text import collapse, shorten
from memoryhub.web import graph_layout

MOST_FACTS = 20_000  # the newest that are read
CORE = 80  # nodes with names when none is opened
NEIGHBOURS = 36  # drawn of a node that is opened
MOST_OPEN = 8
COLOURS = 6  # predicates with a colour of their own
LABELLED = 28  # edges of a picture that bear their predicates
_PLAIN_KEY = 120  # characters of a node that stands in an address as it is
_LABEL = 26


class Triple(NamedTuple):
    pk: int
    subject: str
    predicate: str
    object: str
    confidence: float
    sensitivity: str


@dataclass
class Index:
    """The facts that were read, by the things that they are about."""

    triples: list[Triple]
    is_cut: bool = False
    of: dict[str, list[Triple]] = field(default_factory=lambda: defaultdict(list))
    beside: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))

    def __post_init__(self) -> None:
        """``of``: the facts that name a thing; ``beside``: its neighbours, with the highest confidence."""
        for triple in self.triples:
            one, other = triple.subject, triple.object
            self.of[one].append(triple)
            self.beside[one][other] = max(self.beside[one].get(other, 0.0), triple.confidence)
            if one != other:
                self.of[other].append(triple)
                self.beside[other][one] = self.beside[one][other]

    def known(self, key: str) -> str | None:
        """The thing that an address names, as :func:`key_of` has it."""
        if key in self.of:
            return key
        if not key.startswith("~"):
            return None
        return next((name for name in self.of if not _is_plain(name) and key_of(name) == key), None)

    def degree(self, name: str) -> int:
        return len(self.beside[name])

    def foremost(self, names: Iterable[str], most: int) -> list[str]:
        """Those with most neighbours."""
        return sorted(names, key=lambda name: (-self.degree(name), name))[:most]

    def like(self, typed: str, most: int) -> list[str]:
        """Things whose name holds what was typed, those that begin with it first, then most neighbours."""
        wanted = collapse(typed).casefold()
        found = [name for name in self.of if wanted in name.casefold()]
        found.sort(key=lambda name: (not name.casefold().startswith(wanted), -self.degree(name), name))
        return found[:most]


def read(facts: FactQuerySet) -> Index:
    """The newest of these gated facts. One query."""
    rows = facts.order_by("-updated_at", "-pk").values_list(*Triple._fields)[: MOST_FACTS + 1]
    triples = list(map(Triple._make, rows))
    return Index(triples[:MOST_FACTS], len(triples) > MOST_FACTS)


def key_of(name: str) -> str:
    """How an address names a thing: by itself, or by a digest when it is long or looks like one."""
    if _is_plain(name):
        return name
    return "~" + hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _is_plain(name: str) -> bool:
    return len(name) <= _PLAIN_KEY and not name.startswith("~")


@dataclass(frozen=True)
class Node:
    key: str
    text: str
    label: str
    x: int
    y: int
    r: int
    name: graph_layout.Name
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
class Colour:
    predicate: str
    count: int
    name: str


@dataclass(frozen=True)
class Picture:
    nodes: list[Node]
    edges: list[Edge]  # of opened nodes, each with its words
    bundles: list[
        tuple[str, str]
    ]  # of the whole graph: the classes and the path of all edges that look alike
    links: int  # how many edges there are
    colours: list[Colour]
    dust: str  # the other nodes as a path of points
    total: int  # things in all
    facts: int
    is_cut: bool

    @property
    def width(self) -> int:
        return graph_layout.WIDTH

    @property
    def height(self) -> int:
        return graph_layout.HEIGHT


def draw(index: Index, opened: Sequence[str], contradicting: Collection[int] = ()) -> Picture:
    """The picture of the opened things and their neighbours, or of the foremost when none is.

    ``contradicting``: primary keys of facts that contradict others.
    """
    names = _chosen(index, opened)
    between = _between(index, names)
    radii, places = _arranged(index, names, opened, list(between))
    drawn = chain.from_iterable(between.values()) if opened else index.triples
    colours = _colours(triple.predicate for triple in drawn)
    drawing = _Drawing(
        index=index,
        names=names,
        opened=set(opened),
        places=places,
        radii=radii,
        colours={colour.predicate: colour.name for colour in colours},
        contradicting=set(contradicting),
        room=graph_layout.Room(places, radii),
    )
    nodes = drawing.nodes(between)  # before the edges: words on these go where names leave room
    edges = drawing.edges(between)
    return Picture(
        nodes=nodes,
        edges=edges if opened else [],
        bundles=[] if opened else _bundles(edges),
        links=len(edges),
        colours=colours,
        dust="" if opened else _dust(index, dict(zip(names, places, strict=True))),
        total=len(index.of),
        facts=len(index.triples),
        is_cut=index.is_cut,
    )


def _chosen(index: Index, opened: Sequence[str]) -> list[str]:
    """What is drawn with its name, the foremost first."""
    if not opened:
        return index.foremost(index.of, CORE)
    names = list(opened)
    for name in opened:
        sure = index.beside[name]
        nearest = sorted(sure, key=lambda other: (-sure[other], -index.degree(other), other))
        names += nearest[:NEIGHBOURS]
    return list(dict.fromkeys(names))


def _arranged(
    index: Index, names: Sequence[str], opened: Sequence[str], links: Sequence[tuple[int, int]]
) -> tuple[list[float], list[tuple[float, float]]]:
    """The radius and the place of each node."""
    most = max(map(index.degree, names), default=1)
    radii = [_radius(index.degree(name) / most, name in opened) for name in names]
    points = graph_layout.arrange(len(names), links, radii)
    return radii, [(float(x), float(y)) for x, y in points]


def _between(index: Index, names: Sequence[str]) -> dict[tuple[int, int], list[Triple]]:
    """The facts between any two that are drawn, by their places; both directions are one edge."""
    number = {name: place for place, name in enumerate(names)}
    found: dict[tuple[int, int], list[Triple]] = defaultdict(list)
    for name in names:
        for triple in index.of[name]:
            if triple.subject != name or triple.object == name or triple.object not in number:
                continue
            one, other = number[triple.subject], number[triple.object]
            found[(other, one) if (other, one) in found else (one, other)].append(triple)
    return found


def _colours(predicates: Iterable[str]) -> list[Colour]:
    """Those of most edges have one each."""
    foremost = Counter(predicates).most_common(COLOURS)
    return [Colour(predicate, count, f"p{place}") for place, (predicate, count) in enumerate(foremost)]


def _radius(share: float, is_open: bool) -> float:
    """``share``: how many neighbours a node has, of those that the foremost has."""
    return 4.5 + 12 * math.sqrt(share) if not is_open else 13 + 6 * math.sqrt(share)


@dataclass(frozen=True)
class _Drawing:
    """What nodes and edges are drawn with; each node is known by its place among the ``names``."""

    index: Index
    names: Sequence[str]
    opened: set[str]
    places: Sequence[tuple[float, float]]
    radii: Sequence[float]
    colours: Mapping[str, str]
    contradicting: set[int]
    room: graph_layout.Room

    def nodes(self, between: Iterable[tuple[int, int]]) -> list[Node]:
        labels = [shorten(collapse(name), _LABEL) for name in self.names]
        written = self.room.names(labels)
        links: dict[int, set[int]] = defaultdict(set)
        for one, other in between:
            links[one].add(other)
            links[other].add(one)
        return [
            self._node(place, label, name, links[place])
            for place, (label, name) in enumerate(zip(labels, written, strict=True))
        ]

    def _node(self, place: int, label: str, name: graph_layout.Name, links: set[int]) -> Node:
        text, (x, y) = self.names[place], self.places[place]
        drawn = {text, *(self.names[other] for other in links)}
        return Node(
            key=key_of(text),
            text=text,
            label=label,
            x=round(x),
            y=round(y),
            r=round(self.radii[place]),
            name=name,
            facts=len(self.index.of[text]),
            beside=self.index.degree(text),
            more=len(self.index.beside[text].keys() - drawn),
            is_open=text in self.opened,
            is_subject=any(triple.subject == text for triple in self.index.of[text]),
            links=" ".join(map(str, sorted(links))),
        )

    def edges(self, between: Mapping[tuple[int, int], list[Triple]]) -> list[Edge]:
        near = sum(not self._is_beside(pair) for pair in between)
        return [self._edge(pair, triples, near <= LABELLED) for pair, triples in between.items()]

    def _is_beside(self, pair: tuple[int, int]) -> bool:
        return bool(self.opened) and not any(self.names[place] in self.opened for place in pair)

    def _edge(self, pair: tuple[int, int], triples: Sequence[Triple], labelled: bool) -> Edge:
        (x, y), (to_x, to_y) = (self.places[place] for place in pair)
        length = max(math.hypot(to_x - x, to_y - y), 1.0)
        stop = max(length - self.radii[pair[1]] - 3, 0) / length  # for the head of the arrow
        end_x, end_y = x + (to_x - x) * stop, y + (to_y - y) * stop
        predicates = list(dict.fromkeys(triple.predicate for triple in triples))
        said = "; ".join(f"{t.subject} {t.predicate} {t.object}" for t in triples[:4])
        is_beside = self._is_beside(pair)
        label = shorten(", ".join(predicates), 30) if labelled and self.opened and not is_beside else ""
        at = self.room.between((x, y), (end_x, end_y), label) if label else None
        return Edge(
            path=f"M{x:.0f} {y:.0f}L{end_x:.0f} {end_y:.0f}",
            x=round(at[0]) if at else 0,
            y=round(at[1]) if at else 0,
            title=shorten(said, 200),
            label=label if at else "",
            colour=self.colours.get(predicates[0], ""),
            contradicts=any(triple.pk in self.contradicting for triple in triples),
            is_beside=is_beside,
        )


def _bundles(edges: Iterable[Edge]) -> list[tuple[str, str]]:
    """Hundreds of edges without words of their own are a few paths; contradictions lie above the others."""
    paths: dict[tuple[bool, str], list[str]] = defaultdict(list)
    for edge in edges:
        paths[(edge.contradicts, edge.colour)].append(edge.path)
    return [
        (f"edge {colour} is-wrong" if wrong else f"edge {colour}", "".join(found))
        for (wrong, colour), found in sorted(paths.items())
    ]


def _dust(index: Index, places: Mapping[str, tuple[float, float]]) -> str:
    """What is not drawn by name, as points around what it hangs on."""
    hung: dict[str, list[str]] = defaultdict(list)
    for name, beside in index.beside.items():
        if name in places:
            continue
        anchors = [other for other in beside if other in places]
        if anchors:
            hung[max(anchors, key=lambda other: (index.degree(other), other))].append(name)
    return "".join(f"M{x} {y}h0" for x, y in graph_layout.around(places, hung).values())
