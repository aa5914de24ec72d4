"""The commonest values of a column as bars (``includes/breakdown.html``). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST = 8
# Where "at a glance" shows all of a column: the chart's name in ?all=, and its heading
_IN_FULL = {"type": ("use", "use-title")}


def breakdown(counts: Mapping[str, int], name: str, title: str, most: int = MOST) -> dict[str, Any]:
    """The commonest values of a column, ``most`` of them, each with its share of the commonest for a bar."""
    highest = max(counts.values())
    rows = [{"value": v, "count": n, "percent": round(100 * n / highest, 1)} for v, n in counts.items()]
    chart, heading = _IN_FULL.get(name, (name, f"by-{name}"))
    return {
        "name": name,
        "title": title,
        "rows": rows[:most],
        "hidden": max(len(rows) - most, 0),
        "chart": chart,
        "heading": heading,
    }
