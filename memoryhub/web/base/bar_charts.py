"""Ranked bars: the values of a column, or names with a number for each series."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

MAX_ROWS = 5


@dataclass(frozen=True)
class BarPart:
    """A segment of a bar: ``x`` and ``width`` in percent of the longest bar."""

    kind: str
    words: str
    count: int
    x: float
    width: float
    href: str = ""


@dataclass(frozen=True)
class BarRow:
    """A row of a bar chart: a name, a number for each series, and the bar."""

    label: str
    total: int
    parts: list[BarPart]
    href: str = ""


@dataclass(frozen=True)
class BarChart:
    """A bar chart; ``series``: (kind, label) in order; ``hidden``: number of omitted rows."""

    series: list[tuple[str, str]]
    rows: list[BarRow]
    hidden: int = 0


def bar_chart(
    series: list[tuple[str, str]],
    counts: Mapping[str, Mapping[str, int]],
    labels: Mapping[str, str],
    url: Callable[[str, str], str] = lambda name, kind: "",
    most: int = MAX_ROWS,
) -> BarChart:
    """Build a chart with the longest bar first; ``url`` takes a name and a kind, or "" for all kinds.

    Rows beyond ``most`` are counted as hidden.
    """
    totals = {name: sum(by_kind.values()) for name, by_kind in counts.items()}
    order = sorted(totals, key=lambda name: (-totals[name], name))
    longest = max(totals.values(), default=0)
    rows = [
        BarRow(
            labels.get(name, name),
            totals[name],
            _bar_parts(series, counts[name], longest, partial(url, name)),
            url(name, ""),
        )
        for name in order[:most]
    ]
    return BarChart(series, rows, max(len(order) - most, 0))


def _bar_parts(
    series: Sequence[tuple[str, str]], counts: Mapping[str, int], longest: int, url: Callable[[str], str]
) -> list[BarPart]:
    parts, x = [], 0.0
    for kind, label in series:
        count = counts.get(kind, 0)
        width = 100 * count / longest if longest else 0
        parts.append(BarPart(kind, label, count, round(x, 2), round(width, 2), url(kind)))
        x += width
    return parts


MAX_BREAKDOWN_ROWS = 6


def breakdown(
    counts: Mapping[str, int], name: str, title: str, most: int = MAX_BREAKDOWN_ROWS
) -> dict[str, Any]:
    """Return the ``most`` frequent values of a column, each with its percentage of the most frequent."""
    highest = max(counts.values())
    rows = [{"value": v, "count": n, "percent": round(100 * n / highest, 1)} for v, n in counts.items()]
    return {
        "name": name,
        "title": title,
        "rows": rows[:most],
        "hidden": max(len(rows) - most, 0),
    }
