"""The layout of the fact graph: nodes within the picture and apart, deterministic."""

from __future__ import annotations

import math
from itertools import combinations

import pytest

from memoryhub.web.facts.graph import HEIGHT, WIDTH, LabelPlacer, arrange_nodes, place_around

RING = [(n, (n + 1) % 30) for n in range(30)]
STAR = [(0, n) for n in range(1, 40)]
APART: list[tuple[int, int]] = []


@pytest.mark.parametrize(("count", "links"), [(1, []), (2, [(0, 1)]), (30, RING), (40, STAR), (25, APART)])
def test_nodes_are_within_the_picture_and_do_not_touch(count, links):
    radii = [8.0] * count
    points = arrange_nodes(count, links, radii)
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in points)
    assert all(math.dist(one, other) > 16 for one, other in combinations(points.tolist(), 2))


def test_no_node_is_no_picture():
    assert arrange_nodes(0, [], []).shape == (0, 2)


def test_the_same_graph_looks_the_same_each_time():
    assert (arrange_nodes(40, STAR, [5.0] * 40) == arrange_nodes(40, STAR, [5.0] * 40)).all()


def test_linked_nodes_are_nearer_than_others():
    links = [(a, b) for group in (range(10), range(10, 20)) for a, b in combinations(group, 2)]
    points = arrange_nodes(20, links, [5.0] * 20).tolist()
    within = [math.dist(points[a], points[b]) for a, b in links]
    across = [math.dist(points[a], points[b]) for a in range(10) for b in range(10, 20)]
    assert sum(within) / len(within) < 0.6 * sum(across) / len(across)


def test_a_link_to_itself_or_said_twice_does_no_harm():
    assert arrange_nodes(2, [(0, 0), (0, 1), (0, 1)], [5.0, 5.0]).shape == (2, 2)


def test_names_cover_neither_each_other_nor_a_node():
    points, texts = (
        [(300.0, 300.0), (320.0, 300.0), (340.0, 300.0)],
        ["first name", "second name", "third name"],
    )
    names = LabelPlacer(points, [8.0, 8.0, 8.0]).place_names(texts)
    assert names[0].has_room
    assert names[0].anchor != "start"  # the second node is there
    assert len({(name.x, name.y) for name in names}) == 3


def test_a_name_without_room_is_marked():
    crowd = [(100.0 + 9 * n, 100.0) for n in range(12)]
    names = LabelPlacer(crowd, [6.0] * 12).place_names(["a rather long name"] * 12)
    assert names[0].has_room
    assert not all(name.has_room for name in names)


def test_names_stay_within_the_picture():
    [name] = LabelPlacer([(WIDTH - 20.0, 100.0)], [5.0]).place_names(["far to the right"])
    assert (name.anchor, name.has_room) == ("end", True)


def test_an_edge_label_moves_away_from_an_occupied_middle():
    placer = LabelPlacer([(100.0, 100.0), (500.0, 100.0), (300.0, 100.0)], [5.0, 5.0, 30.0])
    at = placer.place_on_line((100.0, 100.0), (500.0, 100.0), "uses")
    assert at is not None
    assert at[0] != 300.0


def test_unnamed_nodes_are_around_their_node_within_the_picture():
    places = place_around({"hub": (5.0, 5.0)}, {"hub": [str(n) for n in range(200)]})
    assert len(places) == 200
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in places.values())


def test_a_name_keeps_off_the_lines_of_its_own_node():
    points = [(150.0, 300.0), (1050.0, 300.0)]
    for name in LabelPlacer(points, [8.0, 8.0], [(0, 1)]).place_names(["a name too long for the side"] * 2):
        assert name.has_room
        assert abs(name.y - 300) > 8


def test_a_name_is_at_a_corner_if_all_sides_are_taken():
    around_it = [(300.0, 300.0), (330.0, 300.0), (270.0, 300.0), (300.0, 330.0), (300.0, 270.0)]
    names = LabelPlacer(around_it, [6.0, 14.0, 14.0, 10.0, 14.0]).place_names(["x", "", "", "", ""])
    assert names[0].has_room


def test_a_name_above_its_node_is_reported_for_loops():
    walls = [(300.0, 300.0), (340.0, 300.0), (260.0, 300.0), (300.0, 330.0)]
    placer = LabelPlacer(walls, [6.0, 30.0, 30.0, 20.0])
    placer.place_names(["up"])
    assert placer.is_above(0)
    assert not placer.is_above(1)
