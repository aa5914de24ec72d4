"""The commonest values of a column as bars (``includes/breakdown.html``). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MOST = 8


def breakdown(counts: Mapping[str, int], name: str, title: str) -> dict[str, Any]:
    """The commonest values of a column, each with its share of the commonest for a bar."""
    most = max(counts.values())
    rows = [{"value": v, "count": n, "percent": round(100 * n / most, 1)} for v, n in counts.items()]
    return {"name": name, "title": title, "rows": rows[:_MOST], "hidden": max(len(rows) - _MOST, 0)}
