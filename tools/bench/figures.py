"""Percentiles and the Markdown table of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

HEAD = ("request", "CPU p50 / p95, ms", "SQL")


@dataclass
class Row:
    """One line of the table. ``clients``: the cell of each number of clients, in the order of the columns."""

    name: str
    cpu: Sequence[float] = ()
    statements: Sequence[int] = ()
    clients: list[str] = field(default_factory=list)
    server_cpu: float | None = None

    def cells(self, columns: int) -> list[str]:
        statements = str(round(percentile(self.statements, 0.5))) if self.statements else "–"
        clients = [*self.clients, *["–"] * (columns - len(self.clients))]
        server_cpu = "–" if self.server_cpu is None else f"{self.server_cpu:.1f}"
        return [self.name, spread(self.cpu), statements, *clients, server_cpu]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that is at least as large as this share of the values (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def spread(values: Sequence[float]) -> str:
    """Return p50 and p95, such as ``3.1 / 4.8``."""
    if not values:
        return "–"
    return " / ".join(f"{percentile(values, share):.1f}" for share in (0.5, 0.95))


def client_cell(milliseconds: Sequence[float], rate: float, failed: int = 0) -> str:
    """Return p50, p95 and requests per second, and how many requests failed."""
    return f"{spread(milliseconds)}, {rate:,.0f}/s" + (f", **{failed} failed**" if failed else "")


def table(rows: Sequence[Row], clients: Sequence[int]) -> str:
    """Return a Markdown table. Its client columns are wall time, p50 / p95 in ms, and the rate."""
    named = [f"{number} client{'s' * (number > 1)}" for number in clients]
    lines = [[*HEAD, *named, "server CPU, ms"], ["---"] * (len(HEAD) + len(named) + 1)]
    lines += [row.cells(len(named)) for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
