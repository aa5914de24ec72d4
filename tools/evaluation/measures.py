"""How good retrieval is: the usual measures of a ranking, of a floor and of latency. Pure.

A question has a set of relevant ids; what it was answered with is a ranking of ids without a floor, and the
few that a reader is shown at the floor. All measures are means over questions, 0..1 but for milliseconds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

ADVERSARIAL = "adversarial"  # LoCoMo's questions on a false premise: reported by themselves, in no total
SHOWN = 10  # results that a reader sees
RANKED = 100  # how far down a first relevant result still counts


@dataclass(frozen=True)
class Asked:
    """One question; without ``relevant`` ids the store holds no answer to it."""

    category: str
    relevant: frozenset[Hashable] = frozenset()


@dataclass(frozen=True)
class Answered:
    """``ranked``: best first, no floor; ``shown``: what is left at the floor; ``seconds``: what it took."""

    ranked: Sequence[Hashable]
    shown: Sequence[Hashable]
    seconds: float


@dataclass(frozen=True)
class Figures:
    """Means over ``questions``. None where no question tells.

    ``kept``: share of answerable questions with something relevant among what is shown. ``empty``: share of
    unanswerable ones that are shown nothing.
    """

    questions: int
    answerable: int
    unanswerable: int
    recall_1: float | None
    recall_5: float | None
    recall_10: float | None
    mrr: float | None
    ndcg_10: float | None
    kept: float | None
    empty: float | None
    p50_ms: float | None
    p95_ms: float | None


def recall_at(k: int, ranked: Sequence[Hashable], relevant: Collection[Hashable]) -> float:
    """The share of the relevant that stands among the first ``k``; 0 when nothing is relevant."""
    return len(set(ranked[:k]) & set(relevant)) / len(relevant) if relevant else 0.0


def reciprocal_rank(
    ranked: Sequence[Hashable], relevant: Collection[Hashable], within: int = RANKED
) -> float:
    """1 / place of the first relevant result, 0 when there is none among the first ``within``."""
    places = (place for place, one in enumerate(ranked[:within], 1) if one in relevant)
    return 1 / next(places, math.inf)


def ndcg_at(k: int, ranked: Sequence[Hashable], relevant: Collection[Hashable]) -> float:
    """Discounted gain of the first ``k``, each relevant one worth 1, over that of the best order."""
    gain = sum(1 / math.log2(place + 1) for place, one in enumerate(ranked[:k], 1) if one in relevant)
    best = sum(1 / math.log2(place + 1) for place in range(1, min(len(relevant), k) + 1))
    return gain / best if best else 0.0


def percentile(values: Collection[float], share: float) -> float | None:
    """The smallest value that ``share`` of them do not exceed (nearest rank); None without values."""
    if not values:
        return None
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


def figures(answers: Iterable[tuple[Asked, Answered]]) -> Figures:
    """The figures of these questions.

    An adversarial question has places that mislead: it counts by them as answerable, and as unanswerable.
    """
    pairs = list(answers)
    found = [(answer, asked.relevant) for asked, answer in pairs if asked.relevant]
    lost = [answer for asked, answer in pairs if not asked.relevant or asked.category == ADVERSARIAL]
    times = [answer.seconds * 1000 for _, answer in pairs]
    p50, p95 = percentile(times, 0.5), percentile(times, 0.95)
    return Figures(
        questions=len(pairs),
        answerable=len(found),
        unanswerable=len(lost),
        recall_1=_mean([recall_at(1, answer.ranked, relevant) for answer, relevant in found]),
        recall_5=_mean([recall_at(5, answer.ranked, relevant) for answer, relevant in found]),
        recall_10=_mean([recall_at(10, answer.ranked, relevant) for answer, relevant in found]),
        mrr=_mean([reciprocal_rank(answer.ranked, relevant) for answer, relevant in found]),
        ndcg_10=_mean([ndcg_at(10, answer.ranked, relevant) for answer, relevant in found]),
        kept=_mean([float(not relevant.isdisjoint(answer.shown[:SHOWN])) for answer, relevant in found]),
        empty=_mean([float(not answer.shown) for answer in lost]),
        p50_ms=None if p50 is None else round(p50, 3),
        p95_ms=None if p95 is None else round(p95, 3),
    )


def by_category(answers: Iterable[tuple[Asked, Answered]]) -> Mapping[str, Figures]:
    """``all`` without the adversarial questions, then each category, the adversarial last."""
    pairs = list(answers)
    parts: dict[str, list[tuple[Asked, Answered]]] = defaultdict(list)
    for asked, answer in pairs:
        parts[asked.category].append((asked, answer))
    names = sorted(parts, key=lambda name: (name == ADVERSARIAL, name))
    whole = figures(pair for pair in pairs if pair[0].category != ADVERSARIAL)
    return {"all": whole, **{name: figures(parts[name]) for name in names}}


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None
