"""Score whether a text is worth remembering: four dimensions, each 0..1, and their weighted sum. Pure.

LetsGo's memory guide names the dimensions (substance, salience, distinctiveness, type weight) and the
threshold of 0.30. How each is measured is decided here. The parts are stored with every event, so that people
can see why a text became a memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from memoryhub.core.text import jaccard, terms
from memoryhub.core.vocabulary import MemoryType

TYPE_WEIGHTS: dict[str, float] = {
    MemoryType.DECISION: 1.0,
    MemoryType.BUGFIX: 0.9,
    MemoryType.DISCOVERY: 0.8,
    MemoryType.FEATURE: 0.75,
    MemoryType.REFACTOR: 0.6,
    MemoryType.CHANGE: 0.3,
}
OTHER_TYPE_WEIGHT = 0.5

SUBSTANCE_TERMS = 20  # distinct terms that give a substance of about two thirds
DISTINCT_TERMS = 8  # with fewer terms, a text cannot be fully distinct
# URLs, numbers and hashes add no substance.
_DATA_PATTERN = re.compile(r"\bhttps?://\S+|\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b|(?<!\w)#?\d[\d.,:-]*\b")
_SALIENCE_PATTERNS: tuple[tuple[re.Pattern[str], float], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), weight)
    for pattern, weight in (
        (
            r"\b(decid\w+|chose|choose|prefer\w*|instead of|rather than|trade-?offs?|agreed|reject\w+|must"
            r"|never|always|entschieden|beschlossen|statt|niemals|décidé|jamais|decidido|nunca)\b"
            r"|(代わりに|必ず|禁止|決め|決定|必须|决定|반드시)",
            0.45,
        ),
        (
            r"\b(because|root cause|caused by|turns out|the reason|due to|so that|weil|wegen|damit|parce que"
            r"|afin|porque|para que)\b|(ため|ので|なぜなら|理由|原因|因为|때문)",
            0.4,
        ),
        (r"\b(fix(?:ed|es)?|bug|regression|broken|crash\w*|race|deadlock|leak\w*|corrupt\w*)\b", 0.35),
        (r"\b(\w*(?:error|exception)|traceback|fail(?:ed|ure|s|ing)?|panic|denied|timed? ?out)\b", 0.3),
        (r"\b(breaking|deprecat\w+|migrat\w+|security|vulnerab\w+|cve-\d+)\b", 0.35),
        (r"\b(important|note|warning|caution|gotcha|workaround|careful|todo|fixme)\b", 0.25),
        (
            r"\b(add(?:ed|s)?|implement\w*|introduc\w+|support(?:s|ed)?|creat\w+|feat(?:ure)?|refactor\w*|renam\w+)\b",
            0.2,
        ),
    )
)


@dataclass(frozen=True)
class Memorability:
    """The four parts and their weighted sum, each 0..1."""

    substance: float
    salience: float
    distinctiveness: float
    type_weight: float
    total: float

    def parts(self) -> dict[str, float]:
        """Return the rounded values that an event stores."""
        return {name: round(value, 3) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class MemorabilityWeights:
    """The weight of each part. They add up to 1."""

    substance: float = 0.30
    salience: float = 0.30
    distinctiveness: float = 0.25
    type_weight: float = 0.15


def score(text: str, kind: str, neighbours: Iterable[set[str]], weights: MemorabilityWeights) -> Memorability:
    """Score a text of a type against the term sets of the most similar memories.

    A repetition is worthless: the total falls to 0 with the distinctiveness.
    """
    own = terms(_DATA_PATTERN.sub(" ", text))
    parts = (substance(own), salience(text), distinctiveness(own, neighbours), type_weight(kind))
    shares = (weights.substance, weights.salience, weights.distinctiveness, weights.type_weight)
    total = sum(share * part for share, part in zip(shares, parts, strict=True))
    return Memorability(*parts, total=total * min(1.0, 4 * parts[2]) if own else 0.0)


def substance(own: set[str]) -> float:
    """Measure the amount of content: distinct terms, with diminishing returns."""
    return 1 - math.exp(-len(own) / SUBSTANCE_TERMS)


def salience(text: str) -> float:
    """Measure the words of decision, cause, failure and fix; each group counts once."""
    remaining = 1.0
    for pattern, weight in _SALIENCE_PATTERNS:
        if pattern.search(text):
            remaining *= 1 - weight
    return 1 - remaining


def distinctiveness(own: set[str], neighbours: Iterable[set[str]]) -> float:
    """Return 1 for a text unlike all neighbours, 0 for a repetition, less for a text of few terms."""
    unlike = 1 - max((jaccard(own, other) for other in neighbours), default=0.0)
    return unlike * min(1.0, len(own) / DISTINCT_TERMS)


def type_weight(kind: str) -> float:
    return TYPE_WEIGHTS.get(kind, OTHER_TYPE_WEIGHT)
