"""Contrast of colours that axe does not check in the browser: focus ring, borders, charts (WCAG 2.2 AA)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from django.conf import settings

from memoryhub.core.vocabulary import TYPES
from memoryhub.web.base.charts import TYPE_FAMILIES

THEMES = {"light": 0, "dark": 1}
SURFACES = ("paper", "surface", "sunken", "hover")
SOFT = {"accent": "accent-soft", "private": "private-soft", "secret": "secret-soft", "good": "good-soft"}
PAIR = re.compile(r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")


@cache
def tokens() -> dict[str, tuple[str, str]]:
    sheets = Path(settings.BASE_DIR, "static/css").glob("*.css")
    return {name: (light, dark) for sheet in sheets for name, light, dark in PAIR.findall(sheet.read_text())}


def linear(colour: str) -> list[float]:
    """Return linear red, green and blue, each from 0 to 1."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def dot(one: Iterable[float], other: Iterable[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def luminance(colour: str) -> float:
    return dot((0.2126, 0.7152, 0.0722), linear(colour))


def oklab(colour: str) -> tuple[float, ...]:
    """Convert to OKLab (Björn Ottosson), where distances are perceived differences."""
    to_cones = (
        (0.4122214708, 0.5363325363, 0.0514459929),
        (0.2119034982, 0.6806995451, 0.1073969566),
        (0.0883024619, 0.2817188376, 0.6299787005),
    )
    to_lab = (
        (0.2104542553, 0.7936177850, -0.0040720468),
        (1.9779984951, -2.4285922050, 0.4505937099),
        (0.0259040371, 0.7827717662, -0.8086757660),
    )
    cones = [math.cbrt(dot(row, linear(colour))) for row in to_cones]
    return tuple(dot(row, cones) for row in to_lab)


def contrast(one: str, other: str, theme: str) -> float:
    here = THEMES[theme]
    dark, light = sorted(luminance(tokens()[name][here]) for name in (one, other))
    return (light + 0.05) / (dark + 0.05)


def test_luminance_matches_wcag() -> None:
    assert luminance("#ffffff") == pytest.approx(1)
    assert luminance("#000000") == 0
    assert luminance("#777777") == pytest.approx(0.1845, abs=0.001)


@pytest.mark.parametrize("theme", THEMES)
def test_focus_ring_is_visible_on_every_background(theme: str) -> None:
    low = {place: contrast("focus", place, theme) for place in [*SURFACES, *SOFT.values(), "mark"]}
    assert min(low.values()) >= 3, low


@pytest.mark.parametrize("theme", THEMES)
def test_borders_of_controls_have_contrast(theme: str) -> None:
    assert min(contrast("edge", place, theme) for place in ("paper", "surface")) >= 3


@pytest.mark.parametrize("theme", THEMES)
def test_charts_and_type_marks_have_contrast(theme: str) -> None:
    drawn = [name for name in tokens() if name.startswith(("part-", "type-", "chart-", "series-"))]
    assert len(drawn) >= 9
    low = {name: round(contrast(name, place, theme), 2) for name in drawn for place in ("paper", "surface")}
    assert not {name: ratio for name, ratio in low.items() if ratio < 3}


def test_colour_distance_matches_oklab() -> None:
    assert oklab("#ffffff") == pytest.approx((1, 0, 0), abs=0.001)
    assert oklab("#ff0000") == pytest.approx((0.628, 0.2249, 0.1258), abs=0.001)


@pytest.mark.parametrize("theme", THEMES)
def test_colours_of_type_families_are_distinguishable(theme: str) -> None:
    """A distance of 0.02 is just noticeable; thin stripes need four times as much."""
    places = {name: oklab(pair[THEMES[theme]]) for name, pair in tokens().items() if name.startswith("type-")}
    assert places.keys() == {f"type-{family}" for family in TYPE_FAMILIES}
    near = {
        (one, other): round(math.dist(places[one], places[other]), 3)
        for one, other in combinations(places, 2)
        if math.dist(places[one], places[other]) < 0.08
    }
    assert not near


def test_each_type_is_in_one_family_and_has_its_colour() -> None:
    sheet = Path(settings.BASE_DIR, "static/css/base.css").read_text()
    assert sorted(kind for kinds in TYPE_FAMILIES.values() for kind in kinds) == sorted(TYPES)
    for family, kinds in TYPE_FAMILIES.items():
        classes = ", ".join(f".t-{name}" for name in dict.fromkeys((family, *kinds)))
        assert f":is({classes}) {{\n  --kind: var(--type-{family});" in sheet
