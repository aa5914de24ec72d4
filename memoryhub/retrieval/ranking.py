"""Two ways to weigh what a search found: LetsGo's, and Memory MCP's with frequency of use in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from memoryhub.conf import Config
from memoryhub.retrieval.scoring import Components

HALF_FREQUENT = 5  # accesses at which the frequency is 0.5


class Ranking(StrEnum):
    """The document that a ranking comes from."""

    LETSGO = "letsgo"
    MEMORY_MCP = "memory-mcp"


@dataclass(frozen=True)
class Profile:
    """The share of each part; they add up to 1."""

    match: float
    recency: float
    importance: float
    trust: float = 0.0
    frequency: float = 0.0

    def score(self, parts: Components, accesses: int) -> float:
        """The weighted sum, 0..1."""
        total = (
            self.match * parts.match
            + self.recency * parts.recency
            + self.importance * parts.importance
            + self.trust * parts.trust
            + self.frequency * frequency(accesses)
        )
        return round(total, 4)


def frequency(accesses: int) -> float:
    """How often a memory was read, 0..1: n / (n + 5). 5 accesses are 0.5, 20 are 0.8; none reaches 1."""
    return accesses / (accesses + HALF_FREQUENT) if accesses > 0 else 0.0


def profile(ranking: Ranking, config: Config) -> Profile:
    """The weights of a ranking, as configured."""
    if ranking is Ranking.LETSGO:
        return Profile(
            config.match_weight, config.recency_weight, config.importance_weight, trust=config.trust_weight
        )
    return Profile(
        config.mcp_match_weight,
        config.mcp_recency_weight,
        config.mcp_importance_weight,
        frequency=config.mcp_frequency_weight,
    )
