"""What consolidation does to importance: a boost for what was used, decay for what was not. Pure.

LetsGo's memory guide: boost 0.03 x ln(1 + accesses), decay 0.02 a day, decisions and discoveries decay at
half rate, eviction at importance 0.05 after 90 days without access. Both count from the last consolidation,
so that running it twice in a row changes nothing the second time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from memoryhub.vocabulary import MemoryType

PROTECTED = frozenset({MemoryType.DECISION.value, MemoryType.DISCOVERY.value})


@dataclass(frozen=True)
class Rates:
    """Importance lost a day, the factor of the boost, the share of decay for protected types."""

    decay: float = 0.02
    boost: float = 0.03
    protected_share: float = 0.5


def consolidated(importance: float, kind: str, days: float, accesses: int, rates: Rates) -> float:
    """Importance (0..1) after ``days`` and ``accesses`` since the last consolidation.

    What was accessed is boosted and does not decay; what was not decays linearly.
    """
    if accesses > 0:
        changed = importance + rates.boost * math.log1p(accesses)
    else:
        share = rates.protected_share if kind in PROTECTED else 1.0
        changed = importance - rates.decay * share * max(days, 0.0)
    return min(max(changed, 0.0), 1.0)


def is_stale(importance: float, days_unaccessed: float, least: float, after_days: float) -> bool:
    """Whether a memory has faded so far that it may be evicted."""
    return importance < least and days_unaccessed >= after_days
