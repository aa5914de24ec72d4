"""What a sign is. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

KEEP = 1.0


class Sign(NamedTuple):
    """``category`` empty: it speaks for any. ``why``: for people."""

    category: str
    weight: float
    why: str
    pattern: re.Pattern[str]


def any_of(*patterns: str, case: bool = False) -> re.Pattern[str]:
    """One pattern of several; ``case``: capitals count."""
    return re.compile("|".join(patterns), 0 if case else re.IGNORECASE)
