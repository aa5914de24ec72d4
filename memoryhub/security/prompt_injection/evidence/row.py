"""The shape of one piece of evidence in the tables. Pure."""

from __future__ import annotations

# What it says, its weight, options (``!`` order, ``@`` located, ``+name`` part: see ``Rule``), the pattern.
Row = tuple[str, float, str, str]
