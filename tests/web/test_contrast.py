"""Colours in numbers: what meets on a page stands off as WCAG 2.2 AA asks, in both themes."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings

THEMES = {"light": 0, "dark": 1}
SURFACES = ("paper", "surface", "sunken", "hover")
SOFT = {"accent": "accent-soft", "private": "private-soft", "secret": "secret-soft", "good": "good-soft"}
PAIR = re.compile(r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")


@cache
def tokens() -> dict[str, tuple[str, str]]:
    sheets = Path(settings.BASE_DIR, "static/css").glob("*.css")
    return {name: (light, dark) for sheet in sheets for name, light, dark in PAIR.findall(sheet.read_text())}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str, theme: str) -> float:
    here = THEMES[theme]
    dark, light = sorted(luminance(tokens()[name][here]) for name in (one, other))
    return (light + 0.05) / (dark + 0.05)


def test_the_formula_is_that_of_wcag() -> None:
    assert luminance("#ffffff") == pytest.approx(1)
    assert luminance("#000000") == 0
    assert luminance("#777777") == pytest.approx(0.1845, abs=0.001)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(
    "ink", ["ink", "ink-2", "ink-3", "accent", "accent-strong", "private", "secret", "good"]
)
def test_letters_can_be_read_on_every_surface(theme: str, ink: str) -> None:
    low = {place: round(contrast(ink, place, theme), 2) for place in SURFACES}
    assert min(low.values()) >= 4.5, low


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("ink", "place"), [*SOFT.items(), ("on-accent", "accent"), ("ink", "mark")])
def test_letters_can_be_read_on_their_own_ground(theme: str, ink: str, place: str) -> None:
    assert contrast(ink, place, theme) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("place", [*SURFACES, *SOFT.values(), "mark"])
def test_the_ring_of_the_focus_is_seen_everywhere(theme: str, place: str) -> None:
    assert contrast("focus", place, theme) >= 3


@pytest.mark.parametrize("theme", THEMES)
def test_borders_of_controls_stand_off(theme: str) -> None:
    assert min(contrast("edge", place, theme) for place in ("paper", "surface")) >= 3


@pytest.mark.parametrize("theme", THEMES)
def test_series_of_charts_and_marks_of_types_stand_off(theme: str) -> None:
    drawn = [name for name in tokens() if name.startswith(("part-", "type-", "chart-", "series-"))]
    assert len(drawn) >= 20
    low = {name: round(contrast(name, place, theme), 2) for name in drawn for place in ("paper", "surface")}
    assert not {name: ratio for name, ratio in low.items() if ratio < 3}
